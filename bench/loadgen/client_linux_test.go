package loadgen

// The load generator must be right about servers that are wrong: what it reports of them is what a benchmark's figures rest on.

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fakeServer answers a listen with an acknowledgment, and after each publish writes what say returns for the stream's id.
type fakeServer struct {
	say func(id string) string

	mu    sync.Mutex
	peers map[string]int // streams by remote IP address
	wakes []chan struct{}
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/publish" {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, wake := range f.wakes {
			wake <- struct{}{}
		}
		return
	}
	var request struct{ ID string }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.Header.Get("Mcp-Method") != "subscriptions/listen" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	wake := make(chan struct{}, 100)
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	f.mu.Lock()
	f.peers[host]++
	f.wakes = append(f.wakes, wake)
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	write := func(s string) {
		_, _ = fmt.Fprint(w, s)
		w.(http.Flusher).Flush()
	}
	write(event("subscriptions/acknowledged", request.ID))
	for {
		select {
		case <-wake:
			text := f.say(request.ID)
			if text == "" {
				return
			}
			write(text)
		case <-r.Context().Done():
			return
		}
	}
}

func event(method, id string) string {
	return fmt.Sprintf(": comment\n\nevent: message\ndata: {\"method\":\"notifications/%s\",\"params\":{\"_meta\":{\"id\":%q}}}\n\n", method, id)
}

func (f *fakeServer) client(t *testing.T, streams int, timeout time.Duration) *Client {
	t.Helper()
	f.peers = map[string]int{}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL + "/mcp", Trigger: s.URL + "/publish", Streams: streams, Window: 8, Timeout: timeout, Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestOpenPublishHangupAgain(t *testing.T) {
	t.Parallel()
	f := &fakeServer{say: func(id string) string { return event("tools/list_changed", id) }}
	c := f.client(t, 50, 10*time.Second)
	e := c.transport.(*epoll)
	for i := range 3 {
		e.from = append(e.from, syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(i + 1)}})
	}
	for round := range 2 {
		if o := c.Open(t.Context()); o.Streams != 50 || o.Failed != 0 || o.Error != "" || o.PerSecond <= 0 || o.Sources != 3 {
			t.Fatalf("round %d: opened: %+v", round, o)
		}
		for range 3 {
			d := c.Publish(t.Context(), "")
			if d.Got != 50 || d.Extra != 0 || d.Error != "" || d.MedianMS <= 0 || d.LastMS < d.P99MS || d.P99MS < d.MedianMS {
				t.Fatalf("round %d: published: %+v", round, d)
			}
		}
		c.Hangup()
		f.mu.Lock()
		f.wakes = nil
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.peers) != 3 {
		t.Errorf("streams came from %v, want three addresses", f.peers)
	}
}

func TestReportsFaults(t *testing.T) {
	t.Parallel()
	const streams = 10
	odd := func(id string) bool { return (id[len(id)-1]-'0')%2 == 1 }
	for name, c := range map[string]struct {
		say  func(id string) string
		got  int
		want string
	}{
		"half of the streams get nothing": {func(id string) string {
			if odd(id) {
				return ": silence\n\n"
			}
			return event("tools/list_changed", id)
		}, streams / 2, ""},
		"half of the streams are cut": {func(id string) string {
			if odd(id) {
				return ""
			}
			return event("tools/list_changed", id)
		}, streams / 2, "closed the stream"},
		"half of the streams get another's id": {func(id string) string {
			if odd(id) {
				return event("tools/list_changed", "s-9999999")
			}
			return event("tools/list_changed", id)
		}, streams / 2, "subscription's id"},
		"all streams end": {func(id string) string {
			return fmt.Sprintf("data: {\"id\":%q,\"result\":{}}\n\n", id)
		}, 0, "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := (&fakeServer{say: c.say}).client(t, streams, 10*time.Second)
			if o := client.Open(t.Context()); o.Streams != streams {
				t.Fatalf("opened: %+v", o)
			}
			d := client.Publish(t.Context(), "")
			if d.Streams != streams || d.Got != c.got || !strings.Contains(d.Error, c.want) {
				t.Errorf("got %+v, want %d of %d and %q", d, c.got, streams, c.want)
			}
		})
	}
}

func TestReportsEarlyAndRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		early  int
		want   string
	}{
		"a notification first": {func(w http.ResponseWriter, r *http.Request) {
			var request struct{ ID string }
			_ = json.NewDecoder(r.Body).Decode(&request)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, event("tools/list_changed", request.ID), event("subscriptions/acknowledged", request.ID))
		}, 3, "before the acknowledgment"},
		"silent":  {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }, 0, "not done"},
		"refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, 0, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(c.answer)
			t.Cleanup(s.Close)
			timeout := 10 * time.Second
			if name == "silent" {
				timeout = 100 * time.Millisecond
			}
			client, err := New(Config{URL: s.URL, Streams: 3, Timeout: timeout})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			if o := client.Open(t.Context()); o.Streams != 0 || o.Failed != 3 || o.Early != c.early || !strings.Contains(o.Error, c.want) {
				t.Errorf("got %+v, want three failures and %q", o, c.want)
			}
		})
	}
}

func TestSourceAddresses(t *testing.T) {
	t.Parallel()
	few, err := sourceAddresses(true, 100)
	if err != nil || few != nil {
		t.Errorf("for a hundred streams: %v, %v, want the kernel's choice", few, err)
	}
	many, err := sourceAddresses(true, 200_000)
	if err != nil || len(many) < 4 || many[0].Addr == many[1].Addr {
		t.Errorf("for 200,000 streams: %v, %v, want several addresses", many, err)
	}
	if _, err := sourceAddresses(false, 200_000); err == nil {
		t.Error("200,000 streams to another machine: no error")
	}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	f := &fakeServer{say: func(id string) string {
		if id == "s-0000003" {
			return ": silence\n\n"
		}
		return event("tools/list_changed", id) + event("tools/list_changed", id)
	}}
	f.peers = map[string]int{}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL + "/mcp", Trigger: s.URL + "/publish", Streams: 5, Stall: 1, Quiet: time.Second, Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if o := c.Open(t.Context()); o.Streams != 5 || o.Error != "" {
		t.Fatalf("opened: %+v", o)
	}
	// The last stream is stalled: it is open, and no part of what was received.
	b := c.Burst(t.Context(), "")
	if b.Streams != 4 || b.Notifications != 6 || b.Fewest != 0 || b.Median != 2 || b.Most != 2 || b.Stale != 1 || b.Error != "" {
		t.Errorf("got %+v", b)
	}
	if b.LastMS <= 0 || b.CallsMS <= 0 || b.LongestMS <= 0 {
		t.Errorf("times are missing: %+v", b)
	}
	if w := c.Watch(t.Context(), 10*time.Millisecond); w.Streams != 4 || w.Notifications != 0 || w.Stale != 4 {
		t.Errorf("watched in silence: %+v", w)
	}
	r := c.Repeat(t.Context(), 3, "")
	if r.Lost != 1 || len(r.LastMS) != 0 {
		t.Errorf("a publish that one stream does not get, repeated: %+v", r)
	}
}

// A trigger of this module says when it published, and times count from then.
func TestTimesCountFromThePublish(t *testing.T) {
	t.Parallel()
	f := &fakeServer{say: func(id string) string { return event("tools/list_changed", id) }}
	f.peers = map[string]int{}
	var query string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.ServeHTTP(w, r)
		if r.URL.Path == "/publish" {
			query = r.URL.RawQuery
			ago := time.Now().Add(-time.Hour).UnixNano()
			_, _ = fmt.Fprintf(w, `{"began_ns":%d,"last_began_ns":%d,"ended_ns":%d,"longest_ns":2000000,"calls_ns":3000000}`, ago, ago, ago)
		}
	}))
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL + "/mcp", Trigger: s.URL + "/publish?a=1", Streams: 2, Quiet: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.Open(t.Context())
	const hour = 3_600_000
	if d := c.Publish(t.Context(), "b=2"); d.Got != 2 || d.MedianMS < hour || d.LastMS > 2*hour || d.CallerMS != 3 || query != "a=1&b=2" {
		t.Errorf("published with %q: %+v", query, d)
	}
	if b := c.Burst(t.Context(), ""); b.Stale != 0 || b.LastMS < hour || b.LongestMS != 2 || b.CallsMS != 3 {
		t.Errorf("burst: %+v", b)
	}
}

// A server that is met as a stranger: what the streams ask for is up to the flags, and there may be several servers.
func TestAsksAsTold(t *testing.T) {
	t.Parallel()
	type asked struct{ host, token, filter string }
	var mu sync.Mutex
	got := map[asked]int{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     string
			Params struct{ Notifications json.RawMessage }
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		mu.Lock()
		got[asked{r.Host, r.Header.Get("Authorization"), string(request.Params.Notifications)}]++
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, event("subscriptions/acknowledged", request.ID))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	a, b := httptest.NewServer(handler), httptest.NewServer(handler)
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	commands := strings.NewReader("open\nwatch 1ms\nhangup\nquit\nno command\n")
	var out strings.Builder
	err := Main(t.Context(), []string{
		"-url", a.URL + "," + b.URL, "-n", "4", "-header", "Authorization: Bearer x", "-filter", `{"resourceSubscriptions":["file:///{n}"]}`,
	}, commands, &out)
	if err != nil {
		t.Fatal(err)
	}
	want := map[asked]int{}
	for i, s := range []*httptest.Server{a, b, a, b} {
		want[asked{strings.TrimPrefix(s.URL, "http://"), "Bearer x", fmt.Sprintf(`{"resourceSubscriptions":["file:///%07d"]}`, i)}] = 1
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	answers := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(answers) != 3 || !strings.Contains(answers[0], `"streams":4,"failed":0`) || !strings.Contains(answers[1], `"notifications":0`) || answers[2] != "null" {
		t.Errorf("answers: %q", answers)
	}
}

func TestSecure(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"TLS": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeServer{say: func(id string) string { return event("tools/list_changed", id) }, peers: map[string]int{}}
			protocols := map[string]bool{}
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f.mu.Lock()
				protocols[r.Proto] = true
				f.mu.Unlock()
				f.ServeHTTP(w, r)
			}))
			s.EnableHTTP2 = true
			s.StartTLS()
			t.Cleanup(s.Close)
			trigger := httptest.NewServer(f)
			t.Cleanup(trigger.Close)
			c, err := New(Config{URL: s.URL + "/mcp", Trigger: trigger.URL + "/publish", Streams: 20, Window: 8, HTTP2: http2, Insecure: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			for round := range 2 {
				if o := c.Open(t.Context()); o.Streams != 20 || o.Error != "" {
					t.Fatalf("round %d: opened: %+v", round, o)
				}
				if d := c.Publish(t.Context(), ""); d.Got != 20 || d.Extra != 0 || d.Error != "" || d.LastMS <= 0 {
					t.Errorf("round %d: published: %+v", round, d)
				}
				c.Hangup()
				f.mu.Lock()
				f.wakes = nil
				f.mu.Unlock()
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(protocols) != 1 || protocols["HTTP/2.0"] != http2 {
				t.Errorf("the server was spoken to by %v", protocols)
			}
		})
	}
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL, Streams: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if o := c.Open(t.Context()); o.Failed != 1 || !strings.Contains(o.Error, "certificate") {
		t.Errorf("an unknown certificate: %+v", o)
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") != "tools/list" || r.URL.Path != "/mcp" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprint(w, `{"jsonrpc":"2.0","id":"r-1","result":{"tools":[]}}`)
	}))
	t.Cleanup(s.Close)
	for url, want := range map[string]string{s.URL + "/mcp": "", s.URL + "/other": "404"} {
		c, err := New(Config{URL: url, Streams: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		a := c.Requests(t.Context(), 2, 50*time.Millisecond)
		if want != "" {
			if !strings.Contains(a.Error, want) || a.Requests != 0 {
				t.Errorf("%s: got %+v, want %q", url, a, want)
			}
			continue
		}
		if a.Error != "" || a.Requests < 2 || a.PerSecond <= 0 || a.MedianMS <= 0 || a.P99MS < a.MedianMS {
			t.Errorf("got %+v", a)
		}
	}
}

func TestRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"no URL":          {Streams: 1},
		"another scheme":  {URL: "ftp://127.0.0.1/", Streams: 1},
		"two schemes":     {URL: "http://127.0.0.1:1/,https://127.0.0.1:1/", Streams: 1},
		"no port":         {URL: "http://127.0.0.1/", Streams: 1},
		"no streams":      {URL: "http://127.0.0.1:1/"},
		"too many":        {URL: "http://127.0.0.1:1/", Streams: MaxStreams + 1},
		"all but stalled": {URL: "http://127.0.0.1:1/", Streams: 1, Stall: 2},
		"filter":          {URL: "http://127.0.0.1:1/", Streams: 1, Filter: "{"},
		"header":          {URL: "http://127.0.0.1:1/", Streams: 1, Header: []string{"x"}},
		"header, lines":   {URL: "http://127.0.0.1:1/", Streams: 1, Header: []string{"x: y\r\nz: 1"}},
	} {
		if c, err := New(cfg); err == nil {
			c.Close()
			t.Errorf("%s: no error", name)
		}
	}
	for _, command := range []string{"x", "repeat", "repeat 0", "watch", "requests 1", "requests x 1s", "requests 1 x"} {
		if err := Main(t.Context(), []string{"-url", "http://127.0.0.1:1/", "-n", "1"}, strings.NewReader(command+"\n"), &strings.Builder{}); err == nil {
			t.Errorf("%q: no error", command)
		}
	}
}
