// Streams through real proxies: nothing is held back, and silence cuts nothing.

// Package proxies tests examples/everything behind nginx and HAProxy, with the
// configurations that lie in this folder and in docs/interop.md.
package proxies

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/interop/internal/program"
)

const (
	events = 20                     // measured for each case and framework
	prompt = 200 * time.Millisecond // what the median may be; a busy machine makes single ones late
	late   = 2 * time.Second        // what no event may be

	// HAProxy without abortonclose notices at a write that a client has gone.
	keepAlive = 500 * time.Millisecond
)

const request = `{"jsonrpc":"2.0","id":"proxied","method":"subscriptions/listen","params":{"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},` +
	`"notifications":{"toolsListChanged":true}}}`

// stream is an open one.
type stream struct {
	resp  *http.Response
	lines chan string // closed at the end
	err   error       // how it ended; valid after that
}

// open sends the request, and returns when the header has come.
func (p *proxy) open(t *testing.T) (*stream, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Accept-Encoding": "gzip",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		req.Header.Set(name, value)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s", resp.Status, body)
	}
	s := &stream{resp: resp, lines: make(chan string, 1000)}
	go s.read()
	t.Cleanup(func() { _ = resp.Body.Close() })
	return s, nil
}

func (s *stream) read() {
	defer close(s.lines)
	var body io.Reader = s.resp.Body
	if s.resp.Header.Get("Content-Encoding") == "gzip" {
		if body, s.err = gzip.NewReader(body); s.err != nil {
			return
		}
	}
	scanner := bufio.NewScanner(body)
	for scanner.Scan() {
		if scanner.Text() != "" {
			s.lines <- scanner.Text()
		}
	}
	s.err = scanner.Err()
}

// next returns the next line but for keep-alives; false at the stream's end.
func (s *stream) next(t *testing.T) (string, bool) {
	t.Helper()
	for {
		select {
		case line, ok := <-s.lines:
			if !strings.HasPrefix(line, ":") {
				return line, ok
			}
		case <-time.After(program.Hang):
			t.Fatal("nothing more comes")
		}
	}
}

func (s *stream) expect(t *testing.T, what string) {
	t.Helper()
	if line, _ := s.next(t); !strings.Contains(line, what) {
		t.Fatalf("%q came (%v), want %s", line, s.err, what)
	}
}

const (
	acknowledged = "notifications/subscriptions/acknowledged"
	toolsChanged = "notifications/tools/list_changed"
)

// figures are what was measured of a case.
type figures struct{ acks, events, gone []time.Duration }

func (f figures) String() string {
	return fmt.Sprintf("acknowledgment %s; events %s; a gone client noticed %s", spread(f.acks), spread(f.events), spread(f.gone))
}

func spread(d []time.Duration) string {
	slices.Sort(d)
	return fmt.Sprintf("median %.1f ms, worst %.1f ms (of %d)", ms(median(d)), ms(d[len(d)-1]), len(d))
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// cases are the configurations.
var cases = []struct {
	config  string
	proto   string // that the client speaks with the proxy; empty: HTTP/1.1
	gzip    bool   // the stream comes compressed
	delayed bool   // the proxy is known to hold each event for a moment
}{
	{config: "nginx/default.conf"},
	{config: "nginx/gzip.conf", gzip: true},
	{config: "nginx/recommended.conf", proto: "HTTP/2.0"},
	{config: "haproxy/default.cfg", delayed: true},
	{config: "haproxy/no-delay.cfg"},
	{config: "haproxy/compression.cfg"},
	{config: "haproxy/recommended.cfg", proto: "HTTP/2.0"},
}

// One after the other: the figures are of a proxy, not of their number.
func TestEventsAreNotHeldBack(t *testing.T) {
	for _, c := range cases {
		t.Run(c.config, func(t *testing.T) {
			var all figures
			for _, framework := range program.Frameworks {
				service := program.Start(t, "-framework", framework, "-hosts", host, "-keepalive", keepAlive.String())
				proxy := start(t, c.config, service.Addr, nil)
				began := time.Now()
				s, err := proxy.open(t)
				if err != nil {
					t.Fatal(err)
				}
				s.expect(t, acknowledged)
				all.acks = append(all.acks, time.Since(began))
				if want := max(c.proto, "HTTP/1.1"); s.resp.Proto != want {
					t.Errorf("the answer came by %s, want %s", s.resp.Proto, want)
				}
				if got := s.resp.Header.Get("Content-Encoding") == "gzip"; got != c.gzip {
					t.Errorf("compressed: %t, want %t", got, c.gzip)
				}
				n := events
				if c.delayed && framework != program.Frameworks[0] {
					n = 1
				}
				for range n {
					began := time.Now()
					service.Publish("kind=tools")
					s.expect(t, toolsChanged)
					all.events = append(all.events, time.Since(began))
				}
				// A client that goes away is noticed; a server's goodbye comes through.
				other, err := proxy.open(t)
				if err != nil {
					t.Fatal(err)
				}
				other.expect(t, acknowledged)
				_ = other.resp.Body.Close()
				began = time.Now()
				service.Until("the client has gone", func(s program.Stats) bool { return s.Streams == 1 })
				all.gone = append(all.gone, time.Since(began))
				service.Terminate()
				s.expect(t, `"result"`)
				if line, open := s.next(t); open || s.err != nil {
					t.Errorf("after the result: %q, %v", line, s.err)
				}
			}
			line := all.String() // sorts
			t.Logf("figures: %s: %s", c.config, line)
			if m := median(all.events); m > prompt && !c.delayed {
				t.Errorf("the median is %v, want less than %v", m, prompt)
			}
			if worst := max(all.acks[len(all.acks)-1], all.events[len(all.events)-1]); worst > late {
				t.Errorf("the worst is %v, want less than %v", worst, late)
			}
		})
	}
}

// Two proxies that cut what is silent for three seconds, and streams that are kept
// alive; and, to show that they do cut, streams that are not.
func TestIdleLimitsCutNothing(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second
	for _, config := range []string{"nginx/idle.conf", "haproxy/idle.cfg"} {
		for _, framework := range program.Frameworks {
			t.Run(config+" "+framework, func(t *testing.T) {
				t.Parallel()
				service := program.Start(t, "-framework", framework, "-keepalive", "1s", "-hosts", host)
				s, err := start(t, config, service.Addr, nil).open(t)
				if err != nil {
					t.Fatal(err)
				}
				s.expect(t, acknowledged)
				began := time.Now()
				for time.Since(began) < 3*limit {
					select {
					case line, ok := <-s.lines:
						if !ok || !strings.HasPrefix(line, ":") {
							t.Fatalf("%q came after %v (%v)", line, time.Since(began), s.err)
						}
					case <-time.After(limit):
						t.Fatal("no keep-alive comes")
					}
				}
				service.Publish("kind=tools")
				s.expect(t, toolsChanged)
				t.Logf("figures: %s, %s: open and delivering after %.1f s", config, framework, time.Since(began).Seconds())
			})
		}
		t.Run(config+" without keep-alive", func(t *testing.T) {
			t.Parallel()
			service := program.Start(t, "-keepalive", "-1s", "-hosts", host)
			s, err := start(t, config, service.Addr, nil).open(t)
			if err != nil {
				t.Fatal(err)
			}
			s.expect(t, acknowledged)
			began := time.Now()
			if line, open := s.next(t); open {
				t.Fatalf("%q came", line)
			}
			t.Logf("figures: %s: cut after %.1f s without keep-alives", config, time.Since(began).Seconds())
			if since := time.Since(began); since < limit/2 {
				t.Errorf("cut after %v", since)
			}
		})
	}
}

// What the headers are for: nginx that does not heed them sends nothing, not even
// its own header, before a buffer is full.
func TestHeldBackWithoutTheHeader(t *testing.T) {
	t.Parallel()
	service := program.Start(t, "-hosts", host)
	proxy := start(t, "nginx/default.conf", service.Addr, func(config string) string {
		return strings.Replace(config, "proxy_pass", "proxy_ignore_headers X-Accel-Buffering; proxy_pass", 1)
	})
	proxy.http.Timeout = time.Second
	if s, err := proxy.open(t); err == nil {
		t.Errorf("%s came all the same", s.resp.Status)
	} else if !os.IsTimeout(err) {
		t.Errorf("%v, want a time-out", err)
	}
}
