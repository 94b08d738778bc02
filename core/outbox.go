// The outbox: changes that other nodes have not been told of yet. Like what is
// pending for a client it is a set, so an outage of the broker costs no more
// memory than there are things to change, and caps bound even that.

package core

import "sync"

// maxUnsent is how many changes the outbox keeps apart, and maxUnsentBytes how many
// bytes of strings. Beyond them, it keeps the one change that covers all:
// everything.
const (
	maxUnsent      = 10_000
	maxUnsentBytes = 16 << 20
)

// maxCancels is how many cancellations the outbox keeps. They are a courtesy: a
// client that cancels closes its stream as well.
const maxCancels = 1000

// perMessage bounds a message to other nodes: the bytes of the names of its
// audience, and those of its URIs. What is longer alone goes alone.
const perMessage = 32 << 10

type outbox struct {
	wake chan struct{} // one slot: there is something

	mu      sync.Mutex
	groups  []*unsentGroup          // in the order in which they came
	byKey   map[string]*unsentGroup // by audience
	count   int                     // changes in all groups
	bytes   int                     // of strings in all groups
	cancels []nodeCancel
	all     bool // everything changed; there are no groups then
	sending bool // something was taken and is not yet sent
	failing bool // the broker did not take the last one
	closed  bool // nothing new is taken in
	waiting []chan struct{}
}

// unsentGroup is what goes to one audience.
type unsentGroup struct {
	key     string
	to      Audience
	changes []unsentChange
	has     map[Change]*content // by changes without contents
}

// unsentChange is a change and the origin of its first publish.
type unsentChange struct {
	Change
	origin string
}

func (c unsentChange) size() int {
	size := len(c.URI) + len(c.Key) + len(c.origin)
	if c.content != nil {
		size += len(c.content.payload.params)
	}
	return size
}

func (o *outbox) init() {
	o.wake = make(chan struct{}, 1)
	o.byKey = make(map[string]*unsentGroup)
}

// add takes in changes, and reports whether it still does.
func (o *outbox) add(to Audience, changes []Change, origin string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.put(to, changes, origin, true)
	}
	return !o.closed
}

// addAll takes in the change of everything, and reports whether it still does.
func (o *outbox) addAll() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.everything()
	}
	return !o.closed
}

// addCancel takes in a cancellation, unless there are too many or the broker is away:
// it is a courtesy, and must not come late.
func (o *outbox) addCancel(c nodeCancel) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && !o.failing && len(o.cancels) < maxCancels {
		o.cancels = append(o.cancels, c)
		signal(o.wake)
	}
}

// put is add with the lock held, and after close. later says that the changes came
// after those that are held: of values with equal versions, the one that came later
// counts.
func (o *outbox) put(to Audience, changes []Change, origin string, later bool) {
	if o.all || len(changes) == 0 {
		return
	}
	if o.failing {
		// What piles up in an outage shall be few messages, not one for each publish.
		origin = ""
	}
	defer signal(o.wake)
	key := to.key()
	g := o.byKey[key]
	if g == nil {
		g = &unsentGroup{key: key, to: to, has: make(map[Change]*content)}
		o.byKey[key] = g
		o.groups = append(o.groups, g)
		o.bytes += len(key)
	}
	for _, c := range changes {
		held, there := g.has[c.withoutContent()]
		switch {
		case !there:
			added := unsentChange{c, origin}
			if c.content != nil {
				added.content = &content{payload: c.content.payload} // the publisher's is shared
			}
			g.has[c.withoutContent()] = added.content
			g.changes = append(g.changes, added)
			o.count++
			o.bytes += added.size()
		case held != nil && (c.content.payload.version > held.payload.version ||
			later && c.content.payload.version == held.payload.version): // else it is older
			o.bytes += len(c.content.payload.params) - len(held.payload.params)
			held.payload = c.content.payload
		}
	}
	if o.count > maxUnsent || len(o.groups) > maxUnsent || o.bytes > maxUnsentBytes {
		o.everything()
	}
}

// everything replaces all changes by the one that covers them. The lock must be
// held.
func (o *outbox) everything() {
	o.all = true
	o.groups, o.count, o.bytes = nil, 0, 0
	clear(o.byKey)
	signal(o.wake)
}

// take takes out the next message, if there is one. The caller says what became
// of it: taken or putBack.
func (o *outbox) take() (nodeMessage, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = !o.isEmpty()
	switch {
	case !o.sending:
		o.settle()
		return nodeMessage{}, false
	case len(o.cancels) > 0:
		c := o.cancels[0]
		o.cancels = o.cancels[1:]
		return nodeMessage{Cancel: &c}, true
	case o.all:
		o.all = false
		return nodeMessage{All: true}, true
	}
	g := o.groups[0]
	changes, size := make([]unsentChange, 0, min(len(g.changes), 16)), 0
	for _, c := range g.changes {
		if size += c.size(); size > perMessage && len(changes) > 0 {
			break
		}
		changes = append(changes, c)
		delete(g.has, c.withoutContent())
		o.count--
		o.bytes -= c.size()
	}
	if g.changes = g.changes[len(changes):]; len(g.changes) == 0 {
		o.groups = o.groups[1:]
		o.bytes -= len(g.key)
		delete(o.byKey, g.key)
	}
	return newNodeMessage(g.to, changes), true
}

// taken says that the broker has the message that was taken out last.
func (o *outbox) taken() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending, o.failing = false, false
}

// replace says that the broker will never take the message that was taken out last,
// and puts everything in its place. A cancellation has nothing in its place.
func (o *outbox) replace(m nodeMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = false
	if m.All {
		o.everything()
	}
}

// putBack puts a message back that the broker did not take. It comes behind what
// came meanwhile, so that one message that a broker never takes holds up no other.
func (o *outbox) putBack(m nodeMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending, o.failing = false, true
	if m.All {
		o.everything()
	}
	// A cancellation is about a stream of its time: after an outage it might end
	// another one with the same id.
	o.cancels = nil
	o.put(m.audience(), m.changes(), "", false)
}

func (o *outbox) isEmpty() bool { return len(o.groups) == 0 && len(o.cancels) == 0 && !o.all }

// settle tells who waits that nothing is left. The lock must be held.
func (o *outbox) settle() {
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
	if o.isEmpty() && !o.sending {
		o.settle()
	}
	return done
}

// close ends taking in: what is in is still sent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// unsent returns how many changes are not known to be sent.
func (o *outbox) unsent() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.all:
		return 1
	case o.count == 0 && o.sending:
		return 1
	}
	return o.count
}
