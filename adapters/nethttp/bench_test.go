// Benchmarks: what a delivery costs on its way through HTTP, and what the endpoint
// costs requests that are not its own.

package mcphttp_test

import (
	"bytes"
	"context"
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

// memory is a response writer that keeps nothing, and tells of each flush.
type memory struct {
	header  http.Header
	flushed chan struct{}
}

func (m memory) Header() http.Header            { return m.header }
func (memory) WriteHeader(int)                  {}
func (memory) Write(b []byte) (int, error)      { return len(b), nil }
func (memory) SetWriteDeadline(time.Time) error { return nil }
func (m memory) FlushError() error              { m.flushed <- struct{}{}; return nil }

func benchRequest(ctx context.Context, filter string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, listentest.Path, strings.NewReader(listentest.ListenBody("7", filter)))
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Method": {core.MethodListen}, "Mcp-Protocol-Version": {core.ProtocolVersion},
	}
	return r
}

var toolsChanged = []core.Change{core.ToolsListChanged()} // made once: what a caller allocates is not what is measured

const toolsFilter = `{"toolsListChanged":true}`

func newBenchHub(b *testing.B) (*core.Hub, *mcphttp.Handler) {
	b.Helper()
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}, KeepAlive: -1})
	if err != nil {
		b.Fatal(err)
	}
	h, err := mcphttp.New(hub)
	if err != nil {
		b.Fatal(err)
	}
	return hub, h
}

// BenchmarkDelivery is a change until its event is flushed to the response writer.
func BenchmarkDelivery(b *testing.B) {
	hub, h := newBenchHub(b)
	ctx, cancel := context.WithCancel(context.Background())
	w := memory{make(http.Header), make(chan struct{}, 1)}
	var serving sync.WaitGroup
	serving.Go(func() { h.ServeHTTP(w, benchRequest(ctx, toolsFilter)) })
	<-w.flushed // the acknowledgment
	b.ReportAllocs()
	for b.Loop() {
		_ = hub.Publish(ctx, toolsChanged...)
		<-w.flushed
	}
	cancel()
	serving.Wait()
}

// BenchmarkDeliveryOverTCP is a change until a client has read its event, with all
// of net/http and the kernel between them.
func BenchmarkDeliveryOverTCP(b *testing.B) {
	hub, h := newBenchHub(b)
	srv := httptest.NewServer(h)
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	r := benchRequest(b.Context(), toolsFilter)
	r.Host = srv.Listener.Addr().String()
	if err := r.Write(c); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 8<<10)
	// The end of a chunk that ends an event.
	await := func() {
		for n := 0; !bytes.HasSuffix(buf[:n], []byte("\n\n\r\n")); {
			m, err := c.Read(buf[n:])
			if err != nil {
				b.Fatal(err)
			}
			n += m
		}
	}
	await() // the acknowledgment
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		_ = hub.Publish(ctx, toolsChanged...)
		await()
	}
}

// BenchmarkOpen is the whole way of a request whose stream is over at once: checks,
// headers, acknowledgment and result.
func BenchmarkOpen(b *testing.B) {
	_, h := newBenchHub(b)
	w := memory{make(http.Header), make(chan struct{}, 2)}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		h.ServeHTTP(w, benchRequest(context.Background(), `{}`))
		<-w.flushed
		<-w.flushed
	}
}

// BenchmarkPassOn is what the endpoint costs a request of the handler behind it,
// which its header names, or its body alone.
func BenchmarkPassOn(b *testing.B) {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"y":"` + strings.Repeat("z", 1000) + `"}}}`
	for name, header := range map[string]http.Header{
		"header": {"Mcp-Method": {"tools/call"}, "Content-Type": {"application/json"}},
		"body":   {"Content-Type": {"application/json"}},
	} {
		b.Run(name, func(b *testing.B) {
			_, h := newBenchHub(b)
			passed := 0
			front := h.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
			w := memory{make(http.Header), nil}
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, listentest.Path, http.NoBody)
			r.Header = header
			from := strings.NewReader(body)
			b.ReportAllocs()
			for b.Loop() {
				from.Reset(body)
				r.Body = io.NopCloser(from)
				front.ServeHTTP(w, r)
			}
			if passed == 0 {
				b.Error("nothing was passed on")
			}
		})
	}
}
