package loadgen

// The load generator must be right about servers that are wrong: what it reports of them is what a benchmark's figures rest on.

import (
	"encoding/json"
	"fmt"
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
	c, err := New(Config{URL: s.URL + "/mcp", Trigger: s.URL + "/publish", Streams: streams, Window: 8, Timeout: timeout})
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
		}, streams / 2, "not done"},
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
			client := (&fakeServer{say: c.say}).client(t, streams, 500*time.Millisecond)
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
		"refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, 0, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(c.answer)
			t.Cleanup(s.Close)
			client, err := New(Config{URL: s.URL, Streams: 3, Timeout: 5 * time.Second})
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
