// The session: whatever the server announces, however fast and however held up the
// bridge is, and whoever throws its session out, no change is lost.

package mcpgobridge_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	mcpgobridge "github.com/mcplisten/mcplisten/bridges/mcpgo"
	"github.com/mcplisten/mcplisten/core"
)

// TestABridgeThatIsHeldUp: while it cannot publish, thousands of tools come. The
// server is not held up, and they are one notification, of their own kind alone.
func TestABridgeThatIsHeldUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dropped := atomic.Int64{}
		hooks := &server.Hooks{}
		hooks.AddOnError(func(_ context.Context, _ any, _ mcp.MCPMethod, _ any, _ error) { dropped.Add(1) })
		srv := server.NewMCPServer("s", "1", server.WithHooks(hooks), server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true))
		publishes := &counter{}
		b := attach(t, srv, core.Config{Observer: publishes, KeepAlive: -1})
		m := open(t, b.Hub(), everything)

		release := publishes.hold()
		addTool(srv, "first")
		synctest.Wait() // the bridge is inside the hub
		for i, name := range toolNames(5000) {
			addTool(srv, name)
			srv.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": fmt.Sprint("notes://other/", i%50)})
		}
		srv.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": notesA})
		release()
		m.want("what was held up", toolsChanged)
		advance(time.Second)
		m.want("what came meanwhile", toolsChanged, resourceUpdated+notesA)
		if n := dropped.Load(); n != 0 {
			t.Errorf("the server found no room for %d notifications", n)
		}
	})
}

// TestTwoHundredToolsAtOnce are two notifications: one at once, and one for the rest.
func TestTwoHundredToolsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, _ := newServer()
		b := attach(t, srv, core.Config{KeepAlive: -1})
		m := open(t, b.Hub(), everything)
		addTool(srv, "the first")
		m.want("at once", toolsChanged)
		for _, name := range toolNames(200) {
			addTool(srv, name)
		}
		synctest.Wait()
		m.want("before the interval has passed")
		advance(mcpgobridge.DefaultInterval)
		m.want("after the interval", toolsChanged)

		// Steady change delays no notification.
		for range 100 {
			addTool(srv, "again")
			advance(mcpgobridge.DefaultInterval / 2)
		}
		if got := len(m.take()); got < 49 || got > 51 {
			t.Errorf("100 changes in 50 intervals made %d notifications", got)
		}
	})
}

// TestManySendersAtOnce: senders that find the channel full, since more of them have
// asked for it than it has room, are covered by the change of everything.
func TestManySendersAtOnce(t *testing.T) {
	t.Parallel()
	send := func(c chan<- mcp.JSONRPCNotification) (dropped bool) {
		n := mcp.JSONRPCNotification{}
		n.Method = toolsChanged
		select {
		case c <- n:
			return false
		default:
			return true
		}
	}
	for _, test := range []struct {
		senders    int
		everything bool
	}{{1, false}, {mcpgobridge.Room, false}, {mcpgobridge.Room + 1, true}, {3 * mcpgobridge.Room, true}} {
		in := mcpgobridge.NewInbox()
		channels := make([]chan<- mcp.JSONRPCNotification, test.senders)
		for i := range channels {
			channels[i] = in.Next()
		}
		everything, changes := in.Take()
		if everything != test.everything || changes != 0 {
			t.Errorf("%d who are about to send: everything %v, %d changes", test.senders, everything, changes)
		}
		dropped := 0
		for _, c := range channels {
			if send(c) {
				dropped++
			}
		}
		if dropped > 0 && !everything {
			t.Errorf("%d of %d were dropped without a trace", dropped, test.senders)
		}
		// And then all is as before.
		in.Take()
		for range 2 {
			send(in.Next())
			if everything, changes := in.Take(); everything || changes != 1 {
				t.Errorf("after %d senders: everything %v, %d changes, want one", test.senders, everything, changes)
			}
		}
	}
}

// TestNoUpdateIsLost from many senders at once: each one that says that a resource
// changed is followed by a notification of it.
func TestNoUpdateIsLost(t *testing.T) {
	t.Parallel()
	srv, _ := newServer()
	b := attach(t, srv, core.Config{Limits: core.Limits{MaxURIs: 2000}})
	uris := make([]string, 800)
	for i := range uris {
		uris[i] = fmt.Sprintf("notes://%d", i)
	}
	l := listen(t, serve(t, "nethttp", srv, b), core.Filter{ResourceSubscriptions: uris})
	var senders sync.WaitGroup
	for i := range 8 {
		senders.Go(func() {
			for _, uri := range uris[100*i : 100*(i+1)] {
				addTool(srv, uri) // noise
				srv.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": uri})
			}
		})
	}
	missing := make(map[string]bool)
	for _, uri := range uris {
		missing[uri] = true
	}
	ctx := testContext(t)
	for len(missing) > 0 {
		select {
		case n := <-l.told:
			delete(missing, n.URI)
		case <-ctx.Done():
			t.Fatalf("%d of %d resources were never told of", len(missing), len(uris))
		}
	}
	senders.Wait()
}

// TestASessionThatIsThrownOut comes back, and what was missed is made up for.
func TestASessionThatIsThrownOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, accounts := newServer()
		b := attach(t, srv, core.Config{KeepAlive: -1})
		m := open(t, b.Hub(), core.Filter{ToolsListChanged: true, ResourceSubscriptions: []string{notesA}})
		older := newFakeSession("older")
		if err := srv.RegisterSession(t.Context(), older); err != nil {
			t.Fatal(err)
		}
		first := mcpgobridge.SessionID(b)
		if !strings.HasPrefix(first, mcpgobridge.SessionPrefix) {
			t.Errorf("the session is called %q", first)
		}
		srv.UnregisterSession(t.Context(), first)
		addTool(srv, "while it is away") // or is just back: then it is told of once more
		advance(time.Second)
		if got := slices.Compact(m.take()); !slices.Equal(got, []string{resourceUpdated + notesA, toolsChanged}) {
			t.Errorf("after it came back: told %q, want everything of the filter", got)
		}
		if second := mcpgobridge.SessionID(b); second == first || len(accounts.of(notesA)) != 2 || accounts.of(notesA)[1] != second {
			t.Errorf("after %s comes %s, subscribed are %q", first, second, accounts.of(notesA))
		}
		addTool(srv, "one")
		accounts.updated(notesA)
		advance(time.Second)
		m.want("later changes", toolsChanged, resourceUpdated+notesA)
		older.take()
		srv.UnregisterSession(t.Context(), "older")
		advance(time.Second)
		m.want("somebody else's session")
	})
}

// TestASessionThatIsThrownOutHarmsNoKeys: without a Broker nothing of them can have
// been missed, and they go on.
func TestASessionThatIsThrownOutHarmsNoKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, _ := newServer()
		b := attach(t, srv, core.Config{KeepAlive: -1, Extensions: []core.Extension{{Family: jobs, Public: true}}})
		m := open(t, b.Hub(), core.Filter{ToolsListChanged: true, Keys: map[string][]string{jobs.Member: {"a"}}})
		srv.UnregisterSession(t.Context(), mcpgobridge.SessionID(b))
		advance(time.Second)
		m.want("after it came back", toolsChanged)
		publishJob(t, b, "a")
		m.want("a later value", jobs.Method)
	})
}

// TestASessionThatIsThrownOutEachTime: the bridge tries again and again, and ever less
// often; when it is left in peace, all is well.
func TestASessionThatIsThrownOutEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, _ := newServer()
		b := attach(t, srv, core.Config{KeepAlive: -1})
		m := open(t, b.Hub(), everything)
		var times atomic.Int64
		var peace atomic.Bool
		srv.GetHooks().AddOnRegisterSession(func(ctx context.Context, s server.ClientSession) {
			if !peace.Load() {
				times.Add(1)
				srv.UnregisterSession(ctx, s.SessionID())
			}
		})
		srv.UnregisterSession(t.Context(), mcpgobridge.SessionID(b))
		advance(time.Minute)
		if n := times.Load(); n < 10 || n > 30 {
			t.Errorf("in a minute the bridge came back %d times", n)
		}
		peace.Store(true)
		advance(10 * time.Second)
		m.take()
		addTool(srv, "one")
		advance(time.Second)
		m.want("in peace", toolsChanged)
	})
}
