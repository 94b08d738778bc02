// Time, faked: keep-alives, lifetimes, grants and deadlines.

package core_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

func TestKeepAliveAfterSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: 10 * time.Second})
		s := listen(t, hub, "1", allLists)
		advance(10*time.Second - 1)
		wantSteps(t, s.take(), "ack "+allLists, "flush")
		advance(1)
		wantSteps(t, s.take(), "keep-alive", "flush")
		advance(10*time.Second - 1)
		wantSteps(t, s.take())
		advance(1)
		wantSteps(t, s.take(), "keep-alive", "flush")
		// A delivery moves it.
		advance(7 * time.Second)
		publish(t, hub, core.ToolsListChanged())
		advance(10*time.Second - 1)
		wantSteps(t, s.take(), "tools", "flush")
		advance(1)
		wantSteps(t, s.take(), "keep-alive", "flush")
		if got := hub.Streams()[0]; got.KeepAlives != 3 || !got.LastWrite.Equal(time.Now()) {
			t.Errorf("%d keep-alives, the last write at %v, want 3 and %v", got.KeepAlives, got.LastWrite, time.Now())
		}
		// What is not for this stream does not.
		advance(9 * time.Second)
		publish(t, hub, core.ResourceUpdated("a:"))
		advance(time.Second)
		wantSteps(t, s.take(), "keep-alive", "flush")
	})
}

func TestKeepAliveDefaultIs15Seconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{})
		s := listen(t, hub, "1", allLists)
		advance(15*time.Second - 1)
		wantSteps(t, without(s.take(), "flush"), "ack "+allLists)
		advance(1)
		wantSteps(t, without(s.take(), "flush"), "keep-alive")
	})
}

func TestNoKeepAlive(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]time.Duration{"negative": -1, "longer than time": math.MaxInt64} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{KeepAlive: every})
				advance(time.Second)
				s := listen(t, hub, "1", allLists)
				advance(1000 * time.Hour)
				wantSteps(t, s.take(), "ack "+allLists, "flush")
				publish(t, hub, core.ToolsListChanged())
				synctest.Wait()
				wantSteps(t, s.take(), "tools", "flush")
			})
		})
	}
}

// TestNoKeepAliveBeforeTheAck: neither while a request is being opened, nor while
// nobody reads the acknowledgment.
func TestNoKeepAliveBeforeTheAck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{Watcher: watcherFunc(func(context.Context, string) error {
			<-time.After(time.Hour)
			return nil
		})})
		opened := make(chan *stream)
		var s *stream
		go func() {
			opened <- listen(t, hub, "1", uriFilter("a:"), stalled(), func(o *stream, _ *core.Opening, _ *context.Context) { s = o })
		}()
		advance(2 * time.Hour)
		wantSteps(t, s.take())
		s.resume()
		<-opened
		advance(core.DefaultKeepAlive - 1)
		wantSteps(t, s.take(), `ack {"resourceSubscriptions":["a:"]}`, "flush")
		advance(1)
		wantSteps(t, s.take(), "keep-alive", "flush")
	})
}

// TestAStalledClientGetsOneKeepAlive: they are levels, too, and the silence
// counts from what came last.
func TestAStalledClientGetsOneKeepAlive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: 10 * time.Second})
		s := listen(t, hub, "1", allLists)
		synctest.Wait()
		s.take()
		s.stall()
		advance(95 * time.Second)
		s.resume()
		synctest.Wait()
		wantSteps(t, s.take(), "keep-alive", "flush")
		advance(10*time.Second - 1)
		wantSteps(t, s.take())
		advance(1)
		wantSteps(t, s.take(), "keep-alive", "flush")
		// The same with a notification under way.
		s.stall()
		publish(t, hub, core.ToolsListChanged())
		advance(95 * time.Second)
		s.resume()
		advance(10*time.Second - 1)
		wantSteps(t, s.take(), "tools", "flush")
		advance(1)
		wantSteps(t, s.take(), "keep-alive", "flush")
	})
}

// TestKeepAlivesOfManyStreams: each by its own clock, from one timer.
func TestKeepAlivesOfManyStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: 10 * time.Second})
		streams := make([]*stream, 50)
		order := make([]int, len(streams))
		for i := range streams {
			order[i] = (i * 17) % len(streams)
			streams[i] = listen(t, hub, strconv.Itoa(i), uriFilter("u:"+strconv.Itoa(i)))
			advance(time.Millisecond)
		}
		start := time.Now().Add(-time.Duration(len(streams)) * time.Millisecond)
		for _, i := range order[:25] { // some leave, from anywhere in the queue
			streams[i].close()
		}
		for i, s := range streams {
			s.take()
			at := start.Add(time.Duration(i)*time.Millisecond + 10*time.Second)
			gone := slices.Contains(order[:25], i)
			advance(time.Until(at) - 1)
			wantSteps(t, s.take())
			advance(1)
			if want := []string{"keep-alive", "flush"}; !gone && !slices.Equal(s.all(), want) {
				t.Errorf("stream %d got %q after 10 s of silence, want %q", i, s.all(), want)
			}
			if gone && len(s.all()) != 0 {
				t.Errorf("stream %d got %q after it had gone", i, s.all())
			}
		}
	})
}

func TestMaxLifetimeIsJittered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const life = 1000 * time.Second
		hub := newHub(t, core.Config{MaxLifetime: life, KeepAlive: -1})
		start := time.Now()
		ages := make([]time.Duration, 200)
		streams := make([]*stream, len(ages))
		for i := range streams {
			streams[i] = listen(t, hub, strconv.Itoa(i), allLists)
		}
		for i, s := range streams {
			go func() { <-s.done; ages[i] = time.Since(start) }()
		}
		advance(life - life/10 - 1)
		if n := len(hub.Streams()); n != len(streams) {
			t.Errorf("%d of %d streams are open before 90 %% of their lifetime, want all", n, len(streams))
		}
		advance(life/5 + 2)
		if n := len(hub.Streams()); n != 0 {
			t.Errorf("%d streams are open after 110 %% of their lifetime, want none", n)
		}
		early, late := 0, 0
		for i, s := range streams {
			wantEnd(t, s.wait(), core.MaxLifetime, true)
			wantSteps(t, s.take(), "ack "+allLists, "flush", "result", "flush")
			switch {
			case ages[i] < life-life/20:
				early++
			case ages[i] > life+life/20:
				late++
			}
		}
		// A quarter each is expected; below an eighth is not chance.
		if early < len(ages)/8 || late < len(ages)/8 {
			t.Errorf("of %d streams %d ended in the first and %d in the last quarter of the jitter, want about a quarter each", len(ages), early, late)
		}
	})
}

// grants is an Authorizer that allows everybody what it says.
func grants(grant core.Grant) core.Authorizer {
	return core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) { return grant, nil })
}

func TestI11_NoStreamOutlivesItsGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{Authorizer: grants(core.Grant{Until: time.Now().Add(time.Minute)}), KeepAlive: -1})
		s := listen(t, hub, "1", allLists)
		advance(time.Minute - 1)
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		wantSteps(t, s.take(), "ack "+allLists, "flush", "tools", "flush")
		advance(1)
		wantEnd(t, s.wait(), core.GrantExpired, true)
		wantSteps(t, s.take(), "result", "flush")
		// And from then on it is refused.
		_, err := tryListen(t, hub, "2", allLists)
		wantRefusal(t, err, core.CodeInvalidRequest, core.RefusedAuth)
	})
}

// TestI11_PendingIsNotDeliveredAfterTheGrant: a client that reads again after the
// grant has expired is told nothing any more, whatever else ended the stream.
func TestI11_PendingIsNotDeliveredAfterTheGrant(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(*testing.T, *core.Hub)
		want core.Reason
	}{
		{"nothing else", func(*testing.T, *core.Hub) {}, core.GrantExpired},
		{"the application ends it", func(_ *testing.T, hub *core.Hub) { hub.EndWhere(func(core.StreamInfo) bool { return true }) }, core.GrantExpired},
		{"the hub shuts down", func(t *testing.T, hub *core.Hub) { go shutdown(t, hub); synctest.Wait() }, core.GrantExpired},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{Authorizer: grants(core.Grant{Until: time.Now().Add(time.Minute)}), KeepAlive: -1})
				s := listen(t, hub, "1", allLists)
				synctest.Wait()
				s.take()
				s.stall()
				publish(t, hub, core.ToolsListChanged())
				synctest.Wait()
				publish(t, hub, core.PromptsListChanged())
				test.end(t, hub)
				advance(time.Hour)
				s.resume()
				wantEnd(t, s.wait(), test.want, true)
				wantSteps(t, s.take(), "tools", "flush", "result", "flush")
			})
		})
	}
}

func TestAGrantForEverIsOne(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]time.Time{
		"zero":          {},
		"the year 9999": time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		"the last time": time.Unix(1<<62, 0),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				advance(time.Second)
				hub := newHub(t, core.Config{Authorizer: grants(core.Grant{Until: until}), KeepAlive: -1})
				advance(time.Second)
				s := listen(t, hub, "1", allLists)
				advance(1000 * time.Hour)
				wantSteps(t, s.take(), "ack "+allLists, "flush")
			})
		})
	}
}

func TestALifetimeLongerThanTimeIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{MaxLifetime: math.MaxInt64, KeepAlive: -1})
		advance(time.Second)
		for i := range 20 { // the jitter is random
			listen(t, hub, strconv.Itoa(i), allLists)
		}
		advance(1000 * time.Hour)
		if n := len(hub.Streams()); n != 20 {
			t.Errorf("%d of 20 streams are open, want all", n)
		}
	})
}

// withDeadline opens the stream with a context that ends after d.
func withDeadline(t *testing.T, d time.Duration) opening {
	return inContext(func(ctx context.Context) context.Context {
		ctx, cancel := context.WithTimeout(ctx, d)
		t.Cleanup(cancel)
		return ctx
	})
}

// transportDeadline opens the stream on a connection that is cut after d.
func transportDeadline(d time.Duration) opening {
	return func(_ *stream, o *core.Opening, _ *context.Context) { o.Deadline = time.Now().Add(d) }
}

func TestTheResultComesBeforeADeadline(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		left   time.Duration
		margin time.Duration // before it
	}{
		{"minutes", 10 * time.Minute, 500 * time.Millisecond},
		{"five seconds", 5 * time.Second, 500 * time.Millisecond},
		{"a second", time.Second, 100 * time.Millisecond},
		{"milliseconds", 10 * time.Millisecond, time.Millisecond},
		{"passed", -time.Second, -time.Second},
	}
	for _, test := range tests {
		for _, kind := range []string{"context", "transport"} {
			if kind == "context" && test.left < 0 {
				continue
			}
			t.Run(test.name+" of the "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					hub := newHub(t, core.Config{KeepAlive: -1})
					opening := transportDeadline(test.left)
					if kind == "context" {
						opening = withDeadline(t, test.left)
					}
					s := listen(t, hub, "1", allLists, opening)
					if at := test.left - test.margin; at > 0 {
						advance(at - 1)
						wantSteps(t, s.take(), "ack "+allLists, "flush")
						advance(1)
					} else {
						synctest.Wait()
						wantSteps(t, s.take()[:2], "ack "+allLists, "flush")
						wantEnd(t, s.wait(), core.Deadline, true)
						return
					}
					wantEnd(t, s.wait(), core.Deadline, true)
					wantSteps(t, s.take(), "result", "flush")
				})
			})
		}
	}
}

// TestADeadlineThatHasPassedIsNoClientThatLeft: the stream was held up until its
// context had ended by time, and still says good-bye.
func TestADeadlineThatHasPassedIsNoClientThatLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		s := listen(t, hub, "1", allLists, withDeadline(t, time.Minute))
		synctest.Wait()
		s.take()
		s.stall()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		publish(t, hub, core.PromptsListChanged())
		advance(time.Hour)
		s.resume()
		wantEnd(t, s.wait(), core.Deadline, true)
		wantSteps(t, s.take(), "tools", "flush", "prompts", "result", "flush")
	})
}

func TestTheFirstEndCounts(t *testing.T) {
	t.Parallel()
	const second = time.Second
	none := time.Duration(0)
	tests := []struct {
		name                            string
		grant, life, context, transport time.Duration
		asked                           time.Duration
		want                            core.Reason
		after                           time.Duration
	}{
		{"grant", 10 * second, 20 * second, 30 * second, 40 * second, none, core.GrantExpired, 10 * second},
		{"lifetime", 30 * second, 10 * second, 30 * second, 40 * second, none, core.MaxLifetime, 11 * second},
		{"context", 30 * second, 20 * second, 10 * second, 40 * second, none, core.Deadline, 9500 * time.Millisecond},
		{"transport", 30 * second, 20 * second, 40 * second, 10 * second, none, core.Deadline, 9500 * time.Millisecond},
		{"grant and context alike", 9500 * time.Millisecond, none, 10 * second, none, none, core.GrantExpired, 9500 * time.Millisecond},
		{"asked for before", 10 * second, none, none, none, 9 * second, core.Completed, 9 * second},
		{"asked for after", 10 * second, none, none, none, 11 * second, core.GrantExpired, 10 * second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				config := core.Config{KeepAlive: -1, MaxLifetime: test.life}
				if test.grant > 0 {
					config.Authorizer = grants(core.Grant{Until: time.Now().Add(test.grant)})
				}
				hub := newHub(t, config)
				var openings []opening
				if test.context > 0 {
					openings = append(openings, withDeadline(t, test.context))
				}
				if test.transport > 0 {
					openings = append(openings, transportDeadline(test.transport))
				}
				start := time.Now()
				s := listen(t, hub, "1", allLists, openings...)
				if test.asked > 0 {
					time.AfterFunc(test.asked, func() { hub.EndWhere(func(core.StreamInfo) bool { return true }) })
				}
				wantEnd(t, s.wait(), test.want, true)
				got := time.Since(start)
				if exact := test.want != core.MaxLifetime; exact && got != test.after || got > test.after {
					t.Errorf("ended after %v, want %v", got, test.after)
				}
				advance(time.Minute)
			})
		})
	}
}

// TestTimeLeavesNothingBehind: timers of ended streams do nothing.
func TestI9_TimersAreReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{MaxLifetime: time.Hour, Authorizer: grants(core.Grant{Until: time.Now().Add(time.Hour)})})
		listen(t, hub, "1", allLists).close()
		checkEmpty(t, hub)
		stay := listen(t, hub, "2", allLists)
		for i := range 100 {
			listen(t, hub, strconv.Itoa(3+i), allLists, transportDeadline(time.Minute)).close()
		}
		advance(30 * time.Minute)
		wantSteps(t, without(slices.Compact(without(stay.take(), "flush")), "flush"), "ack "+allLists, "keep-alive")
	})
}

func TestRecheck(t *testing.T) {
	t.Parallel()
	lapsed := errors.New("lapsed")
	tests := []struct {
		name      string
		delivery  bool
		keepAlive time.Duration
		lapses    time.Duration
		do        func(*testing.T, *core.Hub, *stream)
		want      []string
		asked     int
	}{
		{
			"before the keep-alive", false, 10 * time.Second, 5 * time.Second,
			func(*testing.T, *core.Hub, *stream) { advance(10 * time.Second) }, []string{"result", "flush"}, 1,
		},
		{
			"while it holds", false, 10 * time.Second, 15 * time.Second,
			func(*testing.T, *core.Hub, *stream) { advance(20 * time.Second) }, []string{"keep-alive", "flush", "result", "flush"}, 2,
		},
		{
			"with keep-alives off", false, -1, 1,
			func(*testing.T, *core.Hub, *stream) { advance(15 * time.Second) }, []string{"result", "flush"}, 1,
		},
		{
			"not at a delivery by default", false, 10 * time.Second, 1,
			func(t *testing.T, hub *core.Hub, _ *stream) {
				advance(5 * time.Second)
				publish(t, hub, core.ToolsListChanged())
				synctest.Wait()
				publish(t, hub, core.PromptsListChanged())
				advance(5 * time.Second)
			}, []string{"tools", "flush", "prompts", "flush", "result", "flush"}, 1,
		},
		{
			"at each delivery", true, 10 * time.Second, 6 * time.Second,
			func(t *testing.T, hub *core.Hub, _ *stream) {
				advance(5 * time.Second)
				publish(t, hub, core.ToolsListChanged())
				advance(2 * time.Second)
				publish(t, hub, core.PromptsListChanged())
				synctest.Wait()
			}, []string{"tools", "flush", "result", "flush"}, 2,
		},
		{
			"before a last delivery", true, 10 * time.Second, 1,
			func(t *testing.T, hub *core.Hub, s *stream) {
				s.stall()
				publish(t, hub, core.ToolsListChanged())
				synctest.Wait()
				publish(t, hub, core.PromptsListChanged())
				s.finish(hub)
				advance(2)
				s.resume()
			}, []string{"tools", "flush", "result", "flush"}, 2,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				start, asked := time.Now(), 0
				hub := newHub(t, core.Config{KeepAlive: test.keepAlive, Authorizer: grants(core.Grant{
					RecheckDelivery: test.delivery,
					Recheck: func(context.Context) error {
						asked++
						if time.Since(start) >= test.lapses {
							return lapsed
						}
						return nil
					},
				})})
				s := listen(t, hub, "1", allLists)
				synctest.Wait()
				s.take()
				test.do(t, hub, s)
				wantEnd(t, s.wait(), core.Revoked, true)
				wantSteps(t, s.take(), test.want...)
				if asked != test.asked {
					t.Errorf("the grant was asked %d times, want %d", asked, test.asked)
				}
			})
		})
	}
}

// TestKeepAliveIsNotMovedByRechecks: a re-check between two keep-alives moves none,
// and each keep-alive has one of its own before it.
func TestKeepAliveIsNotMovedByRechecks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var asked []time.Duration
		start := time.Now()
		hub := newHub(t, core.Config{KeepAlive: 10 * time.Second, Authorizer: grants(core.Grant{
			Recheck: func(context.Context) error { asked = append(asked, time.Since(start)); return nil },
		})})
		s := listen(t, hub, "1", allLists)
		advance(7 * time.Second)
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		s.take()
		advance(10*time.Second - 1) // 17 s: the grant was asked at 10 s
		wantSteps(t, s.take())
		advance(1)
		wantSteps(t, s.take(), "keep-alive", "flush")
		advance(10 * time.Second) // 27 s
		if want := []time.Duration{10 * time.Second, 17 * time.Second, 27 * time.Second}; !slices.Equal(asked, want) {
			t.Errorf("the grant was asked at %v, want %v", asked, want)
		}
	})
}

func TestARecheckThatPanicsRevokes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{Authorizer: grants(core.Grant{Recheck: func(context.Context) error { panic("recheck") }})})
		s := listen(t, hub, "1", allLists)
		wantEnd(t, s.wait(), core.Revoked, true)
	})
}

func TestARecheckHasTenSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{Authorizer: grants(core.Grant{Recheck: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})})
		start := time.Now()
		s := listen(t, hub, "1", allLists)
		wantEnd(t, s.wait(), core.Revoked, true)
		if got, want := time.Since(start), core.DefaultKeepAlive+10*time.Second; got != want {
			t.Errorf("revoked after %v, want %v", got, want)
		}
		// A client that leaves meanwhile is just gone.
		s = listen(t, hub, "2", allLists)
		advance(core.DefaultKeepAlive + time.Second)
		s.cancel()
		wantEnd(t, s.wait(), core.ClientClosed, false)
	})
}
