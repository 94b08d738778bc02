// Admission under load: a thousand requests at once pass no limit, throw nobody
// out, and leave no place taken.

package core_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// rush opens n streams at the same time, and returns those that opened and how
// often each refusal came.
func rush(t *testing.T, hub *core.Hub, n int, who func(i int) string) (opened []*stream, refused map[core.Refusal]int) {
	t.Helper()
	refused = make(map[core.Refusal]int)
	var (
		mu    sync.Mutex
		all   sync.WaitGroup
		start = make(chan struct{})
	)
	for i := range n {
		all.Go(func() {
			<-start
			s, err := tryListen(t, hub, strconv.Itoa(i), allLists, principal(who(i)))
			mu.Lock()
			defer mu.Unlock()
			var e *core.Error
			switch {
			case err == nil:
				opened = append(opened, s)
			case errors.As(err, &e):
				refused[e.Refusal]++
				if e.RetryAfter <= 0 || !errors.Is(err, core.ErrLimit) {
					t.Errorf("refused with %v and RetryAfter %v, want ErrLimit and advice", err, e.RetryAfter)
				}
			default:
				t.Errorf("refused with %v, want a refusal", err)
			}
		})
	}
	close(start)
	all.Wait()
	return opened, refused
}

// most watches how many streams are open at most: counted from the
// acknowledgment to the end, by the application's own hooks.
type most struct{ open, peak atomic.Int64 }

func (m *most) Accepted(context.Context, core.Accepted) core.StreamObserver {
	open := m.open.Add(1)
	for {
		peak := m.peak.Load()
		if open <= peak || m.peak.CompareAndSwap(peak, open) {
			return mostOfOne{m}
		}
	}
}
func (*most) Refused(context.Context, core.Refused)                   {}
func (*most) Publishing(context.Context, []core.Change) (any, func()) { return nil, nil }

type mostOfOne struct{ *most }

func (mostOfOne) Acknowledged(error)       {}
func (mostOfOne) Delivered(*core.Delivery) {}
func (mostOfOne) KeptAlive(error)          {}
func (m mostOfOne) Closed(core.End)        { m.open.Add(-1) }

// TestALimitOfThreeUnderAThousand parallel opens: never more than three, the old
// ones untouched, a freed place used, and all of it to be seen in the counters
// and, once, in the log.
func TestALimitOfThreeUnderAThousand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit, n = 3, 1000
		var log bytes.Buffer
		peak := &most{}
		hub := newHub(t, core.Config{
			MaxStreams: limit, KeepAlive: -1, Observer: peak, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		old := []*stream{listen(t, hub, `"a"`, allLists, principal("old")), listen(t, hub, `"b"`, allLists, principal("old"))}
		nobody := func(int) string { return "" }
		opened, refused := rush(t, hub, n, nobody)
		if len(opened) != 1 || refused[core.RefusedLimit] != n-1 {
			t.Errorf("of %d parallel opens beside two streams, %d opened and %v were refused, want 1 and the rest at the limit", n, len(opened), refused)
		}
		if got := hub.Stats(); got.Open != limit || got.Refused[core.RefusedLimit] != n-1 || got.Opening != 0 {
			t.Errorf("the statistics are %+v, want %d open and %d refused", got, limit, n-1)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "limit=limit") {
			t.Errorf("the log of the burst is %q, want one line about the limit", log.String())
		}
		// The old ones notice nothing.
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		for _, s := range old {
			wantSteps(t, s.take(), "ack "+allLists, "flush", "tools", "flush")
		}
		// A freed place is used, once.
		old[0].close()
		again, refused := rush(t, hub, n, nobody)
		if len(again) != 1 || refused[core.RefusedLimit] != n-1 {
			t.Errorf("after one had left, %d opened and %v were refused, want 1 and the rest", len(again), refused)
		}
		for _, s := range append(append(opened, again...), old[1]) {
			s.close()
		}
		if got := peak.peak.Load(); got != limit {
			t.Errorf("%d streams were open at one time, want %d", got, limit)
		}
		last, _ := rush(t, hub, n, nobody)
		if len(last) != limit {
			t.Errorf("of %d opens on an empty hub, %d opened, want %d", n, len(last), limit)
		}
	})
}

// TestPerPrincipalLimitsUnderAThousand: everybody gets what is theirs, and a
// greedy principal no more than that.
func TestPerPrincipalLimitsUnderAThousand(t *testing.T) {
	t.Parallel()
	tenant := func(principal string) string { key, _, _ := strings.Cut(principal, "/"); return key }
	users := func(i int) string { return []string{"a/1", "a/2", "b/1", "c/1", ""}[i%5] }
	tests := []struct {
		name   string
		config core.Config
		who    func(i int) string
		want   map[string]int
	}{
		{"each", core.Config{MaxStreamsPerPrincipal: 4}, users, map[string]int{"a/1": 4, "a/2": 4, "b/1": 4, "c/1": 4, "": 200}},
		{"each tenant", core.Config{MaxStreamsPerPrincipal: 4, LimitKey: tenant}, users, map[string]int{"a": 4, "b": 4, "c": 4, "": 200}},
		{"a fair share", core.Config{MaxStreams: 50, MaxShare: 0.1}, func(i int) string { return strconv.Itoa(i % 10) }, map[string]int{
			"0": 5, "1": 5, "2": 5, "3": 5, "4": 5, "5": 5, "6": 5, "7": 5, "8": 5, "9": 5,
		}},
		{"a share beside the other limit", core.Config{MaxStreams: 100, MaxShare: 0.29, MaxStreamsPerPrincipal: 30}, func(int) string { return "a" }, map[string]int{"a": 29}},
		{"nobody counts as one if the key says so", core.Config{
			MaxStreamsPerPrincipal: 7, LimitKey: func(string) string { return "all" },
		}, users, map[string]int{"all": 7}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, test.config)
				key := test.config.LimitKey
				if key == nil {
					key = func(principal string) string { return principal }
				}
				for range 2 { // the second time, all places have been given back
					opened, refused := rush(t, hub, 1000, test.who)
					got := make(map[string]int)
					for _, info := range hub.Streams() {
						got[key(info.Principal)]++
					}
					for name, want := range test.want {
						if got[name] != want {
							t.Errorf("%q has %d streams, want %d", name, got[name], want)
						}
					}
					if len(opened)+refused[core.RefusedPrincipalLimit]+refused[core.RefusedLimit] != 1000 {
						t.Errorf("%d opened and %v were refused, want 1000 together", len(opened), refused)
					}
					if test.config.MaxStreams == 0 && refused[core.RefusedLimit] != 0 {
						t.Errorf("%d were refused at the limit of all", refused[core.RefusedLimit])
					}
					for _, s := range opened {
						s.close()
					}
				}
			})
		})
	}
}

// TestMaxOpeningUnderAThousand: no more than so many are ever inside Authorizer
// or Watcher, whatever becomes of them, and none of the places is lost.
func TestMaxOpeningUnderAThousand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var inside, peak, calls atomic.Int64
		hook := func() error {
			n := inside.Add(1)
			defer inside.Add(-1)
			for {
				p := peak.Load()
				if n <= p || peak.CompareAndSwap(p, n) {
					break
				}
			}
			<-time.After(time.Second)
			switch calls.Add(1) % 7 {
			case 0:
				return errBroken
			case 1:
				panic("hook")
			}
			return nil
		}
		hub := newHub(t, core.Config{
			MaxOpening: 5, KeepAlive: -1,
			Authorizer: authorizerFunc(func(string, core.Filter) (core.Grant, error) { return core.Grant{}, hook() }),
			Watcher:    watcherFunc(func(context.Context, string) error { return hook() }),
		})
		var all sync.WaitGroup
		var refused atomic.Int64
		for i := range 1000 {
			all.Go(func() {
				<-time.After(time.Duration(i/100) * 700 * time.Millisecond)
				s, err := tryListen(t, hub, strconv.Itoa(i), uriFilter(strconv.Itoa(i)))
				var e *core.Error
				switch {
				case err == nil:
					s.close()
				case errors.As(err, &e) && e.Refusal == core.RefusedOpening:
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if got := peak.Load(); got != 5 {
			t.Errorf("%d requests were inside the hooks at one time, want 5", got)
		}
		if got := hub.Stats(); got.Opening != 0 || got.Open != 0 || got.Refused[core.RefusedOpening] != uint64(refused.Load()) || refused.Load() == 0 {
			t.Errorf("the statistics are %+v, want nothing open or opening, and %d refused", got, refused.Load())
		}
		// All five places are free again.
		ready := make(chan error, 5)
		for i := range 5 {
			go func() {
				_, err := tryListen(t, hub, strconv.Itoa(i), `{}`)
				ready <- err
			}()
		}
		for range 5 {
			var e *core.Error
			if err := <-ready; errors.As(err, &e) && e.Refusal == core.RefusedOpening {
				t.Errorf("a place of the five is lost: %v", err)
			}
		}
	})
}

// TestALimitKeyThatPanicsRefuses: it must not be a way around the limit.
func TestALimitKeyThatPanicsRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{MaxStreamsPerPrincipal: 1, LimitKey: func(string) string { panic("key") }})
		_, err := tryListen(t, hub, "1", allLists, principal("a"))
		wantRefusal(t, err, core.CodeInternalError, core.RefusedPanic)
		if got := hub.Stats(); got.Open != 0 || got.Opening != 0 {
			t.Errorf("the statistics are %+v, want nothing open", got)
		}
	})
}

// TestTheWatchFailsAtTheLimit: a request that is refused late gives back the
// place that it had.
func TestTheWatchFailsAtTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fails := true
		hub := newHub(t, core.Config{MaxStreams: 1, MaxStreamsPerPrincipal: 1, MaxOpening: 1, Watcher: watcherFunc(func(context.Context, string) error {
			if fails {
				return errBroken
			}
			return nil
		})})
		for range 3 {
			_, err := tryListen(t, hub, "1", uriFilter("a:"), principal("a"))
			wantRefusal(t, err, core.CodeInternalError, core.RefusedWatch)
		}
		fails = false
		listen(t, hub, "1", uriFilter("a:"), principal("a"))
	})
}

// TestAFreedPlaceIsThereAtOnce: who has read the result can come back, however long
// the hooks of the end take.
func TestAFreedPlaceIsThereAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hold := make(chan struct{})
		hub := newHub(t, core.Config{
			MaxStreamsPerPrincipal: 1, MaxStreams: 1,
			OnEnd: func(core.End) { <-hold },
		})
		first := listen(t, hub, "1", allLists, principal("alice"))
		var second *stream
		first.onCall(func(step string) error {
			if step == "result" {
				second = listen(t, hub, "2", allLists, principal("alice"))
			}
			return nil
		})
		hub.EndWhere(func(core.StreamInfo) bool { return true })
		synctest.Wait()
		if second == nil {
			t.Fatal("the first stream has not ended")
		}
		close(hold)
		wantEnd(t, first.wait(), core.Completed, true)
		second.close()
	})
}
