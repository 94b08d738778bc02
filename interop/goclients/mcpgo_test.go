// mcp-go's client. Its Listen returns when the stream ends: with nil after a result,
// with an error after a drop.

package goclients

import (
	"context"
	"log/slog"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mcplisten/mcplisten/interop/internal/program"
)

func TestMCPGo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program.Program, wire *wire) {
		c, err := client.NewStreamableHttpClient(p.URL, transport.WithHTTPBasicClient(wire.http),
			transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		told := make(chan string, 100)
		c.OnNotification(func(n mcp.JSONRPCNotification) {
			said := n.Method
			if uri, ok := n.Params.AdditionalFields["uri"].(string); ok {
				said += " " + uri
			}
			told <- said
		})
		if err := c.Start(t.Context()); err != nil {
			t.Fatalf("start: %v", err)
		}
		initialize := mcp.InitializeRequest{}
		initialize.Params.ClientInfo = mcp.Implementation{Name: "interop", Version: "1.0.0"}
		result, err := c.Initialize(t.Context(), initialize)
		if err != nil || result.ProtocolVersion != mcp.ProtocolVersion20260728 {
			t.Fatalf("initialize: %+v, %v", result, err)
		}
		filter := mcp.SubscriptionFilter{
			ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: []string{notes},
		}
		listen := func(ctx context.Context) <-chan error {
			t.Helper()
			ended := make(chan error, 1)
			go func() { ended <- c.Listen(ctx, filter) }()
			expect(t, told, acknowledged)
			return ended
		}

		// Every kind, and an end by the client.
		ctx, cancel := context.WithCancel(t.Context())
		ended := listen(ctx)
		all(t, p, told)
		cancel()
		if err := receive(t, "Listen's return", ended); err == nil { // context.Canceled, or what a drop gives
			t.Error("cancelled: nil, want an error")
		}
		receive(t, "the stream's end", wire.ends)
		p.Until("closed", func(s program.Stats) bool { return s.Streams == 0 && s.Closed["client_closed"] == 1 })

		// A graceful end, told from a drop; and listening again after each.
		ended = listen(t.Context())
		p.Terminate()
		if err := receive(t, "Listen's return", ended); err != nil {
			t.Errorf("after SIGTERM: %v, want nil", err)
		}
		wire.graceful(1)
		p.Restart()
		ended = listen(t.Context())
		all(t, p, told)
		p.Kill()
		if err := receive(t, "Listen's return", ended); err == nil {
			t.Error("after SIGKILL: nil, want an error")
		}
		wire.dropped(1)
		p.Restart()
		ended = listen(t.Context())
		all(t, p, told)
		p.Terminate()
		if err := receive(t, "Listen's return", ended); err != nil {
			t.Errorf("after SIGTERM: %v, want nil", err)
		}
	})
}
