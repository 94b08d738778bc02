// chi's own middleware, and what is used with it.

package middlewaretest

import (
	"bytes"
	"io"
	"log"
	"log/slog"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/cors"
	"github.com/go-chi/httplog/v2"

	"github.com/mcplisten/mcplisten/adapters/chi"
	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

var chiCells = []cell{
	{middleware: "none", app: onChi(), also: passes},
	{middleware: "`middleware.Logger`", app: onChi(chiLogger), note: onEnd},
	{middleware: "`httplog.RequestLogger`", app: onChi(chiHTTPLog), note: onEnd},
	{middleware: "`middleware.Recoverer`", app: onChi(middleware.Recoverer)},
	{middleware: "`middleware.RequestID`", app: onChi(middleware.RequestID)},
	{middleware: "`cors.Handler`", app: onChi(cors.Handler(cors.Options{})), also: preflight, note: list},
	{
		middleware: "`middleware.Timeout`", app: onChi(middleware.Timeout(timeout)), limited: true,
		note: "Clients listen again.", remedy: "chi: mount outside the group",
	},
	{
		middleware: "`middleware.Throttle`", app: anew(func() app { return onChi(middleware.Throttle(1)) }), also: throttled,
		note:   "Each stream takes a place for as long as it lasts; without one the throttle itself answers 429.",
		remedy: "chi: mount outside the group",
	},
	{
		middleware: "`middleware.Compress`", app: onChi(middleware.Compress(5)),
		note: "It compresses the content types that it is told to, and event streams are not among its defaults.",
	},
	{
		middleware: "`middleware.Compress`, told to compress `text/event-stream`",
		app:        onChi(middleware.Compress(5, "text/event-stream")), note: compressed,
		remedy: "chi: mount outside the group",
	},
	{
		middleware: "a body dump: `WrapResponseWriter.Tee`", app: onChi(chiDump), also: dumps(&chiDumped),
		note: dumped, remedy: "chi: mount outside the group",
	},
	{middleware: "sessions: `alexedwards/scs`", app: onChi(sessions), note: "The session is saved before the stream starts."},
	{
		middleware: "`http.TimeoutHandler`", app: onChi(timeoutHandler),
		note: "It keeps the whole response until the handler returns.", remedy: "chi: mount outside the group",
	},
	{
		middleware: "a wrapper with neither `Flush` nor `Unwrap`", app: onChi(naive),
		note: "Nothing says how to get past it.", remedy: "net/http: a wrapper that streams pass",
	},
	{
		middleware: "many at once",
		app:        onChi(middleware.RequestID, chiLogger, middleware.Recoverer, middleware.Compress(5), sessions, statusRecorder, buffering, snoop),
	},
}

// Notes that several cells share.
const (
	onEnd      = "It logs when the stream has ended."
	list       = "Preflights are answered. List the origins with `mcphttp.WithOrigins` as well."
	compressed = "Each event is flushed at once. Each stream keeps a compressor: about 800 KB."
	dumped     = "The dump keeps what it has seen until the stream ends: memory grows with each notification."
)

// onChi mounts the endpoint on a chi group that uses middlewares.
func onChi(all ...middlewareFunc) app {
	return func(mcp *mcphttp.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(all...)
		mcpchi.Mount(r, path, mcp, mcpchi.WithNext(http.HandlerFunc(rest)))
		return r
	}
}

var chiLogger = middleware.RequestLogger(&middleware.DefaultLogFormatter{Logger: log.New(io.Discard, "", 0)})

func chiHTTPLog(next http.Handler) http.Handler {
	logger := &httplog.Logger{Logger: slog.New(slog.DiscardHandler), Options: httplog.Options{ResponseHeaders: true}}
	return httplog.RequestLogger(logger)(next)
}

var chiDumped = make(chan []byte, 16)

func chiDump(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var dump bytes.Buffer
		wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		wrapped.Tee(&dump)
		next.ServeHTTP(wrapped, r)
		chiDumped <- dump.Bytes()
	})
}

// dumps checks that a dump has all that a stream wrote, of a lean one the
// acknowledgment alone.
func dumps(dumped *chan []byte) func(*testing.T, *service) {
	return func(t *testing.T, s *service) {
		t.Helper()
		got := <-*dumped
		for i, want := range []string{core.MethodAcknowledged, core.MethodToolsListChanged, `"result"`} {
			if has := bytes.Contains(got, []byte(want)); has != (i == 0 || s.mode != lean) {
				t.Errorf("the dump has %s: %t: %s", want, has, got)
			}
		}
	}
}

// throttled checks that the middleware refuses a second stream beside the first,
// unless that is lean.
func throttled(t *testing.T, s *service) {
	t.Helper()
	second := http.StatusTooManyRequests
	if s.mode == lean {
		second = http.StatusOK
	}
	s.knock(t, http.StatusOK)
	s.knock(t, second)
}

// knock sends a listen request, again where the throttle refuses it and should
// not: the handler of a lean stream may still be on its way out.
func (s *service) knock(t *testing.T, want int) {
	t.Helper()
	for {
		resp, err := s.client.Do(s.request(t))
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == want {
			t.Cleanup(func() { _ = resp.Body.Close() })
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("a stream got %s, want %d", resp.Status, want)
		}
	}
}

// anew has an app made anew for each service, where it keeps account of requests.
func anew(build func() app) app {
	return func(mcp *mcphttp.Handler) http.Handler { return build()(mcp) }
}

// preflight checks that OPTIONS reaches the framework's CORS middleware.
func preflight(t *testing.T, s *service) {
	t.Helper()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodOptions, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://app.example")
	req.Header.Set("Access-Control-Request-Method", http.MethodPost)
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 || resp.Header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("the preflight got %s and %v, want to be allowed", resp.Status, resp.Header)
	}
}

func outsideChi(mcp *mcphttp.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.RequestID, middleware.Recoverer)
	r.Group(func(r chi.Router) {
		r.Use(middleware.Timeout(timeout), middleware.Throttle(100), middleware.Compress(5))
		r.Get("/orders", orders)
	})
	mcpchi.Mount(r, "/mcp", mcp)
	return r
}
