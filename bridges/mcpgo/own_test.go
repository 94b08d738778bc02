// Both eras on one endpoint: clients of older revisions, which hold the server's own
// stream, and modern ones, whichever side a change comes from.

package mcpgobridge_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	mcpgobridge "github.com/mcplisten/mcplisten/bridges/mcpgo"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// connectOlder returns a client of an older revision whose own stream is open.
func connectOlder(t *testing.T, srv *server.MCPServer, url string) *peer {
	t.Helper()
	p := connect(t, url, mcp.LATEST_LEGACY_PROTOCOL_VERSION, transport.WithContinuousListening()) //nolint:staticcheck // deprecated, and what is tested
	p.settle(srv)
	return p
}

const hello = "notifications/hello"

// settle waits until what the server sends to the client's session arrives. It says
// hello until it does: mcp-go loses what it sends just when a POST of the same session
// ends.
func (p *peer) settle(srv *server.MCPServer) {
	p.t.Helper()
	ctx := testContext(p.t)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		if err := srv.SendNotificationToSpecificClient(p.client.GetSessionId(), hello, nil); err != nil {
			p.t.Fatalf("the server cannot send to its own session: %v", err)
		}
		select {
		case got := <-p.told:
			if got != hello {
				p.t.Fatalf("told %q, want %q", got, hello)
			}
			return
		case <-again.C:
		case <-ctx.Done():
			p.t.Fatal("the server's own stream brings nothing")
		}
	}
}

func (p *peer) subscribe(uri string) {
	p.t.Helper()
	request := mcp.SubscribeRequest{}
	request.Params.URI = uri
	if err := p.client.Subscribe(testContext(p.t), request); err != nil { //nolint:staticcheck // deprecated, and what is tested
		p.t.Fatalf("resources/subscribe: %v", err)
	}
}

func (p *peer) unsubscribe(uri string) {
	p.t.Helper()
	request := mcp.UnsubscribeRequest{}
	request.Params.URI = uri
	if err := p.client.Unsubscribe(testContext(p.t), request); err != nil { //nolint:staticcheck // deprecated, and what is tested
		p.t.Fatalf("resources/unsubscribe: %v", err)
	}
}

// listen opens a listen of mcp-go's own modern client.
func (p *peer) listen(filter core.Filter) {
	p.t.Helper()
	stop, err := p.client.ListenAsync(p.t.Context(), mcp.SubscriptionFilter{
		ToolsListChanged: filter.ToolsListChanged, PromptsListChanged: filter.PromptsListChanged,
		ResourcesListChanged: filter.ResourcesListChanged, ResourceSubscriptions: filter.ResourceSubscriptions,
	}, func(err error) { p.t.Errorf("the modern client's listen: %v", err) })
	if err != nil {
		p.t.Fatalf("listen: %v", err)
	}
	p.t.Cleanup(stop)
	p.want("the acknowledgment", "notifications/subscriptions/acknowledged")
}

// TestBothErasAtOnce: each client gets each change once, whoever makes it known.
func TestBothErasAtOnce(t *testing.T) {
	t.Parallel()
	for framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			srv, accounts := newServer()
			publishes := &counter{}
			b := attach(t, srv, core.Config{Observer: publishes})
			url := serve(t, framework, srv, b)
			older := connectOlder(t, srv, url)
			older.subscribe(notesA)
			older.subscribe(notesB)
			older.unsubscribe(notesB)
			older.settle(srv)
			theirs := connect(t, url, mcp.ProtocolVersion20260728)
			theirs.listen(everything)
			ours := listen(t, url, everything)

			modern := func(why, method string, n client.Notification) {
				t.Helper()
				theirs.want(why+", mcp-go's modern client", method)
				ours.want(why+", our client", n)
			}
			addTool(srv, "one")
			older.want("AddTool, the older client", toolsChanged)
			modern("AddTool", toolsChanged, client.Notification{Kind: client.Tools})

			publish := func(changes ...core.Change) {
				t.Helper()
				if err := b.Hub().Publish(context.Background(), changes...); err != nil {
					t.Fatal(err)
				}
			}
			publish(core.PromptsListChanged())
			older.want("published, the older client", promptsChanged)
			modern("published", promptsChanged, client.Notification{Kind: client.Prompts})

			publish(core.ResourceUpdated(notesB)) // which the older one is not subscribed to any more
			modern("published", resourceUpdated+notesB, client.Notification{Kind: client.Updated, URI: notesB})
			publish(core.ResourceUpdated(notesA))
			older.want("published, the older client", resourceUpdated+notesA)
			modern("published", resourceUpdated+notesA, client.Notification{Kind: client.Updated, URI: notesA})

			accounts.updated(notesA)
			older.want("an update, the older client", resourceUpdated+notesA)
			modern("an update", resourceUpdated+notesA, client.Notification{Kind: client.Updated, URI: notesA})

			// For some principals only: for no older client.
			if err := b.Hub().PublishTo(context.Background(), core.Principals("alice"), core.ToolsListChanged()); err != nil {
				t.Fatal(err)
			}
			publish(core.PromptsListChanged())
			older.want("after what was for alice, the older client", promptsChanged)
			modern("after what was for alice", promptsChanged, client.Notification{Kind: client.Prompts})
			srv.AddResource(mcp.NewResource(notesA, "a"), noResource)
			older.want("AddResource, the older client", resourcesChanged)
			modern("AddResource", resourcesChanged, client.Notification{Kind: client.Resources})
			// Five by the application, three by the server: nothing went round.
			if got := publishes.count(); got != 8 {
				t.Errorf("%d publishes, want 8", got)
			}
		})
	}
}

// TestWhatTheServerDoesNotAdvertise is not sent to its own clients, until it does.
func TestWhatTheServerDoesNotAdvertise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := server.NewMCPServer("prompts only", "1", server.WithPromptCapabilities(true))
		b := attach(t, srv, core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
		older := newFakeSession("older")
		if err := srv.RegisterSession(t.Context(), older); err != nil {
			t.Fatal(err)
		}
		publish := func() {
			t.Helper()
			if err := b.Hub().Publish(t.Context(), core.PromptsListChanged(), core.ToolsListChanged()); err != nil {
				t.Fatal(err)
			}
			advance(time.Second)
		}
		publish()
		older.want(t, "published", promptsChanged)
		addTool(srv, "the first")
		advance(time.Second)
		older.want(t, "the server's first tool", toolsChanged)
		publish()
		older.want(t, "published after it", toolsChanged, promptsChanged)
	})
}

// TestGetAndDelete reach the server where they are asked for.
func TestGetAndDelete(t *testing.T) {
	t.Parallel()
	for framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			gone := make(chan string, 10)
			hooks := &server.Hooks{}
			hooks.AddOnUnregisterSession(func(_ context.Context, s server.ClientSession) { gone <- s.SessionID() })
			srv := server.NewMCPServer("s", "1", server.WithHooks(hooks), server.WithToolCapabilities(true))
			b := attach(t, srv, core.Config{})
			older := connectOlder(t, srv, serve(t, framework, srv, b))
			id := older.client.GetSessionId()
			if err := older.client.Close(); err != nil { // sends DELETE
				t.Fatal(err)
			}
			select {
			case got := <-gone:
				if got != id {
					t.Errorf("unregistered: %q, want %q", got, id)
				}
			case <-testContext(t).Done():
				t.Fatal("the server's session was not deleted")
			}
		})
	}
}

// TestOtherNodes: what the server of one announces reaches the older clients of the
// other's, once, and does not come back. What an outage of the broker may have lost is
// made up for.
func TestOtherNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := &core.LocalBroker{}
		type node struct {
			srv       *server.MCPServer
			accounts  *accounts
			bridge    *mcpgobridge.Bridge
			older     *fakeSession
			modern    *memory
			publishes *counter
		}
		nodes := make([]node, 2)
		for i := range nodes {
			n := &nodes[i]
			n.publishes = &counter{}
			n.srv, n.accounts = newServer()
			n.bridge = attach(t, n.srv, core.Config{Broker: broker, Observer: n.publishes, KeepAlive: -1})
			n.older = newFakeSession("older")
			if err := n.srv.RegisterSession(t.Context(), n.older); err != nil {
				t.Fatal(err)
			}
			subscribe(t, n.srv, n.older, notesA)
		}
		advance(time.Minute) // what nodes say to each other when they come
		for i := range nodes {
			nodes[i].modern = open(t, nodes[i].bridge.Hub(), core.Filter{ToolsListChanged: true, ResourceSubscriptions: []string{notesA, notesB}})
			nodes[i].older.take()
		}
		for i, n := range nodes {
			other := nodes[1-i]
			before := n.publishes.count() + other.publishes.count()
			addTool(n.srv, "one")
			advance(time.Second)
			n.older.want(t, "AddTool, here", toolsChanged)
			other.older.want(t, "AddTool, there", toolsChanged)
			n.modern.want("AddTool, here", toolsChanged)
			other.modern.want("AddTool, there", toolsChanged)
			n.accounts.updated(notesA)
			advance(time.Second)
			n.older.want(t, "an update, here", resourceUpdated+notesA)
			other.older.want(t, "an update, there", resourceUpdated+notesA)
			n.modern.want("an update, here", resourceUpdated+notesA)
			other.modern.want("an update, there", resourceUpdated+notesA)
			if got := n.publishes.count() + other.publishes.count() - before; got != 4 {
				t.Errorf("two changes on two nodes were published %d times", got)
			}
			advance(time.Minute)
			n.older.want(t, "a minute later")
		}

		// A node that misses messages does not know which.
		mcpgobridge.Missed(nodes[0].bridge)
		advance(time.Second)
		nodes[0].older.want(t, "after a gap", toolsChanged, promptsChanged, resourcesChanged, resourceUpdated+notesA)
		nodes[0].modern.want("a gap told to the older clients")
	})
}

func subscribe(t *testing.T, srv *server.MCPServer, s server.ClientSession, uri string) {
	t.Helper()
	srv.HandleMessage(srv.WithContext(t.Context(), s), []byte(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`))
}

// TestOlderSubscriptionsLeaveNothing: not of sessions that end, nor of made-up ones,
// nor more than the hub's limits.
func TestOlderSubscriptionsLeaveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, _ := newServer()
		b := attach(t, srv, core.Config{Limits: core.Limits{MaxURIs: 2, MaxURILength: 20}})
		registered, stranger := newFakeSession("a"), newFakeSession("b")
		if err := srv.RegisterSession(t.Context(), registered); err != nil {
			t.Fatal(err)
		}
		subscribe(t, srv, stranger, notesA)
		for _, uri := range []string{notesA, notesA, notesB, "notes://too-many", "notes://far-too-long-to-be-kept"} {
			subscribe(t, srv, registered, uri)
		}
		if got := mcpgobridge.Kept(b); got != "1 sessions, 2 URIs" {
			t.Errorf("kept: %s, want the registered session and two URIs", got)
		}
		srv.UnregisterSession(t.Context(), "a")
		if got := mcpgobridge.Kept(b); got != "0 sessions, 0 URIs" {
			t.Errorf("kept of a session that has ended: %s", got)
		}
	})
}

// TestAStandingOlderClient: publishing on the hub is one message in each interval to
// the server's own clients, whose channels the server lets run over.
func TestAStandingOlderClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, _ := newServer()
		b := attach(t, srv, core.Config{})
		s := newFakeSession("a")
		if err := srv.RegisterSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if err := b.Hub().Publish(t.Context(), core.ToolsListChanged()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		advance(mcpgobridge.DefaultInterval)
		if got := len(s.c); got < 1 || got > 2 {
			t.Errorf("1000 publishes at once made %d notifications, want 1 or 2", got)
		}
	})
}

// fakeSession is a client's session that is never read.
type fakeSession struct {
	id string
	c  chan mcp.JSONRPCNotification
}

func newFakeSession(id string) *fakeSession {
	return &fakeSession{id: id, c: make(chan mcp.JSONRPCNotification, 100)}
}

func (s *fakeSession) Initialize()                                         {}
func (s *fakeSession) Initialized() bool                                   { return true }
func (s *fakeSession) SessionID() string                                   { return s.id }
func (s *fakeSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.c }

func (s *fakeSession) take() (told []string) {
	for {
		select {
		case n := <-s.c:
			said := n.Method
			if uri, ok := n.Params.AdditionalFields["uri"].(string); ok {
				said += " " + uri
			}
			told = append(told, said)
		default:
			return told
		}
	}
}

// want checks what was told since the last time, in any order.
func (s *fakeSession) want(t *testing.T, why string, want ...string) {
	t.Helper()
	got := s.take()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: the older client was told %q, want %q", why, got, want)
	}
}
