// The link: a hub's end of its broker. Everything that decides what is sent again
// and what was missed is here and in the outbox, once for all brokers.

package core

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	brokerSendTimeout = 5 * time.Second        // for one message
	brokerRetryFirst  = 100 * time.Millisecond // after a failure, doubling
	brokerRetryMost   = 5 * time.Second
	brokerBeat        = 10 * time.Second // between messages that only say how many there were
	brokerSettle      = time.Second / 2  // for all nodes to say so after a gap
	brokerCloseGrace  = time.Second      // for the broker's calls to return
)

// maxHeard is how many nodes are told apart. Each restart of one counts.
const maxHeard = 10_000

// maxOriginLength is the longest origin that is carried, in bytes.
const maxOriginLength = 1024

// link is a hub's connection to its broker.
type link struct {
	hub    *Hub
	broker Broker
	node   string // this node's name, to know its own messages
	outbox outbox

	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	retry  chan struct{} // one slot: the broker is back, do not wait any longer
	hello  chan struct{} // one slot: the other nodes are to be greeted
	asked  chan struct{} // one slot: another node has greeted
	gapped chan struct{} // one slot: messages may have been missed
	stale  staleKeys
	done   chan struct{} // closed when all goroutines have ended
	sent   uint64        // messages, without beats; of the sending goroutine

	mu    sync.Mutex
	stats BrokerStats
	heard map[string]uint64 // messages that each node had sent when it was last heard
}

func newLink(h *Hub, broker Broker) *link {
	var name [8]byte
	_, _ = rand.Read(name[:]) // it never fails
	l := &link{
		hub: h, broker: broker, node: hex.EncodeToString(name[:]),
		retry: make(chan struct{}, 1), hello: make(chan struct{}, 1), asked: make(chan struct{}, 1),
		gapped: make(chan struct{}, 1), done: make(chan struct{}),
		heard: make(map[string]uint64),
	}
	l.outbox.init()
	l.stale.init()
	l.ctx, l.cancel = context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(l.send)
	running.Go(l.receive)
	running.Go(l.closeGaps)
	running.Go(l.readAgain)
	go func() { running.Wait(); close(l.done) }()
	return l
}

// publish hands changes to the broker: it puts them into the outbox. It reports
// whether that still takes any.
func (l *link) publish(to Audience, changes []Change, origin any) bool {
	if to.nobody() {
		return true
	}
	longest := l.hub.config.Limits.MaxURILength
	tooLong := func(c Change) bool { return len(c.URI) > longest || len(c.Key) > longest }
	if slices.ContainsFunc(changes, tooLong) {
		// Nobody can be subscribed to it, but somebody may be to what covers it.
		if l.hub.config.Matcher != nil && slices.ContainsFunc(changes, func(c Change) bool { return len(c.URI) > longest }) {
			return l.outbox.addAll()
		}
		changes = slices.DeleteFunc(slices.Clone(changes), tooLong)
	}
	carried := l.carry(origin)
	for part := range to.parts(perMessage) {
		if !l.outbox.add(part, changes, carried) {
			return false
		}
	}
	return true
}

// carry returns an origin as it travels.
func (l *link) carry(origin any) (carried string) {
	c, ok := l.hub.config.Observer.(OriginCarrier)
	if !ok || origin == nil {
		return ""
	}
	_ = l.hub.guard("OriginCarrier.InjectOrigin", func() error {
		carried = c.InjectOrigin(origin)
		return nil
	})
	if len(carried) > maxOriginLength {
		return ""
	}
	return carried
}

// send sends what is in the outbox, one message after another, and keeps it where
// the broker does not take it.
func (l *link) send() {
	wait, failing := brokerRetryFirst, false
	beat := time.NewTicker(brokerBeat)
	defer beat.Stop()
	for {
		item, ok := l.outbox.take()
		if !ok {
			select {
			case <-l.outbox.wake:
			// Where a beat is not taken, the next one says the same.
			case <-beat.C:
				_ = l.sendOne(nodeMessage{})
			case <-l.asked:
				_ = l.sendOne(nodeMessage{})
			case <-l.hello:
				_ = l.sendOne(nodeMessage{Hello: true})
			case <-l.ctx.Done():
				return
			}
			continue
		}
		select {
		case <-l.retry: // from before this attempt
		default:
		}
		err := l.sendOne(item)
		if errors.Is(err, ErrMessageTooLarge) {
			if lighter, ok := item.withoutPayloads(); ok {
				item = lighter
				err = l.sendOne(item)
			}
		}
		if (err != nil) != failing {
			failing = err != nil
			if failing {
				l.hub.log.Warn("mcplisten: the broker does not take changes, which are kept", "error", err)
			} else {
				l.hub.log.Info("mcplisten: the broker takes changes again")
			}
		}
		switch {
		case err == nil:
			l.outbox.taken()
			wait = brokerRetryFirst
			continue
		case errors.Is(err, ErrMessageTooLarge) && !item.All:
			if item.Cancel == nil {
				item = nodeMessage{All: true}
			}
			l.outbox.replace(item)
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

// sendOne sends a message. They are numbered, so that other nodes notice where the
// broker has lost one that it took: a cluster of servers may, where they lose each
// other. Each attempt of one has the same number. A beat has the number of the
// message before it, which may have been lost, too; a node that has connected asks
// the others for theirs.
func (l *link) sendOne(m nodeMessage) error {
	ctx, cancel := context.WithTimeout(l.ctx, brokerSendTimeout)
	defer cancel()
	m.Node, m.Seq = l.node, l.sent
	beat := m.isBeat()
	if !beat {
		m.Seq++
	}
	msg, err := m.encode()
	if err == nil {
		err = l.hub.guard("Broker.Send", func() error { return l.broker.Send(ctx, msg) })
	}
	if err == nil {
		l.sent = m.Seq
	}
	l.count(func(s *BrokerStats) {
		switch {
		case beat:
		case err != nil:
			s.Failed++
		default:
			s.Sent++
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
	l.gap() // before anybody sees that it is connected, and opens streams
	l.setConnected(true)
	signal(l.hello)
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
		l.ignored()
		return
	case m.Node == l.node:
		return
	}
	if l.missed(m) {
		l.gap()
	}
	if m.Hello {
		signal(l.asked)
	}
	if m.isBeat() {
		return
	}
	l.count(func(s *BrokerStats) { s.Received++ })
	l.apply(m)
}

// missed reports whether messages of m's node may have been lost before m. Of a
// node that is heard for the first time that is so where it has sent any: Connected
// is what the broker's server says, and other servers of its cluster may have
// learnt of the subscription later.
func (l *link) missed(m nodeMessage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.heard[m.Node]
	if !known && len(l.heard) >= maxHeard {
		clear(l.heard)
	}
	l.heard[m.Node] = max(last, m.Seq)
	before := m.Seq
	if !m.isBeat() && before > 0 {
		before--
	}
	return before > last
}

func (l *link) apply(m nodeMessage) {
	if m.Cancel != nil {
		if principal := string(m.Cancel.Principal); principal != "" {
			l.hub.cancel(principal, ID{string(m.Cancel.ID)})
		}
	}
	if m.All {
		l.gap()
	}
	for _, part := range m.parts() {
		if changes := l.known(part.changes()); len(changes) > 0 {
			// A panicking Matcher has been logged and has lost nothing.
			ctx, to := l.carried(part.Origin), m.audience()
			_, _ = l.hub.apply(ctx, to, changes)
			l.hub.tell(ctx, to, changes)
		}
	}
}

// known returns the changes without values of families that this hub does not have,
// which nobody here can listen to. A payload that is not usable is as one that did
// not come along: there is something new, and it is to be read.
func (l *link) known(changes []Change) []Change {
	return slices.DeleteFunc(changes, func(c Change) bool {
		if c.Kind != KindExtension {
			return false
		}
		f := l.hub.familyOf(c.Extension)
		if f == nil {
			return true
		}
		p := c.content.payload
		p.family = f
		if p.params == nil {
			return false
		}
		params, err := f.params(c.Key, p.params)
		if err != nil {
			params = nil
			l.ignored()
		}
		p.params = params
		return false
	})
}

// ignored counts what cannot be understood.
func (l *link) ignored() {
	l.count(func(s *BrokerStats) { s.Ignored++ })
	l.observe(func(o BrokerObserver) { o.BrokerIgnored() })
}

// carried returns the context for an origin that has travelled.
func (l *link) carried(origin string) context.Context {
	extracted := l.ctx
	if c, ok := l.hub.config.Observer.(OriginCarrier); ok && origin != "" {
		_ = l.hub.guard("OriginCarrier.ExtractOrigin", func() error {
			extracted = c.ExtractOrigin(l.ctx, origin) //nolint:fatcontext // set once
			return nil
		})
	}
	return extracted
}

// gap notes that the streams that are open may have missed something. Whoever
// opens from now on has not.
func (l *link) gap() {
	l.hub.tellMissed()
	l.hub.mu.RLock()
	open := len(l.hub.index.all)
	l.hub.mu.RUnlock()
	if open > 0 {
		signal(l.gapped)
	}
}

// closeGaps tells every subscription that everything of its filter changed, after
// each time that something may have been missed. It takes the configured time for
// it, since each of them makes its client fetch. It starts a little late, so that
// what the other nodes say of the same gap is no second one.
func (l *link) closeGaps() {
	for {
		select {
		case <-l.gapped:
		case <-l.ctx.Done():
			return
		}
		spread := max(0, l.hub.config.GapSpread)
		if settle := min(brokerSettle, spread/2); settle > 0 {
			select {
			case <-time.After(settle):
			case <-l.ctx.Done():
				return
			}
			spread -= settle
			select {
			case <-l.gapped:
			default:
			}
		}
		all := l.hub.all()
		if len(all) == 0 {
			continue
		}
		l.count(func(s *BrokerStats) { s.Gaps++ })
		l.observe(func(o BrokerObserver) { o.BrokerGap(len(all)) })
		m := marking{hub: l.hub, all: true}
		paced(l.ctx, len(all), spread, func(i int) {
			m.now = max(1, l.hub.deadlines.now()) // 0 is no time
			all[i].markAll(&m)
		})
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

// close ends the link: it waits until the broker has what is in the outbox, for as
// long as one message may take and until ctx ends.
func (l *link) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, brokerSendTimeout)
	defer cancel()
	l.outbox.close()
	signal(l.retry)
	select {
	case <-l.outbox.empty():
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
	l.cancel()
	select {
	case <-l.done:
	case <-time.After(brokerCloseGrace): // one of its calls does not heed its context, or called Shutdown
	}
	if n := l.outbox.unsent(); n > 0 {
		return fmt.Errorf("%w: %d changes", ErrUnsent, n)
	}
	return nil
}
