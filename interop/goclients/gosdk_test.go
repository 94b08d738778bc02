// The official Go SDK's client. It opens one stream for its list-changed handlers
// when it connects, and one more for each Subscribe. It does not say how a stream
// ended, so that is looked at on the wire; what it must do is go on.

package goclients

import (
	"context"
	"testing"

	"github.com/mcplisten/mcplisten/interop/internal/program"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestGoSDK(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program.Program, wire *wire) {
		told := make(chan string, 100)
		connect := func() *mcp.ClientSession {
			t.Helper()
			session, err := newGoSDK(told).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: p.URL, HTTPClient: wire.http}, nil)
			if err != nil {
				t.Fatalf("connect: %v", err)
			}
			t.Cleanup(func() { _ = session.Close() })
			expect(t, told, acknowledged)
			return session
		}
		subscribe := func(session *mcp.ClientSession, uri string) {
			t.Helper()
			if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
				t.Fatalf("subscribe: %v", err)
			}
			expect(t, told, acknowledged)
		}
		unsubscribe := func(session *mcp.ClientSession, uri string) {
			t.Helper()
			if err := session.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: uri}); err != nil {
				t.Fatalf("unsubscribe: %v", err)
			}
		}
		streams := func(n int) {
			t.Helper()
			p.Until("streams", func(s program.Stats) bool { return s.Streams == n })
		}

		// Every kind, over two streams; and a third that the client ends.
		session := connect()
		subscribe(session, notes)
		all(t, p, told)
		subscribe(session, "u:2")
		streams(3)
		p.Publish("kind=updated&uri=u:2")
		expect(t, told, "notifications/resources/updated u:2")
		unsubscribe(session, "u:2")
		streams(2)
		receive(t, "the stream's end", wire.ends)
		all(t, p, told) // its notifications/cancelled ended nothing else

		// A graceful end. The session goes on with a server that is there again.
		p.Terminate()
		wire.graceful(2)
		p.Restart()
		unsubscribe(session, notes)
		subscribe(session, notes)
		p.Publish("kind=updated&uri=" + notes)
		expect(t, told, "notifications/resources/updated "+notes)
		if err := session.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		receive(t, "the stream's end", wire.ends)
		streams(0)

		// A drop, and listening again in a new session.
		session = connect()
		subscribe(session, notes)
		all(t, p, told)
		p.Kill()
		wire.dropped(2)
		p.Restart()
		session = connect()
		subscribe(session, notes)
		all(t, p, told)
		if tools, err := session.ListTools(t.Context(), nil); err != nil || len(tools.Tools) == 0 {
			t.Errorf("tools/list: %v, %v", tools, err)
		}
	})
}

// newGoSDK returns a client that tells of every notification.
func newGoSDK(told chan<- string) *mcp.Client {
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			told <- "notifications/tools/list_changed"
		},
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) {
			told <- "notifications/prompts/list_changed"
		},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
			told <- "notifications/resources/list_changed"
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			told <- "notifications/resources/updated " + r.Params.URI
		},
	})
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == acknowledged { // there is no handler for it
				told <- method
			}
			return next(ctx, method, r)
		}
	})
	return client
}
