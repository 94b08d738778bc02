// Draining: two hundred streams that end evenly over a spread, what newcomers are
// told meanwhile, and what cuts it short.

package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// histogram counts times in buckets of the given width and prints them.
func histogram(times []time.Duration, width time.Duration) (counts []int, text string) {
	for _, at := range times {
		bucket := int(at / width)
		for len(counts) <= bucket {
			counts = append(counts, 0)
		}
		counts[bucket]++
	}
	var b strings.Builder
	for i, n := range counts {
		fmt.Fprintf(&b, "\n%8v %4d %s", time.Duration(i)*width, n, strings.Repeat("#", n))
	}
	return counts, b.String()
}

// TestShutdownOf200StreamsOverTwoSeconds: the ends are evenly spread, each has
// its result and what was pending before it, and Shutdown returns in time.
func TestShutdownOf200StreamsOverTwoSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n, spread = 200, 2 * time.Second
		hub := newHub(t, core.Config{KeepAlive: -1, DrainSpread: spread})
		streams := make([]*stream, n)
		ended := make([]time.Duration, n)
		for i := range streams {
			streams[i] = listen(t, hub, strconv.Itoa(i), allLists)
		}
		synctest.Wait()
		start := time.Now()
		for i, s := range streams {
			s.take()
			go func() { <-s.done; ended[i] = time.Since(start) }()
		}
		time.AfterFunc(spread/2, func() { publish(t, hub, core.ToolsListChanged()) })
		shutdown(t, hub)
		if got := time.Since(start); got != spread {
			t.Errorf("Shutdown returned after %v, want %v", got, spread)
		}
		synctest.Wait()
		slices.Sort(ended)
		counts, text := histogram(ended, spread/20)
		t.Log(text)
		for i, at := range ended {
			if want := spread * time.Duration(i) / (n - 1); at != want {
				t.Fatalf("end %d of %d came after %v, want %v", i, n, at, want)
			}
		}
		for i, count := range counts[:20] {
			if count != n/20 && i != 19 { // the last one ends at the end of it
				t.Errorf("%d streams ended in the %d. tenth of a second, want %d", count, i+1, n/20)
			}
		}
		told := 0
		for i, s := range streams {
			wantEnd(t, s.wait(), core.Shutdown, true)
			steps := without(s.take(), "flush")
			if slices.Equal(steps, []string{"tools", "result"}) {
				told++
			} else if !slices.Equal(steps, []string{"result"}) {
				t.Errorf("stream %d got %q, want its result, and the change where it was still open", i, steps)
			}
		}
		if told < n/2-1 || told > n/2+1 {
			t.Errorf("%d streams heard of the change in the middle of the drain, want about half of %d", told, n)
		}
		if got := hub.Stats(); got.Open != 0 || got.Closed[core.Shutdown] != n || got.Unflushed != 0 {
			t.Errorf("the statistics are %+v, want %d ended by the shutdown", got, n)
		}
	})
}

// TestNewcomersOfADrainAreSentBeyondIt: at every moment, and none is let in.
func TestNewcomersOfADrainAreSentBeyondIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const spread = 20 * time.Second
		hub := newHub(t, core.Config{KeepAlive: -1, DrainSpread: spread})
		for i := range 5 {
			listen(t, hub, strconv.Itoa(i), allLists)
		}
		end := time.Now().Add(spread)
		go shutdown(t, hub)
		synctest.Wait()
		for range 25 {
			_, err := tryListen(t, hub, "9", allLists)
			e := refusalOf(t, err, core.CodeInternalError, core.RefusedShutdown)
			if back := time.Now().Add(e.RetryAfter); back.Before(end) || e.RetryAfter < time.Second {
				t.Errorf("%v before the end of the drain, a newcomer is told to come back after %v", time.Until(end), e.RetryAfter)
			}
			advance(time.Second)
		}
	})
}

// TestWhoIsOpeningWhenTheDrainStarts is refused as a newcomer: no stream opens on
// a hub that is closing.
func TestWhoIsOpeningWhenTheDrainStarts(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"authorizer", "watcher"} {
		t.Run(where, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				inside := make(chan struct{})
				wait := func(ctx context.Context) error { close(inside); <-ctx.Done(); return ctx.Err() }
				config := core.Config{KeepAlive: -1, DrainSpread: time.Minute}
				if where == "watcher" {
					config.Watcher = watcherFunc(func(ctx context.Context, _ string) error { return wait(ctx) })
				} else {
					config.Authorizer = core.AuthorizerFunc(func(ctx context.Context, _ string, f core.Filter) (core.Grant, error) {
						if len(f.ResourceSubscriptions) == 0 {
							return core.Grant{}, nil
						}
						return core.Grant{}, wait(ctx)
					})
				}
				hub := newHub(t, config)
				listen(t, hub, "1", allLists)
				listen(t, hub, "2", allLists)
				refused := make(chan error)
				go func() {
					_, err := tryListen(t, hub, "3", uriFilter("a:"))
					refused <- err
				}()
				<-inside
				go shutdown(t, hub)
				if err := <-refused; !errors.Is(err, core.ErrShutdown) {
					t.Errorf("who was opening got %v, want ErrShutdown", err)
				}
				synctest.Wait()
				if n := len(hub.Streams()); n != 1 { // the first has ended at once
					t.Errorf("%d streams are open, want 1 that waits for its turn", n)
				}
			})
		})
	}
}

// TestASecondShutdownJoinsTheFirst: it keeps to the spread of the first, unless
// it is in a hurry itself.
func TestASecondShutdownJoinsTheFirst(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		second time.Duration // of its context; 0: none
		want   time.Duration // when all streams have ended
		err    error
	}{
		{"patient", 0, 10 * time.Second, nil},
		{"with a deadline after it", time.Minute, 10 * time.Second, nil},
		{"in a hurry", 2 * time.Second, 6 * time.Second, context.DeadlineExceeded},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{KeepAlive: -1, DrainSpread: 10 * time.Second})
				for i := range 11 {
					listen(t, hub, strconv.Itoa(i), allLists)
				}
				start := time.Now()
				first := make(chan time.Duration)
				go func() { shutdown(t, hub); first <- time.Since(start) }()
				advance(4*time.Second + time.Second/2)
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				if test.second > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.second-time.Second/2)
				}
				defer cancel()
				if err := hub.Shutdown(ctx); !errors.Is(err, test.err) {
					t.Errorf("the second Shutdown: %v, want %v", err, test.err)
				}
				if got := <-first; got != test.want {
					t.Errorf("the first Shutdown returned after %v, want %v", got, test.want)
				}
				shutdown(t, hub) // a third has nothing to do
			})
		})
	}
}

// TestShutdownWithAContextThatHasEnded does not wait, and ends all at once.
func TestShutdownWithAContextThatHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1, DrainSpread: time.Hour})
		streams := make([]*stream, 5)
		for i := range streams {
			streams[i] = listen(t, hub, strconv.Itoa(i), allLists)
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		start := time.Now()
		if err := hub.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown: %v, want nil or its context's error", err)
		}
		for _, s := range streams {
			wantEnd(t, s.wait(), core.Shutdown, true)
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("the streams ended after %v, want at once", got)
		}
	})
}

// TestWhatADrainCouldNotFlushIsCounted, and the others are not.
func TestWhatADrainCouldNotFlushIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1, DrainSpread: 10 * time.Second})
		var stuck []*stream
		for i := range 11 {
			s := listen(t, hub, strconv.Itoa(i), allLists)
			s.awaitSteps(2)
			if i%5 == 0 {
				s.onCall(func(step string) error {
					if step == "result" {
						return core.ErrSlowClient
					}
					return nil
				})
				stuck = append(stuck, s)
			}
		}
		shutdown(t, hub)
		for _, s := range stuck {
			end := s.wait()
			wantEnd(t, end, core.Shutdown, false)
			if !errors.Is(end.Err, core.ErrNotFlushed) {
				t.Errorf("the end's error is %v, want ErrNotFlushed", end.Err)
			}
		}
		if got := hub.Stats(); got.Unflushed != 3 || got.Closed[core.Shutdown] != 11 {
			t.Errorf("the statistics are %+v, want 11 ended, 3 of them not flushed", got)
		}
	})
}

// TestDrainKeepsServing: it takes its share by chance, those who leave or come
// meanwhile are not its concern, and the hub goes on.
func TestDrainKeepsServing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 200
		hub := newHub(t, core.Config{KeepAlive: -1})
		streams := make([]*stream, n)
		for i := range streams {
			streams[i] = listen(t, hub, strconv.Itoa(i), allLists)
		}
		synctest.Wait()
		result := make(chan int)
		go func() {
			ended, err := hub.Drain(context.Background(), 0.3, time.Minute)
			if err != nil {
				t.Errorf("Drain: %v", err)
			}
			result <- ended
		}()
		advance(30 * time.Second)
		if open := len(hub.Streams()); open != n-30 {
			t.Errorf("half way, %d streams are open, want %d", open, n-30)
		}
		newcomer := listen(t, hub, `"new"`, allLists)
		if ended := <-result; ended != 60 {
			t.Errorf("Drain ended %d of %d, want 60", ended, n)
		}
		synctest.Wait()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		wantSteps(t, newcomer.take(), "ack "+allLists, "flush", "tools", "flush")
		first, ended := 0, 0
		for i, s := range streams {
			steps := without(s.take(), "flush")
			switch {
			case slices.Equal(steps, []string{"ack " + allLists, "result"}):
				wantEnd(t, s.wait(), core.Completed, true)
				ended++
				if i < n/2 {
					first++
				}
			case !slices.Equal(steps, []string{"ack " + allLists, "tools"}):
				t.Errorf("stream %d got %q", i, steps)
			}
		}
		if ended != 60 || first < 10 || first > 50 { // 30 are expected; this is no chance
			t.Errorf("%d ended, %d of them among the older half: want 60, chosen by chance", ended, first)
		}
	})
}

// TestShutdownOverridesADrain: the drain returns, and what it would have ended is
// ended by the shutdown.
func TestShutdownOverridesADrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		for i := range 11 {
			listen(t, hub, strconv.Itoa(i), allLists)
		}
		start := time.Now()
		result := make(chan int)
		go func() {
			ended, err := hub.Drain(context.Background(), 1, 10*time.Second)
			if err != nil {
				t.Errorf("Drain: %v", err)
			}
			result <- ended
		}()
		advance(3*time.Second + time.Second/2)
		shutdown(t, hub)
		if ended := <-result; ended != 4 || time.Since(start) != 3500*time.Millisecond {
			t.Errorf("Drain ended %d and returned after %v, want 4 after 3.5s", ended, time.Since(start))
		}
		if got := hub.Stats().Closed; got[core.Completed] != 4 || got[core.Shutdown] != 7 {
			t.Errorf("ended: %v, want 4 completed and 7 shut down", got)
		}
		if n, err := hub.Drain(context.Background(), 1, time.Hour); n != 0 || err != nil {
			t.Errorf("Drain of a closed hub: %d, %v, want nothing", n, err)
		}
	})
}
