// Lean streams: the same table of behaviours, and what is their own.

package mcphttp_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

func TestLeanEndpoint(t *testing.T) { listentest.RunLean(t, mount) }

// leanService is an endpoint with lean streams on a real socket.
type leanService struct {
	hub  *core.Hub
	addr string
	log  *lockedLog
	ends chan core.End
}

func serveLean(tb testing.TB, config core.Config, around func(http.Handler) http.Handler, listener func(net.Listener) net.Listener) *leanService {
	tb.Helper()
	s := &leanService{log: &lockedLog{}, ends: make(chan core.End, 200)}
	config.Capabilities = everyKind
	config.OnEnd = func(e core.End) { s.ends <- e }
	hub, err := core.NewHub(config)
	if err != nil {
		tb.Fatal(err)
	}
	s.hub = hub
	h, err := mcphttp.New(s.hub, mcphttp.WithLeanStreams(), mcphttp.WithLogger(slog.New(slog.NewTextHandler(s.log, nil))))
	if err != nil {
		tb.Fatal(err)
	}
	var handler http.Handler = h
	if around != nil {
		handler = around(h)
	}
	server := httptest.NewUnstartedServer(handler)
	if listener != nil {
		server.Listener = listener(server.Listener)
	}
	server.Start()
	s.addr = server.Listener.Addr().String()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.hub.Shutdown(ctx); err != nil {
			tb.Errorf("streams are left behind: %v", err)
		}
		server.Close()
	})
	return s
}

// rawClient is a raw HTTP/1.1 client of one stream.
type rawClient struct {
	net.Conn
	in   *bufio.Reader
	resp *http.Response
}

// dial opens a stream, with more behind the request on its connection.
func (s *leanService) dial(tb testing.TB, id, filter, behind string) *rawClient {
	tb.Helper()
	c := s.send(tb, id, filter, behind)
	c.line(tb, core.MethodAcknowledged)
	return c
}

func (s *leanService) send(tb testing.TB, id, filter, behind string) *rawClient {
	tb.Helper()
	c := s.ask(tb, id, filter, behind)
	if c.resp.StatusCode != http.StatusOK {
		tb.Fatalf("the listen was answered with %s", c.resp.Status)
	}
	return c
}

// ask sends a listen request and reads the head of the answer.
func (s *leanService) ask(tb testing.TB, id, filter, behind string) *rawClient {
	tb.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	body := listentest.ListenBody(id, filter)
	var text strings.Builder
	fmt.Fprintf(&text, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", s.addr, len(body))
	for name, values := range listentest.Listen(id, "{}").Header {
		fmt.Fprintf(&text, "%s: %s\r\n", name, values[0])
	}
	if _, err := io.WriteString(conn, text.String()+"\r\n"+body+behind); err != nil {
		tb.Fatal(err)
	}
	c := &rawClient{Conn: conn, in: bufio.NewReader(conn)}
	if c.resp, err = http.ReadResponse(c.in, nil); err != nil { //nolint:bodyclose // it is the connection, which is closed
		tb.Fatal(err)
	}
	return c
}

// line reads the body up to the next line with data, which must hold the text.
func (c *rawClient) line(tb testing.TB, text string) {
	tb.Helper()
	for {
		line := make([]byte, 0, 512)
		for one := make([]byte, 1); ; {
			if _, err := c.resp.Body.Read(one); err != nil {
				tb.Fatalf("the stream broke off, want %q: %v", text, err)
			}
			if one[0] == '\n' {
				break
			}
			line = append(line, one[0])
		}
		if data, ok := strings.CutPrefix(string(line), "data: "); ok {
			if !strings.Contains(data, text) {
				tb.Fatalf("got %s, want %q", data, text)
			}
			return
		}
	}
}

// end reads the end of the body, and of the connection.
func (c *rawClient) end(tb testing.TB) {
	tb.Helper()
	if rest, err := io.ReadAll(c.resp.Body); err != nil || strings.TrimSpace(string(rest)) != "" {
		tb.Errorf("after the result came %q and then %v, want the end of the body", rest, err)
	}
	if n, err := io.Copy(io.Discard, c.in); n != 0 || err != nil {
		tb.Errorf("behind the body came %d bytes and then %v, want the end of the connection", n, err)
	}
}

func (s *leanService) ended(tb testing.TB, reason core.Reason) {
	tb.Helper()
	select {
	case e := <-s.ends:
		if e.Reason != reason {
			tb.Errorf("a stream ended as %s, want %s", e.Reason, reason)
		}
	case <-time.After(patience):
		tb.Fatalf("no stream ended, want one to end as %s", reason)
	}
}

func publishTools(tb testing.TB, hub *core.Hub) {
	tb.Helper()
	if err := hub.Publish(context.Background(), core.ToolsListChanged()); err != nil {
		tb.Error(err)
	}
}

// listensToTheEnd opens a stream, which is notified and ended with its result: nothing
// but these comes.
func (s *leanService) listensToTheEnd(t *testing.T) {
	t.Helper()
	c := s.dial(t, "1", tools, "")
	publishTools(t, s.hub)
	c.line(t, core.MethodToolsListChanged)
	s.hub.End(s.hub.Streams()[0].Serial)
	c.line(t, `"resultType":"complete"`)
	c.end(t)
}

// late changes the header when the status is written, as session middlewares do.
type late struct {
	http.ResponseWriter
	header func(http.Header)
}

func (w late) Unwrap() http.ResponseWriter { return w.ResponseWriter }
func (w late) WriteHeader(status int) {
	w.header(w.Header())
	w.ResponseWriter.WriteHeader(status)
}

// TestALeanStream has the headers of the middlewares in front, whose handler returns
// at once, and ends as a body and a connection do.
func TestALeanStream(t *testing.T) {
	t.Parallel()
	returned := make(chan struct{}, 1)
	s := serveLean(t, core.Config{}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Request-Id", "7")
			next.ServeHTTP(late{w, func(h http.Header) { h.Set("Set-Cookie", "late=1") }}, r)
			returned <- struct{}{}
		})
	}, nil)
	c := s.dial(t, "1", tools, "")
	for name, want := range map[string]string{
		"X-Request-Id": "7", "Set-Cookie": "late=1", "Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform",
	} {
		if got := c.resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !c.resp.Close {
		t.Error("the answer does not say that the connection ends with it")
	}
	select {
	case <-returned:
	case <-time.After(patience):
		t.Fatal("the handler does not return")
	}
	publishTools(t, s.hub)
	c.line(t, core.MethodToolsListChanged)
	s.hub.End(s.hub.Streams()[0].Serial)
	c.line(t, `"resultType":"complete"`)
	c.end(t)
	s.ended(t, core.Completed)
}

// TestALeanStreamThatEndsForTheClient breaks off: nothing looks like a goodbye.
func TestALeanStreamThatEndsForTheClient(t *testing.T) {
	t.Parallel()
	s := serveLean(t, core.Config{}, nil, nil)
	c := s.dial(t, "1", tools, "")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	s.ended(t, core.ClientClosed)
	if rest, err := io.ReadAll(c.resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q and then %v, want the body to break off", rest, err)
	}
}

// TestWhatFollowsALeanRequest on its connection is no request, and does not hide that
// the client goes.
func TestWhatFollowsALeanRequest(t *testing.T) {
	t.Parallel()
	s := serveLean(t, core.Config{}, nil, nil)
	c := s.dial(t, "1", tools, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := c.Write([]byte(strings.Repeat("more of it ", 1000))); err != nil {
		t.Fatal(err)
	}
	publishTools(t, s.hub)
	c.line(t, core.MethodToolsListChanged)
	_ = c.Close()
	s.ended(t, core.ClientClosed)
}

// TestAClientThatSendsAndSends on its stream is not listened to for ever.
func TestAClientThatSendsAndSends(t *testing.T) {
	t.Parallel()
	s := serveLean(t, core.Config{}, nil, nil)
	c := s.dial(t, "1", tools, "")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for more := []byte(strings.Repeat("more ", 1000)); ; {
			if _, err := c.Write(more); err != nil {
				return
			}
		}
	}()
	s.ended(t, core.ClientClosed)
	<-sent
}

// encoder compresses what comes through, and says so with the first byte.
type encoder struct {
	http.ResponseWriter
	late bool
	gzip *gzip.Writer
}

func (e *encoder) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *encoder) Write(b []byte) (int, error) {
	if e.late {
		e.Header().Set("Content-Encoding", "gzip")
	}
	return e.gzip.Write(b)
}

func (e *encoder) FlushError() error {
	return errors.Join(e.gzip.Flush(), http.NewResponseController(e.ResponseWriter).Flush())
}

func (e *encoder) Flush() { _ = e.FlushError() }

// TestALeanStreamWhoseBodyIsFramedByAMiddleware is what the headers say: no chunks in
// a body that has none, and no end where a Content-Length is.
func TestALeanStreamWhoseBodyIsFramedByAMiddleware(t *testing.T) {
	t.Parallel()
	for name, around := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"Content-Length": func(w http.ResponseWriter) http.ResponseWriter {
			w.Header().Set("Content-Length", "500")
			return w
		},
		"Transfer-Encoding": func(w http.ResponseWriter) http.ResponseWriter {
			w.Header().Set("Transfer-Encoding", "identity")
			return w
		},
		"Transfer-Encoding with the status": func(w http.ResponseWriter) http.ResponseWriter {
			return late{w, func(h http.Header) { h.Set("Transfer-Encoding", "identity") }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveLean(t, core.Config{}, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(around(w), r) })
			}, nil)
			s.listensToTheEnd(t)
		})
	}
}

// TestALeanStreamAndTheDeadlinesOfItsRequest: a middleware that makes reads and writes
// fail when the request's context ends, which is when the stream has begun, ends no
// stream.
func TestALeanStreamAndTheDeadlinesOfItsRequest(t *testing.T) {
	t.Parallel()
	passed := make(chan struct{})
	s := serveLean(t, core.Config{}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			context.AfterFunc(r.Context(), func() {
				defer close(passed)
				control, past := http.NewResponseController(w), time.Unix(1, 0)
				if err := errors.Join(control.SetReadDeadline(past), control.SetWriteDeadline(past)); err != nil {
					t.Error(err)
				}
			})
			next.ServeHTTP(w, r)
		})
	}, nil)
	c := s.dial(t, "1", tools, "")
	<-passed
	for range 2 {
		publishTools(t, s.hub)
		c.line(t, core.MethodToolsListChanged)
	}
	_ = c.Close()
	s.ended(t, core.ClientClosed)
}

// endless is a connection without write deadlines.
type endless struct{ net.Conn }

func (endless) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

type endlessListener struct{ net.Listener }

func (l endlessListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return endless{c}, err
}

// TestALeanStreamOnAConnectionWithoutDeadlines has none, as an ordinary one.
func TestALeanStreamOnAConnectionWithoutDeadlines(t *testing.T) {
	t.Parallel()
	s := serveLean(t, core.Config{}, nil, func(l net.Listener) net.Listener { return endlessListener{l} })
	s.listensToTheEnd(t)
}

// TestAnEncodedStreamIsNotLean: what follows would not be encoded.
func TestAnEncodedStreamIsNotLean(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"named before": false, "named with the first byte": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveLean(t, core.Config{}, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !late {
						w.Header().Set("Content-Encoding", "gzip")
					}
					e := &encoder{w, late, gzip.NewWriter(w)}
					defer e.gzip.Close()
					next.ServeHTTP(e, r)
				})
			}, nil)
			c := s.send(t, "1", tools, "")
			plain, err := gzip.NewReader(c.resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			c.resp.Body = io.NopCloser(plain)
			c.line(t, core.MethodAcknowledged)
			publishTools(t, s.hub)
			c.line(t, core.MethodToolsListChanged)
			if !strings.Contains(s.log.String(), "cannot be lean") {
				t.Errorf("the log does not say it: %s", s.log)
			}
		})
	}
}

// TestALeanStreamHasOneGoroutine, and all of them go.
func TestALeanStreamHasOneGoroutine(t *testing.T) { //nolint:paralleltest // it counts goroutines
	s := serveLean(t, core.Config{}, nil, nil)
	const n = 100
	before := runtime.NumGoroutine()
	var clients []*rawClient
	for i := range n {
		c := s.dial(t, fmt.Sprint(i), tools, "")
		clients = append(clients, c)
		publishTools(t, s.hub)
		for _, c := range clients {
			c.line(t, core.MethodToolsListChanged)
		}
	}
	deadline := time.After(patience)
	for more := n + 1; more > n; { // handlers are on their way out
		select {
		case <-deadline:
			t.Fatalf("%d streams have %d goroutines", n, more)
		default:
			runtime.Gosched()
		}
		more = runtime.NumGoroutine() - before
	}
}

// TestALeanDeliveryAllocatesNothing, the socket included.
func TestALeanDeliveryAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget, which allocates")
	}
	s := serveLean(t, core.Config{}, nil, nil)
	c := s.dial(t, "1", tools, "")
	_ = c.SetDeadline(time.Time{})
	buf, ctx := make([]byte, 4096), context.Background()
	change := []core.Change{core.ToolsListChanged()}
	deliver := func() {
		_ = s.hub.Publish(ctx, change...)
		if _, err := c.Conn.Read(buf); err != nil {
			t.Error(err)
		}
	}
	for range 100 {
		deliver()
	}
	if got := testing.AllocsPerRun(1000, deliver); got > 0 {
		t.Errorf("%v allocations for each delivery, want none", got)
	}
}

// counted is a connection whose type embeds a TCP connection and does more.
type counted struct {
	*net.TCPConn
	written *lockedLog
}

func (c counted) Write(b []byte) (int, error) {
	_, _ = c.written.Write(b)
	return c.TCPConn.Write(b)
}

type countedListener struct {
	net.Listener
	written *lockedLog
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return counted{c.(*net.TCPConn), l.written}, nil
}

// TestALeanStreamOnAnothersConnection goes through it, and not around.
func TestALeanStreamOnAnothersConnection(t *testing.T) {
	t.Parallel()
	written := &lockedLog{}
	s := serveLean(t, core.Config{}, nil, func(l net.Listener) net.Listener { return countedListener{l, written} })
	c := s.dial(t, "1", tools, "")
	publishTools(t, s.hub)
	c.line(t, core.MethodToolsListChanged)
	if !strings.Contains(written.String(), core.MethodToolsListChanged) {
		t.Errorf("the connection was gone around: %q", written)
	}
}

// TestHooksOfALeanStream get a context that lives, without what the request had.
func TestHooksOfALeanStream(t *testing.T) {
	t.Parallel()
	type key struct{}
	asked := make(chan error, 10)
	s := serveLean(t, core.Config{Authorizer: core.AuthorizerFunc(func(ctx context.Context, _ string, _ core.Filter) (core.Grant, error) {
		if ctx.Value(key{}) == nil {
			return core.Grant{}, errors.New("the authorizer does not get the request's context")
		}
		return core.Grant{RecheckDelivery: true, Recheck: func(ctx context.Context) error {
			err := ctx.Err()
			if ctx.Value(key{}) != nil {
				err = errors.New("the request's values are kept")
			}
			asked <- err
			return nil
		}}, nil
	})}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, true)))
		})
	}, nil)
	c := s.dial(t, "1", tools, "")
	publishTools(t, s.hub)
	c.line(t, core.MethodToolsListChanged)
	if err := <-asked; err != nil {
		t.Error(err)
	}
}

// TestStreamsThatCannotBeLean are served in the ordinary way, which the log says once.
func TestStreamsThatCannotBeLean(t *testing.T) {
	t.Parallel()
	for name, around := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"hidden":                      func(w http.ResponseWriter) http.ResponseWriter { return hidden{w} },
		"hidden behind what forwards": func(w http.ResponseWriter) http.ResponseWriter { return forwarding{hidden{w}} },
		"a Hijack that panics":        func(w http.ResponseWriter) http.ResponseWriter { return broken{hidden{w}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveLean(t, core.Config{}, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(around(w), r) })
			}, nil)
			for id := range 2 {
				c := s.dial(t, fmt.Sprint(id), tools, "")
				publishTools(t, s.hub)
				c.line(t, core.MethodToolsListChanged)
				if id == 0 {
					_ = c.Close()
					s.ended(t, core.ClientClosed)
				}
			}
			if n := strings.Count(s.log.String(), "cannot be lean"); n != 1 {
				t.Errorf("the log says it %d times, want once:\n%s", n, s.log)
			}
		})
	}
}

// forwarding has a Hijack whatever it wraps, as the writers of some frameworks.
type forwarding struct{ http.ResponseWriter }

func (f forwarding) Unwrap() http.ResponseWriter { return f.ResponseWriter }
func (f forwarding) Flush()                      { f.ResponseWriter.(http.Flusher).Flush() }
func (f forwarding) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return f.ResponseWriter.(http.Hijacker).Hijack()
}

// broken is a hidden writer whose Hijack panics.
type broken struct{ hidden }

func (broken) Hijack() (net.Conn, *bufio.ReadWriter, error) { panic("no connection") }

// hidden is a writer that flushes and cannot be unwrapped.
type hidden struct{ w http.ResponseWriter }

func (h hidden) Header() http.Header         { return h.w.Header() }
func (h hidden) Write(b []byte) (int, error) { return h.w.Write(b) }
func (h hidden) WriteHeader(status int)      { h.w.WriteHeader(status) }
func (h hidden) Flush()                      { _ = http.NewResponseController(h.w).Flush() }

// holding is a writer that holds back what is written, and says so.
type holding struct{ http.ResponseWriter }

func (holding) Write(b []byte) (int, error) { return len(b), nil }
func (holding) Flush()                      {}
func (holding) Written() bool               { return false }

// TestALeanStreamThatIsRefused takes no connection with it.
func TestALeanStreamThatIsRefused(t *testing.T) {
	t.Parallel()
	s := serveLean(t, core.Config{}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(holding{w}, r) })
	}, nil)
	c := s.ask(t, "1", tools, "")
	if c.resp.StatusCode != http.StatusInternalServerError || c.resp.Close {
		t.Errorf("answered with %s, and the connection ends: %t", c.resp.Status, c.resp.Close)
	}
}
