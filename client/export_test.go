// What the tests see of the inside: the set of what is pending, and the reader
// of messages.

package client

import "github.com/mcplisten/mcplisten/core"

// The limits on resources below one URI.
const (
	MaxBelow       = maxBelow
	MaxBelowLength = maxBelowLength
)

// Pending is a set of what is pending.
type Pending struct{ p *pending }

// NewPending returns an empty set.
func NewPending() Pending { return Pending{newPending()} }

// Add marks a notification.
func (p Pending) Add(n Notification, parent string) { p.p.add(n, parent) }

// Take returns the oldest notification, if there is one.
func (p Pending) Take() (Notification, bool) {
	p.p.mu.Lock()
	defer p.p.mu.Unlock()
	n, ok, _ := p.p.pop()
	return n, ok
}

// Size returns how many are pending and how large the set's maps are.
func (p Pending) Size() (pending, maps int) {
	return len(p.p.order), max(len(p.p.in), len(p.p.below), len(p.p.values))
}

// Read is the reader of the messages of one subscription.
type Read struct {
	Acks  int
	Notes []Notification
	sub   subscription
}

// NewRead returns the reader of a subscription with the given id.
func NewRead(id string, asked core.Filter, families ...core.Family) *Read {
	r := &Read{}
	r.sub = subscription{
		id: id, asked: asked, families: families,
		onAck:  func(core.Filter) { r.Acks++ },
		onNote: func(n Notification, _ string) { r.Notes = append(r.Notes, n) },
	}
	return r
}

// Take reads one message.
func (r *Read) Take(data []byte) (over bool, err error) { return r.sub.take(data) }
