// Everything: what is published where it is not known what changed.

package core

import "context"

// PublishEverything tells every subscription that everything of its honored filter
// may have changed, here and on the other nodes: for who may have missed what did, as
// a bridge to a server that was cut off from it. Like [Hub.Publish] it waits for
// nobody, and its error is [ErrShutdown] where that of Publish would be. A Tap is not
// told: who calls this has told those behind it, or has no need to. Values of
// extensions are read again, but without a Broker none can have been missed.
func (h *Hub) PublishEverything(_ context.Context) error {
	m := marking{hub: h, all: true, now: max(1, h.deadlines.now())} // 0 is no time
	for _, s := range h.all() {
		s.markAll(&m)
	}
	if h.link != nil && !h.link.outbox.addAll() {
		return ErrShutdown
	}
	return nil
}
