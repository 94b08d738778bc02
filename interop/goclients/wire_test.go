// What both clients are given: a program, and a transport that looks at what comes
// over the wire. The clients hide some of it: the official SDK does not say how a
// subscription ended.

// Package goclients tests examples/everything with the official Go SDK's client and
// with mcp-go's.
package goclients

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/interop/internal/program"
)

const notes = "everything://notes"

// kinds are the notifications, and what to publish for each.
var kinds = []struct{ query, method string }{
	{"kind=tools", "notifications/tools/list_changed"},
	{"kind=prompts", "notifications/prompts/list_changed"},
	{"kind=resources", "notifications/resources/list_changed"},
	{"kind=updated&uri=" + notes, "notifications/resources/updated"},
}

const acknowledged = "notifications/subscriptions/acknowledged"

// each runs a test on all frameworks over HTTP/1.1, and over HTTP/2 with TLS.
func each(t *testing.T, test func(t *testing.T, p *program.Program, wire *wire)) {
	t.Helper()
	cert, key, trusting := program.Certificate(t)
	for _, framework := range program.Frameworks {
		for proto, flags := range map[string][]string{
			"HTTP/1.1": {"-framework", framework},
			"HTTP/2.0": {"-framework", framework, "-tls-cert", cert, "-tls-key", key},
		} {
			t.Run(framework+" "+proto[:len("HTTP/1")], func(t *testing.T) {
				t.Parallel()
				test(t, program.Start(t, flags...), newWire(t, proto, trusting))
			})
		}
	}
}

// wire is a client's network.
type wire struct {
	http  *http.Client
	proto string
	tb    testing.TB
	ends  chan ending
}

// ending is how the body of a stream ended.
type ending struct {
	result bool // its last message was a result
	err    error
}

func newWire(t *testing.T, proto string, trusting *x509.CertPool) *wire {
	t.Helper()
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{RootCAs: trusting, MinVersion: tls.VersionTLS12},
	}
	t.Cleanup(transport.CloseIdleConnections)
	w := &wire{proto: proto, tb: t, ends: make(chan ending, 100)}
	w.http = &http.Client{Transport: w.over(transport)}
	return w
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *wire) over(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if resp.Proto != w.proto {
			w.tb.Errorf("the answer came by %s, want %s", resp.Proto, w.proto)
		}
		if r.Header.Get("Mcp-Method") == "subscriptions/listen" && resp.StatusCode == http.StatusOK {
			resp.Body = &watched{ReadCloser: resp.Body, ends: w.ends}
		}
		return resp, nil
	})
}

// watched is the body of a stream.
type watched struct {
	io.ReadCloser
	ends chan<- ending

	mu    sync.Mutex // mcp-go closes while it reads
	seen  []byte
	ended bool
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, p[:n]...)
	if err != nil {
		b.end(err)
	}
	return n, err
}

// Close counts as the end where the client closes a stream that has not ended.
func (b *watched) Close() error {
	err := b.ReadCloser.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end(http.ErrBodyReadAfterClose)
	return err
}

func (b *watched) end(err error) {
	if b.ended {
		return
	}
	b.ended = true
	messages := bytes.Split(bytes.TrimSpace(b.seen), []byte("\n\n"))
	b.ends <- ending{bytes.Contains(messages[len(messages)-1], []byte(`"result":{`)), err}
}

// graceful expects the ends of so many streams, each with its result.
func (w *wire) graceful(streams int) {
	w.tb.Helper()
	for range streams {
		if end := receive(w.tb, "the stream's end", w.ends); !end.result {
			w.tb.Errorf("the stream ended without a result: %v", end.err)
		}
	}
}

// dropped expects the ends of so many streams, each broken off.
func (w *wire) dropped(streams int) {
	w.tb.Helper()
	for range streams {
		if end := receive(w.tb, "the stream's end", w.ends); end.result || errors.Is(end.err, io.EOF) {
			w.tb.Errorf("the stream was not broken off: result %t, %v", end.result, end.err)
		}
	}
}

// receive waits for a value.
func receive[T any](tb testing.TB, what string, from <-chan T) T {
	tb.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(program.Hang):
		tb.Fatalf("%s does not come", what)
		panic("not reached")
	}
}

// expect waits for the notifications, in this order.
func expect(tb testing.TB, from <-chan string, want ...string) {
	tb.Helper()
	for _, w := range want {
		if got := receive(tb, w, from); got != w {
			tb.Fatalf("%s came, want %s", got, w)
		}
	}
}

// all publishes each kind and waits for what comes of it.
func all(tb testing.TB, p *program.Program, from <-chan string) {
	tb.Helper()
	for _, kind := range kinds {
		p.Publish(kind.query)
		want := kind.method
		if kind.method == "notifications/resources/updated" {
			want += " " + notes
		}
		expect(tb, from, want)
	}
}
