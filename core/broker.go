// The broker seam: changes between the nodes of one endpoint. Everything that
// decides what is sent again and what was missed is here and in the outbox, once;
// a Broker only carries bytes and says when it could not.

package core

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Broker carries messages between the hubs of one endpoint, which run on several
// nodes. The messages are the hubs' own affair; a broker looks at none.
//
// Package brokertest has the contract as a test.
type Broker interface {
	// Send gives msg to every node that receives; whether to this one too is all
	// the same. A message has at most 256 KiB where Limits.MaxURILength is not over
	// 32 KiB. It returns nil only once the broker has taken it:
	// until then the hub keeps what it stands for, and sends it again after an
	// error. It may block until ctx ends. It is called from one goroutine.
	Send(ctx context.Context, msg []byte) error

	// Receive passes on what other nodes send, until ctx ends or it cannot go on;
	// the hub calls it again then. It is called from one goroutine and calls the
	// receiver from one goroutine at a time.
	Receive(ctx context.Context, to BrokerReceiver) error
}

// BrokerReceiver is what a [Broker] calls.
type BrokerReceiver interface {
	// Connected says that messages sent from now on will arrive. What was sent
	// since the last Disconnected, or before the first Connected, is taken as
	// missed. A broker that cannot tell whether something is missing calls it to be
	// safe.
	Connected()
	// Disconnected says that messages may get lost from now on.
	Disconnected()
	// Message passes on a message. The slice is valid during the call only.
	Message(msg []byte)
}

// BrokerObserver is told how a hub and its broker fare. An [Observer] may be one.
type BrokerObserver interface {
	// BrokerConnected is called when the broker connects, or is lost.
	BrokerConnected(connected bool)
	// BrokerGap is called when messages of other nodes may have been missed, and
	// all subscriptions are about to be told that everything changed.
	BrokerGap(subscriptions int)
	// BrokerIgnored is called for a message that was malformed or too large.
	BrokerIgnored()
}

// OriginCarrier takes origins from node to node. An [Observer] may be one.
type OriginCarrier interface {
	// InjectOrigin returns what Publishing returned as a short string.
	InjectOrigin(origin any) string
	// ExtractOrigin returns a context for Publishing on another node.
	ExtractOrigin(ctx context.Context, carried string) context.Context
}

// DefaultGapSpread is the time over which subscriptions are told after a gap.
const DefaultGapSpread = 3 * time.Second

const (
	brokerSendTimeout = 5 * time.Second        // for one message
	brokerRetryFirst  = 100 * time.Millisecond // after a failure, doubling
	brokerRetryMost   = 5 * time.Second
)

// BrokerStats count what passed between a hub and its broker.
type BrokerStats struct {
	Connected bool
	Sent      uint64 // messages that the broker took
	Failed    uint64 // attempts that it did not
	Received  uint64 // messages of other nodes
	Ignored   uint64 // messages that were malformed or too large
	Gaps      uint64 // times that open subscriptions may have missed messages
	Unsent    int    // changes that wait to be sent
}

// link is a hub's connection to its broker.
type link struct {
	hub    *Hub
	broker Broker
	node   string // this node's name, to know its own messages
	outbox outbox

	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	retry  chan struct{} // one slot: the broker is back, do not wait any longer
	gapped chan struct{} // one slot: messages may have been missed

	mu    sync.Mutex
	stats BrokerStats
}

func newLink(h *Hub, broker Broker) *link {
	var name [8]byte
	_, _ = rand.Read(name[:]) // it never fails
	l := &link{
		hub: h, broker: broker, node: hex.EncodeToString(name[:]),
		retry: make(chan struct{}, 1), gapped: make(chan struct{}, 1),
	}
	l.outbox.init()
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.send()
	go l.receive()
	go l.closeGaps()
	return l
}

// publish hands changes to the broker: it puts them into the outbox.
func (l *link) publish(to Audience, changes []Change, origin any) {
	carried := ""
	if c, ok := l.hub.config.Observer.(OriginCarrier); ok && origin != nil {
		_ = l.hub.guard("OriginCarrier.InjectOrigin", func() error {
			carried = c.InjectOrigin(origin)
			return nil
		})
	}
	longest := l.hub.config.Limits.MaxURILength
	if slices.ContainsFunc(changes, func(c Change) bool { return len(c.URI) > longest }) {
		// Nobody can be subscribed to it, but somebody may be to what covers it.
		if l.hub.config.Matcher != nil {
			l.outbox.addAll()
			return
		}
		changes = slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return len(c.URI) > longest })
	}
	for part := range to.parts(perMessage) {
		l.outbox.add(part, changes, carried)
	}
}

// send sends what is in the outbox, one message after another, and keeps it where
// the broker does not take it.
func (l *link) send() {
	wait := brokerRetryFirst
	for {
		select {
		case <-l.outbox.wake:
		case <-l.ctx.Done():
			return
		}
		for {
			item, ok := l.outbox.take()
			if !ok {
				break
			}
			item.Node = l.node
			err := l.sendOne(item)
			if err == nil {
				l.outbox.taken()
				wait = brokerRetryFirst
				continue
			}
			l.outbox.putBack(item)
			select {
			case <-time.After(wait/2 + mathrand.N(wait)):
			case <-l.retry:
			case <-l.ctx.Done():
				return
			}
			wait = min(2*wait, brokerRetryMost)
		}
	}
}

func (l *link) sendOne(item nodeMessage) error {
	ctx, cancel := context.WithTimeout(l.ctx, brokerSendTimeout)
	defer cancel()
	msg, err := item.encode()
	if err == nil {
		err = l.hub.guard("Broker.Send", func() error { return l.broker.Send(ctx, msg) })
	}
	l.count(func(s *BrokerStats) {
		if err == nil {
			s.Sent++
		} else {
			s.Failed++
		}
	})
	return err
}

// receive keeps the broker receiving.
func (l *link) receive() {
	wait := brokerRetryFirst
	for {
		started := time.Now()
		err := l.hub.guard("Broker.Receive", func() error { return l.broker.Receive(l.ctx, (*receiver)(l)) })
		(*receiver)(l).Disconnected()
		if l.ctx.Err() != nil {
			return
		}
		l.hub.log.Warn("mcplisten: the broker stopped receiving", "error", err)
		if time.Since(started) > brokerRetryMost {
			wait = brokerRetryFirst
		}
		select {
		case <-time.After(wait/2 + mathrand.N(wait)):
		case <-l.ctx.Done():
			return
		}
		wait = min(2*wait, brokerRetryMost)
	}
}

// receiver is the side of a link that its broker calls.
type receiver link

// Connected closes the gap that there may have been.
func (r *receiver) Connected() {
	l := (*link)(r)
	l.setConnected(true)
	signal(l.gapped)
	signal(l.retry)
}

// Disconnected notes that the broker is away.
func (r *receiver) Disconnected() { (*link)(r).setConnected(false) }

// Message applies what another node published.
func (r *receiver) Message(msg []byte) {
	l := (*link)(r)
	m, err := decodeNodeMessage(msg)
	switch {
	case err != nil:
		l.count(func(s *BrokerStats) { s.Ignored++ })
		l.observe(func(o BrokerObserver) { o.BrokerIgnored() })
		return
	case m.Node == l.node:
		return
	}
	l.count(func(s *BrokerStats) { s.Received++ })
	l.apply(m)
}

func (l *link) apply(m nodeMessage) {
	if m.Cancel != nil {
		if m.Cancel.Principal != "" {
			l.hub.cancel(m.Cancel.Principal, ID{m.Cancel.ID})
		}
	}
	if m.All {
		signal(l.gapped)
	}
	changes := m.changes()
	if len(changes) == 0 {
		return
	}
	ctx := l.ctx
	if c, ok := l.hub.config.Observer.(OriginCarrier); ok && m.Origin != "" {
		_ = l.hub.guard("OriginCarrier.ExtractOrigin", func() error {
			ctx = c.ExtractOrigin(ctx, m.Origin)
			return nil
		})
	}
	// A panicking Matcher has been logged and has lost nothing.
	_, _ = l.hub.apply(ctx, m.audience(), changes)
}

// closeGaps tells every subscription that everything of its filter changed, after
// each time that something may have been missed. It takes the configured time for
// it, since each of them makes its client fetch.
func (l *link) closeGaps() {
	for {
		select {
		case <-l.gapped:
		case <-l.ctx.Done():
			return
		}
		all := l.hub.all()
		if len(all) == 0 {
			continue
		}
		l.count(func(s *BrokerStats) { s.Gaps++ })
		l.observe(func(o BrokerObserver) { o.BrokerGap(len(all)) })
		m := marking{hub: l.hub, all: true, now: l.hub.deadlines.now()}
		paced(l.ctx, len(all), l.hub.config.GapSpread, func(i int) { all[i].markAll(&m) })
	}
}

func (l *link) setConnected(connected bool) {
	changed := false
	l.count(func(s *BrokerStats) {
		changed = s.Connected != connected
		s.Connected = connected
	})
	if changed {
		l.hub.log.Info("mcplisten: broker", "connected", connected)
		l.observe(func(o BrokerObserver) { o.BrokerConnected(connected) })
	}
}

func (l *link) count(f func(*BrokerStats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.stats)
}

func (l *link) observe(f func(BrokerObserver)) {
	if o, ok := l.hub.config.Observer.(BrokerObserver); ok {
		_ = l.hub.guard("BrokerObserver", func() error { f(o); return nil })
	}
}

// close waits until the outbox is empty, for as long as one message may take and
// until ctx ends, and ends the link.
func (l *link) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, brokerSendTimeout)
	defer cancel()
	select {
	case <-l.outbox.empty():
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
	l.cancel()
}

// signal fills a channel of one slot.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// paced calls f with 0 to n-1, the first at once and the last after spread. It
// does not wait any more once ctx has ended; f can ask ctx whether to go on.
func paced(ctx context.Context, n int, spread time.Duration, f func(i int)) {
	start := time.Now()
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for i := range n {
		if i > 0 && spread > 0 {
			at := start.Add(time.Duration(float64(spread) * float64(i) / float64(n-1)))
			timer.Reset(time.Until(at))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		f(i)
	}
}
