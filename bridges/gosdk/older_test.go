// Clients of older revisions beside those that listen, on one endpoint.

package gosdkbridge_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcplisten/mcplisten/core"
)

// revisions are those that the SDK speaks and that have no listen.
func revisions() []string {
	all := mcp.SupportedProtocolVersions()
	return slices.DeleteFunc(all, func(v string) bool { return v >= core.ProtocolVersion })
}

// A client of an older revision and one that listens, at the same time: each is told
// once of what the server announces and of what is published on the hub, in its own
// way, and each can use the server.
func TestOneEndpoint(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, framework string) {
		server := newServer(&handlers{})
		s := serve(t, framework, server, core.Config{})
		hub := s.bridge.Hub()
		all := []*told{s.listen(t, "stream", everything(uri)).told}
		newer := s.connect(t, "newer", core.ProtocolVersion)
		newer.subscribe(uri)
		all = append(all, newer.told)
		clients := []*sdkClient{newer}
		for _, revision := range revisions() {
			older := s.connect(t, "older "+revision, revision)
			older.subscribe(uri)
			all = append(all, older.told)
			clients = append(clients, older)
		}
		expect := func(want ...string) {
			t.Helper()
			for _, c := range all {
				c.expect(want...)
			}
		}
		publish := func(changes ...core.Change) {
			t.Helper()
			if err := hub.Publish(t.Context(), changes...); err != nil {
				t.Errorf("Publish: %v", err)
			}
		}
		for i := range 3 {
			addTool(server, "second")
			expect(tools)
			publish(core.ToolsListChanged())
			expect(tools)
			addPrompt(server, "second")
			expect(prompts)
			publish(core.PromptsListChanged())
			expect(prompts)
			addResource(server, "test://second")
			expect(resources)
			publish(core.ResourcesListChanged())
			expect(resources)
			update(t, server, uri)
			expect(updated + uri)
			publish(core.ResourceUpdated(uri))
			expect(updated + uri)
			publish(core.ResourceUpdated("test://other"), core.ToolsListChanged(), core.PromptsListChanged(),
				core.ResourcesListChanged(), core.ResourceUpdated(uri))
			expect(tools, prompts, resources, updated+uri)
			for _, c := range clients {
				if n := c.listTools(); n != 2 {
					t.Errorf("round %d: %s: %d tools, want 2", i, c.name, n)
				}
				if r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "first"}); err != nil || r.IsError {
					t.Errorf("round %d: %s: CallTool: %v, %v", i, c.name, r, err)
				}
			}
		}
		for _, c := range all {
			c.nothing()
		}

		// An older client ends its session by DELETE, and the others stay.
		last := clients[len(clients)-1]
		if err := last.Close(); err != nil {
			t.Errorf("%s: Close: %v", last.name, err)
		}
		last.http.mu.Lock()
		if saw := last.http.saw; saw[len(saw)-1] != "DELETE 204" {
			t.Errorf("%s: saw %q, want it to end with DELETE 204", last.name, saw)
		}
		last.http.mu.Unlock()
		all = all[:len(all)-1]
		update(t, server, uri)
		expect(updated + uri)
		publish(core.ToolsListChanged())
		expect(tools)
	})
}

// An older client is told of the resources that it subscribed to, while it does.
func TestOlderSubscriptions(t *testing.T) {
	t.Parallel()
	s := serve(t, "nethttp", newServer(&handlers{}), core.Config{})
	older := s.connect(t, "older", revisions()[0])
	publish := func(uris ...string) {
		t.Helper()
		var changes []core.Change
		for _, uri := range uris {
			changes = append(changes, core.ResourceUpdated(uri))
		}
		if err := s.bridge.Hub().Publish(t.Context(), changes...); err != nil {
			t.Error(err)
		}
	}
	done := func() { // everything before it has come
		t.Helper()
		if err := s.bridge.Hub().Publish(t.Context(), core.ToolsListChanged()); err != nil {
			t.Error(err)
		}
		older.expect(tools)
	}
	publish(uri)
	done()
	older.subscribe(uri)
	publish(uri, "test://other")
	older.expect(updated + uri)
	done()
	if err := older.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	publish(uri)
	done()
}

// What another node publishes reaches the older clients of this one, whether it was
// published on that node's hub or announced by its server; and what the broker may
// have lost is told as everything.
func TestOtherNodes(t *testing.T) {
	t.Parallel()
	broker := &interrupted{LocalBroker: &core.LocalBroker{}, connections: make(chan context.CancelFunc, 10)}
	here := serve(t, "nethttp", newServer(&handlers{}), core.Config{Broker: broker, GapSpread: -1})
	there := newServer(&handlers{})
	other := attach(t, there, core.Config{Broker: broker.LocalBroker})
	disconnect := <-broker.connections
	older := here.connect(t, "older", revisions()[0])
	older.subscribe(uri)
	if err := other.Hub().Publish(t.Context(), core.ResourceUpdated(uri)); err != nil {
		t.Fatal(err)
	}
	older.expectOrGap(updated + uri)
	addTool(there, "second")
	older.expectOrGap(tools)
	disconnect()
	<-broker.connections
	older.expect(tools, prompts, resources, updated+uri)
}

// expectOrGap is expect where a node that is heard for the first time may count as a
// gap, so that everything is told as well. What is told for that has come before it
// returns.
func (c *sdkClient) expectOrGap(want string) {
	c.t.Helper()
	for got := ""; got != want; {
		got = c.next()
	}
}

// interrupted is a broker whose connection can be cut.
type interrupted struct {
	*core.LocalBroker
	connections chan context.CancelFunc
}

func (b *interrupted) Receive(ctx context.Context, to core.BrokerReceiver) error {
	ctx, cancel := context.WithCancel(ctx)
	b.connections <- cancel
	return b.LocalBroker.Receive(ctx, to)
}

// What is for some principals is not for older clients: nobody knows which of those
// they are.
func TestAudience(t *testing.T) {
	t.Parallel()
	s := serve(t, "nethttp", newServer(&handlers{}), core.Config{})
	older := s.connect(t, "older", revisions()[0])
	for _, to := range []core.Audience{core.Principals("alice"), core.Principals(), core.PrincipalPrefix("a")} {
		if err := s.bridge.Hub().PublishTo(t.Context(), to, core.PromptsListChanged()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.bridge.Hub().Publish(t.Context(), core.ToolsListChanged()); err != nil {
		t.Fatal(err)
	}
	older.expect(tools)
	older.nothing()
}

// What the server does not advertise, older clients are not told of.
func TestNotAdvertised(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
	addTool(server, "first")
	s := serve(t, "nethttp", server, core.Config{Capabilities: core.Capabilities{PromptsListChanged: true}})
	older := s.connect(t, "older", revisions()[0])
	l := s.listen(t, "stream", core.Filter{PromptsListChanged: true})
	if err := s.bridge.Hub().Publish(t.Context(), core.PromptsListChanged()); err != nil {
		t.Fatal(err)
	}
	l.expect(prompts)
	if err := s.bridge.Hub().Publish(t.Context(), core.ToolsListChanged()); err != nil {
		t.Fatal(err)
	}
	older.expect(tools)
	older.nothing()
}

// An older client that does not read holds up neither publishers nor other clients.
func TestStalledOlder(t *testing.T) {
	t.Parallel()
	server := newServer(&handlers{})
	block, blocked := make(chan struct{}), make(chan struct{})
	var stalled *mcp.ServerSession
	server.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if req.GetSession() == mcp.Session(stalled) {
				select {
				case <-blocked:
				default:
					close(blocked)
				}
				<-block // as a write does to a connection whose other end does not read
			}
			return next(ctx, method, req)
		}
	})
	s := serve(t, "nethttp", server, core.Config{})
	first := s.connect(t, "stalled", revisions()[0])
	for session := range server.Sessions() {
		if session.ID() == first.ID() {
			stalled = session
		}
	}
	second := s.connect(t, "reading", revisions()[0])
	second.subscribe(uri)
	publish := func(c core.Change) {
		if err := s.bridge.Hub().Publish(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	publish(core.ToolsListChanged())
	<-blocked
	second.expect(tools)
	for range 100 {
		publish(core.ResourceUpdated(uri))
		second.expect(updated + uri)
		publish(core.ToolsListChanged())
		second.expect(tools)
	}
	close(block)
	first.expect(tools, tools) // the first one, and one for all the others
	publish(core.PromptsListChanged())
	first.expect(prompts)
}

// A panic of the application's middleware on the way to an older client ends nothing.
func TestPanickingMiddleware(t *testing.T) {
	t.Parallel()
	server := newServer(&handlers{})
	server.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == prompts {
				panic("of a test")
			}
			return next(ctx, method, req)
		}
	})
	s := serve(t, "nethttp", server, core.Config{})
	older := s.connect(t, "older", revisions()[0])
	if err := s.bridge.Hub().Publish(t.Context(), core.PromptsListChanged(), core.ToolsListChanged()); err != nil {
		t.Fatal(err)
	}
	older.expect(tools)
	if err := s.bridge.Hub().Publish(t.Context(), core.ResourcesListChanged()); err != nil {
		t.Fatal(err)
	}
	older.expect(resources)
}

// What speaks an older revision, and what says nothing, goes to the handler for those.
func TestHandlerAlone(t *testing.T) {
	t.Parallel()
	server := newServer(&handlers{})
	bridge := attach(t, server, core.Config{})
	var got []string
	handler := bridge.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.Header.Get("Mcp-Protocol-Version"))
	}), &mcp.StreamableHTTPOptions{DisableLocalhostProtection: true})
	for _, r := range []struct{ method, version string }{
		{"POST", ""},
		{"POST", "2025-11-25"},
		{"GET", "2025-11-25"},
		{"GET", "2026-07-28"},
		{"DELETE", ""},
		{"POST", "2026-07-28"},
		{"POST", "2026-12-31"},
	} {
		req := httptest.NewRequest(r.method, "/mcp", nil)
		req.Header.Set("Mcp-Protocol-Version", r.version)
		handler.ServeHTTP(httptest.NewRecorder(), req)
	}
	want := []string{"POST ", "POST 2025-11-25", "GET 2025-11-25", "GET 2026-07-28", "DELETE "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The subscriptions of sessions that have ended are forgotten; those of the others are
// not.
func TestForgotten(t *testing.T) {
	t.Parallel()
	server := newServer(&handlers{})
	bridge := attach(t, server, core.Config{})
	session := func() *mcp.ClientSession {
		near, far := mcp.NewInMemoryTransports()
		if _, err := server.Connect(t.Context(), far, nil); err != nil {
			t.Fatal(err)
		}
		c, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), near,
			&mcp.ClientSessionOptions{ProtocolVersion: revisions()[0]})
		if err != nil {
			t.Fatal(err)
		}
		for _, uri := range []string{"test://a", "test://b"} {
			if err := c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	lasting := session()
	defer lasting.Close()
	for range 300 {
		_ = session().Close()
	}
	if n := bridge.OlderSubscriptions(); n < 2 || n > 150 {
		t.Errorf("%d subscriptions of one session that lasts and 300 that ended are remembered", n)
	}
}
