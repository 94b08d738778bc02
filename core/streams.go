// The server's side of open subscriptions: listing them, and ending some.

package core

import (
	"time"
)

// StreamInfo describes an open subscription.
type StreamInfo struct {
	Serial    uint64    // the hub's own name for it, unique in this process
	ID        ID        // the client's name for it, which others may use too
	Principal string    // empty for nobody
	Opened    time.Time // when the request was received
	LastWrite time.Time // when something was last written to the client; before that, when it was opened
	Filter    Filter    // the honored filter
	Counts
}

// Streams returns the open subscriptions, in no particular order.
func (h *Hub) Streams() []StreamInfo {
	all := h.all()
	infos := make([]StreamInfo, len(all))
	for i, s := range all {
		infos[i] = s.info()
	}
	return infos
}

// End ends the subscription with the given serial: it delivers what is pending,
// writes the result and closes for the reason completed. It does not wait. It
// reports whether there was such a subscription that nothing else was ending.
func (h *Hub) End(serial uint64) bool {
	for _, s := range h.all() {
		if s.serial == serial {
			return s.end(Completed)
		}
	}
	return false
}

// EndWhere ends every subscription that pick returns true for, as End does, and
// returns how many. pick is called without the hub's lock held.
func (h *Hub) EndWhere(pick func(StreamInfo) bool) int { return h.endWhere(Completed, pick) }

// Revoke ends every subscription that pick returns true for, for the reason
// revoked: with its result, but without what is pending, since the right to it
// has ended. It does not wait, and returns how many.
func (h *Hub) Revoke(pick func(StreamInfo) bool) int { return h.endWhere(Revoked, pick) }

func (h *Hub) endWhere(reason Reason, pick func(StreamInfo) bool) int {
	ended := 0
	for _, s := range h.all() {
		if pick(s.info()) && s.end(reason) {
			ended++
		}
	}
	return ended
}

// Cancel ends the subscription that principal opened with the given request id,
// as the client's own doing: without a result. It does so only where the two
// name exactly one, and reports whether they did. principal is who asks now, as
// the transport authenticated them, and must be who asked then: a subscription
// whose [Grant] names another principal is nobody's to cancel. Neither has nobody,
// the empty principal, any. So no caller can end another's.
//
// With a Broker, a cancellation that names none here is passed on to the other
// nodes, each of which looks among its own; what they do with it is not reported.
func (h *Hub) Cancel(principal string, id ID) bool {
	if principal == "" || !id.Valid() {
		return false
	}
	if named, ended := h.cancel(principal, id); named > 0 {
		return ended
	}
	if h.link != nil && len(principal)+len(id.raw) <= perMessage {
		h.link.outbox.addCancel(nodeCancel{[]byte(principal), []byte(id.raw)})
	}
	return false
}

// cancel is Cancel on this node. It returns how many subscriptions the two name.
func (h *Hub) cancel(principal string, id ID) (named int, ended bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var last *Subscription
	for _, s := range h.index.principals[principal] {
		if !s.renamed && s.id.Equal(id) && !s.isEnding() {
			named++
			last = s
		}
	}
	return named, named == 1 && last.end(ClientClosed)
}

// all returns the open subscriptions.
func (h *Hub) all() []*Subscription {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return append([]*Subscription(nil), h.index.all...)
}
