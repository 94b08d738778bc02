// What the tests share: a server over real sockets, servers that are made by
// hand, and the check that no goroutine is left behind.

package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(serverMode); mode != "" {
		os.Exit(stdioServer(mode))
	}
	goleak.VerifyTestMain(m)
}

// hang is when a test that waits in vain is given up. No test measures time by
// it.
const hang = time.Minute

var allCapabilities = core.Capabilities{
	ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true,
}

var allLists = core.Filter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}

// testContext returns a context that ends with the test at the latest.
func testContext(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	tb.Cleanup(cancel)
	return ctx
}

// httpClient returns a client with connections of its own.
func httpClient(tb testing.TB) client.Option {
	tb.Helper()
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	return client.WithHTTPClient(&http.Client{Transport: transport})
}

// newHub returns a hub that delivers every kind.
func newHub(tb testing.TB, config core.Config) *core.Hub {
	tb.Helper()
	if config.Capabilities == (core.Capabilities{}) {
		config.Capabilities = allCapabilities
	}
	hub, err := core.NewHub(config)
	if err != nil {
		tb.Fatalf("hub: %v", err)
	}
	return hub
}

// serve serves a hub over a socket.
func serve(tb testing.TB, hub *core.Hub, options ...mcphttp.Option) client.URL {
	tb.Helper()
	handler, err := mcphttp.New(hub, options...)
	if err != nil {
		tb.Fatalf("handler: %v", err)
	}
	srv := httptest.NewServer(handler)
	tb.Cleanup(func() {
		_ = hub.Shutdown(context.Background())
		srv.Close()
	})
	return client.URL(srv.URL)
}

// byHand serves with a handler that gets the id of the request as JSON, after the
// body was read.
func byHand(tb testing.TB, handler func(w http.ResponseWriter, r *http.Request, id string)) client.URL {
	tb.Helper()
	return byHandBody(tb, func(w http.ResponseWriter, r *http.Request, id string, _ map[string]any) { handler(w, r, id) })
}

// byHandBody is byHand with the params of the request.
func byHandBody(tb testing.TB, handler func(w http.ResponseWriter, r *http.Request, id string, params map[string]any)) client.URL {
	tb.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var msg struct {
			ID     json.RawMessage `json:"id"`
			Params map[string]any  `json:"params"`
		}
		_ = json.NewDecoder(r.Body).Decode(&msg)
		_, _ = io.Copy(io.Discard, r.Body)
		handler(w, r, string(msg.ID), msg.Params)
	}))
	tb.Cleanup(srv.Close)
	return client.URL(srv.URL)
}

// The messages of a server by hand. ID stands for the id.
const (
	idPlace   = "ID"
	toolsAck  = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}}}`
	toolsNote = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`
	goodbye   = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`
)

// toolsFilter is what toolsAck answers.
var toolsFilter = core.Filter{ToolsListChanged: true, ResourceSubscriptions: []string{"file:///a"}}

// say writes messages as events, and flushes.
func say(w http.ResponseWriter, id string, messages ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, m := range messages {
		_, _ = io.WriteString(w, "data: "+strings.ReplaceAll(m, idPlace, id)+"\n\n")
	}
	_ = http.NewResponseController(w).Flush()
}

// collect reads a stream to its end.
func collect(s *client.Stream) (notes []client.Notification) {
	for n := range s.Notifications() {
		notes = append(notes, n)
	}
	return notes
}
