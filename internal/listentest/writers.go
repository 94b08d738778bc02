// Response writers as middlewares wrap them: those that cannot flush, those that
// do not tell, and those that panic.

package listentest

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// naiveWriter embeds a writer, and so hides everything but its three methods.
type naiveWriter struct{ http.ResponseWriter }

// unwrappingWriter says what it wraps.
type unwrappingWriter struct{ http.ResponseWriter }

func (w unwrappingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// flushingWriter flushes if the one below it does, and keeps silent otherwise,
// about errors too.
type flushingWriter struct{ unwrappingWriter }

func (w flushingWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// insistingWriter panics if the one below it does not flush.
type insistingWriter struct{ unwrappingWriter }

func (w insistingWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// wrapping is a middleware that wraps the response writer.
func wrapping(wrap func(http.ResponseWriter) http.ResponseWriter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrap(w), r) })
	}
}

// cannotFlush: a stream that could not leave is refused before its first byte.
func (s suite) cannotFlush(t *testing.T) {
	t.Parallel()
	for name, outer := range map[string]func(http.Handler) http.Handler{
		"http.TimeoutHandler": func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Hour, "") },
		"naive":               wrapping(func(w http.ResponseWriter) http.ResponseWriter { return naiveWriter{w} }),
		"unwraps to naive": wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return unwrappingWriter{naiveWriter{w}}
		}),
		"silent": wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return flushingWriter{unwrappingWriter{naiveWriter{w}}}
		}),
		"panics": wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return insistingWriter{unwrappingWriter{flushingWriter{unwrappingWriter{naiveWriter{w}}}}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range protocols {
				for _, next := range []http.Handler{nil, http.HandlerFunc(echo)} {
					srv := s.start(t, Options{Protocol: p, Outer: outer, Next: next})
					answer := srv.client(t).Do(t, Listen("7", everything))
					answer.refused(t, wantRefusal{status: 500, code: core.CodeInternalError, id: "7", says: "flush"}, "")
					if n := len(srv.ends); n > 0 {
						t.Error("a stream was opened for it")
					}
				}
			}
		})
	}
	// Wrappers that can are no hindrance.
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"unwraps": func(w http.ResponseWriter) http.ResponseWriter { return unwrappingWriter{w} },
		"flushes": func(w http.ResponseWriter) http.ResponseWriter { return flushingWriter{unwrappingWriter{w}} },
		"both": func(w http.ResponseWriter) http.ResponseWriter {
			return unwrappingWriter{flushingWriter{unwrappingWriter{insistingWriter{unwrappingWriter{w}}}}}
		},
		"flushes only": func(w http.ResponseWriter) http.ResponseWriter { return plainWriter{w} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := s.start(t, Options{Outer: wrapping(wrap), Hub: core.Config{KeepAlive: -1}})
			stream := srv.client(t).listen(t, Listen("7", everything))
			srv.publish(t, core.ToolsListChanged())
			stream.expect(t, core.MethodToolsListChanged)
			srv.end(t, 1)
			stream.expectEnd(t)
		})
	}
}

// swallowedFlushError: where a wrapper keeps the error of a flush to itself, and
// the request's context does not tell either, the first write after a disconnect
// ends the stream.
func (s suite) swallowedFlushError(t *testing.T) {
	t.Parallel()
	srv := s.start(t, Options{
		Hub: core.Config{KeepAlive: -1},
		Outer: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(flushingWriter{unwrappingWriter{w}}, r.WithContext(context.WithoutCancel(r.Context())))
			})
		},
	})
	client := srv.client(t)
	stream := client.listen(t, Listen("7", everything))
	conn := <-client.dialed
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset, which leaves the server nothing to write to
	}
	_ = conn.Close()
	if e, err := stream.Message(); err == nil {
		t.Fatalf("got %v on a closed connection", e)
	}
	srv.publish(t, core.ToolsListChanged())
	if end := srv.ended(t, core.ClientClosed); end.Stream.Delivered != 0 {
		t.Errorf("%d notifications count as delivered, want none", end.Stream.Delivered)
	}
}

// panickingWriter panics when it is told to.
type panickingWriter struct {
	flushingWriter
	with *atomic.Pointer[error]
}

func (w panickingWriter) Write(b []byte) (int, error) {
	if p := w.with.Load(); p != nil {
		panic(*p)
	}
	return w.ResponseWriter.Write(b)
}

// writerPanics: a panic of the response writer reaches the middlewares outside,
// and leaves nothing behind.
func (s suite) writerPanics(t *testing.T) {
	t.Parallel()
	boom := &net.AddrError{Err: "boom"}
	for name, c := range map[string]struct {
		with    error
		atFirst bool
	}{
		"acknowledgment":        {boom, true},
		"notification":          {boom, false},
		"acknowledgment, abort": {http.ErrAbortHandler, true},
		"notification, abort":   {http.ErrAbortHandler, false},
	} {
		if s.lean && !c.atFirst {
			continue // by then there is no such writer
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var with atomic.Pointer[error]
			caught := make(chan any, 1)
			srv := s.start(t, Options{
				Hub: core.Config{KeepAlive: -1, MaxStreams: 1},
				Outer: func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						defer func() {
							if p := recover(); p != nil {
								caught <- p
								panic(http.ErrAbortHandler) // net/http keeps silent about it
							}
						}()
						next.ServeHTTP(panickingWriter{flushingWriter{unwrappingWriter{w}}, &with}, r)
					})
				},
			})
			client := srv.client(t)
			if c.atFirst {
				with.Store(&c.with)
				if stream, err := client.Listen(Listen("7", everything)); err == nil {
					stream.Close()
					t.Error("the stream was opened all the same")
				}
			} else {
				stream := client.listen(t, Listen("7", everything))
				with.Store(&c.with)
				srv.publish(t, core.ToolsListChanged())
				if e, err := stream.Message(); err == nil {
					t.Errorf("got %v, want the stream to break off", e)
				}
				srv.ended(t, core.Panicked)
			}
			if got := receive(t, srv, caught); got != c.with { //nolint:errorlint // the value itself is to come
				t.Errorf("the middleware caught %v, want %v", got, c.with)
			}
			with.Store(nil)
			if n := len(srv.Hub.Streams()); n != 0 {
				t.Errorf("%d streams are left, want none", n)
			}
			client.listen(t, Listen("7", everything)) // it takes the only place
		})
	}
}
