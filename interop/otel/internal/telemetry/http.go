// A client of a test over HTTP.

package telemetry

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/core"
)

// Client reads one stream over HTTP.
type Client struct {
	response *http.Response
	events   *bufio.Scanner
	leave    context.CancelFunc
}

// Dial opens a stream at url. The headers are added to those that MCP demands.
func Dial(ctx context.Context, tb testing.TB, url string, l Listen, header http.Header) *Client {
	tb.Helper()
	ctx, leave := context.WithCancel(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(l.Body(tb)))
	if err != nil {
		tb.Fatalf("request: %v", err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Mcp-Method", core.MethodListen)
	request.Header.Set("Mcp-Protocol-Version", core.ProtocolVersion)
	response, err := http.DefaultClient.Do(request) //nolint:bodyclose // Close does
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	if response.StatusCode != http.StatusOK {
		tb.Fatalf("listen: %s", response.Status)
	}
	c := &Client{response, bufio.NewScanner(response.Body), leave}
	c.Expect(tb, core.MethodAcknowledged)
	return c
}

// Expect reads the next message, which must contain the text.
func (c *Client) Expect(tb testing.TB, text string) {
	tb.Helper()
	for c.events.Scan() {
		if line := c.events.Text(); strings.HasPrefix(line, "data: ") {
			if !strings.Contains(line, text) {
				tb.Fatalf("the stream brought %s, want %s", line, text)
			}
			return
		}
	}
	tb.Fatalf("the stream has ended (%v), want %s", c.events.Err(), text)
}

// Close leaves.
func (c *Client) Close() {
	c.leave()
	_ = c.response.Body.Close()
}
