// net/http, and middleware that works with any router.

package middlewaretest

import (
	"bufio"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/CAFxX/httpcompression"
	"github.com/NYTimes/gziphandler"
	"github.com/alexedwards/scs/v2"
	"github.com/felixge/httpsnoop"
	"github.com/klauspost/compress/gzhttp"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
)

var netHTTPCells = []cell{
	{
		middleware: "none", app: around(),
		also: func(t *testing.T, s *service) { passes(t, s) },
	},
	{
		middleware: "`http.TimeoutHandler`", app: around(timeoutHandler),
		note: "It keeps the whole response until the handler returns.", remedy: "net/http: mount outside",
	},
	{
		middleware: "a context with a deadline", app: around(contextTimeout), limited: true,
		note: "Clients listen again.", remedy: "net/http: mount outside",
	},
	{middleware: "gzip: `klauspost/compress/gzhttp`", app: around(gzipKlauspost), note: leftAlone},
	{middleware: "gzip: `NYTimes/gziphandler`", app: around(gziphandler.GzipHandler), note: leftAlone},
	{middleware: "gzip, brotli, zstd: `CAFxX/httpcompression`", app: around(httpCompression), note: leftAlone},
	{
		middleware: "sessions: `alexedwards/scs`", app: around(sessions),
		note: "The session is saved before the stream starts.",
	},
	{
		middleware: "metrics: `felixge/httpsnoop`, as OpenTelemetry's and others use it", app: around(snoop),
		note: "One request, as long as its stream.",
	},
	{
		middleware: "a wrapper with neither `Flush` nor `Unwrap`", app: around(naive),
		note: "Nothing says how to get past it.", remedy: "net/http: a wrapper that streams pass",
	},
	{
		middleware: "a wrapper with `Unwrap`, without `Flush`", app: around(statusRecorder),
		note: "It sees the header and the status. The bytes go past it, as a flush does.",
	},
	{
		middleware: "one that buffers, with `Unwrap`, without `Flush`", app: around(buffering),
		note: "The same.",
	},
}

const leftAlone = "`Content-Encoding: identity` keeps it from compressing, which would hold back the first kilobyte."

type middlewareFunc = func(http.Handler) http.Handler

// around mounts the endpoint on a ServeMux with middlewares around it, the first
// one outermost.
func around(all ...middlewareFunc) app {
	return func(mcp *mcphttp.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(path, mcp.Middleware(http.HandlerFunc(rest)))
		var h http.Handler = mux
		for i := len(all) - 1; i >= 0; i-- {
			h = all[i](h)
		}
		return h
	}
}

// rest is the MCP server behind the endpoint.
func rest(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Method", r.Header.Get("Mcp-Method"))
	w.WriteHeader(http.StatusAccepted)
}

// passes checks that other requests get to the server behind.
func passes(t *testing.T, s *service) {
	t.Helper()
	req := s.request(t)
	req.Header.Set("Mcp-Method", "tools/list")
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted || resp.Header.Get("X-Method") != "tools/list" {
		t.Errorf("tools/list got %s, want the answer of the server behind", resp.Status)
	}
}

func timeoutHandler(next http.Handler) http.Handler { return http.TimeoutHandler(next, timeout, "") }

func contextTimeout(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func gzipKlauspost(next http.Handler) http.Handler { return gzhttp.GzipHandler(next) }

func httpCompression(next http.Handler) http.Handler {
	compress, err := httpcompression.DefaultAdapter()
	if err != nil {
		panic(err)
	}
	return compress(next)
}

func sessions(next http.Handler) http.Handler {
	manager := scs.New()
	return manager.LoadAndSave(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		manager.Put(r.Context(), "seen", time.Now().Unix())
		next.ServeHTTP(w, r)
	}))
}

func snoop(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpsnoop.CaptureMetrics(next, w, r)
	})
}

// naiveWriter hides everything but the three methods.
type naiveWriter struct{ http.ResponseWriter }

func naive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(naiveWriter{w}, r) })
}

// recorder notes the status.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func statusRecorder(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&recorder{ResponseWriter: w}, r)
	})
}

// bufferingWriter writes in large pieces.
type bufferingWriter struct {
	http.ResponseWriter
	b *bufio.Writer
}

func (w bufferingWriter) Write(p []byte) (int, error) { return w.b.Write(p) }
func (w bufferingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func buffering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := bufio.NewWriter(w)
		next.ServeHTTP(bufferingWriter{w, b}, r)
		_ = b.Flush()
	})
}

func outsideNetHTTP(mcp *mcphttp.Handler) http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /orders", orders)

	mux := http.NewServeMux()
	mux.Handle("/", http.TimeoutHandler(routes, timeout, ""))
	mux.Handle("/mcp", mcp)
	return mux
}

func unwrapping(mcp *mcphttp.Handler) http.Handler {
	// The writer of this middleware is
	//
	//	type recorder struct {
	//		http.ResponseWriter
	//		status int
	//	}
	//
	//	func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
	mux := http.NewServeMux()
	mux.Handle("/mcp", statusRecorder(mcp))
	return mux
}

// orders is some other route of the service.
func orders(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("orders")) }
