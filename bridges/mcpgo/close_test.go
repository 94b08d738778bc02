// Parting: closing either side leaves the other well.

package mcpgobridge_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcplisten/mcplisten/core"
)

// TestCloseLeavesBothWell: what was announced is told, then streams that wait for the
// server end, and those for the application's own changes go on.
func TestCloseLeavesBothWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, accounts := newServer()
		b := attach(t, srv, core.Config{KeepAlive: -1, Capabilities: core.Capabilities{PromptsListChanged: true}})
		servers := open(t, b.Hub(), everything)
		own := open(t, b.Hub(), core.Filter{PromptsListChanged: true})
		older := newFakeSession("older")
		if err := srv.RegisterSession(t.Context(), older); err != nil {
			t.Fatal(err)
		}
		addTool(srv, "one")
		synctest.Wait()
		servers.take()
		addTool(srv, "within the interval")
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		servers.want("a stream that waits for the server", toolsChanged, "result")
		if end := <-servers.done; end.Reason != core.Completed || !end.Graceful {
			t.Errorf("it ended: %+v", end)
		}
		if left := accounts.of(notesA); len(left) > 0 {
			t.Errorf("still subscribed on the server: %q", left)
		}
		// The hub goes on, and the server; they do not hear of each other.
		older.take()
		if err := b.Hub().Publish(t.Context(), core.PromptsListChanged()); err != nil {
			t.Fatal(err)
		}
		advance(time.Second)
		own.want("the application's change", promptsChanged)
		older.want(t, "the application's change")
		addTool(srv, "two")
		srv.AddPrompt(mcp.NewPrompt("one"), noPrompt)
		subscribe(t, srv, older, notesA)
		srv.UnregisterSession(t.Context(), "older")
		advance(time.Second)
		own.want("the server's change")
		older.want(t, "the server's change", toolsChanged, promptsChanged)
		// Nothing but the hooks is left: the server can be attached to another hub.
		again := attach(t, srv, core.Config{KeepAlive: -1})
		m := open(t, again.Hub(), everything)
		addTool(srv, "three")
		accounts.updated(notesA)
		advance(time.Second)
		m.want("attached again", toolsChanged, resourceUpdated+notesA)
		if err := b.Close(); err != nil {
			t.Errorf("closed once more: %v", err)
		}
	})
}

// TestKeysAreTheHubs: what becomes of the server's capabilities, and of the bridge, is
// nothing to a stream of an extension's keys.
func TestKeysAreTheHubs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := server.NewMCPServer("notes", "1")
		b := attach(t, srv, core.Config{KeepAlive: -1, Extensions: []core.Extension{{Family: jobs, Public: true}}})
		keys := open(t, b.Hub(), core.Filter{Keys: map[string][]string{jobs.Member: {"a"}}})
		for _, step := range []struct {
			name string
			do   func()
		}{
			{"the server advertises more", func() { addTool(srv, "first") }},
			{"the server advertises less", func() {
				server.WithToolCapabilities(false)(srv)
				_ = open(t, b.Hub(), core.Filter{PromptsListChanged: true}) // has the bridge look
			}},
			{"the bridge is closed", func() { _ = b.Close() }},
		} {
			step.do()
			advance(time.Second)
			keys.want(step.name)
			publishJob(t, b, "a")
			keys.want(step.name+", and a job changes", jobs.Method)
		}
	})
}

// TestShutdownLeavesTheServerWell: its own clients are told, and nothing piles up.
func TestShutdownLeavesTheServerWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, _ := newServer()
		b := attach(t, srv, core.Config{KeepAlive: -1, Broker: &core.LocalBroker{}})
		older := newFakeSession("older")
		if err := srv.RegisterSession(t.Context(), older); err != nil {
			t.Fatal(err)
		}
		advance(time.Minute) // what a node says when it comes
		older.take()
		m := open(t, b.Hub(), everything)
		if err := b.Hub().Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		m.want("the stream", "result")
		for _, name := range toolNames(1000) {
			addTool(srv, name)
			older.take()
		}
		addTool(srv, "one")
		older.want(t, "the older client", toolsChanged)
		advance(time.Second)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		addTool(srv, "two")
		older.want(t, "the older client, after Close", toolsChanged)
	})
}

func TestCloseWhileMuchIsAnnounced(t *testing.T) {
	t.Parallel()
	for range 20 {
		srv := server.NewMCPServer("s", "1", server.WithToolCapabilities(true))
		b := attach(t, srv, core.Config{})
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
					addTool(srv, "one")
				}
			}
		}()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		close(stop)
		<-done
	}
}
