// The program does what its page says, and differs from the one before by what its
// page shows.

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/examples/internal/listening"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBothEras: a modern listener and an older client are told what a tool did.
func TestBothEras(t *testing.T) {
	t.Parallel()
	printed, stop := listening.Start(t, 1, func(ctx context.Context, out io.Writer) error {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "http://%s/mcp\n", ln.Addr())
		return run(ctx, ln)
	})
	network := &http.Transport{}
	t.Cleanup(network.CloseIdleConnections)
	older, told := connect(t, printed[0], &http.Client{Transport: network})
	c := listening.Client{URL: printed[0], HTTP: &http.Client{Transport: network}}
	stream := c.Listen(t, `{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["note:///shopping"]}`)
	stream.Expect(t, "notifications/subscriptions/acknowledged")

	write := func(text string) {
		t.Helper()
		request := mcp.CallToolRequest{}
		request.Params.Name = "write_note"
		request.Params.Arguments = map[string]any{"name": "shopping", "text": text}
		if result, err := older.CallTool(t.Context(), request); err != nil || result.IsError {
			t.Fatalf("write_note: %+v, %v", result, err)
		}
	}
	for _, step := range []struct{ text, want, listener string }{
		{"milk", "notifications/resources/list_changed", "notifications/resources/list_changed"},
		{"milk, bread", "notifications/resources/updated", "notifications/resources/updated note:///shopping"},
	} {
		write(step.text)
		stream.Expect(t, step.listener)
		select {
		case got := <-told:
			if got != step.want {
				t.Errorf("the older client was told %s, want %s", got, step.want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the older client was not told %s", step.want)
		}
	}
	if err := older.Close(); err != nil {
		t.Error(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	stream.Expect(t, "result")
	<-stopped
}

// connect returns a client of an older revision that holds the server's own stream.
func connect(t *testing.T, url string, network *http.Client) (c *mcpgoclient.Client, told chan string) {
	t.Helper()
	c, err := mcpgoclient.NewStreamableHttpClient(url, transport.WithContinuousListening(), //nolint:staticcheck // deprecated, and what is tested
		transport.WithHTTPBasicClient(network),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	told = make(chan string, 10)
	c.OnNotification(func(n mcp.JSONRPCNotification) { told <- n.Method })
	request := mcp.InitializeRequest{}
	request.Params.ProtocolVersion = mcp.LATEST_LEGACY_PROTOCOL_VERSION
	err = c.Start(t.Context())
	if err == nil {
		_, err = c.Initialize(t.Context(), request)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, told
}

// TestThePageShowsTheDifference: what it shows makes this program of the one before.
func TestThePageShowsTheDifference(t *testing.T) {
	t.Parallel()
	page, before, after := lines(t, "../README.md"), lines(t, "../before/main.go"), lines(t, "main.go")
	var shown []string
	inside := false
	for _, line := range page {
		switch {
		case line == "```diff":
			inside = true
		case line == "```":
			inside = false
		case inside:
			shown = append(shown, line)
		}
	}
	got, err := apply(before, shown)
	if err != nil {
		t.Fatalf("README.md: %v", err)
	}
	if strings.Join(got, "\n") != strings.Join(after, "\n") {
		t.Errorf("what README.md shows makes this of before/main.go, and not after/main.go:\n%s", strings.Join(got, "\n"))
	}
}

func lines(t *testing.T, name string) (all []string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		all = append(all, s.Text())
	}
	return all
}

// apply applies a unified diff.
func apply(text, diff []string) (changed []string, err error) {
	at, hunks := 0, 0 // lines of text that are done, hunks seen
	for _, line := range diff {
		var from, count, to, toCount int
		if _, err := fmt.Sscanf(line, "@@ -%d,%d +%d,%d @@", &from, &count, &to, &toCount); err == nil {
			if from-1 < at || from-1 > len(text) {
				return nil, fmt.Errorf("%q is out of place", line)
			}
			changed = append(changed, text[at:from-1]...)
			at = from - 1
			if hunks++; len(changed) != to-1 {
				return nil, fmt.Errorf("%q should start at line %d", line, len(changed)+1)
			}
			continue
		}
		if hunks == 0 {
			continue // the names
		}
		mark, rest := " ", ""
		if line != "" {
			mark, rest = line[:1], line[1:]
		}
		if mark == "+" {
			changed = append(changed, rest)
			continue
		}
		if at >= len(text) || text[at] != rest {
			return nil, fmt.Errorf("%q is not line %d of what was before", line, at+1)
		}
		if at++; mark == " " {
			changed = append(changed, rest)
		}
	}
	if hunks == 0 {
		return nil, fmt.Errorf("it shows no difference")
	}
	return append(changed, text[at:]...), nil
}
