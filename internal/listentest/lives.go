// A stream from its first byte to its last, over each protocol.

package listentest

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// everything asks for all kinds, and for two resources.
const everything = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,` +
	`"resourceSubscriptions":["file:///a","file:///b"]}`

// each runs a test over each protocol, side by side.
func each(t *testing.T, test func(t *testing.T, p Protocol)) {
	t.Helper()
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// stream: ack, each kind, keep-alives, what is pending at the end, the result.
func (s suite) stream(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		srv := s.start(t, Options{Protocol: p, Hub: core.Config{
			KeepAlive:  20 * time.Millisecond,
			ServerInfo: &core.Implementation{Name: "listentest", Version: "1"},
		}})
		stream := srv.client(t).listen(t, Listen("7", everything))
		want := 2
		if p == HTTP1 {
			want = 1
		}
		if got := stream.Response.ProtoMajor; got != want {
			t.Fatalf("the protocol is HTTP/%d, want HTTP/%d", got, want)
		}
		stream.keptAlive(t, 2)
		for _, change := range []core.Change{
			core.ToolsListChanged(), core.PromptsListChanged(), core.ResourcesListChanged(), core.ResourceUpdated("file:///b"),
		} {
			srv.publish(t, change)
			stream.expect(t, strings.TrimSpace(change.Kind.Method()+" "+change.URI))
		}
		srv.publish(t, core.ResourceUpdated("file:///"), core.ResourceUpdated("file:///ab")) // not asked for
		stream.keptAlive(t, 1)
		srv.publish(t, core.ToolsListChanged(), core.PromptsListChanged())
		srv.end(t, 1)
		stream.expect(t, core.MethodToolsListChanged, core.MethodPromptsListChanged)
		stream.expectEnd(t)
		srv.ended(t, core.Completed)
	})
}

func (s suite) streamHeaders(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		srv := s.start(t, Options{Protocol: p})
		stream := srv.client(t).listen(t, Listen("7", everything).
			With("Mcp-Session-Id", "secret-42").With("Last-Event-Id", "secret-42"))
		answer := Answer{Header: stream.Response.Header}
		answer.silent(t, "secret-42")
		for name, want := range map[string]string{
			"Content-Type":      "[text/event-stream]",
			"Cache-Control":     "[no-cache, no-transform]",
			"X-Accel-Buffering": "[no]",
			"Content-Length":    "[]",
			"Content-Encoding":  "[]",
		} {
			if got := fmt.Sprint(answer.Header.Values(name)); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	})
}

// countedConn counts the writes of a connection.
type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// oneWrite: the headers leave together with the acknowledgment, and all that is
// pending at once leaves at once.
func (s suite) oneWrite(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	srv := s.start(t, Options{
		Hub:  core.Config{KeepAlive: -1}, // nothing but a flush can bring the acknowledgment
		Conn: func(c net.Conn) net.Conn { return countedConn{c, &writes} },
	})
	stream := srv.client(t).listen(t, Listen("7", everything))
	if got := writes.Load(); got != 1 {
		t.Errorf("headers and acknowledgment took %d writes, want 1", got)
	}
	writes.Store(0)
	srv.publish(t, core.ResourceUpdated("file:///a"), core.ResourceUpdated("file:///b"))
	stream.expect(t, "notifications/resources/updated file:///a", "notifications/resources/updated file:///b")
	if got := writes.Load(); got < 1 || got > 2 { // the stream may wake between the two changes
		t.Errorf("a batch took %d writes, want 1", got)
	}
}

// honored: what is acknowledged is what was asked for, narrowed by what the
// server delivers; a stream with nothing in it ends at once.
func (s suite) honored(t *testing.T) {
	t.Parallel()
	tools := core.Capabilities{ToolsListChanged: true}
	for name, c := range map[string]struct {
		capabilities core.Capabilities
		filter       string
		want         string
		ends         bool
	}{
		"all":           {allCapabilities, everything, "{true true true [file:///a file:///b] []}", false},
		"empty":         {allCapabilities, `{}`, "{false false false [] []}", true},
		"all false":     {allCapabilities, `{"toolsListChanged":false,"resourceSubscriptions":[]}`, "{false false false [] []}", true},
		"unknown only":  {allCapabilities, `{"toolslistchanged":true,"TOOLSLISTCHANGED":null,"taskIds":["secret"]}`, "{false false false [] []}", true},
		"folded URIs":   {allCapabilities, `{"resourceSubscriptions":["a:b","a:c","a:b","\u0061:b"]}`, "{false false false [a:b a:c] []}", false},
		"narrowed":      {tools, everything, "{true false false [] []}", false},
		"narrowed away": {tools, `{"promptsListChanged":true,"resourceSubscriptions":["a:b"]}`, "{false false false [] []}", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := s.start(t, Options{Hub: core.Config{Capabilities: c.capabilities}})
			stream := srv.client(t).listen(t, Listen("7", c.filter))
			if got := fmt.Sprint(stream.honored); got != c.want {
				t.Errorf("honored: got %s, want %s", got, c.want)
			}
			if c.ends {
				stream.expectEnd(t)
				srv.ended(t, core.Completed)
			} else {
				srv.publish(t, core.ResourcesListChanged(), core.PromptsListChanged(), core.ToolsListChanged())
				srv.end(t, 1)
			}
		})
	}
}

// ids: the id stays, byte for byte, what the client sent (I4).
func (s suite) ids(t *testing.T) {
	t.Parallel()
	srv := s.start(t, Options{})
	client := srv.client(t)
	for _, id := range []string{
		`0`, `1`, `-7`, `9007199254740993`, `123456789012345678901234567890`,
		`""`, `"1"`, `"é"`, `"\u00e9"`, `"<>&"`, `"\"\\\/\n"`, `"` + "\u2028" + `"`, `"\ud83d\ude00"`, `"data: x"`,
		`"` + strings.Repeat("i", 1022) + `"`,
	} {
		stream := client.listen(t, Listen(id, everything)) // a stream checks the ids of its messages
		srv.publish(t, core.ToolsListChanged(), core.PromptsListChanged(), core.ResourcesListChanged(), core.ResourceUpdated("file:///a"))
		stream.expect(t, core.MethodToolsListChanged)
		srv.end(t, 1)
		for {
			if e, err := stream.Message(); err != nil {
				t.Fatalf("id %s: %v", id, err)
			} else if e.Result {
				break
			}
		}
		srv.ended(t, core.Completed)

		client.Do(t, Listen(id, everything).With(headerVersion)).refused(t,
			wantRefusal{status: 400, code: core.CodeHeaderMismatch, id: id}, "")
		client.Do(t, Listen(id, `[]`)).refused(t, wantRefusal{status: 400, code: core.CodeInvalidParams, id: id}, "")
		body := `{"method":"server/discover","id": ` + id + ` ,"params":{` + metaMember + `},"jsonrpc":"2.0"}`
		answer := client.Do(t, Post(core.MethodDiscover, body))
		if prefix := `{"jsonrpc":"2.0","id":` + id + `,"result":{`; answer.Status != 200 || !strings.HasPrefix(string(answer.Body), prefix) {
			t.Errorf("discover: got %d %s, want 200 %s…", answer.Status, answer.Body, prefix)
		}
	}
}

// equalIDs: an id is its client's label and nothing else (I12).
func (s suite) equalIDs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		srv := s.start(t, Options{Protocol: p, Hub: core.Config{KeepAlive: 20 * time.Millisecond}})
		alice, bob := srv.client(t), srv.client(t)
		first := alice.listen(t, Listen("1", `{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`))
		second := bob.listen(t, Listen("1", `{"promptsListChanged":true,"resourceSubscriptions":["file:///a"]}`))
		third := bob.listen(t, Listen("1", `{"promptsListChanged":true}`))

		srv.publish(t, core.ToolsListChanged())
		first.expect(t, core.MethodToolsListChanged)
		srv.publish(t, core.PromptsListChanged())
		second.expect(t, core.MethodPromptsListChanged)
		third.expect(t, core.MethodPromptsListChanged)
		bob.Do(t, Post("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)).is(t, 202, "")

		second.Close()
		srv.ended(t, core.ClientClosed)
		srv.publish(t, core.ResourceUpdated("file:///a"), core.PromptsListChanged())
		first.expect(t, "notifications/resources/updated file:///a")
		third.expect(t, core.MethodPromptsListChanged)
		first.keptAlive(t, 2)
		third.keptAlive(t, 2)
		srv.end(t, 2)
		first.expectEnd(t)
		third.expectEnd(t)
	})
}

// disconnect: a client that goes away frees everything that its stream held.
func (s suite) disconnect(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		const n = 5
		watcher := &countingWatcher{}
		srv := s.start(t, Options{Protocol: p, Hub: core.Config{KeepAlive: -1, MaxStreams: n, Watcher: watcher}})
		client := srv.client(t)
		for range 2 { // the second time all of them have to fit in again
			streams := make([]*Stream, n)
			for i := range streams {
				streams[i] = client.listen(t, Listen("1", everything))
			}
			client.Do(t, Listen("1", everything)).refused(t, wantRefusal{status: 503, code: core.CodeInternalError, id: "1"}, "")
			if got := watcher.running.Load(); got != 2 {
				t.Errorf("%d resources are watched, want 2", got)
			}
			for _, stream := range streams {
				stream.Close()
				if end := srv.ended(t, core.ClientClosed); end.Stream.ID.String() != "1" {
					t.Errorf("the stream %s ended, want 1", end.Stream.ID)
				}
			}
			if got := watcher.running.Load(); got != 0 {
				t.Errorf("%d resources are still watched, want none", got)
			}
			if open := srv.Hub.Streams(); len(open) != 0 {
				t.Errorf("%d streams are still open, want none", len(open))
			}
			// The place is given back after the end was told.
			for srv.full(t, client) {
				continue
			}
		}
	})
}

// full reports whether the server still refuses a stream at its limit. A stream
// that it lets in is ended.
func (srv *Server) full(tb testing.TB, client *Client) bool {
	tb.Helper()
	stream, err := client.Listen(Listen("0", `{}`))
	if err == nil {
		stream.expectEnd(tb)
		srv.ended(tb, core.Completed)
		return false
	}
	if srv.ctx.Err() != nil {
		tb.Fatalf("the places of ended streams are not given back: %v", err)
	}
	return true
}

// countingWatcher counts the resources that are watched.
type countingWatcher struct{ running atomic.Int64 }

func (w *countingWatcher) Stop(string) { w.running.Add(-1) }

// shutdown: http.Server.Shutdown ends each stream with its result.
func (s suite) shutdown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		const n = 50
		srv := s.start(t, Options{Protocol: p, Hub: core.Config{KeepAlive: -1}})
		client := srv.client(t)
		streams := make([]*Stream, n)
		for i := range streams {
			streams[i] = client.listen(t, Listen("1", everything))
		}
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- srv.HTTP.Shutdown(srv.ctx) }()
		if err := inParallel(n, func(i int) error { return streams[i].ExpectEnd() }); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		t.Logf("Shutdown with %d open streams took %s", n, time.Since(began))
		for range n {
			srv.ended(t, core.Shutdown)
		}
	})
}

// serverClose: http.Server.Close cuts the streams that it knows; nothing is left of
// them.
func (s suite) serverClose(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		srv := s.start(t, Options{Protocol: p, Hub: core.Config{KeepAlive: -1}})
		client := srv.client(t)
		streams := []*Stream{client.listen(t, Listen("1", everything)), client.listen(t, Listen("2", everything))}
		told := func() {
			srv.publish(t, core.ToolsListChanged())
			for _, stream := range streams {
				stream.expect(t, core.MethodToolsListChanged)
			}
		}
		told() // a connection is taken over by then
		if err := srv.HTTP.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if s.takesOver(p) {
			told()
			return
		}
		for _, stream := range streams {
			if e, err := stream.Message(); err == nil {
				t.Errorf("got %v, want the stream to break off", e)
			}
			srv.ended(t, core.ClientClosed)
		}
	})
}

// refusers: what the hub and the application refuse.
func (s suite) refusers(t *testing.T) {
	t.Parallel()
	t.Run("shutting down", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{})
		if err := srv.Hub.Shutdown(srv.ctx); err != nil {
			t.Fatal(err)
		}
		s.refusedWithAdvice(t, srv, 5, 8)
	})
	t.Run("limit", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{Hub: core.Config{MaxStreams: 1}})
		healthy := srv.client(t).listen(t, Listen("1", everything))
		s.refusedWithAdvice(t, srv, 10, 15)
		srv.publish(t, core.ToolsListChanged())
		healthy.expect(t, core.MethodToolsListChanged)
	})
	for name, c := range map[string]struct {
		hub  core.Config
		want wantRefusal
	}{
		"authorizer": {
			core.Config{Authorizer: refusing(errors.New("secret-42 is not for you"))},
			wantRefusal{status: 403, code: core.CodeInvalidRequest},
		},
		"authorizer's own error": {
			core.Config{Authorizer: refusing(fmt.Errorf("secret-42: %w", &core.Error{Code: -32099, Message: "ask elsewhere"}))},
			wantRefusal{status: 403, code: -32099, says: "ask elsewhere"},
		},
		"authorizer's panic": {
			core.Config{Authorizer: authorizer(func() (core.Grant, error) { panic("secret-42") })},
			wantRefusal{status: 500, code: core.CodeInternalError},
		},
		"expired grant": {
			core.Config{Authorizer: authorizer(func() (core.Grant, error) { return core.Grant{Until: time.Unix(1, 0)}, nil })},
			wantRefusal{status: 403, code: core.CodeInvalidRequest},
		},
		"watcher": {
			core.Config{Watcher: &failingWatcher{err: errors.New("secret-42")}},
			wantRefusal{status: 500, code: core.CodeInternalError},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := s.start(t, Options{Hub: c.hub})
			c.want.id = "7"
			srv.client(t).Do(t, Listen("7", everything)).refused(t, c.want, "secret-42")
		})
	}
}

// refusedWithAdvice checks refusals that say when to come back: not all at the
// same time.
func (s suite) refusedWithAdvice(t *testing.T, srv *Server, least, most int) {
	t.Helper()
	client := srv.client(t)
	seen := make(map[string]bool)
	for range 40 {
		answer := client.Do(t, Listen("7", everything))
		answer.refused(t, wantRefusal{status: 503, code: core.CodeInternalError, id: "7"}, "file:")
		var seconds int
		advice := answer.Header.Get("Retry-After")
		if _, err := fmt.Sscan(advice, &seconds); err != nil || seconds < least || seconds > most {
			t.Fatalf("Retry-After: got %q, want %d to %d", advice, least, most)
		}
		seen[advice] = true
	}
	if len(seen) < 2 {
		t.Errorf("Retry-After was always the same: %v", seen)
	}
}
