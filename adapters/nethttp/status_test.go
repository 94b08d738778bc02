// The status page: what it shows, to whom, and what it never shows unless asked.

package mcphttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

// report is the status as JSON.
type report struct {
	Open      int
	Opening   int
	Shown     int
	Streams   []map[string]any
	Refused   map[string]uint64
	Closed    map[string]uint64
	Unflushed uint64
}

// status gets the status page, and the same as JSON.
func (s *service) status(t *testing.T) (page string, r report) {
	t.Helper()
	for _, format := range []string{"", "?format=json"} {
		req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.server.URL+"/status"+format, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("status: %s %v", resp.Status, err)
		}
		if format == "" {
			page = string(body)
		} else if err := json.Unmarshal(body, &r); err != nil {
			t.Fatalf("status: %v: %s", err, body)
		}
	}
	return page, r
}

// discard is a Conn that nobody reads.
type discard struct{}

func (discard) WriteMessage([]byte) error { return nil }
func (discard) WriteKeepAlive() error     { return nil }
func (discard) Flush() error              { return nil }

// populate opens n streams without sockets. They end with the test.
func populate(t *testing.T, hub *core.Hub, n int, principal func(i int) string, filter func(i int) string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	t.Cleanup(func() { cancel(); served.Wait() })
	for i := range n {
		msg, err := core.ParseMessage([]byte(listentest.ListenBody(fmt.Sprintf(`"<id %d>"`, i), filter(i))), hub.Limits())
		if err != nil {
			t.Fatal(err)
		}
		meta, err := msg.Meta()
		if err != nil {
			t.Fatal(err)
		}
		req, err := hub.ParseListen(msg, meta)
		if err != nil {
			t.Fatal(err)
		}
		s, err := hub.Open(ctx, core.Opening{
			Request: req, Principal: principal(i), Connect: func() (core.Conn, error) { return discard{}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		served.Go(func() { s.Serve() })
	}
}

// ask asks a handler that listens on the given address, if any.
func ask(h http.Handler, method, target, host string, local net.Addr, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	r.Host, r.Header = host, header
	if local != nil {
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestStatusShowsNoMoreThanAskedFor: neither principals nor URIs nor ids, and
// nothing unescaped.
func TestStatusShowsNoMoreThanAskedFor(t *testing.T) {
	t.Parallel()
	const who, uri = `<script>alert("who")</script>`, `file:///<img src=x onerror=alert(1)>`
	hub := newHub(t, core.Config{Capabilities: everyKind})
	populate(t, hub, 1, func(int) string { return who }, func(int) string {
		return `{"toolsListChanged":true,"resourceSubscriptions":["file:///<img src=x onerror=alert(1)>"]}`
	})
	all := []mcphttp.StatusOption{mcphttp.StatusPrincipals(), mcphttp.StatusURIs()}
	for name, c := range map[string]struct {
		options         []mcphttp.StatusOption
		principal, uris bool
	}{
		"by default": {nil, false, false},
		"principals": {all[:1], true, false},
		"URIs":       {all[1:], false, true},
		"both":       {all, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := mcphttp.Status(hub, c.options...)
			page := ask(h, http.MethodGet, "/", "", nil, nil)
			text := page.Body.String()
			if got := page.Header().Get("Content-Type"); got != "text/html; charset=utf-8" || page.Code != http.StatusOK {
				t.Errorf("got %d, %s, want an HTML page", page.Code, got)
			}
			if !strings.Contains(page.Header().Get("Content-Security-Policy"), "default-src 'none'") || page.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("the page's headers are %v, want it locked up and not stored", page.Header())
			}
			if strings.Contains(text, "<script") || strings.Contains(text, "<img") {
				t.Errorf("the page has an element of a client's:\n%s", text)
			}
			if strings.Contains(text, "alert(&#34;who&#34;)") != c.principal {
				t.Errorf("the page shows the principal: %v, want %v", !c.principal, c.principal)
			}
			if strings.Contains(text, "onerror") != c.uris {
				t.Errorf("the page shows the URI: %v, want %v", !c.uris, c.uris)
			}
			var r report
			body := ask(h, http.MethodGet, "/?format=json", "", nil, nil).Body.String()
			if err := json.Unmarshal([]byte(body), &r); err != nil || len(r.Streams) != 1 {
				t.Fatalf("the JSON is %s: %v", body, err)
			}
			stream := r.Streams[0]
			if got := stream["principal"]; (got == who) != c.principal || !c.principal && got != nil {
				t.Errorf("the JSON shows the principal %v, want it: %v", got, c.principal)
			}
			if got := fmt.Sprint(stream["uris"]); (got == "["+uri+"]") != c.uris || !c.uris && stream["uris"] != nil {
				t.Errorf("the JSON shows the URIs %v, want them: %v", got, c.uris)
			}
			if stream["resource_subscriptions"] != 1.0 || fmt.Sprint(stream["filter"]) != "[toolsListChanged resourceSubscriptions]" {
				t.Errorf("the JSON shows %v, want the filter's members and one resource", stream)
			}
			for _, member := range []string{"serial", "age_seconds", "seconds_since_last_write", "delivered", "coalesced", "keepalives", "bytes_written"} {
				if _, ok := stream[member].(float64); !ok {
					t.Errorf("the JSON has no number %s: %v", member, stream)
				}
			}
			if strings.Contains(text+body, "<id 0>") || strings.Contains(text+body, "id 0") {
				t.Error("the status shows the request's id")
			}
		})
	}
}

// TestStatusChoosesItsForm by the Accept header, and by the query before it.
func TestStatusChoosesItsForm(t *testing.T) {
	t.Parallel()
	h := mcphttp.Status(newHub(t, core.Config{}))
	for _, test := range []struct {
		target, accept string
		json           bool
	}{
		{"/", "", false},
		{"/", "*/*", false},
		{"/", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false},
		{"/", "application/json", true},
		{"/", "application/*", true},
		{"/", "application/json, text/html;q=0.9", true},
		{"/", "application/json;q=0.5, text/html", false},
		{"/", "application/json, text/html", false},
		{"/?format=json", "text/html", true},
		{"/?format=html", "application/json", true},
	} {
		header := http.Header{}
		if test.accept != "" {
			header.Set("Accept", test.accept)
		}
		w := ask(h, http.MethodGet, test.target, "", nil, header)
		if got := w.Header().Get("Content-Type") == "application/json"; got != test.json || w.Code != http.StatusOK {
			t.Errorf("%s with Accept %q is JSON: %v, want %v", test.target, test.accept, got, test.json)
		}
	}
}

// TestStatusIsReadOnly.
func TestStatusIsReadOnly(t *testing.T) {
	t.Parallel()
	h := mcphttp.Status(newHub(t, core.Config{}))
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405, "OPTIONS": 405} {
		w := ask(h, method, "/", "", nil, nil)
		if w.Code != want || want == 405 && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d, Allow %q, want %d", method, w.Code, w.Header().Get("Allow"), want)
		}
	}
}

// TestStatusIsNotReadByRebinding: a web page that gave itself the address of a
// loopback listener comes with its own host name.
func TestStatusIsNotReadByRebinding(t *testing.T) {
	t.Parallel()
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	public := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	plain := mcphttp.Status(newHub(t, core.Config{}))
	proxied := mcphttp.Status(newHub(t, core.Config{}), mcphttp.StatusHosts("ops.example.com", "https://not.a.name"))
	for _, test := range []struct {
		h     http.Handler
		local net.Addr
		host  string
		want  int
	}{
		{plain, loopback, "127.0.0.1:8081", 200},
		{plain, loopback, "localhost", 200},
		{plain, loopback, "[::1]:8081", 200},
		{plain, loopback, "evil.example", 403},
		{plain, loopback, "ops.example.com", 403},
		{plain, public, "evil.example", 200},
		{proxied, loopback, "OPS.example.com:443", 200},
		{proxied, loopback, "localhost", 200},
		{proxied, loopback, "evil.example", 403},
		{proxied, public, "whatever", 200},
	} {
		if w := ask(test.h, http.MethodGet, "/", test.host, test.local, nil); w.Code != test.want {
			t.Errorf("host %q on %v: %d, want %d", test.host, test.local, w.Code, test.want)
		}
	}
}

// TestStatusOf10000Streams: it shows the oldest ones, in bounded space.
func TestStatusOf10000Streams(t *testing.T) {
	t.Parallel()
	const n = 10_000
	hub := newHub(t, core.Config{Capabilities: everyKind, KeepAlive: -1})
	uris := make([]string, 50)
	for i := range uris {
		uris[i] = fmt.Sprintf("file:///%d", i)
	}
	populate(t, hub, n, func(i int) string { return fmt.Sprintf("p%05d", i) }, func(i int) string {
		if i == 0 {
			return updates(uris...)
		}
		return tools
	})
	h := mcphttp.Status(hub, mcphttp.StatusPrincipals(), mcphttp.StatusURIs())
	page := ask(h, http.MethodGet, "/", "", nil, nil).Body.String()
	if !strings.Contains(page, "10000 open streams") || !strings.Contains(page, "The 1000 oldest are shown.") {
		t.Errorf("the page does not say that 1000 of %d streams are shown", n)
	}
	if rows := strings.Count(page, "<tr><td class=\"n\">"); rows != 1000 {
		t.Errorf("the page has %d rows, want 1000", rows)
	}
	var r report
	if err := json.Unmarshal(ask(h, http.MethodGet, "/?format=json", "", nil, nil).Body.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Open != n || r.Shown != 1000 || len(r.Streams) != 1000 {
		t.Fatalf("the JSON shows %d and %d of %d, want 1000 of %d", r.Shown, len(r.Streams), r.Open, n)
	}
	if first, last := r.Streams[0]["principal"], r.Streams[999]["principal"]; first != "p00000" || last != "p00999" {
		t.Errorf("the JSON shows %v to %v, want the oldest ones", first, last)
	}
	shown, _ := r.Streams[0]["uris"].([]any)
	if len(shown) != 20 || r.Streams[0]["resource_subscriptions"] != 50.0 {
		t.Errorf("%d URIs of %v are shown, want 20 of 50", len(shown), r.Streams[0]["resource_subscriptions"])
	}
}

// away is a broker that nobody reaches.
type away struct{}

func (away) Send(ctx context.Context, _ []byte) error { return ctx.Err() }
func (away) Receive(ctx context.Context, _ core.BrokerReceiver) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestStatusOfABroker: how a hub with one fares, and nothing of it without one.
func TestStatusOfABroker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broker core.Broker
		page   string // a part of it
	}{
		"none":      {nil, ""},
		"away":      {away{}, `<td>connected</td><td class="n">no</td>`},
		"connected": {new(core.LocalBroker), `<td>connected</td><td class="n">yes</td>`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newHub(t, core.Config{Broker: c.broker})
			defer func() { _ = hub.Shutdown(context.Background()) }()
			connected := name == "connected"
			for late := time.After(10 * time.Second); connected && !hub.Stats().Broker.Connected; {
				select {
				case <-time.After(time.Millisecond):
				case <-late:
					t.Fatal("the hub does not connect to a broker of its own process")
				}
			}
			h := mcphttp.Status(hub)
			page := ask(h, http.MethodGet, "/", "", nil, nil).Body.String()
			if !strings.Contains(page, c.page) || strings.Contains(page, "<h2>Broker</h2>") != (c.broker != nil) {
				t.Errorf("the page is\n%s\nwant the broker in it: %v, with %q", page, c.broker != nil, c.page)
			}
			var r struct {
				Broker *struct {
					Connected *bool
					Unsent    *int
				}
			}
			text := ask(h, http.MethodGet, "/?format=json", "", nil, nil).Body.String()
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			if (r.Broker != nil) != (c.broker != nil) || r.Broker != nil && (r.Broker.Unsent == nil || *r.Broker.Connected != connected) {
				t.Errorf("the JSON is %s", text)
			}
		})
	}
}
