// Watches: started for the first subscriber of a URI, stopped after the last,
// exactly once each, whatever happens in between.

package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// watcherFunc is a Watcher that only starts.
type watcherFunc func(ctx context.Context, uri string) error

func (f watcherFunc) Start(ctx context.Context, uri string) error { return f(ctx, uri) }
func (watcherFunc) Stop(string)                                   {}

// watcher records the calls, and reports those that do not alternate or overlap.
type watcher struct {
	tb      testing.TB
	onStart func(ctx context.Context, uri string) error // nil succeeds
	onStop  func(uri string)

	mu      sync.Mutex
	calls   []string
	running map[string]bool
	busy    map[string]bool
}

func newWatcher(tb testing.TB) *watcher {
	return &watcher{tb: tb, running: make(map[string]bool), busy: make(map[string]bool)}
}

func (w *watcher) enter(call, uri string, running bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call+" "+uri)
	if w.busy[uri] {
		w.tb.Errorf("%s(%s) during another call for it", call, uri)
	}
	if w.running[uri] != running {
		w.tb.Errorf("%s(%s) while running is %v", call, uri, w.running[uri])
	}
	w.busy[uri] = true
}

func (w *watcher) exit(uri string, running bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[uri] = false
	w.running[uri] = running
}

func (w *watcher) Start(ctx context.Context, uri string) error {
	w.enter("start", uri, false)
	started := false
	defer func() { w.exit(uri, started) }()
	if w.onStart != nil {
		if err := w.onStart(ctx, uri); err != nil {
			return err
		}
	}
	started = true
	return nil
}

func (w *watcher) Stop(uri string) {
	w.enter("stop", uri, true)
	defer w.exit(uri, false)
	if w.onStop != nil {
		w.onStop(uri)
	}
}

func (w *watcher) watches(uri string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running[uri]
}

// take returns the calls so far and forgets them.
func (w *watcher) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

func TestI10_WatchesFromFirstToLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWatcher(t)
		hub := newHub(t, core.Config{Watcher: w})
		first := listen(t, hub, "1", uriFilter("a:", "b:"))
		wantSteps(t, w.take(), "start a:", "start b:")
		second := listen(t, hub, "2", uriFilter("b:", "c:"))
		wantSteps(t, w.take(), "start c:")
		lists := listen(t, hub, "3", allLists)
		lists.close()
		first.close()
		wantSteps(t, w.take(), "stop a:")
		third := listen(t, hub, "4", uriFilter("b:"))
		second.close()
		wantSteps(t, w.take(), "stop c:")
		third.close()
		wantSteps(t, w.take(), "stop b:")
		listen(t, hub, "5", uriFilter("b:")).close()
		wantSteps(t, w.take(), "start b:", "stop b:")
	})
}

// TestI10_WatchesRunBeforeTheAck: what is acknowledged is watched.
func TestI10_WatchesRunBeforeTheAck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWatcher(t)
		hub := newHub(t, core.Config{Watcher: w})
		var before []string
		listen(t, hub, "1", uriFilter("a:", "b:"), func(s *stream, _ *core.Opening, _ *context.Context) {
			s.onCall(func(step string) error {
				if before == nil {
					before = w.take()
				}
				return nil
			})
		})
		wantSteps(t, before, "start a:", "start b:")
	})
}

func TestI10_OnlyHonoredURIsAreWatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWatcher(t)
		hub := newHub(t, core.Config{Watcher: w, Capabilities: core.Capabilities{ToolsListChanged: true}})
		listen(t, hub, "1", `{"toolsListChanged":true,"resourceSubscriptions":["a:"]}`).close()
		wantSteps(t, w.take())
	})
}

func TestI9_AFailingWatchUndoesTheOthers(t *testing.T) {
	t.Parallel()
	own := &core.Error{Code: -32002, Message: "no such resource", Data: []byte(`{"uri":"b:"}`), RetryAfter: time.Second}
	named := &core.Error{Code: -32603, Message: "later", Refusal: core.RefusedLimit}
	tests := []struct {
		name    string
		fail    func() error
		code    int
		refusal core.Refusal
		message string
		is      error
	}{
		{"with any error", func() error { return errors.New(marker) }, core.CodeInternalError, core.RefusedWatch, "a resource cannot be watched", nil},
		{"with an error of its own", func() error { return fmt.Errorf("wrapped: %w", own) }, -32002, core.RefusedWatch, "no such resource", nil},
		{"with an error that has a word", func() error { return named }, -32603, core.RefusedLimit, "later", nil},
		{"with a panic", func() error { panic(marker) }, core.CodeInternalError, core.RefusedPanic, "internal error", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWatcher(t)
				w.onStart = func(_ context.Context, uri string) error {
					if uri == "b:" {
						return test.fail()
					}
					return nil
				}
				observed := &recorder{}
				hub := newHub(t, core.Config{Watcher: w, Observer: observed, MaxStreams: 2})
				shared := listen(t, hub, "0", uriFilter("a:"))
				w.take()
				observed.take()
				for range 3 { // with two places, a leak would show
					_, err := tryListen(t, hub, "1", uriFilter("c:", "a:", "b:", "d:"))
					e := refusalOf(t, err, test.code, test.refusal)
					noEcho(t, &core.Error{Code: e.Code, Message: e.Message, Data: e.Data})
					if e.Message != test.message {
						t.Errorf("refused with %q, want %q", e.Message, test.message)
					}
					wantSteps(t, w.take(), "start c:", "start b:", "stop c:")
				}
				if own.Refusal != "" {
					t.Errorf("the watcher's own error was changed: %+v", own)
				}
				refused := "refused 1 " + string(test.refusal)
				wantSteps(t, observed.take(), refused, refused, refused)
				listen(t, hub, "2", uriFilter("c:")).close()
				shared.close()
				wantSteps(t, w.take(), "start c:", "stop c:", "stop a:")
			})
		})
	}
}

// TestI9_AStopThatPanicsLosesNothing: the rest is stopped, and the URI can be
// watched again.
func TestI9_AStopThatPanicsLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWatcher(t)
		w.onStop = func(uri string) { panic(uri) }
		hub := newHub(t, core.Config{Watcher: w})
		wantEnd(t, listen(t, hub, "1", uriFilter("a:", "b:")).close(), core.ClientClosed, false)
		wantSteps(t, w.take(), "start a:", "start b:", "stop a:", "stop b:")
		listen(t, hub, "1", uriFilter("a:")).close()
		wantSteps(t, w.take(), "start a:", "stop a:")
	})
}

// TestI9_AClientThatLeavesWhileAWatchStarts is refused for nobody to see, and
// holds up nobody else.
func TestI9_AClientThatLeavesWhileAWatchStarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWatcher(t)
		slow := true
		w.onStart = func(ctx context.Context, _ string) error {
			if slow {
				slow = false
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		observed := &recorder{}
		hub := newHub(t, core.Config{Watcher: w, Observer: observed})
		ctx, leave := context.WithCancel(context.Background())
		refused := make(chan error)
		go func() {
			_, err := tryListen(t, hub, "1", uriFilter("a:"), inContext(func(context.Context) context.Context { return ctx }))
			refused <- err
		}()
		synctest.Wait()
		// One more waits for the same watch, and one of those leaves first.
		impatient, leaveFirst := context.WithCancel(context.Background())
		go func() {
			_, err := tryListen(t, hub, "2", uriFilter("a:"), inContext(func(context.Context) context.Context { return impatient }))
			refused <- err
		}()
		patient := make(chan *stream)
		go func() { patient <- listen(t, hub, "3", uriFilter("a:")) }()
		synctest.Wait()
		other := listen(t, hub, "4", uriFilter("b:")) // another URI does not wait
		synctest.Wait()
		leaveFirst()
		wantRefusal(t, <-refused, core.CodeInternalError, core.RefusedCanceled)
		leave()
		wantRefusal(t, <-refused, core.CodeInternalError, core.RefusedCanceled)
		s := <-patient
		s.close()
		other.close()
		wantSteps(t, w.take(), "start a:", "start b:", "start a:", "stop a:", "stop b:")
	})
}

// TestI9_AClientThatLeftBeforeTheAck: the watch had started, and is stopped.
func TestI9_AClientThatLeftBeforeTheAck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWatcher(t)
		ctx, leave := context.WithCancel(context.Background())
		w.onStart = func(context.Context, string) error { leave(); return nil }
		hub := newHub(t, core.Config{Watcher: w})
		_, err := tryListen(t, hub, "1", uriFilter("a:"), inContext(func(context.Context) context.Context { return ctx }))
		wantRefusal(t, err, core.CodeInternalError, core.RefusedCanceled)
		wantSteps(t, w.take(), "start a:", "stop a:")
	})
}

// TestI9_AFailedConnectStopsTheWatches and passes its error on.
func TestI9_AFailedConnectStopsTheWatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWatcher(t)
		hub := newHub(t, core.Config{Watcher: w, MaxStreams: 1})
		cannot := &core.Error{Code: core.CodeInternalError, Message: "cannot flush", Refusal: core.RefusedTransport}
		for _, fail := range []func() (core.Conn, error){
			func() (core.Conn, error) { return nil, cannot },
			func() (core.Conn, error) { return nil, errBroken },
			func() (core.Conn, error) { panic("connect") },
		} {
			var err error
			var passed any
			func() {
				defer func() { passed = recover() }()
				_, err = hub.Open(context.Background(), core.Opening{Request: request(t, hub, "1", uriFilter("a:")), Connect: fail})
			}()
			if passed == nil {
				wantRefusal(t, err, core.CodeInternalError, core.RefusedTransport)
			} else if passed != "connect" {
				t.Errorf("the panic %v passed through Open, want that of Connect", passed)
			}
			wantSteps(t, w.take(), "start a:", "stop a:")
			checkEmpty(t, hub)
		}
	})
}

// TestI10_HandOver: the last subscriber of a URI leaves while the next one comes,
// and whoever is first, the one who stays is served.
func TestI10_HandOver(t *testing.T) {
	t.Parallel()
	w := newWatcher(t)
	hub := newHub(t, core.Config{Watcher: w})
	last := listen(t, hub, "0", uriFilter("a:"))
	for i := range 1000 {
		start := make(chan struct{})
		left := make(chan struct{})
		go func() {
			defer close(left)
			<-start
			last.close()
		}()
		close(start)
		next := listen(t, hub, strconv.Itoa(i+1), uriFilter("a:"))
		<-left
		if !w.watches("a:") {
			t.Fatalf("I10: a: is not watched in round %d, while a stream that was acknowledged for it is open", i)
		}
		last = next
	}
	last.close()
}

// TestI10_AClosingHubCancelsStarts: no newcomer is acknowledged after Shutdown,
// however long its watch takes to start.
func TestI10_AClosingHubCancelsStarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWatcher(t)
		w.onStart = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		hub := newHub(t, core.Config{Watcher: w})
		refused := make(chan error)
		for i := range 3 {
			go func() {
				_, err := tryListen(t, hub, strconv.Itoa(i), uriFilter("a:"))
				refused <- err
			}()
		}
		synctest.Wait()
		go shutdown(t, hub)
		for range 3 {
			if err := <-refused; !errors.Is(err, core.ErrShutdown) {
				t.Errorf("refused with %v, want ErrShutdown", err)
			}
		}
	})
}

// TestI9_StartAndStopAlternate runs many clients over few URIs, with starts that
// fail, panic and take their time; the watcher itself reports what is wrong.
func TestI9_StartAndStopAlternate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			bubble(t, func(t *testing.T) { startAndStopAlternate(t, seed) })
		})
	}
}

func startAndStopAlternate(t *testing.T, seed uint64) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	pause := func() { <-time.After(time.Duration(draw(5)) * time.Millisecond) }
	uris := []string{"a:", "b:", "c:", "d:"}
	w := newWatcher(t)
	w.onStart = func(context.Context, string) error {
		pause()
		switch draw(8) {
		case 0:
			return errBroken
		case 1:
			panic("start")
		}
		return nil
	}
	w.onStop = func(string) {
		pause()
		if draw(8) == 0 {
			panic("stop")
		}
	}
	hub := newHub(t, core.Config{Watcher: w})
	var clients sync.WaitGroup
	for client := range 6 {
		clients.Go(func() {
			for range 40 {
				mine := slices.Clone(uris)
				for i := range mine {
					j := draw(i + 1)
					mine[i], mine[j] = mine[j], mine[i]
				}
				mine = mine[:1+draw(2)]
				ctx, cancel := context.WithCancel(context.Background())
				leave := time.AfterFunc(time.Duration(1+draw(20))*time.Millisecond, cancel)
				s, err := tryListen(t, hub, strconv.Itoa(client), uriFilter(mine...),
					inContext(func(context.Context) context.Context { return ctx }))
				if err == nil && leave.Stop() {
					pause()
					for _, uri := range mine {
						if !w.watches(uri) {
							t.Errorf("I10: %s is not watched while a stream that was acknowledged for it is open", uri)
						}
					}
				}
				cancel()
				if err == nil {
					s.close()
				}
			}
		})
	}
	clients.Wait()
	synctest.Wait()
	for _, uri := range uris {
		if w.watches(uri) {
			t.Errorf("%s is still watched after its last subscriber left", uri)
		}
	}
	if calls := w.take(); len(calls) < 50 {
		t.Errorf("only %d calls: the test tests nothing", len(calls))
	}
}

// TestI9_AStartThatEndsTheGoroutine leaves neither the watches before it nor its own
// turn behind.
func TestI9_AStartThatEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	w := newWatcher(t)
	hub := newHub(t, core.Config{Watcher: w})
	var once sync.Once
	w.onStart = func(_ context.Context, uri string) error {
		if uri == "b:" {
			once.Do(func() {
				w.exit(uri, false)
				runtime.Goexit()
			})
		}
		return nil
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = hub.Open(t.Context(), core.Opening{Request: request(t, hub, "1", uriFilter("a:", "b:", "c:"))})
	}()
	<-gone
	for _, uri := range []string{"a:", "b:", "c:"} {
		if w.watches(uri) {
			t.Errorf("%s is still watched", uri)
		}
	}
	s := listen(t, hub, "2", uriFilter("b:"))
	s.close()
}

// TestI9_AStopThatEndsTheGoroutine, as a failing test does it, leaves no other watch
// behind: neither at the end of a stream nor where a start has failed.
func TestI9_AStopThatEndsTheGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWatcher(t)
		w.onStart = func(_ context.Context, uri string) error {
			if uri == "fails:" {
				return errBroken
			}
			return nil
		}
		w.onStop = func(string) { runtime.Goexit() }
		hub := newHub(t, core.Config{Watcher: w})
		wantEnd(t, listen(t, hub, "1", uriFilter("a:", "b:", "c:")).close(), core.ClientClosed, false)
		wantSteps(t, w.take(), "start a:", "start b:", "start c:", "stop a:", "stop b:", "stop c:")
		checkEmpty(t, hub)

		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = hub.Open(t.Context(), core.Opening{Request: request(t, hub, "2", uriFilter("a:", "b:", "fails:"))})
		}()
		<-gone
		wantSteps(t, w.take(), "start a:", "start b:", "start fails:", "stop a:", "stop b:")
		listen(t, hub, "3", uriFilter("b:")).close()
		wantSteps(t, w.take(), "start b:", "stop b:")
	})
}
