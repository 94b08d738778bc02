// Statistics: what a hub has refused and ended so far.

package core

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Stats count what a hub has done since it was made.
type Stats struct {
	Open      int                // subscriptions now
	Opening   int                // requests now on their way through Authorizer and Watcher
	Refused   map[Refusal]uint64 // refused requests by cause
	Closed    map[Reason]uint64  // ended subscriptions by reason
	Unflushed uint64             // graceful ends whose result did not get out
	Broker    *BrokerStats       // nil without a broker
	Held      Held               // what is kept for subscriptions now
}

// Held counts what a hub keeps for its subscriptions, entry by entry. All of it is
// zero when none is open or ending: what stays then is a leak.
type Held struct {
	Registered int // subscriptions in the index
	Releasing  int // subscriptions that have ended and hold something still
	URIs       int // URIs that somebody is subscribed to
	Watches    int // URIs with a watch that runs, starts or stops
	Principals int // principals with subscriptions
	LimitKeys  int // limit keys with subscriptions, where they have a limit
	Deadlines  int // subscriptions that wait for a time
}

// Stats returns the hub's statistics.
func (h *Hub) Stats() Stats {
	h.mu.RLock()
	st := Stats{Open: h.live - h.starting, Opening: h.opening + h.starting, Held: Held{
		Registered: len(h.index.all), Releasing: h.releasing, URIs: len(h.index.uris),
		Principals: len(h.index.principals), LimitKeys: len(h.byKey),
	}}
	h.mu.RUnlock()
	st.Held.Deadlines, st.Held.Watches = h.deadlines.count(), h.watches.count()
	if h.link != nil {
		h.link.count(func(s *BrokerStats) { b := *s; st.Broker = &b })
		st.Broker.Unsent, st.Broker.Stale = h.link.outbox.unsent(), h.link.stale.len()
	}
	h.stats.mu.Lock()
	defer h.stats.mu.Unlock()
	st.Refused = copyCounts(h.stats.refused)
	st.Closed = copyCounts(h.stats.closed)
	st.Unflushed = h.stats.unflushed
	return st
}

func copyCounts[K comparable](counts map[K]uint64) map[K]uint64 {
	c := make(map[K]uint64, len(counts))
	for k, n := range counts {
		c[k] = n
	}
	return c
}

// burstGap is the quiet after which refusals at a limit count as a new burst.
const burstGap = 10 * time.Second

type stats struct {
	mu        sync.Mutex
	refused   map[Refusal]uint64
	closed    map[Reason]uint64
	unflushed uint64
	bursts    map[Refusal]time.Time // the last refusal of each limit
}

// refuse counts a refusal and reports whether it is the first of a burst at a
// limit.
func (st *stats) refuse(e *Error) (burst bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.refused == nil {
		st.refused = make(map[Refusal]uint64)
		st.bursts = make(map[Refusal]time.Time)
	}
	st.refused[e.Refusal]++
	if !errors.Is(e, ErrLimit) {
		return false
	}
	now := time.Now()
	last, before := st.bursts[e.Refusal]
	st.bursts[e.Refusal] = now
	return !before || now.Sub(last) >= burstGap
}

func (st *stats) close(e *End) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed == nil {
		st.closed = make(map[Reason]uint64)
	}
	st.closed[e.Reason]++
	if errors.Is(e.Err, ErrNotFlushed) {
		st.unflushed++
	}
}

// Refuse counts a refused request and tells the observer: a transport calls it
// for each request that it answers with an error. The hub reports the refusals
// of [Hub.Open] itself. Of a burst of refusals at a limit, the first is logged.
func (h *Hub) Refuse(ctx context.Context, r Refused) {
	if h.stats.refuse(r.Err) {
		h.log.Warn("mcplisten: refusing subscriptions at a limit", "limit", string(r.Err.Refusal))
	}
	if h.config.Observer == nil {
		return
	}
	_ = h.guard("Observer.Refused", func() error {
		h.config.Observer.Refused(ctx, r)
		return nil
	})
}
