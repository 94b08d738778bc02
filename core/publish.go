// Publishing: marking every subscription that a change concerns, and rousing it.
// Nothing here writes to a client or waits for one.

package core

import (
	"context"
	"errors"
)

// Publish tells all subscriptions whose honored filter covers them of the
// changes. It does no I/O and never waits for a client: it marks what is pending
// and rouses the subscriptions. When it returns, every
// subscription acknowledged before the call either delivers the changes or ends.
//
// It fails, and publishes nothing, if a change is malformed, or is the value of an
// extension and cannot be sent ([ErrUnknownExtension], [ErrPayload], or the error of
// its Encode). ctx goes to the
// Observer; its end does not stop a publish, since a change half published would
// be lost. With a Broker, the changes go to the hubs of other nodes as well, behind
// the caller's back: a broker that is slow or away holds up nothing here.
//
// Publishing to a hub that is closing or closed is no error, unless it has a
// Broker and Shutdown has ended the subscriptions: then the other nodes cannot be
// told any more, and the error is [ErrShutdown].
func (h *Hub) Publish(ctx context.Context, changes ...Change) error {
	return h.PublishTo(ctx, Audience{}, changes...)
}

// PublishTo is Publish to the subscriptions of an audience: those of others are
// neither told nor woken. What is pending belongs to one subscription, so a
// change for one principal cannot become part of what another is told.
func (h *Hub) PublishTo(ctx context.Context, to Audience, changes ...Change) error {
	for _, c := range changes {
		if err := c.validate(); err != nil {
			return err
		}
	}
	changes, err := h.encodeValues(changes)
	if err != nil {
		return err
	}
	h.checkDeclared(changes)
	origin, err := h.apply(ctx, to, changes)
	h.tell(ctx, to, changes)
	if h.link != nil && !h.link.publish(to, changes, origin) {
		return ErrShutdown
	}
	return err
}

// checkDeclared says in the log, once for each kind, that a change was published
// which nobody can have asked for: the usual reason why nothing arrives.
func (h *Hub) checkDeclared(changes []Change) {
	for _, c := range changes {
		bit := uint32(1) << c.Kind
		if c.Kind == KindExtension || h.capabilities().deliver(c.Kind) || h.undeclared.Load()&bit != 0 {
			continue
		}
		if h.undeclared.Or(bit)&bit == 0 {
			h.log.Warn("mcplisten: a change was published that is not among the hub's Capabilities: nobody can listen to it",
				"method", c.Kind.Method())
		}
	}
}

// apply marks the hub's own subscriptions.
func (h *Hub) apply(ctx context.Context, to Audience, changes []Change) (origin any, err error) {
	m := marking{hub: h, to: to, all: to.Everyone(), now: max(1, h.deadlines.now())} // 0 is no time
	o := h.config.Observer
	if o == nil {
		return nil, m.mark(changes)
	}
	var published func()
	_ = h.guard("Observer.Publishing", func() error {
		m.origin, published = o.Publishing(ctx, changes)
		return nil
	})
	err = m.mark(changes)
	if published != nil {
		_ = h.guard("Observer.Publishing", func() error {
			published()
			return nil
		})
	}
	return m.origin, err
}

// marking is one publish, under the hub's lock.
type marking struct {
	hub    *Hub
	to     Audience
	all    bool // to is everybody
	now    int64
	origin any    // for the observers of the streams
	change uint64 // the number of the one being marked, where a Matcher is asked
}

func (m *marking) mark(changes []Change) (err error) {
	h := m.hub
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, c := range changes {
		switch {
		case c.Kind == KindExtension:
			m.value(c)
		case c.Kind != KindResourceUpdated:
			m.kind(c.Kind)
		case h.config.Matcher == nil:
			m.exact(h.index.uris[c.URI])
		default:
			err = errors.Join(err, m.covered(c.URI))
		}
	}
	return err
}

func (m *marking) kind(k Kind) {
	index := &m.hub.index
	if len(m.to.principals) > 0 { // what others have open costs nothing
		for _, name := range m.to.principals {
			for _, s := range index.principals[name] {
				if s.kinds&(1<<k) != 0 {
					s.markKind(k, m)
				}
			}
		}
		return
	}
	for _, s := range index.kind[k] {
		if m.concerns(s) {
			s.markKind(k, m)
		}
	}
}

func (m *marking) concerns(s *Subscription) bool { return m.all || m.to.Includes(s.principal) }

func (m *marking) exact(entry *uriEntry) {
	if entry == nil {
		return
	}
	for _, sub := range entry.subscribers {
		if m.concerns(sub.s) {
			sub.s.markURI(sub.i, entry.uri, m)
		}
	}
}

// covered marks the subscriptions to every URI that the Matcher names for uri. A
// Matcher that panics loses no change: everybody who listens to a resource is
// told that it changed. It has a copy of m, since that is allocated here alone.
func (m marking) covered(uri string) error {
	index := &m.hub.index
	m.change = m.hub.covered.Add(1)
	same := index.uris[uri]
	failed := m.hub.guard("Matcher.Cover", func() error {
		m.hub.config.Matcher.Cover(uri, func(subscribed string) bool {
			if subscribed == uri {
				m.exact(same)
				return true
			}
			entry := index.uris[subscribed]
			if entry == nil {
				return true
			}
			for _, sub := range entry.subscribers {
				if m.concerns(sub.s) && (same == nil || !sub.s.subscribedTo(same)) {
					sub.s.markBelow(sub.i, uri, &m)
				}
			}
			return true
		})
		return nil
	})
	if failed != nil {
		for _, entry := range index.uris {
			m.exact(entry)
		}
	}
	return failed
}
