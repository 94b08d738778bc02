// The writers, where those that they serve are in each other's way; and streams
// that have no goroutine.

package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// TestStalledClientsHoldUpNobody: writers that do not come back are replaced, also
// where they become stuck all at once.
func TestStalledClientsHoldUpNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		var stuck []*stream
		for i := range 500 {
			s := listen(t, hub, fmt.Sprint(i), allLists)
			s.stall()
			stuck = append(stuck, s)
		}
		healthy := listen(t, hub, `"healthy"`, allLists)
		settle()
		healthy.take()
		for range 3 {
			start := time.Now()
			publish(t, hub, core.ToolsListChanged())
			healthy.awaitSteps(2)
			wantSteps(t, healthy.take(), "tools", "flush")
			if waited := time.Since(start); waited > 20*time.Millisecond {
				t.Errorf("behind 500 that do not read, a change took %v", waited)
			}
		}
		for _, s := range stuck {
			s.resume()
		}
		settle()
		for _, s := range stuck {
			wantSteps(t, s.take()[2:], "tools", "flush", "tools", "flush")
		}
	})
}

// TestSlowClientsHoldUpNobody: those who take a while for each batch, and then do take
// it, are no reason for others to wait.
func TestSlowClientsHoldUpNobody(t *testing.T) {
	t.Parallel()
	for _, slow := range []time.Duration{3 * time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond, time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const n = 2000
				hub := newHub(t, core.Config{KeepAlive: -1})
				for i := range n {
					s := listen(t, hub, fmt.Sprint(i), allLists, withoutGoroutine())
					pause := slow/2 + slow*time.Duration(i*7919%n)/n
					s.onCall(func(step string) error {
						if step == "tools" {
							<-time.After(pause)
						}
						return nil
					})
				}
				healthy := listen(t, hub, `"healthy"`, allLists)
				settle()
				healthy.take()
				start := time.Now()
				publish(t, hub, core.ToolsListChanged())
				healthy.awaitSteps(2)
				if waited := time.Since(start); waited > 25*time.Millisecond {
					t.Errorf("behind %d that take some %v each, a change took %v", n, slow, waited)
				}
				advance(time.Minute) // all of them are done
			})
		})
	}
}

// panickyLog panics at each line.
type panickyLog struct{ slog.Handler }

func (panickyLog) Handle(context.Context, slog.Record) error { panic("log") }
func (panickyLog) Enabled(context.Context, slog.Level) bool  { return true }

// TestALogThatPanics takes no more with it than its line.
func TestALogThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{
			Logger: slog.New(panickyLog{slog.DiscardHandler}),
			OnEnd:  func(core.End) { panic("hook") },
		})
		for i := range 4 {
			o := []opening{withoutGoroutine()}
			s := listen(t, hub, fmt.Sprint(i), allLists, o[:i%2]...)
			if i >= 2 {
				s.onCall(func(string) error { panic("conn") })
			}
			publish(t, hub, core.ToolsListChanged())
			synctest.Wait()
			s.close()
		}
		publish(t, hub, core.ToolsListChanged())
	})
}

// TestSlowRechecksHoldUpNobody: each takes its time beside all others.
func TestSlowRechecksHoldUpNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const asked = 100 * time.Millisecond
		hub := newHub(t, core.Config{KeepAlive: -1, Authorizer: core.AuthorizerFunc(
			func(context.Context, string, core.Filter) (core.Grant, error) {
				return core.Grant{RecheckDelivery: true, Recheck: func(context.Context) error { <-time.After(asked); return nil }}, nil
			})})
		var streams []*stream
		for i := range 500 {
			streams = append(streams, listen(t, hub, fmt.Sprint(i), allLists))
		}
		start := time.Now()
		publish(t, hub, core.ToolsListChanged())
		for _, s := range streams {
			s.awaitSteps(4)
		}
		if waited := time.Since(start); waited != asked {
			t.Errorf("500 re-checks of %v took %v", asked, waited)
		}
	})
}

// TestAHookThatEndsItsGoroutine ends its own stream, and no other's delivery.
func TestAHookThatEndsItsGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		goexit := ""
		hub := newHub(t, core.Config{
			Observer: &recorder{onCall: func(step string) {
				if goexit != "" && strings.HasPrefix(step, goexit) {
					runtime.Goexit()
				}
			}},
			OnEnd: func(core.End) {
				if goexit == "OnEnd" {
					runtime.Goexit()
				}
			},
		})
		for _, at := range []string{"delivered", "closed", "OnEnd"} {
			var streams []*stream
			for i := range 20 {
				o := []opening{withoutGoroutine()}
				streams = append(streams, listen(t, hub, fmt.Sprint(i), allLists, o[:i%2]...))
			}
			synctest.Wait()
			goexit = at
			publish(t, hub, core.ToolsListChanged())
			synctest.Wait()
			for _, s := range streams {
				if got := strings.Join(s.all()[2:], " "); got != "tools flush" {
					t.Errorf("with a hook that ends its goroutine at %s, a stream got %q, want what was published", at, got)
				}
				end := s.close()
				if want := map[bool]core.Reason{true: core.Panicked, false: core.ClientClosed}[at == "delivered"]; end.Reason != want {
					t.Errorf("at %s: the stream ended as %q, want %q", at, end.Reason, want)
				}
			}
			goexit = ""
			synctest.Wait()
			checkEmpty(t, hub)
		}
	})
}

// TestAPanicOfAConnWithoutGoroutine is logged, and harms nobody.
func TestAPanicOfAConnWithoutGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		hub := newHub(t, core.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s, other := listen(t, hub, "1", allLists, withoutGoroutine()), listen(t, hub, "2", allLists, withoutGoroutine())
		s.onCall(func(string) error { panic("conn") })
		publish(t, hub, core.ToolsListChanged())
		wantEnd(t, s.wait(), core.Panicked, false)
		synctest.Wait()
		wantSteps(t, other.take()[2:], "tools", "flush")
		if got := log.String(); !strings.Contains(got, "panic=conn") {
			t.Errorf("the panic is not in the log: %s", got)
		}
	})
}

// TestAStreamWithoutGoroutine is one: between what happens nothing waits for it,
// and its request's context may end. It runs alone, since it counts the goroutines of
// the process.
func TestAStreamWithoutGoroutine(t *testing.T) { //nolint:paralleltest // see above
	synctest.Test(t, func(t *testing.T) {
		hub := newHub(t, core.Config{})
		before := runtime.NumGoroutine()
		const n = 100
		var streams []*stream
		for i := range n {
			streams = append(streams, listen(t, hub, fmt.Sprint(i), allLists, withoutGoroutine()))
		}
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more >= n {
			t.Errorf("%d streams have %d goroutines", n, more)
		}
		advance(core.DefaultKeepAlive)
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		for _, s := range streams {
			wantSteps(t, s.take()[2:], "keep-alive", "flush", "tools", "flush")
		}
		wantEnd(t, streams[0].close(), core.ClientClosed, false)
		if err := hub.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		for _, s := range streams[1:] {
			wantEnd(t, s.wait(), core.Shutdown, true)
			wantSteps(t, s.take(), "result", "flush")
		}
	})
}

// TestAClientThatLeftWhileOpening is not forgotten by Start.
func TestAClientThatLeftWhileOpening(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		s := newConn(t, "1")
		s.onCall(func(string) error { cancel(errors.New("gone")); return nil })
		sub, err := hub.Open(ctx, core.Opening{
			Request: request(t, hub, "1", allLists), Connect: func() (core.Conn, error) { return s, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan core.End, 1)
		sub.Start(func(e core.End) { ended <- e })
		wantEnd(t, <-ended, core.ClientClosed, false)
	})
}
