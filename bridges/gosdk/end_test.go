// Ends: of the bridge's session, of the bridge, of the hub; and beginnings that fail.

package gosdkbridge_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	gosdkbridge "github.com/mcplisten/mcplisten/bridges/gosdk"
	"github.com/mcplisten/mcplisten/core"
)

// A server that closes the bridge's session gets another one. Everything that may have
// changed in between is told, each resource is subscribed to again before the old
// subscription ends, and what changes from then on comes as before.
func TestSessionClosed(t *testing.T) {
	t.Parallel()
	h := &handlers{}
	bubble(t, h, core.Config{}, func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge) {
		all := mustListen(t, bridge.Hub(), `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,`+
			`"resourceSubscriptions":["test://a","test://b"]}`)
		one := mustListen(t, bridge.Hub(), `{"resourceSubscriptions":["test://a"]}`)
		var wantAll, wantOne []string
		is := func(forAll []string, forOne ...string) {
			t.Helper()
			wantAll, wantOne = append(wantAll, forAll...), append(wantOne, forOne...)
			all.is(t, wantAll...)
			one.is(t, wantOne...)
		}
		everything := []string{tools, prompts, resources, updated + "test://a", updated + "test://b"}
		for range 5 {
			<-time.After(2 * time.Second)
			session := only(t, server)
			if !strings.HasPrefix(session.ID(), gosdkbridge.SessionPrefix) {
				t.Fatalf("the session is called %q", session.ID())
			}
			_ = session.Close()
			synctest.Wait()
			if only(t, server) == session {
				t.Fatal("the session is the closed one")
			}
			is(everything, updated+"test://a")

			// The next one follows after a pause. What changes in it, the SDK tells nobody.
			_ = only(t, server).Close()
			synctest.Wait()
			if n := len(slices.Collect(server.Sessions())); n != 0 {
				t.Fatalf("%d sessions, want none", n)
			}
			addTool(server, "second")
			<-time.After(2 * time.Second)
			is(everything, updated+"test://a")

			update(t, server, "test://a")
			addPrompt(server, "second")
			<-time.After(time.Second)
			is([]string{updated + "test://a", prompts}, updated+"test://a")
			h.mu.Lock()
			if h.running["test://a"] != 1 || h.running["test://b"] != 1 {
				t.Errorf("subscribed at the server: %v, want each once", h.running)
			}
			h.mu.Unlock()
		}
	})
	for uri, n := range h.running {
		if n != 0 {
			t.Errorf("after the end %s is subscribed %d times at the server", uri, n)
		}
	}
}

// A resource that the server does not take again has no way to its streams any more:
// they end with their result, and the others stay.
func TestNotTakenAgain(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"an error": func() error { return errors.New("gone") },
		"a panic":  func() error { panic("gone") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &handlers{}
			bubble(t, h, core.Config{}, func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge) {
				lost := mustListen(t, bridge.Hub(), `{"toolsListChanged":true,"resourceSubscriptions":["test://a","test://b"]}`)
				kept := mustListen(t, bridge.Hub(), `{"resourceSubscriptions":["test://a"]}`)
				h.mu.Lock()
				h.fail = func(uri string) error {
					if uri == "test://b" {
						return fail()
					}
					return nil
				}
				h.mu.Unlock()
				_ = only(t, server).Close()
				<-time.After(time.Second)
				if got := lost.all(); got[len(got)-1].what != "result" {
					t.Errorf("got %v, want the result at the end", got)
				}
				kept.is(t, updated+"test://a")
				update(t, server, "test://a")
				kept.is(t, updated+"test://a", updated+"test://a")
			})
		})
	}
}

// A server that closes the session each time that it sees it is not closed in on.
func TestSessionClosedAgainAndAgain(t *testing.T) {
	t.Parallel()
	bubble(t, &handlers{}, core.Config{}, func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge) {
		r := mustListen(t, bridge.Hub(), `{"toolsListChanged":true}`)
		closed := 0
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-time.After(time.Millisecond) {
			for session := range server.Sessions() {
				if session.InitializeParams() != nil { // the SDK cannot close what is still connecting
					_ = session.Close()
					closed++
				}
			}
		}
		if closed > 101 {
			t.Errorf("%d sessions in 10 s, want ten a second at most", closed)
		}
		<-time.After(time.Second)
		before := len(r.all())
		addTool(server, "second")
		<-time.After(time.Second)
		if got := len(r.all()) - before; got != 1 {
			t.Errorf("%d notifications of one change, want one", got)
		}
	})
}

// Closing the bridge ends the streams that nothing would reach any more, keeps those
// that the application serves itself, and leaves the server and its clients as they
// are.
func TestCloseBridge(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, framework string) {
		h := &handlers{}
		server := newServer(h)
		s := serve(t, framework, server, core.Config{Capabilities: core.Capabilities{PromptsListChanged: true}})
		older := s.connect(t, "older", revisions()[0])
		older.subscribe(uri)
		ends := s.listen(t, "ends", everything(uri))
		stays := s.listen(t, "stays", core.Filter{PromptsListChanged: true})
		for range 2 {
			if err := s.bridge.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		ends.graceful()
		for session := range server.Sessions() {
			if strings.HasPrefix(session.ID(), gosdkbridge.SessionPrefix) {
				t.Error("the bridge's session is still there")
			}
		}
		if got, want := s.agreed(t), (core.Capabilities{PromptsListChanged: true}); got != want {
			t.Errorf("after Close: %+v, want %+v", got, want)
		}
		addPrompt(server, "second")
		update(t, server, uri)
		older.expect(prompts, updated+uri)
		if err := s.bridge.Hub().Publish(t.Context(), core.PromptsListChanged()); err != nil {
			t.Error(err)
		}
		stays.expect(prompts)
		stays.nothing()
		if older.listTools() != 1 {
			t.Error("the older client does not see the tool")
		}
		older.nothing()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.running[uri] != 1 {
			t.Errorf("%s is subscribed %d times at the server, want the older client's alone", uri, h.running[uri])
		}
	})
}

// Shutting down the hub ends its streams and leaves the server and its own clients as
// they are, whom what is published still reaches.
func TestShutdownHub(t *testing.T) {
	t.Parallel()
	h := &handlers{}
	server := newServer(h)
	s := serve(t, "nethttp", server, core.Config{})
	older := s.connect(t, "older", revisions()[0])
	l := s.listen(t, "stream", everything(uri))
	if err := s.bridge.Hub().Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.graceful()
	if got, want := h.log(), "[+"+uri+" -"+uri+"]"; got != want {
		t.Errorf("the handlers were called %s, want %s", got, want)
	}
	addTool(server, "second")
	older.expect(tools)
	if err := s.bridge.Hub().Publish(t.Context(), core.PromptsListChanged()); err != nil {
		t.Error(err)
	}
	older.expect(prompts)
	if older.listTools() != 2 {
		t.Error("the older client does not see the tools")
	}
}

// The application's middleware, whenever it came, sees nothing of the bridge.
func TestUnseenByMiddleware(t *testing.T) {
	t.Parallel()
	refuse := func(t *testing.T) mcp.Middleware {
		return func(mcp.MethodHandler) mcp.MethodHandler {
			return func(_ context.Context, method string, _ mcp.Request) (mcp.Result, error) {
				t.Errorf("the middleware saw %s", method)
				return nil, errors.New("not allowed")
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		h := &handlers{}
		server := newServer(h)
		server.AddReceivingMiddleware(refuse(t))
		bridge, err := gosdkbridge.Attach(server, core.Config{KeepAlive: -1})
		if err != nil {
			t.Fatalf("Attach: %v", err)
		}
		defer end(t, bridge)
		server.AddReceivingMiddleware(refuse(t))
		r := mustListen(t, bridge.Hub(), `{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}`)
		churn(server, 3*time.Second)
		_ = only(t, server).Close()
		<-time.After(time.Second)
		update(t, server, "test://a")
		if got := r.all(); len(got) < 5 {
			t.Errorf("got %v, want all that changed", got)
		}
	})
}

// What cannot be attached leaves the server as it was.
func TestAttachFails(t *testing.T) {
	t.Parallel()
	server := newServer(&handlers{})
	for _, tc := range []struct {
		name    string
		server  *mcp.Server
		config  core.Config
		options []gosdkbridge.Option
	}{
		{"no server", nil, core.Config{}, nil},
		{"a configuration that contradicts itself", server, core.Config{MaxStreams: -1}, nil},
		{"a delay of nothing", server, core.Config{}, []gosdkbridge.Option{gosdkbridge.WithMaxDelay(0)}},
	} {
		if b, err := gosdkbridge.Attach(tc.server, tc.config, tc.options...); err == nil || b != nil {
			t.Errorf("%s: attached", tc.name)
		}
	}
	for session := range server.Sessions() {
		t.Errorf("session %q is left", session.ID())
	}
	attach(t, server, core.Config{}, nil)
}

// Two bridges of one server, for two hubs, are each told once, and each of them tells
// the other of what was published on its hub.
func TestTwoBridges(t *testing.T) {
	t.Parallel()
	bubble(t, &handlers{}, core.Config{}, func(t *testing.T, server *mcp.Server, first *gosdkbridge.Bridge) {
		second, err := gosdkbridge.Attach(server, core.Config{KeepAlive: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer end(t, second)
		a, b := mustListen(t, first.Hub(), `{"toolsListChanged":true}`), mustListen(t, second.Hub(), `{"toolsListChanged":true}`)
		addTool(server, "second")
		<-time.After(time.Second)
		a.is(t, tools)
		b.is(t, tools)
		if err := first.Hub().Publish(t.Context(), core.ToolsListChanged()); err != nil {
			t.Error(err)
		}
		<-time.After(time.Second)
		a.is(t, tools, tools)
		b.is(t, tools, tools)
	})
}
