// Writers: the few goroutines that write to clients. A goroutine for each stream
// would have to be woken for each delivery, which costs a quarter of it; a writer
// that is awake goes from one stream to the next.

package core

import (
	"runtime"
	"sync"
	"time"
)

// writers runs the subscriptions that have something to do, in the order in which
// they were roused. A subscription is run by one writer at a time. Writers exist
// only while there is work.
//
// A client that does not read, or a hook that takes its time, holds up the writer
// that runs it. What stands in line behind it waits for stuckAfter at most: then
// there are more writers, up to one for each subscription.
type writers struct {
	limit int // writers at work, stuck ones not counted

	mu      sync.Mutex
	first   *Subscription // the line, linked by next
	last    *Subscription
	length  int
	working []*writer
	resting []*writer // to be started again
	tick    uint32    // counts up while there is a line
	ticking bool
	ticker  *time.Timer
}

type writer struct {
	work  func() // bound once, so that starting allocates nothing
	place int    // in working
	begun bool   // it has come to take a subscription
	since uint32 // the tick at which it took it
}

// stuckAfter is between how long, and twice that, a writer may be at one
// subscription before another takes its place.
const stuckAfter = time.Millisecond

func newWriters() writers { return writers{limit: max(2, runtime.GOMAXPROCS(0))} }

// add puts a subscription into the line, once until it is run.
func (w *writers) add(s *Subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.first = s
	} else {
		w.last.next = s
	}
	w.last = s
	w.length++
	if len(w.working) < w.limit {
		w.start()
	}
	if !w.ticking {
		w.ticking = true
		if w.ticker == nil {
			w.ticker = time.AfterFunc(stuckAfter, w.watch)
		} else {
			w.ticker.Reset(stuckAfter)
		}
	}
}

// start starts a writer. The lock must be held.
func (w *writers) start() {
	var one *writer
	if n := len(w.resting); n > 0 {
		one, w.resting = w.resting[n-1], w.resting[:n-1]
	} else {
		one = new(writer)
		one.work = func() { w.work(one) }
	}
	one.place, one.begun = len(w.working), false
	w.working = append(w.working, one)
	go one.work()
}

func (w *writers) work(one *writer) {
	done := false
	defer func() {
		if done {
			return
		}
		// A hook has ended this goroutine.
		w.mu.Lock()
		defer w.mu.Unlock()
		w.leave(one)
		if w.first != nil {
			w.start()
		}
	}()
	for s := w.take(one); s != nil; s = w.take(one) {
		if s.recheck == nil {
			s.run()
		} else {
			go s.run() // to ask again takes its time, and many do it at once
		}
	}
	done = true
}

// take takes the first of the line. Where there is none, the writer has left.
func (w *writers) take(one *writer) *Subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.first
	if s == nil {
		w.leave(one)
		return nil
	}
	if w.first, s.next = s.next, nil; w.first == nil {
		w.last = nil
	}
	w.length--
	one.begun, one.since = true, w.tick
	return s
}

func (w *writers) leave(one *writer) {
	last := w.working[len(w.working)-1]
	w.working[one.place], last.place = last, one.place
	w.working[len(w.working)-1] = nil
	w.working = w.working[:len(w.working)-1]
	if len(w.resting) < w.limit {
		w.resting = append(w.resting, one)
	}
}

// watch starts more writers where those at work do not come forward: as many as are
// stuck, since what they are stuck in may be what the next ones find, and as many as
// there should be at least. Where those that were started last have not even begun, it
// is the processors that are short, and more would not help.
func (w *writers) watch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick++
	if w.first == nil {
		w.ticking = false
		return
	}
	stuck, starting := 0, 0
	for _, one := range w.working {
		switch {
		case !one.begun:
			starting++
		case w.tick-one.since > 1:
			stuck++
		}
	}
	more := max(stuck, w.limit-(len(w.working)-stuck)) - starting
	for range min(more, w.length) {
		w.start()
	}
	w.ticker.Reset(stuckAfter)
}
