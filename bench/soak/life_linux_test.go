package main

// Lives against servers that do as they should, and against servers that do not.

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// newEndpoint returns the endpoint of a test's server, which has its own account.
func newEndpoint(t *testing.T, h http.Handler, bound time.Duration) *endpoint {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = noLog()
	srv.Start()
	t.Cleanup(srv.CloseClientConnections)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := newChance(1, 1)
	return &endpoint{
		name: "test", url: srv.URL + endpointPath, host: u.Host, node: nodeB, ledger: newLedger(bound), client: srv.Client(),
		bound: bound, counts: new(counts), deck: newDeck(c),
	}
}

func testOrder() order {
	return order{id: "7", filter: core.Filter{ToolsListChanged: true}, principal: policyUser + "1"}
}

// event is a message of a fake server's stream.
func event(method, more string) string {
	return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":%q,\"params\":{\"_meta\":{%q:7}%s}}\n\n", method, core.MetaSubscriptionID, more)
}

var (
	ackEvent    = event(core.MethodAcknowledged, `,"notifications":{"toolsListChanged":true}`)
	toolsEvent  = event(core.MethodToolsListChanged, "")
	resultEvent = fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"resultType\":\"complete\",\"_meta\":{%q:7}}}\n\n", core.MetaSubscriptionID)
)

// says is a server that says something on each stream and ends it, or goes on with comments until the client has gone. It takes
// cancellations and ends nothing.
func says(text string, goesOn bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what is asked for is known
		if r.Header.Get("Mcp-Method") == core.MethodCancelled {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
		for goesOn && http.NewResponseController(w).Flush() == nil {
			_, _ = io.WriteString(w, ": still here\n\n")
			if !pause(r.Context(), 10*time.Millisecond) {
				return
			}
		}
	}
}

func refuses(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestServersThatDoWrong: each is found out, by the right kind of fault.
func TestServersThatDoWrong(t *testing.T) {
	t.Parallel()
	const (
		short    = 300 * time.Millisecond
		refusal  = `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"x"}}`
		notOurs  = `{"jsonrpc":"2.0","id":8,"error":{"code":-32603,"message":"x"}}`
		soon     = 20 * time.Millisecond
		longStay = 10 * time.Second
	)
	stays := life{name: "stays", leave: stayOn}
	for _, test := range []struct {
		name   string
		server http.HandlerFunc
		life   life
		want   map[fault]int
	}{
		{"an ordinary stream", says(ackEvent+resultEvent, false), stays, nil},
		{"one that the client leaves", says(ackEvent, true), life{stay: soon}, nil},
		{"one that may be cut", says(ackEvent, false), life{leave: stayOn, cutOK: true}, nil},
		{"a refusal at a limit", refuses(503, refusal, "Retry-After", "1"), stays, nil},
		{"a refusal that is due", refuses(403, refusal), life{refused: 403}, nil},

		{"a stream that is cut", says(ackEvent, false), stays, map[fault]int{faultEnd: 1}},
		{"one that ends before its acknowledgment", says("", false), stays, map[fault]int{faultEnd: 1}},
		{"a notification before the acknowledgment", says(toolsEvent+ackEvent+resultEvent, false), stays, map[fault]int{faultOrder: 1, faultUnasked: 1}},
		{"two results", says(ackEvent+resultEvent+resultEvent, false), stays, map[fault]int{faultOrder: 1}},
		{"one that nobody published", says(ackEvent+toolsEvent+resultEvent, false), stays, map[fault]int{faultUnasked: 1}},
		{"one that does not end when it has to", says(ackEvent, true), life{leave: stayOn, endsIn: soon}, map[fault]int{faultEnd: 1}},
		{"one that does not end when it is cancelled", says(ackEvent, true), life{leave: cancel, stay: soon}, map[fault]int{faultEnd: 1}},
		{"a cancellation that is refused", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Method") == core.MethodCancelled {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			says(ackEvent, true)(w, r)
		}, life{leave: cancel, stay: soon}, map[fault]int{faultRefusal: 1, faultEnd: 1}},
		{"another content type", refuses(200, ackEvent+resultEvent, "Content-Type", "text/plain"), stays, map[fault]int{faultRefusal: 1}},
		{"a limit without advice", refuses(503, refusal), stays, map[fault]int{faultRefusal: 1}},
		{"a refusal of something else", refuses(503, notOurs, "Retry-After", "1"), stays, map[fault]int{faultRefusal: 1}},
		{"a refusal that is no JSON-RPC", refuses(503, "no", "Retry-After", "1"), stays, map[fault]int{faultRefusal: 1}},
		{"a refusal that is not due", refuses(403, refusal), stays, map[fault]int{faultRefusal: 1}},
		{"no refusal where one is due", says(ackEvent+resultEvent, false), life{leave: stayOn, refused: 403}, map[fault]int{faultRefusal: 1}},
		{"silence", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ackEvent)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, life{leave: halfClose, stay: longStay}, map[fault]int{faultEnd: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t, test.server, short)
			e.live(t.Context(), test.life, testOrder())
			if got := e.ledger.findings(); !maps.Equal(got.Count, test.want) {
				t.Errorf("findings are %v (%q), want %v", got.Count, got.Told, test.want)
			}
		})
	}
}

// TestEveryKindOfLife on the library itself, on each framework, finds nothing; and each life does what its name says.
func TestEveryKindOfLife(t *testing.T) {
	t.Parallel()
	for _, m := range mounts() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			n, err := newNode(m, nodeB, serveOptions{seed: 1, streams: 100}, new(core.LocalBroker))
			if err != nil {
				t.Fatal(err)
			}
			_ = n.listener.Close() // the test has its own
			e := newEndpoint(t, n.server.Handler, 10*time.Second)
			l := &load{chance: newChance(1, 2)}
			f := &field{load: l, ledger: e.ledger}
			for _, k := range lives() {
				if k.stay > 0 {
					k.stay = 20 * time.Millisecond
				}
				f.liveOut(t.Context(), e, k)
			}
			for _, m := range misuses {
				e.misuse(t.Context(), m)
			}
			if got := e.ledger.findings(); len(got.Count) != 0 {
				t.Errorf("findings are %v (%q), want none", got.Count, got.Told)
			}
			e.client.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := n.hub.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			st := n.hub.Stats()
			if st.Held != (core.Held{}) || n.app.watching.Load() != 0 {
				t.Errorf("held: %+v and %d watches, want nothing", st.Held, n.app.watching.Load())
			}
			for _, reason := range []core.Reason{core.ClientClosed, core.Completed, core.GrantExpired, core.Deadline} {
				if st.Closed[reason] == 0 {
					t.Errorf("no stream ended with %s: %v", reason, st.Closed)
				}
			}
			for _, refusal := range []core.Refusal{
				core.RefusedAuth, core.RefusedWatch, core.RefusedPrincipalLimit, core.RefusedOrigin, core.RefusedTooLarge, core.RefusedParse,
			} {
				if st.Refused[refusal] == 0 {
					t.Errorf("nothing was refused with %s: %v", refusal, st.Refused)
				}
			}
		})
	}
}

// TestPublishesArrive: what the client publishes reaches a stream on the other node, and the account is even.
func TestPublishesArrive(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := newService(ctx, serveOptions{mount: "nethttp", seed: 1, streams: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.connected(ctx); err != nil {
		t.Fatal(err)
	}
	at, err := s.start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	l := &load{chance: newChance(1, 3), client: &http.Client{Transport: new(http.Transport)}}
	defer l.client.CloseIdleConnections()
	f, err := l.newField(target{"nethttp", at}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	opened, over := make(chan struct{}), make(chan struct{})
	o := testOrder()
	o.principal = policyVeteran + "1" // no operator ends it
	go func() {
		defer close(over)
		f.endpoints[nodeB].live(ctx, life{name: "listener", leave: stayOn, acked: func() { close(opened) }}, o)
	}()
	<-opened
	for range 20 {
		p := publication{Node: nodeA, Changes: []core.Change{tools}, Times: 3}
		f.ledger.publishing(p.audience(), p.Changes, p.Times, time.Now())
		if err := f.ask(ctx, p); err != nil {
			t.Fatal(err)
		}
		for !f.ledger.settled(tools) {
			if !pause(ctx, time.Millisecond) {
				t.Fatal("it did not arrive")
			}
		}
	}
	if err := s.shutdown(); err != nil {
		t.Error(err)
	}
	<-over
	got := f.ledger.findings()
	if len(got.Count) != 0 || got.Owed != 20 || got.Seen != 20 {
		t.Errorf("the account is %+v, want 20 owed and seen", got)
	}
	if n := l.counts.results.Load(); n != 1 {
		t.Errorf("%d results at the shutdown, want 1", n)
	}
	held, err := s.figures()
	if err != nil {
		t.Fatal(err)
	}
	if held.Held != (core.Held{}) || held.Closed[string(core.Shutdown)] != 1 {
		t.Errorf("after the shutdown: %+v", held)
	}
}

// TestOptions: what makes no sense is refused before anything runs.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-for", "1ms"}, {"-streams", "1"}, {"-mounts", "nethttp,none"}, {"-bound", "1s"}, {"more"},
		{"server", "-mount", "none"}, {"load", "-targets", "x"},
	} {
		if err := run(t.Context(), args, http.NoBody, io.Discard); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
