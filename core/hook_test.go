// Panics: of hooks, which end one stream and nothing else, and of the transport,
// which are its own.

package core_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcplisten/mcplisten/core"
)

// TestAPanicOfAHookHarmsNobodyElse: for each hook, one stream's panics, and the
// other goes on.
func TestAPanicOfAHookHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	for _, hook := range hookCalls {
		t.Run(hook.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var lock sync.Mutex
				armed := false
				config := hook.config(func() {
					lock.Lock()
					now := armed
					armed = false
					lock.Unlock()
					if now {
						panic("hook")
					}
				})
				var log bytes.Buffer
				config.Logger = slog.New(slog.NewTextHandler(&log, nil))
				hub := newHub(t, config)
				other := listen(t, hub, "0", uriFilter("other:"))
				synctest.Wait()
				other.take()
				lock.Lock()
				armed = true
				lock.Unlock()
				s, err := tryListen(t, hub, "1", `{"toolsListChanged":true,"resourceSubscriptions":["a:","other:"]}`)
				if err == nil && hook.do != nil {
					synctest.Wait()
					hook.do(t, hub, s)
				}
				synctest.Wait()
				if lock.Lock(); armed {
					t.Error("the hook was not called: the test tests nothing")
				}
				lock.Unlock()
				if err != nil {
					wantRefusal(t, err, core.CodeInternalError, core.RefusedPanic)
				}
				if !strings.Contains(log.String(), "a hook panicked") || !strings.Contains(log.String(), "panic=hook") {
					t.Errorf("the panic is not in the log: %s", log.String())
				}
				other.take()
				publish(t, hub, core.ResourceUpdated("other:"))
				synctest.Wait()
				told := 0
				for _, s := range []*stream{other, s} {
					if s != nil {
						told += count(s.take(), "updated other:")
					}
				}
				if open := len(hub.Streams()); told != open || open == 0 {
					t.Errorf("%d streams are open and %d got the update that was published after the panic, want all, and one at least", open, told)
				}
				if s != nil {
					s.close()
				}
			})
		})
	}
}

// TestAPanicAfterTheEndChangesNothingOfIt: the result is out, or the client gone.
func TestAPanicAfterTheEndChangesNothingOfIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &recorder{onCall: func(step string) {
			if strings.HasPrefix(step, "closed") {
				panic(step)
			}
		}}
		hub := newHub(t, core.Config{Observer: r, OnEnd: func(core.End) { panic("end") }})
		s := listen(t, hub, "1", allLists)
		s.finish(hub)
		wantEnd(t, s.wait(), core.Completed, true)
	})
}

// TestAPanicAtTheLastDelivery: the result was flushed before the observer heard
// of the batch, so the end is what it was.
func TestAPanicAtTheLastDelivery(t *testing.T) {
	bubble(t, func(t *testing.T) {
		panics := false
		r := &recorder{onCall: func(step string) {
			if panics && strings.HasPrefix(step, "delivered") {
				panic(step)
			}
		}}
		hub := newHub(t, core.Config{Observer: r})
		s := listen(t, hub, "1", allLists)
		s.stall()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		s.finish(hub)
		publish(t, hub, core.PromptsListChanged())
		s.onCall(func(step string) error { panics = step == "result" || panics; return nil })
		s.resume()
		wantEnd(t, s.wait(), core.Completed, true)
		wantSteps(t, s.take()[2:], "tools", "flush", "prompts", "result", "flush")
	})
}

// TestAGoroutineThatEndsInsideAHook, as a failing test does it, holds up no
// shutdown.
func TestAGoroutineThatEndsInsideAHook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{OnEnd: func(core.End) { runtime.Goexit() }})
		s := listen(t, hub, "1", allLists)
		s.cancel()
		<-s.done
		shutdown(t, hub)
	})
}

// TestI9_APanicOfTheConnPassesThrough, after everything was released.
func TestI9_APanicOfTheConnPassesThrough(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"tools", "flush", "keep-alive", "result"} {
		t.Run(step, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, r := newWatcher(t), &recorder{}
				hub := newHub(t, core.Config{Watcher: w, Observer: r})
				s := listen(t, hub, "1", listAndURI)
				synctest.Wait()
				s.onCall(func(got string) error {
					if got == step {
						panic("conn at " + step)
					}
					return nil
				})
				switch step {
				case "keep-alive":
					advance(core.DefaultKeepAlive)
				case "result":
					s.finish(hub)
				default:
					publish(t, hub, core.ToolsListChanged())
				}
				s.wait()
				if s.passed != "conn at "+step {
					t.Errorf("the panic %v passed through Serve, want that of the Conn", s.passed)
				}
				wantSteps(t, w.take(), "start a:", "stop a:")
				if len(r.ends) != 1 || r.ends[0].Reason != core.Panicked {
					t.Errorf("the observer was told of the ends %+v, want one by panic", r.ends)
				}
				checkEmpty(t, hub)
			})
		})
	}
	for _, step := range []string{"ack " + listAndURI, "flush"} {
		t.Run("at the acknowledgment, "+step[:3], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, r := newWatcher(t), &recorder{}
				hub := newHub(t, core.Config{Watcher: w, Observer: r, MaxStreams: 1})
				for range 2 { // the place is free again
					var passed any
					func() {
						defer func() { passed = recover() }()
						listen(t, hub, "1", listAndURI, func(s *stream, _ *core.Opening, _ *context.Context) {
							s.onCall(func(got string) error {
								if got == step {
									panic("conn")
								}
								return nil
							})
						})
					}()
					if passed != "conn" {
						t.Errorf("the panic %v passed through Open, want that of the Conn", passed)
					}
					wantSteps(t, w.take(), "start a:", "stop a:")
					wantSteps(t, r.take(), "accepted 1", "closed 1 panic")
					checkEmpty(t, hub)
				}
			})
		})
	}
}

// TestI5_NothingAfterAFailedAcknowledgment, not even where an end had been asked
// for before it failed.
func TestI5_NothingAfterAFailedAcknowledgment(t *testing.T) {
	t.Parallel()
	asks := map[string]func(*testing.T, *core.Hub){
		"end":      func(_ *testing.T, hub *core.Hub) { hub.EndWhere(func(core.StreamInfo) bool { return true }) },
		"revoke":   func(_ *testing.T, hub *core.Hub) { hub.Revoke(func(core.StreamInfo) bool { return true }) },
		"shutdown": func(t *testing.T, hub *core.Hub) { go shutdown(t, hub); synctest.Wait() },
		"publish":  func(t *testing.T, hub *core.Hub) { publish(t, hub, core.ToolsListChanged()) },
	}
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{})
				opened := make(chan *stream)
				var s *stream
				go func() {
					opened <- listen(t, hub, "1", allLists, stalled(), func(opening *stream, _ *core.Opening, _ *context.Context) { s = opening })
				}()
				synctest.Wait()
				ask(t, hub)
				failed := false
				s.onCall(func(string) error {
					if failed {
						return nil
					}
					failed = true
					return errBroken
				})
				s.resume()
				end := (<-opened).wait()
				wantSteps(t, s.all())
				if end.Graceful || !errors.Is(end.Err, errBroken) {
					t.Errorf("ended as %q, graceful %v, error %v, want the error of the acknowledgment", end.Reason, end.Graceful, end.Err)
				}
			})
		})
	}
}

func TestLogHasOneLineForEachEndedStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		hub := newHub(t, core.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		s := listen(t, hub, `"`+marker+`"`, uriFilter(marker+":"), principal(marker))
		for range 10 {
			publish(t, hub, core.ResourceUpdated(marker+":"))
			synctest.Wait()
		}
		if log.Len() != 0 {
			t.Errorf("an open stream wrote to the log: %s", log.String())
		}
		s.finish(hub)
		s.wait()
		if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "reason=completed") {
			t.Errorf("an ended stream wrote %d lines, want one with its reason: %s", lines, log.String())
		}
		if strings.Contains(log.String(), marker) {
			t.Errorf("the log holds what a client chose: %s", log.String())
		}
	})
}

// TestTheLineOfAnEndedStreamHasAnErrorWhereThereIsOne: whoever looks for errors in the
// log finds no streams that ended well.
func TestTheLineOfAnEndedStreamHasAnErrorWhereThereIsOne(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		do   func(*core.Hub, *stream)
		want bool
	}{
		"with its result": {func(hub *core.Hub, s *stream) { s.finish(hub) }, false},
		"a write fails":   {func(hub *core.Hub, s *stream) { s.fail("result", errBroken); s.finish(hub) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var log bytes.Buffer
				hub := newHub(t, core.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
				s := listen(t, hub, "1", `{"toolsListChanged":true}`)
				synctest.Wait()
				end.do(hub, s)
				s.wait()
				if !strings.Contains(log.String(), "subscription ended") || strings.Contains(log.String(), "error=") != end.want {
					t.Errorf("the log is %q, want the line of the end, with an error: %t", log.String(), end.want)
				}
			})
		})
	}
}
