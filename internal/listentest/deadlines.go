// Deadlines: the server's, a middleware's and the library's own. Where time has
// to pass, a stream's keep-alives are the clock.

package listentest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// writeTimeout is that of the streams here: long enough for those that are read from
// on a busy machine.
const writeTimeout = time.Second

// serverTimeouts: a stream outlives all the timeouts of http.Server, and its own
// write timeout while it is idle.
func (s suite) serverTimeouts(t *testing.T) {
	t.Parallel()
	const timeout, silence = 2 * writeTimeout, writeTimeout + 200*time.Millisecond
	together(t, func(t *testing.T, p Protocol) func() {
		srv := s.start(t, Options{
			Protocol: p,
			Hub:      core.Config{KeepAlive: silence},
			HTTP:     []mcphttp.Option{mcphttp.WithWriteTimeout(writeTimeout)},
			Server: func(server *http.Server) {
				server.ReadTimeout, server.ReadHeaderTimeout = timeout, timeout
				server.WriteTimeout, server.IdleTimeout = timeout, timeout
			},
		})
		stream := srv.client(t).listen(t, Listen("7", everything))
		return func() {
			stream.keptAlive(t, 2) // longer than all of them
			srv.publish(t, core.ToolsListChanged())
			stream.expect(t, core.MethodToolsListChanged)
			stream.keptAlive(t, 1)
			srv.end(t, 1)
			stream.expectEnd(t)
			srv.ended(t, core.Completed)
		}
	})
}

// together runs a test over each protocol: first the beginning of all, then what
// takes time, so that it passes for all of them at once.
func together(t *testing.T, test func(t *testing.T, p Protocol) (rest func())) {
	t.Helper()
	var rests []func()
	for _, p := range protocols {
		rests = append(rests, test(t, p))
	}
	for i, rest := range rests {
		t.Log(protocols[i])
		rest()
	}
}

// connectionReuse: after a stream its connection serves other requests, on which
// no deadline is left.
func (s suite) connectionReuse(t *testing.T) {
	t.Parallel()
	clockwork := s.start(t, Options{Hub: core.Config{KeepAlive: writeTimeout / 2}})
	clock := clockwork.client(t).listen(t, Listen("0", everything))
	released := make(chan struct{})
	together(t, func(t *testing.T, p Protocol) func() {
		srv := s.start(t, Options{
			Protocol: p,
			HTTP:     []mcphttp.Option{mcphttp.WithWriteTimeout(writeTimeout)},
			Next:     http.HandlerFunc(echo),
		})
		client := srv.client(t)
		stream := client.listen(t, Listen("7", everything))
		srv.publish(t, core.ToolsListChanged())
		srv.end(t, 1)
		stream.expect(t, core.MethodToolsListChanged)
		stream.expectEnd(t)
		srv.ended(t, core.Completed)

		// The next request on the connection takes longer than the timeout, to be
		// read and to be answered.
		body, w := io.Pipe()
		go func() {
			defer func() { _ = w.Close() }()
			_, _ = io.WriteString(w, "early ")
			select {
			case <-released:
			case <-srv.ctx.Done():
			}
			_, _ = io.WriteString(w, "late")
		}()
		answered := make(chan error, 1)
		go func() {
			call := Post("tools/list", "")
			call.Stream = body
			resp, err := client.Send(srv.ctx, call)
			if err == nil {
				defer func() { _ = resp.Body.Close() }()
				var got []byte
				if got, err = io.ReadAll(resp.Body); err == nil && string(got) != "early late" {
					err = fmt.Errorf("got %q, want %q", got, "early late")
				}
			}
			answered <- err
		}()
		return func() {
			if p == protocols[0] {
				clock.keptAlive(t, 4) // twice the timeout
				close(released)
			}
			if err := receive(t, srv, answered); err != nil {
				t.Errorf("a request after a stream: %v", err)
			}
			client.listen(t, Listen("8", everything))
			want := 1
			if s.takesOver(p) {
				want = 2 // and the second one served a request and a stream
			}
			if n := len(client.dialed); n != want {
				t.Errorf("the client opened %d connections, want %d", n, want)
			}
		}
	})
}

// plainWriter is a wrapper that can flush and hides all else.
type plainWriter struct{ w http.ResponseWriter }

func (p plainWriter) Header() http.Header         { return p.w.Header() }
func (p plainWriter) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p plainWriter) WriteHeader(status int)      { p.w.WriteHeader(status) }
func (p plainWriter) Flush()                      { _ = http.NewResponseController(p.w).Flush() }

func plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(plainWriter{w}, r) })
}

// cutAfter is when a stream is cut that has not ended before. The library takes a
// tenth of it, and half a second at most, for the end: on a busy machine less than that
// is too little.
const cutAfter = 5 * time.Second

// hiddenDeadline: where the server's write timeout cannot be taken away, streams
// end with their result before it, and the log says so once.
func (s suite) hiddenDeadline(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, p Protocol) func() {
		log := &buffer{}
		srv := s.start(t, Options{
			Protocol: p, Outer: plain,
			HTTP:   []mcphttp.Option{mcphttp.WithLogger(slog.New(slog.NewTextHandler(log, nil)))},
			Server: func(server *http.Server) { server.WriteTimeout = cutAfter },
		})
		client := srv.client(t)
		streams := []*Stream{client.listen(t, Listen("1", everything)), client.listen(t, Listen("2", everything))}
		srv.publish(t, core.ToolsListChanged())
		return func() {
			for _, stream := range streams {
				stream.expect(t, core.MethodToolsListChanged)
				stream.expectEnd(t)
				srv.ended(t, core.Deadline)
			}
			found := slices.DeleteFunc(log.lines("level=WARN"), s.isAboutLean)
			if len(found) != 1 || !strings.Contains(found[0], "write_timeout="+cutAfter.String()) {
				t.Errorf("the log has %q, want one warning with the timeout", log)
			}
		}
	})
	t.Run("no timeout", func(t *testing.T) {
		t.Parallel()
		log := &buffer{}
		srv := s.start(t, Options{
			Outer: plain, Hub: core.Config{KeepAlive: 20 * time.Millisecond},
			HTTP: []mcphttp.Option{mcphttp.WithLogger(slog.New(slog.NewTextHandler(log, nil)))},
		})
		stream := srv.client(t).listen(t, Listen("1", everything))
		stream.keptAlive(t, 5)
		srv.end(t, 1)
		stream.expectEnd(t)
		if found := slices.DeleteFunc(log.lines(""), s.isAboutLean); len(found) != 0 {
			t.Errorf("the log has %q, want nothing", found)
		}
	})
}

// isAboutLean reports whether a line of the log says that a stream cannot be lean.
func (s suite) isAboutLean(line string) bool {
	return s.lean && strings.Contains(line, "cannot be lean")
}

// contextDeadline: a timeout middleware ends the stream with its result, while
// the middleware still lets it write.
func (s suite) contextDeadline(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, p Protocol) func() {
		returned := make(chan error, 1)
		srv := s.start(t, Options{Protocol: p, Outer: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithTimeout(r.Context(), cutAfter)
				defer cancel()
				next.ServeHTTP(w, r.WithContext(ctx))
				returned <- ctx.Err()
			})
		}})
		stream := srv.client(t).listen(t, Listen("7", everything))
		srv.publish(t, core.ToolsListChanged())
		return func() {
			stream.expect(t, core.MethodToolsListChanged)
			stream.expectEnd(t)
			srv.ended(t, core.Deadline)
			if err := receive(t, srv, returned); err != nil {
				t.Errorf("the handler returned when the context had ended: %v", err)
			}
		}
	})
}

// beat paces those who wait for a write to time out.
const beat = 20 * time.Millisecond

// bulk is a filter of much text, to fill the buffers of a connection with.
func bulk() (filter string, changes []core.Change) {
	var uris []string
	for i := range 40 {
		uri := fmt.Sprintf("file:///%d/%s", i, strings.Repeat("x", 2000))
		uris = append(uris, uri)
		changes = append(changes, core.ResourceUpdated(uri))
	}
	return `{"resourceSubscriptions":["` + strings.Join(uris, `","`) + `"]}`, changes
}

// shrunk makes the kernel's buffer for what a connection sends small.
func shrunk(c net.Conn) net.Conn {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(8 << 10)
	}
	return c
}

// slowClient: a client that does not read is cut off after the write timeout,
// whatever else shares its connection.
func (s suite) slowClient(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		srv := s.start(t, Options{
			Protocol: p, Conn: shrunk, Hub: core.Config{KeepAlive: beat},
			HTTP: []mcphttp.Option{mcphttp.WithWriteTimeout(writeTimeout)},
		})
		client := srv.client(t)
		filter, changes := bulk()
		lazy := client.listen(t, Listen("1", filter))
		healthy := client.listen(t, Listen("2", everything))
		for len(srv.ends) == 0 {
			srv.publish(t, append(changes, core.ToolsListChanged())...)
			healthy.expect(t, core.MethodToolsListChanged)
			healthy.keptAlive(t, 1)
		}
		if end := srv.ended(t, core.SlowClient); end.Stream.ID.String() != "1" {
			t.Errorf("the stream %s ended, want 1", end.Stream.ID)
		}
		// What is left of the stream is no clean end.
		for {
			e, err := lazy.Message()
			if errors.Is(err, io.EOF) || e.Result {
				t.Errorf("the stream ended with %v, %v; want it cut off", e, err)
			}
			if err != nil {
				break
			}
		}
		srv.end(t, 1)
		healthy.expectEnd(t)
	})
}

// stalledConnection: where nothing of a whole connection is read any more, each
// stream on it is cut off, and the streams on others go on. Over HTTP/2 that needs
// the server's WriteByteTimeout: a stream there is ended by a frame, which waits
// for the stalled connection as well.
// That timeout is much longer than the one of a write, since it ends all streams at
// once: on a busy machine one of them may have begun its write later than the other.
func (s suite) stalledConnection(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		srv := s.start(t, Options{
			Protocol: p, Conn: shrunk, Hub: core.Config{KeepAlive: beat},
			Noise:  true, // HTTP/2 logs the broken connection
			HTTP:   []mcphttp.Option{mcphttp.WithWriteTimeout(writeTimeout)},
			Server: func(server *http.Server) { server.HTTP2 = &http.HTTP2Config{WriteByteTimeout: 5 * writeTimeout} },
		})
		client, other := srv.client(t), srv.client(t)
		filter, changes := bulk()
		client.listen(t, Listen("1", filter))
		client.listen(t, Listen("1", filter))
		healthy := other.listen(t, Listen("2", everything))
		client.reading.shut.Store(true)
		for len(srv.ends) < 2 {
			srv.publish(t, append(changes, core.ToolsListChanged())...)
			healthy.expect(t, core.MethodToolsListChanged)
			healthy.keptAlive(t, 1)
		}
		for range 2 {
			if end := srv.ended(t, core.SlowClient); end.Stream.ID.String() != "1" {
				t.Errorf("the stream %s ended, want 1", end.Stream.ID)
			}
		}
		srv.end(t, 1)
		healthy.expectEnd(t)
	})
}
