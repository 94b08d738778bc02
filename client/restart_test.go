// Two hundred clients follow a server that restarts: they come back spread out,
// each lists again once for each gap, and none misses what is published after
// its new acknowledgment.

package client_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

const followers = 200

// node is one life of a server.
type node struct {
	hub *core.Hub
	srv *http.Server
}

func startNode(tb testing.TB, addr string, arrived func()) *node {
	tb.Helper()
	hub := newHub(tb, core.Config{})
	handler, err := mcphttp.New(hub)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	n := &node{hub, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived()
		handler.ServeHTTP(w, r)
	})}}
	mcphttp.RegisterShutdown(n.srv, hub)
	go func() { _ = n.srv.Serve(ln) }()
	return n
}

// stop ends a node: with the results of its streams, or by cutting them.
func (n *node) stop(gracefully bool) {
	if gracefully {
		_ = n.srv.Shutdown(context.Background())
		return
	}
	_ = n.srv.Close()
	_ = n.hub.Shutdown(context.Background())
}

// arrivals counts requests in slots of time.
type arrivals struct {
	mu    sync.Mutex
	since time.Time
	slots []int
}

const slot = 50 * time.Millisecond

func (a *arrivals) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since, a.slots = time.Now(), nil
}

func (a *arrivals) add() {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := int(time.Since(a.since) / slot)
	for len(a.slots) <= i {
		a.slots = append(a.slots, 0)
	}
	a.slots[i]++
}

// histogram returns the slots as lines, and the largest one.
func (a *arrivals) histogram() (lines string, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for i, n := range a.slots {
		fmt.Fprintf(&b, "\n%5d ms %3d %s", i*int(slot/time.Millisecond), n, strings.Repeat("#", n))
		most = max(most, n)
	}
	return b.String(), most
}

// tally is what the followers were told, by all of them together and by each.
type tally struct {
	mu      sync.Mutex
	changed *sync.Cond
	listed  [followers]int // Started and Relist
	updates [followers]int // updates since the last of them
}

func (t *tally) tell(i int, k client.Kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch k {
	case client.Started, client.Relist:
		t.listed[i]++
		t.updates[i] = 0
	default:
		t.updates[i]++
	}
	t.changed.Broadcast()
}

// wait waits until done holds for each follower.
func (t *tally) wait(done func(i int) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range followers {
		for !done(i) {
			t.changed.Wait()
		}
	}
}

func TestRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ctx := testContext(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()

	var counted arrivals
	counted.restart()
	n := startNode(t, addr, counted.add)
	told := &tally{}
	told.changed = sync.NewCond(&told.mu)
	spread := client.Backoff{First: time.Second, Max: 2 * time.Second}
	option := httpClient(t)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	all := make([]*client.Follower, followers)
	for i := range all {
		filter := core.Filter{ResourceSubscriptions: []string{"file:///all", fmt.Sprintf("file:///%d", i)}}
		all[i], err = client.Follow(ctx, client.URL("http://"+addr), filter, option, client.WithBackoff(spread))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(all[i].Close)
		wg.Go(func() {
			for n := range all[i].Notifications() {
				told.tell(i, n.Kind)
			}
		})
	}
	told.wait(func(i int) bool { return told.listed[i] == 1 })

	for gap, gracefully := range []bool{true, false} {
		counted.restart()
		n.stop(gracefully)
		n = startNode(t, addr, counted.add)
		// Each follower is told a change of its own as soon as it has listened
		// again, while others are still on their way.
		published := make(map[int]bool)
		for len(published) < followers {
			told.mu.Lock()
			for len(published) == countListed(told, gap+2) {
				told.changed.Wait()
			}
			var now []int
			for i, listed := range told.listed {
				if listed == gap+2 && !published[i] {
					now = append(now, i)
				}
			}
			told.mu.Unlock()
			for _, i := range now {
				published[i] = true
				_ = n.hub.Publish(ctx, core.ResourceUpdated(fmt.Sprintf("file:///%d", i)))
			}
		}
		told.wait(func(i int) bool { return told.updates[i] == 1 })
		_ = n.hub.Publish(ctx, core.ResourceUpdated("file:///all"))
		told.wait(func(i int) bool { return told.updates[i] == 2 })

		lines, most := counted.histogram()
		t.Logf("gracefully: %t; requests after the end, %d clients, a first wait of up to %v:%s", gracefully, followers, spread.First, lines)
		// Evenly it would be 10 in each slot. Chance alone makes 30 next to
		// impossible, and without jitter there would be 200.
		if most > 60 {
			t.Errorf("%d clients came back within %v", most, slot)
		}
		for i, listed := range told.listed {
			if listed != gap+2 {
				t.Errorf("client %d listed %d times in %d gaps", i, listed-1, gap+1)
			}
		}
	}
	for _, f := range all {
		f.Close()
	}
	n.stop(true)
}

func countListed(t *tally, times int) (n int) {
	for _, listed := range t.listed {
		if listed == times {
			n++
		}
	}
	return n
}
