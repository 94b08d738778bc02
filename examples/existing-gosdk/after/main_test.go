package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/internal/listening"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Clients of both kinds are told what the tool changes, each in its way, and the
// program ends with the streams' results.
func TestProgram(t *testing.T) {
	printed, stop := listening.Start(t, 1, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", out) })
	c := listening.Client{URL: printed[0][strings.LastIndex(printed[0], " ")+1:]}
	stream := c.Listen(t, `{"resourcesListChanged":true,"resourceSubscriptions":["note:///welcome"]}`)
	stream.Expect(t, core.MethodAcknowledged)
	told := older(t, c.URL)

	write := func(name, want string) {
		t.Helper()
		status, body := c.Call(t, "tools/call", "write_note", `"name":"write_note","arguments":{"name":"`+name+`","text":"Hello."}`)
		if status != http.StatusOK || strings.Contains(body, "isError") {
			t.Errorf("writing: status %d, %s", status, body)
		}
		stream.Expect(t, want)
		select {
		case got := <-told:
			if got != want {
				t.Errorf("the older client was told %s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("the older client was not told %s", want)
		}
	}
	write("welcome", core.MethodResourceUpdated+" note:///welcome")
	write("another", core.MethodResourcesListChanged)
	write("welcome", core.MethodResourceUpdated+" note:///welcome")
	if _, body := c.Call(t, "resources/read", "note:///another", `"uri":"note:///another"`); !strings.Contains(body, "Hello.") {
		t.Errorf("reading: %s", body)
	}
	stop()
	// Its own sessions are closed at the same time, which may be told as changes first.
	for got := ""; got != "result"; got = stream.Next(t) {
		if got == "end" {
			t.Fatal("the stream ended without its result")
		}
	}
}

// older connects the SDK's client for an older revision, and returns what it is told
// once it holds the server's stream.
func older(t *testing.T, url string) <-chan string {
	t.Helper()
	told := make(chan string, 100)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1.0.0"}, &mcp.ClientOptions{
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
			told <- core.MethodResourcesListChanged
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			told <- core.MethodResourceUpdated + " " + r.Params.URI
		},
	})
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	got := make(chan int, 10)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: gets{transport, got}}, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "note:///welcome"}); err != nil {
		t.Fatal(err)
	}
	select {
	case status := <-got:
		if status != http.StatusOK {
			t.Fatalf("GET: status %d", status)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the older client has no stream of the server")
	}
	return told
}

// gets tells of the answers to GET.
type gets struct {
	base http.RoundTripper
	got  chan<- int
}

func (g gets) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := g.base.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet {
		g.got <- answer.StatusCode
	}
	return answer, err
}
