// The matrix: every middleware of every framework, over real sockets.

package middlewaretest

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/NYTimes/gziphandler"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5/middleware"
	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	// Every session manager starts one for good.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/alexedwards/scs/v2/memstore.(*MemStore).startCleanup"))
}

const (
	// hang is when a wait is given up. No test measures time by it.
	hang = 30 * time.Second
	// timeout is what the timeout middlewares are set to.
	timeout = 2 * time.Second
	// path is where the endpoint is mounted.
	path = "/mcp"
)

// app is a service with the endpoint at path.
type app func(mcp *mcphttp.Handler) http.Handler

// cell is one middleware in one framework.
type cell struct {
	middleware string // Markdown
	app        app
	note       string // what follows from it, and what to do
	remedy     string // the title of one of remedies, or empty
	limited    bool   // it ends requests after timeout
	also       func(t *testing.T, s *service)
}

// frameworks are the sections of the page.
var frameworks = []struct {
	name  string
	cells []cell
}{
	{"net/http", netHTTPCells},
	{"chi", chiCells},
	{"echo", echoCells},
	{"gin", ginCells},
}

// remedies are the code that lets streams through, by the title under which the
// page shows it.
var remedies = []struct {
	title string
	name  string // the function's
	app   app
}{
	{"net/http: mount outside", "outsideNetHTTP", outsideNetHTTP},
	{"net/http: a wrapper that streams pass", "unwrapping", unwrapping},
	{"chi: mount outside the group", "outsideChi", outsideChi},
	{"echo: mount outside the group", "outsideEcho", outsideEcho},
	{"echo: skippers", "skippersEcho", skippersEcho},
	{"gin: mount outside the group", "outsideGin", outsideGin},
	{"gin: excluded path", "excludedGin", excludedGin},
}

// TestMatrix fills the matrix. Whatever comes out must be on the page.
func TestMatrix(t *testing.T) {
	outcomes := make([][]string, len(frameworks))
	t.Run("cells", func(t *testing.T) {
		for i, f := range frameworks {
			outcomes[i] = make([]string, len(f.cells))
			for j, c := range f.cells {
				t.Run(f.name+"/"+c.middleware, func(t *testing.T) {
					t.Parallel()
					outcomes[i][j] = c.outcome(t)
				})
			}
		}
	})
	if t.Failed() {
		return
	}
	var b strings.Builder
	for i, f := range frameworks {
		for j, c := range f.cells {
			fmt.Fprintf(&b, "%-9s %-45s %s\n", f.name, strings.ReplaceAll(c.middleware, "`", ""), outcomes[i][j])
		}
	}
	t.Logf("framework, middleware, what happens:\n%s", b.String())
	checkPage(t, outcomes)
}

// outcome says what becomes of a listen request behind the middleware, which
// must be the same in all modes.
func (c cell) outcome(t *testing.T) string {
	t.Helper()
	var all [3]string
	for m := range all {
		s := start(t, c.app, core.Config{KeepAlive: -1}, mode(m))
		all[m] = s.listen(t, c.limited)
		if c.also != nil && !t.Failed() {
			c.also(t, s)
		}
		s.stop(t)
	}
	if len(slices.Compact(slices.Clone(all[:]))) != 1 {
		t.Errorf("HTTP/1.1: %s; HTTP/2: %s; lean: %s", all[onHTTP1], all[onHTTP2], all[lean])
	}
	return all[onHTTP1]
}

// mode is how streams are served.
type mode int

const (
	onHTTP1 mode = iota
	onHTTP2
	lean // on HTTP/1.1
)

// TestAnyOrder: what several middlewares do to each other depends on their order,
// and none may be wrong.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	all := []middlewareFunc{
		gzipKlauspost, gziphandler.GzipHandler, httpCompression, sessions, snoop, statusRecorder, buffering,
		middleware.Compress(5, "text/event-stream"), chiLogger, middleware.Recoverer,
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		order := random.Perm(len(all))[:2+random.IntN(len(all)-2)]
		chain := make([]middlewareFunc, len(order))
		for i, j := range order {
			chain[i] = all[j]
		}
		s := start(t, around(chain...), core.Config{KeepAlive: -1}, onHTTP1)
		outcome := s.listen(t, false)
		s.close()
		// A wrapper that was passed by may send its header late, in vain.
		for line := range strings.Lines(s.log.String()) {
			if !strings.Contains(line, "superfluous response.WriteHeader") {
				t.Errorf("the server logged: %s", line)
			}
		}
		if t.Failed() || strings.HasPrefix(outcome, "refused") {
			t.Fatalf("seed %d: %s behind %v", seed, outcome, order)
		}
	}
}

// TestRemedies: behind the code that the page recommends, a stream is neither
// refused nor compressed, and outlives the timeouts.
func TestRemedies(t *testing.T) {
	t.Parallel()
	for _, r := range remedies {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, r.app, core.Config{KeepAlive: timeout / 4}, onHTTP1)
			st, refusal := s.open(t)
			if st == nil {
				t.Fatalf("refused: %s", refusal)
			}
			if st.encoding != "" && st.encoding != "identity" {
				t.Errorf("the stream has the encoding %s", st.encoding)
			}
			st.expect(t, core.MethodAcknowledged)
			for range 6 {
				st.expect(t, ": keep-alive")
			}
			s.publish(t)
			st.expect(t, core.MethodToolsListChanged)
			s.hub.EndWhere(func(core.StreamInfo) bool { return true })
			st.expect(t, "result")
			st.expect(t, "end")
			s.stop(t)
		})
	}
}

// service is a running app.
type service struct {
	mode    mode
	hub     *core.Hub
	client  *http.Client
	url     string
	ctx     context.Context
	ends    chan core.End
	close   func()
	log     *logBuffer // of the server
	notices *logBuffer // of the handler
}

func start(t *testing.T, build app, config core.Config, m mode) *service {
	t.Helper()
	s := &service{mode: m, ends: make(chan core.End, 8), log: &logBuffer{}, notices: &logBuffer{}}
	config.Capabilities.ToolsListChanged = true
	config.OnEnd = func(e core.End) { s.ends <- e }
	var err error
	if s.hub, err = core.NewHub(config); err != nil {
		t.Fatal(err)
	}
	options := []mcphttp.Option{mcphttp.WithLogger(slog.New(slog.NewTextHandler(s.notices, nil)))}
	if m == lean {
		options = append(options, mcphttp.WithLeanStreams())
	}
	mcp, err := mcphttp.New(s.hub, options...)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(m != onHTTP2)
	protocols.SetUnencryptedHTTP2(m == onHTTP2)
	server := &http.Server{
		Handler: build(mcp), Protocols: protocols, ErrorLog: log.New(s.log, "", 0), ReadHeaderTimeout: hang,
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	// It asks for compression and does not undo it by itself.
	transport := &http.Transport{DisableCompression: true, Protocols: protocols}
	s.client = &http.Client{Transport: transport}
	s.url = "http://" + listener.Addr().String() + path
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeout(context.Background(), hang)
	s.close = sync.OnceFunc(func() {
		_ = server.Close()
		<-served
		cancel()
		transport.CloseIdleConnections()
	})
	t.Cleanup(s.close)
	return s
}

// stop closes the service. It may have left no stream behind, and logged
// nothing: no panic, no second header.
func (s *service) stop(t *testing.T) {
	t.Helper()
	s.close()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if err := s.hub.Shutdown(ctx); err != nil {
		t.Errorf("streams are left behind: %v", err)
	}
	if text := s.log.String(); text != "" {
		t.Errorf("the server logged: %s", text)
	}
}

func (s *service) publish(t *testing.T) {
	t.Helper()
	if err := s.hub.Publish(s.ctx, core.ToolsListChanged()); err != nil {
		t.Fatal(err)
	}
}

// listen opens a stream and says what became of it: every step is waited for,
// and nothing else happens meanwhile that could push out what is held back.
func (s *service) listen(t *testing.T, limited bool) string {
	t.Helper()
	st, refusal := s.open(t)
	if st == nil {
		if n := len(s.hub.Streams()); n > 0 {
			t.Errorf("%d streams are open although it was refused", n)
		}
		return "refused: " + refusal
	}
	outcome := "streams"
	if st.encoding != "" && st.encoding != "identity" {
		outcome += ", compressed"
	}
	compressed := outcome != "streams"
	st.expect(t, core.MethodAcknowledged)
	s.publish(t)
	st.expect(t, core.MethodToolsListChanged)
	reason := core.Completed
	if limited {
		reason = core.Deadline
		outcome += ", and ends with its result just before the timeout"
	} else {
		s.hub.EndWhere(func(core.StreamInfo) bool { return true })
	}
	st.expect(t, "result")
	st.expect(t, "end")
	if end := <-s.ends; end.Reason != reason {
		t.Errorf("it ended as %s (%v), want %s", end.Reason, end.Err, reason)
	}
	if ordinary := strings.Contains(s.notices.String(), "cannot be lean"); s.mode == lean && ordinary != compressed {
		t.Errorf("it is an ordinary stream: %t, want %t: %s", ordinary, compressed, s.notices)
	}
	return outcome
}

type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
