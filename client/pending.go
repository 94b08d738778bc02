// What is pending: a set of notifications that the consumer has not taken yet.
// It is bounded by the filter, however busy the consumer is.

package client

import (
	"encoding/json"
	"slices"
	"sync"
)

const (
	// maxBelow is how many resources below one URI of the filter are pending by
	// name. More of them are told as that URI.
	maxBelow = 64
	// maxBelowLength bounds the URI of such a resource, in bytes.
	maxBelowLength = 4 << 10
)

// pending is safe for concurrent use.
type pending struct {
	mu    sync.Mutex
	order []entry // oldest first
	in    map[entry]struct{}
	// The newest values of extensions' keys that are pending.
	values map[valueOf]*json.RawMessage

	below map[string]int // pending by name below a URI; over maxBelow: it stands for them
	over  bool           // nothing more comes
	gone  bool           // nothing more is to be taken

	wake chan struct{} // has room for one
}

// entry is a notification and, where it is about a resource below one of the
// filter's URIs, that URI.
type entry struct {
	Notification
	parent string
}

// valueOf is a key of an extension.
type valueOf struct{ method, key string }

func newPending() *pending {
	return &pending{
		in: make(map[entry]struct{}), below: make(map[string]int), values: make(map[valueOf]*json.RawMessage),
		wake: make(chan struct{}, 1),
	}
}

// add marks n, which is below parent unless that is empty.
func (p *pending) add(n Notification, parent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.gone {
		return
	}
	if n.Kind == Value {
		p.values[valueOf{n.Method, n.Key}] = n.params
		n.params = nil
	}
	if parent == "" {
		p.push(entry{Notification: n})
		return
	}
	e := entry{n, parent}
	switch count := p.below[parent]; {
	case count > maxBelow, p.has(e): // the parent already stands for it
	case count == maxBelow, len(n.URI) > maxBelowLength:
		p.order = slices.DeleteFunc(p.order, func(e entry) bool {
			if e.parent == parent {
				delete(p.in, e)
			}
			return e.parent == parent
		})
		p.below[parent] = maxBelow + 1
		p.push(entry{Notification: Notification{Kind: n.Kind, URI: parent}})
	default:
		p.below[parent]++
		p.push(e)
	}
}

// restart replaces all that is pending by an event that covers it. What was
// started and not yet taken need not be listed twice.
func (p *pending) restart(k Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.gone {
		return
	}
	if p.has(entry{Notification: Notification{Kind: Started}}) {
		k = Started
	}
	clear(p.below)
	clear(p.values)
	clear(p.in)
	p.order = nil
	p.push(entry{Notification: Notification{Kind: k}})
}

func (p *pending) has(e entry) bool {
	_, has := p.in[e]
	return has
}

func (p *pending) push(e entry) {
	if !p.has(e) {
		p.in[e] = struct{}{}
		p.order = append(p.order, e)
	}
	p.signal()
}

func (p *pending) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// finish says that nothing more comes. What is pending can still be taken,
// unless drop is set.
func (p *pending) finish(drop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.gone = p.gone || drop
	p.signal()
}

// take waits for the oldest pending notification. It returns false when there is
// and will be none.
func (p *pending) take() (Notification, bool) {
	for {
		p.mu.Lock()
		n, ok, over := p.pop()
		if over || len(p.order) > 0 {
			p.signal() // for another consumer
		}
		p.mu.Unlock()
		if ok || over {
			return n, ok
		}
		<-p.wake
	}
}

func (p *pending) pop() (n Notification, ok, over bool) {
	if p.gone || len(p.order) == 0 {
		return n, false, p.over || p.gone
	}
	e := p.order[0]
	p.order = p.order[1:]
	delete(p.in, e)
	switch {
	case e.parent != "":
		if p.below[e.parent]--; p.below[e.parent] == 0 {
			delete(p.below, e.parent)
		}
	case e.Kind == Updated && p.below[e.URI] > maxBelow:
		delete(p.below, e.URI)
	case e.Kind == Value:
		of := valueOf{e.Method, e.Key}
		e.params = p.values[of]
		delete(p.values, of)
	}
	return e.Notification, true, false
}
