// The server's side of an end: shutting down, draining, and ending, revoking or
// cancelling single streams.

package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

func TestShutdownEndsEachStreamWithItsResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		streams := make([]*stream, 20)
		for i := range streams {
			streams[i] = listen(t, hub, strconv.Itoa(i), allLists)
		}
		synctest.Wait()
		stuck := streams[0]
		stuck.stall()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		publish(t, hub, core.PromptsListChanged())
		returned := make(chan struct{})
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() { shutdown(t, hub) })
		}
		go func() { calls.Wait(); close(returned) }()
		synctest.Wait()
		select {
		case <-returned:
			t.Error("Shutdown returned while a stream was still ending")
		default:
		}
		_, err := tryListen(t, hub, "99", allLists)
		e := refusalOf(t, err, core.CodeInternalError, core.RefusedShutdown)
		if !errors.Is(err, core.ErrShutdown) || e.RetryAfter <= 0 {
			t.Errorf("a newcomer is refused with %v and RetryAfter %v, want ErrShutdown and advice", err, e.RetryAfter)
		}
		publish(t, hub, core.ResourcesListChanged()) // no error, and pending for the one
		stuck.resume()
		<-returned
		for i, s := range streams {
			wantEnd(t, s.wait(), core.Shutdown, true)
			steps := s.take()
			if results := count(steps, "result"); results != 1 || steps[len(steps)-2] != "result" {
				t.Errorf("stream %d got %q, want one result at the end", i, steps)
			}
		}
		if got := hub.Stats(); got.Open != 0 || got.Closed[core.Shutdown] != 20 || got.Refused[core.RefusedShutdown] != 1 || got.Unflushed != 0 {
			t.Errorf("the statistics are %+v, want 20 ended by shutdown and one refused", got)
		}
		shutdown(t, hub) // again, with nothing to do
		publish(t, hub, core.ToolsListChanged())
	})
}

func TestShutdownOfAnIdleHub(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	shutdown(t, hub)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := hub.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown with nothing to wait for: %v, want nil whatever the context", err)
	}
}

func TestShutdownSaysWhatItGaveUpWaitingFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		streams := make([]*stream, 5)
		for i := range streams {
			streams[i] = listen(t, hub, strconv.Itoa(i), allLists)
		}
		synctest.Wait()
		for _, s := range streams[:3] {
			s.take()
			s.stall()
		}
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 7*time.Second)
		defer cancel()
		start := time.Now()
		err := hub.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "3 subscriptions") {
			t.Errorf("Shutdown: %v, want the deadline, and that 3 subscriptions are left", err)
		}
		if got := time.Since(start); got != 7*time.Second {
			t.Errorf("Shutdown gave up after %v, want 7s", got)
		}
		// They go on ending, and another call waits for them.
		streams[0].fail("", core.ErrSlowClient)
		streams[1].fail("result", errBroken)
		for _, s := range streams[:3] {
			s.resume()
		}
		shutdown(t, hub)
		wantEnd(t, streams[0].wait(), core.SlowClient, false)
		end := streams[1].wait()
		wantEnd(t, end, core.Shutdown, false)
		if !errors.Is(end.Err, core.ErrNotFlushed) || !errors.Is(end.Err, errBroken) {
			t.Errorf("a result that did not get out is told as %v, want ErrNotFlushed and the cause", end.Err)
		}
		wantEnd(t, streams[2].wait(), core.Shutdown, true)
		if got := hub.Stats().Unflushed; got != 1 {
			t.Errorf("%d results did not get out, want 1", got)
		}
	})
}

// hookCalls are all hooks from which the hub may be called, and a way to reach
// each with one stream.
var hookCalls = []struct {
	name   string
	config func(call func()) core.Config
	do     func(*testing.T, *core.Hub, *stream)
	opens  bool // the stream opens all the same
}{
	{"Authorizer", func(call func()) core.Config {
		return core.Config{Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
			call()
			return core.Grant{}, nil
		})}
	}, nil, false},
	{"LimitKey", func(call func()) core.Config {
		return core.Config{LimitKey: func(principal string) string { call(); return principal }}
	}, nil, false},
	{"Watcher.Start", func(call func()) core.Config {
		return core.Config{Watcher: watcherFunc(func(context.Context, string) error { call(); return nil })}
	}, nil, true},
	{"Watcher.Stop", func(call func()) core.Config { return core.Config{Watcher: stopFunc(call)} },
		func(_ *testing.T, _ *core.Hub, s *stream) { s.cancel() }, true},
	{"Grant.Recheck", func(call func()) core.Config {
		return core.Config{Authorizer: grants(core.Grant{Recheck: func(context.Context) error { call(); return nil }})}
	}, func(*testing.T, *core.Hub, *stream) { <-time.After(core.DefaultKeepAlive) }, true},
	{"Observer.Accepted", observing("accepted"), nil, true},
	{"Observer.Refused", observing("refused"), func(_ *testing.T, hub *core.Hub, _ *stream) {
		hub.Refuse(context.Background(), core.Refused{Err: &core.Error{}})
	}, true},
	{"Observer.Publishing", observing("publishing"), publishTools, true},
	{"published", observing("published"), publishTools, true},
	{"StreamObserver.Acknowledged", observing("acknowledged"), nil, true},
	{"StreamObserver.Delivered", observing("delivered"), publishTools, true},
	{"StreamObserver.KeptAlive", observing("kept"), func(*testing.T, *core.Hub, *stream) { <-time.After(core.DefaultKeepAlive) }, true},
	{"StreamObserver.Closed", observing("closed"), func(_ *testing.T, _ *core.Hub, s *stream) { s.cancel() }, true},
	{"OnEnd", func(call func()) core.Config { return core.Config{OnEnd: func(core.End) { call() }} },
		func(_ *testing.T, _ *core.Hub, s *stream) { s.cancel() }, true},
}

func observing(word string) func(call func()) core.Config {
	return func(call func()) core.Config {
		return core.Config{Observer: &recorder{onCall: func(step string) {
			if strings.HasPrefix(step, word+" ") {
				call()
			}
		}}}
	}
}

func publishTools(t *testing.T, hub *core.Hub, _ *stream) { publish(t, hub, core.ToolsListChanged()) }

// stopFunc is a Watcher whose Stop calls it.
type stopFunc func()

func (stopFunc) Start(context.Context, string) error { return nil }
func (f stopFunc) Stop(string)                       { f() }

const listAndURI = `{"toolsListChanged":true,"resourceSubscriptions":["a:"]}`

// TestTheHubCanBeUsedFromInsideEveryHook: Shutdown included, which then does not
// wait for the stream that it holds up. Under fake time a deadlock is a failure.
func TestTheHubCanBeUsedFromInsideEveryHook(t *testing.T) {
	t.Parallel()
	for _, hook := range hookCalls {
		t.Run(hook.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var hub *core.Hub
				var armed atomic.Bool
				called := make(chan struct{})
				hub = newHub(t, hook.config(func() {
					if !armed.CompareAndSwap(true, false) {
						return
					}
					defer close(called)
					// Another goroutine must not wait for the hook either.
					elsewhere := make(chan struct{})
					go func() {
						defer close(elsewhere)
						hub.Streams()
						publish(t, hub, core.ToolsListChanged())
					}()
					<-elsewhere
					hub.Stats()
					hub.EndWhere(func(core.StreamInfo) bool { return false })
					publish(t, hub, core.ResourceUpdated("a:"))
					shutdown(t, hub)
				}))
				other := listen(t, hub, "0", allLists)
				synctest.Wait()
				armed.Store(true)
				s, err := tryListen(t, hub, "1", listAndURI)
				if (err == nil) != hook.opens {
					t.Fatalf("opened with %v, want it open: %v", err, hook.opens)
				}
				if err != nil && !errors.Is(err, core.ErrShutdown) {
					t.Errorf("refused with %v, want ErrShutdown", err)
				}
				if hook.do != nil {
					synctest.Wait()
					hook.do(t, hub, s)
				}
				wantEnd(t, other.wait(), core.Shutdown, true)
				if s != nil {
					s.wait()
				}
				shutdown(t, hub)
				<-called // hangs if the hook was not called
			})
		})
	}
}

// TestShutdownFromTwoHooksAtOnce: each holds up a stream that the other would
// wait for.
func TestShutdownFromTwoHooksAtOnce(t *testing.T) {
	t.Parallel()
	for _, hook := range hookCalls {
		t.Run(hook.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var hub *core.Hub
				var both sync.WaitGroup
				both.Add(2)
				var mu sync.Mutex
				called := 0
				hub = newHub(t, hook.config(func() {
					mu.Lock()
					called++
					mine := called
					mu.Unlock()
					if mine > 2 {
						return
					}
					both.Done()
					both.Wait()
					shutdown(t, hub)
				}))
				var clients sync.WaitGroup
				for i := range 2 {
					clients.Go(func() {
						s, err := tryListen(t, hub, strconv.Itoa(i), strings.Replace(listAndURI, "a:", strconv.Itoa(i), 1))
						if err != nil {
							return
						}
						if hook.do != nil {
							hook.do(t, hub, s)
						}
						s.wait()
					})
				}
				clients.Wait()
				shutdown(t, hub)
				if called < 2 {
					t.Errorf("the hook was called %d times, want twice at least", called)
				}
			})
		})
	}
}

// TestShutdownFromInsideStopWhileAnotherWaits: a newcomer, or one who has thought
// better of it, waits for the watch of a URI whose Stop waits for the hub.
func TestShutdownFromInsideStopWhileAnotherWaits(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"and stays": false, "and leaves": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { shutdownFromInsideStop(t, leaves) })
		})
	}
}

func shutdownFromInsideStop(t *testing.T, leaves bool) {
	var hub *core.Hub
	proceed := make(chan struct{})
	hub = newHub(t, core.Config{Watcher: stopFunc(func() { <-proceed; shutdown(t, hub) })})
	first := listen(t, hub, "1", uriFilter("a:"))
	first.cancel()
	synctest.Wait() // in Stop
	second := make(chan struct{})
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	go func() {
		defer close(second)
		s, err := tryListen(t, hub, "2", uriFilter("a:"), inContext(func(context.Context) context.Context { return ctx }))
		switch {
		case err == nil:
			wantEnd(t, s.wait(), core.Shutdown, true)
		case !leaves && !errors.Is(err, core.ErrShutdown):
			t.Errorf("refused with %v, want ErrShutdown", err)
		}
	}()
	synctest.Wait() // waiting for it
	if leaves {
		leave()
		synctest.Wait()
	}
	close(proceed)
	<-second
	first.wait()
}

// TestShutdownFromHooksThatComeAndGo: streams enter and leave hooks at the very
// moment at which a call from inside one looks whether it is done. With no end of
// its context, it has nothing to report.
func TestShutdownFromHooksThatComeAndGo(t *testing.T) {
	t.Parallel()
	for range 150 {
		var hub *core.Hub
		hub = newHub(t, core.Config{Observer: &recorder{onCall: func(step string) {
			if strings.HasPrefix(step, "delivered") {
				shutdown(t, hub)
			}
		}}})
		streams := make([]*stream, 6)
		for i := range streams {
			streams[i] = listen(t, hub, strconv.Itoa(i), allLists)
		}
		publish(t, hub, core.ToolsListChanged())
		for _, s := range streams {
			wantEnd(t, s.wait(), core.Shutdown, true)
		}
	}
}

func TestStreamsListsWhatIsOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{Capabilities: core.Capabilities{PromptsListChanged: true, ResourceSubscriptions: true}})
		if got := hub.Streams(); len(got) != 0 {
			t.Errorf("a new hub lists %v", got)
		}
		advance(time.Second)
		listen(t, hub, `"a"`, `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["y:","x:"]}`, principal("alice"))
		opened := time.Now()
		advance(time.Second)
		publish(t, hub, core.ResourceUpdated("x:"), core.PromptsListChanged())
		synctest.Wait()
		got := hub.Streams()
		if len(got) != 1 {
			t.Fatalf("Streams lists %d, want 1", len(got))
		}
		s := got[0]
		if s.ID.String() != `"a"` || s.Principal != "alice" || !s.Opened.Equal(opened) || s.Delivered != 2 || !s.LastWrite.Equal(time.Now()) {
			t.Errorf("Streams lists %+v, want alice's \"a\", opened at %v, 2 delivered", s, opened)
		}
		if s.Filter.ToolsListChanged || !s.Filter.PromptsListChanged || !slices.Equal(s.Filter.ResourceSubscriptions, []string{"y:", "x:"}) {
			t.Errorf("the honored filter is %+v, want prompts, y: and x:", s.Filter)
		}
	})
}

func TestEndEndsOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		a := listen(t, hub, "1", allLists, principal("alice"))
		b := listen(t, hub, "1", allLists, principal("bob"))
		synctest.Wait()
		a.take()
		b.take()
		var serial uint64
		for _, info := range hub.Streams() {
			if info.Principal == "alice" {
				serial = info.Serial
			}
		}
		a.stall()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		publish(t, hub, core.PromptsListChanged())
		if !hub.End(serial) {
			t.Error("End of an open stream is false")
		}
		if hub.End(serial) {
			t.Error("End of a stream that is ending is true")
		}
		if hub.End(serial + 1000) {
			t.Error("End of no stream is true")
		}
		a.resume()
		end := a.wait()
		wantEnd(t, end, core.Completed, true)
		if end.Stream.Serial != serial {
			t.Errorf("the end is that of %d, want %d", end.Stream.Serial, serial)
		}
		wantSteps(t, a.take(), "tools", "flush", "prompts", "result", "flush")
		if hub.End(serial) {
			t.Error("End of a stream that has ended is true")
		}
		synctest.Wait()
		wantSteps(t, without(b.take(), "flush"), "tools", "prompts")
	})
}

func TestEndWhereAndRevoke(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		streams := make([]*stream, 9)
		for i := range streams {
			streams[i] = listen(t, hub, strconv.Itoa(i), allLists, principal([]string{"a", "b", "c"}[i%3]))
		}
		synctest.Wait()
		for _, s := range streams {
			s.take()
			s.stall()
		}
		publish(t, hub, core.ToolsListChanged())
		settle()
		publish(t, hub, core.PromptsListChanged())
		of := func(name string) func(core.StreamInfo) bool {
			return func(info core.StreamInfo) bool {
				hub.Streams() // picking may use the hub
				return info.Principal == name
			}
		}
		if n := hub.EndWhere(of("a")); n != 3 {
			t.Errorf("EndWhere ended %d, want 3", n)
		}
		if n := hub.Revoke(of("b")); n != 3 {
			t.Errorf("Revoke ended %d, want 3", n)
		}
		if n := hub.EndWhere(func(info core.StreamInfo) bool { return info.Principal != "c" }); n != 0 {
			t.Errorf("EndWhere ended %d that were ending, want 0", n)
		}
		for i, s := range streams {
			s.resume()
			switch i % 3 {
			case 0:
				wantEnd(t, s.wait(), core.Completed, true)
				wantSteps(t, s.take(), "tools", "flush", "prompts", "result", "flush")
			case 1:
				wantEnd(t, s.wait(), core.Revoked, true)
				wantSteps(t, s.take(), "tools", "flush", "result", "flush")
			default:
				synctest.Wait()
				wantSteps(t, s.take(), "tools", "flush", "prompts", "flush")
			}
		}
	})
}

// TestI12_CancelNeedsOneOfTheSamePrincipal: an id by itself ends nothing.
func TestI12_CancelNeedsOneOfTheSamePrincipal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{})
		id := func(raw string) core.ID {
			msg, err := core.ParseMessage([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+raw+`}}`), core.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			id, ok := msg.Cancels()
			if !ok {
				t.Fatalf("a cancellation of %s is none", raw)
			}
			return id
		}
		alice := listen(t, hub, `"\u00e9"`, allLists, principal("alice"))
		bob := listen(t, hub, `"é"`, allLists, principal("bob"))
		listen(t, hub, `"é"`, allLists) // nobody's
		listen(t, hub, "2", allLists, principal("carol"))
		listen(t, hub, "2", allLists, principal("carol"))
		synctest.Wait()
		bob.take()
		for _, test := range []struct{ principal, id string }{
			{"", `"é"`}, {"mallory", `"é"`}, {"bob", `2`}, {"bob", `"2"`}, {"carol", `2`}, {"alice", `"E"`},
		} {
			if hub.Cancel(test.principal, id(test.id)) {
				t.Errorf("I12: %q cancelled %s, want nothing", test.principal, test.id)
			}
		}
		if hub.Cancel("alice", core.ID{}) {
			t.Error("I12: cancelling no id is true")
		}
		if !hub.Cancel("bob", id(`"\u00e9"`)) {
			t.Error("bob's own stream was not cancelled")
		}
		wantEnd(t, bob.wait(), core.ClientClosed, false)
		wantSteps(t, bob.take())
		if hub.Cancel("bob", id(`"é"`)) {
			t.Error("cancelling a stream that has ended is true")
		}
		synctest.Wait()
		if n := len(hub.Streams()); n != 4 {
			t.Errorf("%d streams are open, want 4: alice's, nobody's, and both of carol's", n)
		}
		if count(alice.all(), "result") != 0 {
			t.Errorf("alice got %q", alice.all())
		}
	})
}

func TestCancelsReadsTheRequestID(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method, params, want string
	}{
		{core.MethodCancelled, `{"requestId":7}`, "7"},
		{core.MethodCancelled, `{"reason":"x","requestId":"a\u0062"}`, `"a\u0062"`},
		{core.MethodCancelled, `{"requestId":1.5}`, ""},
		{core.MethodCancelled, `{"requestId":null}`, ""},
		{core.MethodCancelled, `{"requestID":7}`, ""},
		{core.MethodCancelled, `{"requestId":7,"requestId":8}`, ""},
		{core.MethodCancelled, `{}`, ""},
		{core.MethodCancelled, `[7]`, ""},
		{"notifications/other", `{"requestId":7}`, ""},
	}
	for _, test := range tests {
		msg, err := core.ParseMessage([]byte(`{"jsonrpc":"2.0","method":"`+test.method+`","params":`+test.params+`}`), core.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", test.params, err)
		}
		if id, ok := msg.Cancels(); ok != (test.want != "") || ok && id.String() != test.want {
			t.Errorf("%s with %s cancels %q, %v, want %q", test.method, test.params, id, ok, test.want)
		}
	}
	msg, err := core.ParseMessage([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`), core.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := msg.Cancels(); ok {
		t.Errorf("a cancellation without params cancels %q", id)
	}
}

func TestDrainSpread(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		timeout time.Duration // of Shutdown's context; 0: none
		last    time.Duration // when the last stream ends
	}{
		{"the whole spread", 0, 10 * time.Second},
		{"shortened to fit the deadline", 5 * time.Second, 4 * time.Second},
		{"a deadline far away", time.Hour, 10 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{KeepAlive: -1, DrainSpread: 10 * time.Second})
				start := time.Now()
				ages := make([]time.Duration, 11)
				for i := range ages {
					s := listen(t, hub, strconv.Itoa(i), allLists)
					go func() { <-s.done; ages[i] = time.Since(start) }()
				}
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				if test.timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.timeout)
				}
				defer cancel()
				if err := hub.Shutdown(ctx); err != nil {
					t.Errorf("Shutdown: %v", err)
				}
				if got := time.Since(start); got != test.last {
					t.Errorf("Shutdown returned after %v, want %v", got, test.last)
				}
				synctest.Wait()
				slices.Sort(ages)
				for i, age := range ages {
					if want := test.last * time.Duration(i) / 10; age != want {
						t.Errorf("stream %d of 11 ended after %v, want %v", i, age, want)
					}
				}
			})
		})
	}
}

// TestADrainWithNobodyLeftIsOver: what was to end the streams one by one does not
// outlive them.
func TestADrainWithNobodyLeftIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1, DrainSpread: time.Hour})
		a, b := listen(t, hub, "1", allLists), listen(t, hub, "2", allLists)
		over := make(chan struct{})
		go func() { shutdown(t, hub); close(over) }()
		advance(time.Second)
		_, err := tryListen(t, hub, "3", allLists)
		e := refusalOf(t, err, core.CodeInternalError, core.RefusedShutdown)
		if e.RetryAfter < time.Hour-time.Second {
			t.Errorf("a newcomer is told to come back after %v, want after the drain", e.RetryAfter)
		}
		a.close()
		b.close()
		<-over
		synctest.Wait()
		left := goroutines()
		advance(2 * time.Hour)
		if now := goroutines(); now != left {
			t.Errorf("%d goroutines are left after Shutdown, and %d later: something waited for the rest of the drain", left, now)
		}
	})
}

// goroutines counts those of the caller's bubble.
func goroutines() int {
	own := make([]byte, 100)
	own = own[:runtime.Stack(own, false)]
	_, name, _ := bytes.Cut(own[:bytes.IndexByte(own, ']')], []byte("synctest bubble "))
	all := make([]byte, 8<<20)
	all = all[:runtime.Stack(all, true)]
	return bytes.Count(all, append(append([]byte("synctest bubble "), name...), ']'))
}

func TestADrainCutShortEndsTheRestAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1, DrainSpread: time.Hour})
		streams := make([]*stream, 4)
		for i := range streams {
			streams[i] = listen(t, hub, strconv.Itoa(i), allLists)
		}
		ctx, cancel := context.WithCancel(context.Background())
		over := make(chan error)
		go func() { over <- hub.Shutdown(ctx) }()
		advance(time.Minute)
		if n := len(hub.Streams()); n != 3 {
			t.Errorf("a minute into the hour, %d streams are open, want 3 of 4", n)
		}
		cancel()
		if err := <-over; err == nil || !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown: %v, want the context's error", err)
		}
		synctest.Wait()
		for _, s := range streams {
			wantEnd(t, s.wait(), core.Shutdown, true)
		}
		shutdown(t, hub)
	})
}

func TestDrainEndsAShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		for i := range 20 {
			listen(t, hub, strconv.Itoa(i), allLists)
		}
		start := time.Now()
		n, err := hub.Drain(context.Background(), 0.25, 8*time.Second)
		if n != 5 || err != nil || time.Since(start) != 8*time.Second {
			t.Errorf("Drain ended %d, %v, after %v, want 5, nil, 8s", n, err, time.Since(start))
		}
		synctest.Wait()
		if got := hub.Stats(); got.Open != 15 || got.Closed[core.Completed] != 5 {
			t.Errorf("the statistics are %+v, want 15 open, 5 completed", got)
		}
		listen(t, hub, `"new"`, allLists).close()
		ctx, cancel := context.WithTimeout(context.Background(), 4500*time.Millisecond)
		defer cancel()
		n, err = hub.Drain(ctx, 1, 14*time.Second) // one each second
		synctest.Wait()
		if n != 5 || !errors.Is(err, context.DeadlineExceeded) || len(hub.Streams()) != 10 {
			t.Errorf("Drain cut short ended %d, %v, and %d are open, want 5, the deadline, 10", n, err, len(hub.Streams()))
		}
		for _, share := range []float64{-0.1, 1.1, 0 / zero} {
			if n, err := hub.Drain(context.Background(), share, 0); n != 0 || err == nil {
				t.Errorf("Drain of a share of %v ended %d, %v, want an error", share, n, err)
			}
		}
		if n, err := hub.Drain(context.Background(), 0, 0); n != 0 || err != nil {
			t.Errorf("Drain of nothing ended %d, %v", n, err)
		}
		if n, err := hub.Drain(context.Background(), 1, 0); n != 10 || err != nil {
			t.Errorf("Drain of all ended %d, %v, want 10", n, err)
		}
		synctest.Wait()
	})
}

var zero float64 // 0/zero is not a number
