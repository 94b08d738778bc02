// The outbox: changes that other nodes have not been told of yet. Like what is
// pending for a client it is a set, so an outage of the broker costs no more
// memory than there are things to change, and a cap bounds even that.

package core

import "sync"

// maxUnsent is how many changes the outbox keeps apart. Beyond it, it keeps the
// one change that covers all: everything.
const maxUnsent = 10_000

// maxCancels is how many cancellations the outbox keeps. They are a courtesy: a
// client that cancels closes its stream as well.
const maxCancels = 1000

// perMessage bounds a message to other nodes, in bytes of the strings in it.
const perMessage = 32 << 10

type outbox struct {
	wake chan struct{} // one slot: there is something

	mu      sync.Mutex
	groups  []*unsentGroup          // in the order in which they came
	byKey   map[string]*unsentGroup // by audience and origin
	count   int                     // changes in all groups
	cancels []nodeCancel
	all     bool // everything changed; there are no groups then
	sending bool // something was taken and is not yet sent
	waiting []chan struct{}
}

// unsentGroup is what goes to one audience from one origin.
type unsentGroup struct {
	key     string
	to      Audience
	origin  string
	changes []Change
	has     map[Change]struct{}
}

func (o *outbox) init() {
	o.wake = make(chan struct{}, 1)
	o.byKey = make(map[string]*unsentGroup)
}

func (o *outbox) add(to Audience, changes []Change, origin string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all || len(changes) == 0 {
		return
	}
	defer signal(o.wake)
	key := to.key() + "\x00" + origin
	g := o.byKey[key]
	if g == nil {
		g = &unsentGroup{key: key, to: to, origin: origin, has: make(map[Change]struct{})}
		o.byKey[key] = g
		o.groups = append(o.groups, g)
	}
	for _, c := range changes {
		if _, there := g.has[c]; !there {
			g.has[c] = struct{}{}
			g.changes = append(g.changes, c)
			o.count++
		}
	}
	if o.count > maxUnsent || len(o.groups) > maxUnsent {
		o.everything()
	}
}

// addAll adds the change of everything.
func (o *outbox) addAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.everything()
	signal(o.wake)
}

// everything replaces all changes by the one that covers them.
func (o *outbox) everything() {
	o.all = true
	o.groups, o.count = nil, 0
	clear(o.byKey)
}

func (o *outbox) addCancel(c nodeCancel) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.cancels) < maxCancels {
		o.cancels = append(o.cancels, c)
		signal(o.wake)
	}
}

// take takes out the next message, if there is one. The caller puts it back or
// says that it was taken.
func (o *outbox) take() (nodeMessage, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(o.cancels) > 0:
		c := o.cancels[0]
		o.cancels = o.cancels[1:]
		o.sending = true
		return nodeMessage{Cancel: &c}, true
	case o.all:
		o.all = false
		o.sending = true
		return nodeMessage{All: true}, true
	case len(o.groups) == 0:
		o.settle()
		return nodeMessage{}, false
	}
	o.sending = true
	g := o.groups[0]
	n, size := 0, 0
	for n < len(g.changes) && (n == 0 || size+len(g.changes[n].URI) <= perMessage) {
		size += len(g.changes[n].URI) + 16
		delete(g.has, g.changes[n])
		n++
	}
	m := newNodeMessage(g.to, g.changes[:n:n], g.origin)
	g.changes = g.changes[n:]
	o.count -= n
	if len(g.changes) == 0 {
		o.groups = o.groups[1:]
		delete(o.byKey, g.key)
	}
	return m, true
}

// taken says that the broker has the message that was taken out last.
func (o *outbox) taken() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = false
}

// putBack puts a message back that the broker did not take.
func (o *outbox) putBack(m nodeMessage) {
	o.taken()
	if m.All {
		o.addAll()
	}
	if m.Cancel != nil {
		o.addCancel(*m.Cancel)
	}
	if changes := m.changes(); len(changes) > 0 {
		o.add(m.audience(), changes, m.Origin)
	}
	signal(o.wake)
}

// settle tells who waits that nothing is left. The lock must be held.
func (o *outbox) settle() {
	if o.sending {
		return
	}
	for _, w := range o.waiting {
		close(w)
	}
	o.waiting = nil
}

// empty returns a channel that is closed once nothing is left to be sent.
func (o *outbox) empty() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	done := make(chan struct{})
	o.waiting = append(o.waiting, done)
	if len(o.groups) == 0 && len(o.cancels) == 0 && !o.all {
		o.settle()
	}
	return done
}

func (o *outbox) unsent() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all {
		return 1
	}
	return o.count
}
