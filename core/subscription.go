// A subscription: from acknowledgment to close.

package core

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Subscription is one accepted subscriptions/listen request. The transport that
// opened it must call [Subscription.Serve] or [Subscription.Start].
type Subscription struct {
	hub       *Hub
	ctx       context.Context // of the request: its end is the subscription's
	conn      Conn
	id        ID
	principal string
	serial    uint64
	opened    int64          // when the request was received
	closed    func(*closing) // called once, when everything has been released
	gone      atomic.Bool    // the client, of a subscription that has no context
	turn      atomic.Int32
	next      *Subscription // behind it in the line for a writer; guarded by the writers' lock
	observed  *observed     // nil where nobody observes
	recheck   *recheck      // nil where the grant is not asked again
	values    *values       // nil where nothing of an extension is honored

	// The honored filter, and the subscription's places in the index (guarded by
	// the hub's lock) and among the deadlines (by theirs).
	uris           []uriSlot
	kindPlace      [numListKind]int32
	place          int32
	principalPlace int32
	kinds          uint8 // bit k: the list kind k is honored
	duePlace       int32 // negative: not among them
	dueAt          int64

	limitKey   string // counted in the hub's byKey; empty for not
	admitted   bool   // it has a place among the live ones
	vacated    bool   // it does not count against the limits any more
	starting   bool   // its watches are not started yet
	registered bool   // it is in the index
	watched    bool   // the Watcher was told of uris
	renamed    bool   // the grant is for another principal than the one who asked

	grantEnd int64 // when the grant ends
	endAt    int64 // when to end by itself, and why; grantEnd or before
	endWith  Reason

	lastWrite atomic.Int64

	mu      sync.Mutex
	pending pending
	dirty   bool   // something became pending since the last turn
	tick    bool   // a keep-alive or a re-check is due
	ending  Reason // set once: the end that somebody asked for
	counts  Counts
}

// observed is what a subscription keeps for its observer.
type observed struct {
	StreamObserver
	// Guarded by the subscription's lock: of what is pending.
	oldest    [NumKinds]int64
	coalesced [NumKinds]int
	origins   []Origin

	delivery Delivery // of whoever has the turn
}

// maxOrigins is how many origins one delivery tells.
const maxOrigins = 64

// Counts tell what a subscription has seen so far.
type Counts struct {
	Delivered  uint64 // notifications flushed
	Coalesced  uint64 // changes that an unsent notification stood for, or a newer value
	KeepAlives uint64 // keep-alives flushed
	Bytes      uint64 // bytes of messages written, acknowledgment and result included
}

func newSubscription(ctx context.Context, h *Hub, o Opening) *Subscription {
	s := &Subscription{
		hub:       h,
		ctx:       ctx,
		id:        o.Request.ID,
		principal: o.Principal,
		serial:    h.serial.Add(1),
		opened:    int64(o.Arrival.Received.Sub(h.deadlines.epoch)),
		duePlace:  -1,
	}
	s.lastWrite.Store(h.deadlines.now())
	return s
}

// giveBack releases everything that the subscription holds of the hub. It undoes as
// much as was done.
func (s *Subscription) giveBack() {
	s.hub.vacate(s)
	s.hub.deadlines.remove(s)
	if s.registered {
		s.hub.unregister(s)
	}
	if s.watched {
		s.hub.watches.stopAll(0, len(s.uris), func(i int) string { return s.uris[i].entry.uri })
	}
}

// The mark methods are called by publishers. They make a change pending.

func (s *Subscription) markKind(k Kind, m *marking) {
	if !s.lockFor(m) {
		return
	}
	s.marked(s.pending.markKind(k), Change{Kind: k}, m)
}

func (s *Subscription) markURI(i int32, uri string, m *marking) {
	if !s.lockFor(m) {
		return
	}
	s.marked(s.pending.markURI(i), ResourceUpdated(uri), m)
}

func (s *Subscription) markBelow(i int32, uri string, m *marking) {
	if !s.lockFor(m) {
		return
	}
	if !s.pending.isNew(m.change) {
		s.mu.Unlock()
		return
	}
	s.marked(s.pending.markBelow(i, uri, s.hub.config.Limits.MaxURILength), ResourceUpdated(uri), m)
}

// lockFor locks the subscription for a mark, unless its grant has ended: what is
// published from then on is not for it, even where a batch is still being written.
func (s *Subscription) lockFor(m *marking) bool {
	s.mu.Lock()
	if m.now < s.grantEnd && s.ending != Revoked {
		return true
	}
	s.mu.Unlock()
	return false
}

// markAll makes everything of the honored filter pending.
func (s *Subscription) markAll(m *marking) {
	for k := range Kind(numListKind) {
		if s.kinds&(1<<k) != 0 {
			s.markKind(k, m)
		}
	}
	for i := range s.uris {
		s.markURI(int32(i), s.uris[i].entry.uri, m)
	}
	s.staleAll(m)
}

// marked ends a mark: it counts, unlocks and rouses the subscription.
func (s *Subscription) marked(changed bool, c Change, m *marking) {
	if !changed {
		s.counts.Coalesced++
	}
	if o := s.observed; o != nil {
		if !changed {
			o.coalesced[c.Kind]++
		}
		if o.oldest[c.Kind] == 0 {
			o.oldest[c.Kind] = m.now
		}
		if m.origin != nil && len(o.origins) < maxOrigins {
			o.origins = append(o.origins, Origin{c, m.origin})
		}
	}
	first := !s.dirty
	s.dirty = true
	s.mu.Unlock()
	if first {
		s.rouse()
	}
}

// end asks the subscription to end for the given reason. The first reason
// counts, but that a revocation goes before every end that would still deliver
// what is pending. It reports whether it was this one.
func (s *Subscription) end(reason Reason) bool {
	s.mu.Lock()
	first := s.ending == ""
	if reason == Revoked {
		switch s.ending {
		case Completed, MaxLifetime, Deadline, Shutdown:
			first = true
		}
	}
	if first {
		s.ending = reason
	}
	s.mu.Unlock()
	if first {
		s.rouse()
	}
	return first
}

func (s *Subscription) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending != ""
}

// due is called by the hub's timer at s.dueAt. It rouses the subscription for what
// is due and returns when to look again.
func (s *Subscription) due(now int64) (next int64) {
	next = s.endAt
	if now >= s.endAt {
		s.end(s.endWith)
		next = never
	}
	tick := false
	for _, at := range [...]int64{s.keepAliveAt(), s.recheckAt()} {
		if now >= at {
			tick = true
			at = later(now, s.hub.tickEvery())
		}
		next = min(next, at)
	}
	if tick {
		s.mu.Lock()
		s.tick = true
		s.mu.Unlock()
		s.rouse()
	}
	return next
}

// tickEvery is the time between two keep-alives, and between two re-checks.
func (h *Hub) tickEvery() time.Duration {
	if h.config.KeepAlive > 0 {
		return h.config.KeepAlive
	}
	return DefaultKeepAlive
}

// keepAliveAt returns when the silence calls for a keep-alive.
func (s *Subscription) keepAliveAt() int64 {
	if s.hub.config.KeepAlive < 0 {
		return never
	}
	return later(s.lastWrite.Load(), s.hub.config.KeepAlive)
}

// recheckAt returns when the grant must be asked again.
func (s *Subscription) recheckAt() int64 {
	if s.recheck == nil {
		return never
	}
	return later(s.recheck.last.Load(), s.hub.tickEvery())
}

// subscribedTo reports whether entry is among the subscription's URIs.
func (s *Subscription) subscribedTo(entry *uriEntry) bool {
	for i := range s.uris {
		if s.uris[i].entry == entry {
			return true
		}
	}
	return false
}

// filter returns the honored filter. It reads what does not change while the
// subscription is registered.
func (s *Subscription) filter() Filter {
	f := Filter{
		ToolsListChanged:     s.kinds&(1<<KindTools) != 0,
		PromptsListChanged:   s.kinds&(1<<KindPrompts) != 0,
		ResourcesListChanged: s.kinds&(1<<KindResources) != 0,
	}
	for i := range s.uris {
		f.ResourceSubscriptions = append(f.ResourceSubscriptions, s.uris[i].entry.uri)
	}
	f.Keys = s.keys()
	return f
}

// info describes the subscription.
func (s *Subscription) info() StreamInfo {
	s.mu.Lock()
	counts := s.counts
	s.mu.Unlock()
	return StreamInfo{
		Serial: s.serial, ID: s.id, Principal: s.principal, Opened: s.hub.deadlines.at(s.opened),
		LastWrite: s.hub.deadlines.at(s.lastWrite.Load()),
		Filter:    s.filter(), Counts: counts,
	}
}
