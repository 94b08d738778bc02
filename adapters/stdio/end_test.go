// Ends: of the input, of the hub, of the context, of the client's patience.

package mcpstdio_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	mcpstdio "github.com/mcplisten/mcplisten/adapters/stdio"
	"github.com/mcplisten/mcplisten/core"
)

func TestEndOfInputEndsAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var closed ends
		hub := newHub(t, core.Config{
			OnEnd: closed.add,
			Authorizer: core.AuthorizerFunc(func(ctx context.Context, _ string, f core.Filter) (core.Grant, error) {
				if f.PromptsListChanged {
					<-ctx.Done()
				}
				return core.Grant{}, ctx.Err()
			}),
		})
		c := serve(t, newServer(t, hub))
		for i := range 10 {
			c.listen(strconv.Itoa(i), tools)
			c.awaitID(strconv.Itoa(i))
		}
		c.listen("99", `{"promptsListChanged":true}`) // still opening at the end
		synctest.Wait()
		c.take()
		start := time.Now()
		if err := c.close(); err != nil {
			t.Errorf("Serve returned %v, want nil", err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the end took %v", took)
		}
		synctest.Wait()
		if got := c.take(); len(got) != 0 {
			t.Errorf("after the end of input came %q", got)
		}
		closed.want(t, 10, core.ClientClosed, false)
	})
}

// The hub's shutdown sends each subscription its result. The connection goes on, but
// not for new subscriptions.
func TestShutdown(t *testing.T) {
	t.Parallel()
	var closed ends
	hub := newHub(t, core.Config{OnEnd: closed.add, ServerInfo: &core.Implementation{Name: "test", Version: "1"}})
	c := serve(t, newServer(t, hub))
	for i := range 20 {
		c.listen(strconv.Itoa(i), tools)
		c.awaitID(strconv.Itoa(i))
	}
	publish(t, hub, core.ToolsListChanged())
	if err := hub.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	closed.want(t, 20, core.Shutdown, true)
	for i := range 20 {
		c.awaitEvent(event{strconv.Itoa(i), "result"})
		c.wantAbout(strconv.Itoa(i), ackTools, "tools", "result")
	}
	if got, want := c.line("0"), `{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","_meta":{"`+
		core.MetaSubscriptionID+`":0,"`+core.MetaServerInfo+`":{"name":"test","version":"1"}}}}`; got != want {
		t.Errorf("the result is\n%s\nwant\n%s", got, want)
	}
	c.listen("20", tools)
	c.awaitEvent(event{"20", "error -32603"})
	if got := c.ask(`"still here"`); got.what != "reply" {
		t.Errorf("after the shutdown, a request was answered with %q", got)
	}
}

// A filter of which nothing is honored is acknowledged, and over.
func TestNothingHonored(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	c := serve(t, newServer(t, hub))
	c.listen("1", `{"promptsListChanged":true}`)
	c.awaitEvent(event{"1", "result"})
	c.wantAbout("1", "ack {}", "result")
}

// At the hub's limit the newcomer is refused, and a place that was cancelled is free.
func TestLimit(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{MaxStreams: 2})
	c := serve(t, newServer(t, hub))
	for i := range 2 {
		c.listen(strconv.Itoa(i), tools)
		c.awaitEvent(event{strconv.Itoa(i), ackTools})
	}
	c.listen("2", tools)
	c.awaitEvent(event{"2", "error -32603"})
	hub.End(hub.Streams()[0].Serial)
	c.await("a result", func(events []event) bool { return events[len(events)-1].what == "result" })
	publish(t, hub, core.ToolsListChanged())
	c.await("the other's notification", func(events []event) bool { return events[len(events)-1].what == "tools" })
}

// A client that does not read holds up no publisher and makes nothing grow: after
// 30,000 changes it finds one notification for each thing that changed. It runs
// alone, since it looks at the heap.
func TestStalledReader(t *testing.T) { //nolint:paralleltest // see above
	hub := newHub(t, core.Config{})
	c := serve(t, newServer(t, hub))
	const n = 20
	for i := range n {
		c.listen(strconv.Itoa(i), `{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`)
		c.awaitID(strconv.Itoa(i))
	}
	c.stall()
	publishAll := func(times int) {
		for range times {
			publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("file:///a"))
		}
	}
	publishAll(1000)
	var before, after runtime.MemStats
	goroutines := runtime.NumGoroutine()
	runtime.GC()
	runtime.ReadMemStats(&before)
	publishAll(15_000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if now := runtime.NumGoroutine(); now > goroutines+n { // each subscription may hold up a writer
		t.Errorf("%d goroutines became %d", goroutines, now)
	}
	c.take()
	c.resume()
	for i := range n {
		c.awaitEvent(event{strconv.Itoa(i), "updated file:///a"})
	}
	c.ask(`"last"`)
	for i := range n {
		// What was being written, and what was pending.
		if got := c.about(strconv.Itoa(i)); len(got) > 6 {
			t.Errorf("%d notifications came: %q", len(got), got)
		}
	}
}

// A client that asks and never reads is not listened to any more, long before what
// waits for it takes much memory.
func TestFloodWithoutReading(t *testing.T) {
	t.Parallel()
	for _, flood := range []string{"nonsense", listenText("ID", tools), listenText("ID", `{}`)} {
		t.Run(flood[:8], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{MaxStreams: 10})
				c := serve(t, newServer(t, hub))
				c.stall()
				var sent int
				var sending sync.WaitGroup
				sending.Go(func() {
					for ; sent < 100_000; sent++ {
						if _, err := io.WriteString(c.out, strings.Replace(flood, "ID", strconv.Itoa(sent), 1)+"\n"); err != nil {
							return
						}
					}
				})
				synctest.Wait()
				if sent > 20_000 {
					t.Errorf("%d messages were taken from a client that reads nothing", sent)
				}
				c.stop()
				sending.Wait()
				wantError(t, c.wait(), context.Canceled)
			})
		})
	}
}

// A client that asks, does not read, and ends is gone, though its writer has no
// deadlines and its end is behind all that it asked.
func TestFloodWithoutReadingUntilTheEnd(t *testing.T) {
	t.Parallel()
	for _, flood := range []string{"nonsense", listenText("ID", tools), listenText("ID", `{}`), requestText("ID", "x", "{}")} {
		t.Run(flood[:8], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{})
				c := serve(t, newServer(t, hub, mcpstdio.WithWriteTimeout(3*time.Second)))
				c.stall()
				var sending sync.WaitGroup
				sending.Go(func() {
					defer c.out.Close()
					for i := range 3000 {
						if _, err := io.WriteString(c.out, strings.Replace(flood, "ID", strconv.Itoa(i), 1)+"\n"); err != nil {
							return
						}
					}
				})
				start := time.Now()
				wantError(t, c.waitLong(time.Hour), core.ErrSlowClient)
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				sending.Wait()
			})
		})
	}
}

// Slow is not gone: while something gets out, a client that asks a lot is answered.
func TestFloodWithSlowReading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		serverIn, clientOut := io.Pipe()
		clientIn, serverOut := io.Pipe()
		ended := make(chan error, 1)
		s := newServer(t, newHub(t, core.Config{}), mcpstdio.WithWriteTimeout(3*time.Second), mcpstdio.WithGrace(time.Hour))
		go func() {
			ended <- s.Serve(t.Context(), serverIn, serverOut)
			_ = serverOut.Close()
		}()
		const n = 200
		go func() {
			defer clientOut.Close()
			for range n {
				_, _ = io.WriteString(clientOut, "nonsense\n")
			}
		}()
		got := 0
		for lines := bufio.NewScanner(clientIn); lines.Scan(); got++ {
			<-time.After(2 * time.Second)
		}
		if err := <-ended; err != nil || got != n {
			t.Errorf("%d answers, want %d; Serve returned %v", got, n, err)
		}
	})
}

// Where the writer has deadlines, a client that does not read is given up.
func TestSlowClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var closed ends
		hub := newHub(t, core.Config{OnEnd: closed.add})
		server, peer := net.Pipe()
		c := serveOn(t, newServer(t, hub, mcpstdio.WithWriteTimeout(3*time.Second)), server, server, peer, peer)
		c.listen("1", tools)
		c.listen("2", tools)
		c.awaitEvent(event{"1", ackTools})
		c.awaitEvent(event{"2", ackTools})
		// A deadline is for one write: silence is no slowness.
		advance(time.Minute)
		publish(t, hub, core.ToolsListChanged())
		c.awaitEvent(event{"1", "tools"})
		c.awaitEvent(event{"2", "tools"})
		c.stall()
		synctest.Wait()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		publish(t, hub, core.ToolsListChanged())
		start := time.Now()
		wantError(t, c.wait(), core.ErrSlowClient, os.ErrDeadlineExceeded)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		st := hub.Stats()
		if st.Closed[core.SlowClient] == 0 || st.Closed[core.SlowClient]+st.Closed[core.ClientClosed] != 2 {
			t.Errorf("the subscriptions ended as %v", st.Closed)
		}
		closed.want(t, 2, core.SlowClient, false)
	})
}

// Serve leaves no deadline on the writer that it was lent.
func TestNoDeadlineIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server, peer := net.Pipe()
		defer server.Close()
		defer peer.Close()
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		s := newServer(t, newHub(t, core.Config{}))
		if err := s.Serve(t.Context(), strings.NewReader("x\n"), server); err != nil {
			t.Fatal(err)
		}
		advance(time.Hour)
		if _, err := server.Write([]byte("x")); err != nil {
			t.Errorf("a write after Serve: %v", err)
		}
	})
}

// stuckWriter writes nothing until it is closed.
type stuckWriter struct {
	closed chan struct{}
	writes atomic.Int32
}

func (w *stuckWriter) Write([]byte) (int, error) {
	w.writes.Add(1)
	<-w.closed
	return 0, io.ErrClosedPipe
}

func (w *stuckWriter) Close() error {
	close(w.closed)
	return nil
}

// At its end, Serve closes a writer that is stuck, and no other.
func TestStuckWriterIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := &stuckWriter{closed: make(chan struct{})}
		s := newServer(t, newHub(t, core.Config{}))
		start := time.Now()
		if err := s.Serve(t.Context(), strings.NewReader("x\nx\n"+listenText("1", tools)), w); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > mcpstdio.DefaultGrace+time.Second {
			t.Errorf("the end took %v", took)
		}
		select {
		case <-w.closed:
		default:
			t.Error("the writer is not closed")
		}
		synctest.Wait()
		if n := w.writes.Load(); n != 1 {
			t.Errorf("%d writes, want the one that was stuck", n)
		}
		idle := &stuckWriter{closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r, _ := io.Pipe()
		wantError(t, s.Serve(ctx, r, idle), context.Canceled)
		select {
		case <-idle.closed:
			t.Error("a writer that was not in use is closed")
		default:
		}
	})
}

// When ctx ends, Serve returns, whatever its reader and writer are doing.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	for _, stalled := range []bool{false, true} {
		t.Run("stalled "+strconv.FormatBool(stalled), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var closed ends
				hub := newHub(t, core.Config{OnEnd: closed.add})
				c := serve(t, newServer(t, hub))
				c.listen("1", tools)
				c.awaitEvent(event{"1", ackTools})
				if stalled {
					c.stall()
					publish(t, hub, core.ToolsListChanged()) // the Read under way takes it
					synctest.Wait()
					publish(t, hub, core.ToolsListChanged())
					synctest.Wait()
				}
				c.stop()
				wantError(t, c.wait(), context.Canceled)
				closed.want(t, 1, core.ClientClosed, false)
				c.wantAbout("1", []string{ackTools, "tools"}[:1+len(c.about("1"))-1]...)
			})
		})
	}
}

// A deadline of the context ends subscriptions with their result just before it.
func TestContextDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var closed ends
		hub := newHub(t, core.Config{OnEnd: closed.add})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		serverIn, clientOut := io.Pipe()
		clientIn, serverOut := io.Pipe()
		c := serveIn(t, ctx, newServer(t, hub), serverIn, serverOut, clientIn, clientOut)
		c.listen("1", tools)
		wantError(t, c.waitLong(2*time.Minute), context.DeadlineExceeded)
		c.wantAbout("1", ackTools, "result")
		closed.want(t, 1, core.Deadline, true)
	})
}

// waitLong is wait for what takes its time.
func (c *client) waitLong(d time.Duration) error {
	select {
	case <-c.ended:
	case <-time.After(d):
		c.tb.Fatal("Serve does not return")
	}
	return c.err
}

// brokenWriter fails from the given write on.
type brokenWriter struct {
	io.WriteCloser
	mu   sync.Mutex
	left int
	err  error
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left--; w.left < 0 {
		return 0, w.err
	}
	return w.WriteCloser.Write(b)
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, failure := range map[string]struct {
		err    error
		reason core.Reason
	}{
		"gone":  {syscall.EPIPE, core.ClientClosed},
		"other": {broken, core.WriteError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var closed ends
			hub := newHub(t, core.Config{OnEnd: closed.add})
			serverIn, clientOut := io.Pipe()
			clientIn, serverOut := io.Pipe()
			w := &brokenWriter{WriteCloser: serverOut, left: 1, err: failure.err}
			c := serveOn(t, newServer(t, hub), serverIn, w, clientIn, clientOut)
			c.listen("1", tools)
			c.awaitEvent(event{"1", ackTools})
			publish(t, hub, core.ToolsListChanged())
			wantError(t, c.wait(), failure.err)
			closed.want(t, 1, failure.reason, false)
		})
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r, w := io.Pipe()
	_ = w.CloseWithError(broken)
	var out bytes.Buffer
	wantError(t, newServer(t, newHub(t, core.Config{})).Serve(t.Context(), r, &out), broken)
	if out.Len() != 0 {
		t.Errorf("written was %q", &out)
	}
}

// What stands before the end of input is answered, with or without a line end.
func TestAnswersBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := newServer(t, newHub(t, core.Config{}))
	in := "x\n\n" + requestText("1", core.MethodDiscover, `{"_meta":`+validMeta+`}`) + "\r\n" + requestText("2", "tools/list", "{}")
	var out bytes.Buffer
	if err := s.Serve(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var got []event
	for line := range strings.Lines(out.String()) {
		got = append(got, brief(t, line))
	}
	if want := []event{{"", "error -32700"}, {"1", "reply"}, {"2", "error -32601"}}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Clients of a Unix socket are connections of their own: equal ids do not meet, and
// the principal of each comes from its context.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	type key struct{}
	hub := newHub(t, core.Config{})
	s := newServer(t, hub, mcpstdio.WithPrincipal(func(ctx context.Context) string {
		name, _ := ctx.Value(key{}).(string)
		return name
	}))
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	connect := func(principal string) *client {
		peer, err := net.Dial("unix", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return serveIn(t, context.WithValue(context.Background(), key{}, principal), s, conn, conn, peer, peer)
	}
	alice, bob := connect("alice"), connect("bob")
	for _, c := range []*client{alice, bob} {
		c.listen("1", tools)
		c.awaitEvent(event{"1", ackTools})
	}
	if err := hub.PublishTo(t.Context(), core.Principals("alice"), core.ToolsListChanged()); err != nil {
		t.Fatal(err)
	}
	alice.awaitEvent(event{"1", "tools"})
	alice.cancel("1")
	alice.ask("2")
	publish(t, hub, core.ToolsListChanged())
	bob.awaitEvent(event{"1", "tools"})
	bob.wantAbout("1", ackTools, "tools")
	alice.ask("3")
	alice.wantAbout("1", ackTools, "tools")
	// A client that goes away without a word.
	if err := bob.close(); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Serve returned %v", err)
	}
	if n := len(hub.Streams()); n != 0 {
		t.Errorf("%d subscriptions are open", n)
	}
}

func TestNewChecks(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	next := mcpstdio.WithNext(func(context.Context, []byte) []byte { return nil })
	upstream := mcpstdio.WithUpstream(mcpstdio.InProcess(nil))
	for name, err := range map[string]error{
		"no hub":        second(mcpstdio.New(nil)),
		"two behind":    second(mcpstdio.New(hub, next, upstream)),
		"line limit":    second(mcpstdio.New(hub, mcpstdio.WithMaxLine(0))),
		"call limit":    second(mcpstdio.New(hub, mcpstdio.WithMaxCalls(0))),
		"write timeout": second(mcpstdio.New(hub, mcpstdio.WithWriteTimeout(0))),
		"grace":         second(mcpstdio.New(hub, mcpstdio.WithGrace(-1))),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "mcpstdio: ") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func second(_ *mcpstdio.Server, err error) error { return err }
