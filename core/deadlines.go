// Deadlines: one timer for all keep-alives and ends that are due at a time. A
// timer for each stream would be several hundred bytes and a runtime timer each.

package core

import (
	"container/heap"
	"sync"
	"time"
)

// never is the due time of a subscription that waits for no time.
const never = int64(1<<63 - 1)

// deadlines holds subscriptions by when they are next due, in nanoseconds since
// epoch. Its lock is taken before a subscription's, never within.
type deadlines struct {
	epoch time.Time

	mu    sync.Mutex
	queue dueQueue
	timer *time.Timer // nil until first needed
	armed int64       // when the timer fires; never where it does not
}

// later returns the time d after at, or never where it is too far away.
func later(at int64, d time.Duration) int64 {
	if d > 0 && at > never-int64(d) {
		return never
	}
	return at + int64(d)
}

// now returns the time since the epoch in nanoseconds.
func (d *deadlines) now() int64 { return int64(time.Since(d.epoch)) }

// add starts calling s.due at the time that it asks for.
func (d *deadlines) add(s *Subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.dueAt = s.due(d.now())
	heap.Push(&d.queue, s)
	d.arm()
}

// remove undoes add, if there was one.
func (d *deadlines) remove(s *Subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.duePlace < 0 {
		return
	}
	heap.Remove(&d.queue, int(s.duePlace))
	s.duePlace = -1
	d.arm()
}

// at is the time at, as a time.
func (d *deadlines) at(at int64) time.Time { return d.epoch.Add(time.Duration(at)) }

// count returns how many subscriptions wait.
func (d *deadlines) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue)
}

func (d *deadlines) fire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = never
	now := d.now()
	for len(d.queue) > 0 && d.queue[0].dueAt <= now {
		s := d.queue[0]
		s.dueAt = max(s.due(now), now+1)
		heap.Fix(&d.queue, 0)
	}
	d.arm()
}

// arm sets the timer to the earliest due time, where that is earlier than what
// it is set to: a timer that fires too early finds nothing due and costs little.
func (d *deadlines) arm() {
	next := never
	if len(d.queue) > 0 {
		next = d.queue[0].dueAt
	}
	switch {
	case next == never && d.armed != never:
		d.timer.Stop()
		d.armed = never
	case next < d.armed:
		d.armed = next
		wait := time.Duration(next - d.now())
		if d.timer == nil {
			d.timer = time.AfterFunc(wait, d.fire)
		} else {
			d.timer.Reset(wait)
		}
	}
}

// dueQueue is a heap of subscriptions by due time.
type dueQueue []*Subscription

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].dueAt < q[j].dueAt }

func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].duePlace, q[j].duePlace = int32(i), int32(j)
}

func (q *dueQueue) Push(x any) {
	s := x.(*Subscription)
	s.duePlace = int32(len(*q))
	*q = append(*q, s)
}

func (q *dueQueue) Pop() any {
	last := len(*q) - 1
	return takeOut((*[]*Subscription)(q), int32(last))
}
