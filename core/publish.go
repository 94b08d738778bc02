// Publishing: marking every subscription that a change concerns, and waking it.
// Nothing here writes to a client or waits for one.

package core

import (
	"context"
	"errors"
)

// Publish tells all subscriptions whose honored filter covers them of the
// changes. It does no I/O and never waits for a client: it marks what is pending
// and wakes the subscriptions' own goroutines. When it returns, every
// subscription acknowledged before the call either delivers the changes or ends.
//
// It fails, and publishes nothing, if a change is malformed. ctx goes to the
// Observer; its end does not stop a publish, since a change half published would
// be lost. Publishing to a hub that is closing or closed is no error.
func (h *Hub) Publish(ctx context.Context, changes ...Change) error {
	for _, c := range changes {
		if err := c.validate(); err != nil {
			return err
		}
	}
	if err := h.mark(changes); err != nil {
		return err
	}
	if o := h.config.Observer; o != nil {
		_ = h.guard("Observer.Published", func() error {
			o.Published(ctx, changes)
			return nil
		})
	}
	return nil
}

func (h *Hub) mark(changes []Change) (err error) {
	now := h.deadlines.now()
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, c := range changes {
		switch {
		case c.Kind != KindResourceUpdated:
			for _, s := range h.index.kind[c.Kind] {
				s.markKind(c.Kind, now)
			}
		case h.config.Matcher == nil:
			h.markExact(h.index.uris[c.URI], now)
		default:
			err = errors.Join(err, h.markCovered(c.URI, now))
		}
	}
	return err
}

func (h *Hub) markExact(entry *uriEntry, now int64) {
	if entry == nil {
		return
	}
	for _, sub := range entry.subscribers {
		sub.s.markURI(sub.i, now)
	}
}

// markCovered marks the subscriptions to every URI that the Matcher names for
// uri. A Matcher that panics loses no change: everybody who listens to a
// resource is told that it changed.
func (h *Hub) markCovered(uri string, now int64) error {
	exact := h.index.uris[uri]
	failed := h.guard("Matcher.Cover", func() error {
		h.config.Matcher.Cover(uri, func(subscribed string) bool {
			if subscribed == uri {
				h.markExact(exact, now)
				return true
			}
			entry := h.index.uris[subscribed]
			if entry == nil {
				return true
			}
			for _, sub := range entry.subscribers {
				if exact == nil || !sub.s.subscribedTo(exact) {
					sub.s.markBelow(sub.i, uri, now)
				}
			}
			return true
		})
		return nil
	})
	if failed != nil {
		for _, entry := range h.index.uris {
			h.markExact(entry, now)
		}
	}
	return failed
}
