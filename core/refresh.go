// Reading again: where a value of another node may have been missed, or did not
// come along, the application is asked what the key has now. Nothing is given up:
// what could not be read is read later, for as long as somebody listens to it.

package core

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

const (
	currentTimeout   = 10 * time.Second // for one value
	currentAtOnce    = 8                // values that are being read
	currentRetryMost = time.Minute
)

// staleKeys are the keys whose values some subscription here is to be told again.
type staleKeys struct {
	wake chan struct{} // one slot: there are some

	mu     sync.Mutex
	names  map[keyName]struct{}
	failed map[keyName]*failure // could not be read, and are to be tried again
	marks  uint64               // subscriptions' keys that became stale so far
}

// failure is when to try again what could not be read. Each key has its own, so that
// none holds up another's.
type failure struct {
	wait time.Duration
	due  time.Time
}

func (k *staleKeys) init() {
	k.wake = make(chan struct{}, 1)
	k.names, k.failed = make(map[keyName]struct{}), make(map[keyName]*failure)
}

// mark notes a key, and returns the number of the mark.
func (k *staleKeys) mark(name keyName) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names[name] = struct{}{}
	k.marks++
	signal(k.wake)
	return k.marks
}

// take takes all keys, and returns the number of the last mark before.
func (k *staleKeys) take() (names map[keyName]struct{}, before uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	names, k.names = k.names, make(map[keyName]struct{})
	return names, k.marks
}

// read notes that a key was read, or could not be. It returns when it is to be tried
// again. One that was read before it was due, since it changed once more, is due
// when it was.
func (k *staleKeys) read(name keyName, err error) (due time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		delete(k.failed, name)
		return time.Time{}
	}
	f, now := k.failed[name], time.Now()
	switch {
	case f == nil:
		f = &failure{wait: brokerRetryFirst}
		k.failed[name] = f
	case now.Before(f.due):
		return f.due
	default:
		f.wait = min(2*f.wait, currentRetryMost)
	}
	f.due = now.Add(f.wait)
	return f.due
}

// retry has those read that are due, or will be in a moment: many that failed are few
// tries. It returns when the next one is due.
func (k *staleKeys) retry() (next time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for name, f := range k.failed {
		if f.due.Sub(now) > brokerRetryFirst {
			next = sooner(next, f.due)
		} else {
			f.due = now
			k.names[name] = struct{}{}
		}
	}
	return next
}

// sooner returns the earlier of two times, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (k *staleKeys) len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.names)
	for name := range k.failed {
		if _, both := k.names[name]; !both {
			n++
		}
	}
	return n
}

// staleLocked has the value of slot i read again. The subscription's lock must be
// held.
func (s *Subscription) staleLocked(i int32) {
	slot := &s.values.slots[i]
	slot.stale = s.hub.link.stale.mark(slot.entry.keyName)
}

// staleAll has all values of a subscription read again. Without a Broker none can
// have been missed.
func (s *Subscription) staleAll(m *marking) {
	if s.values == nil || s.hub.link == nil || !s.lockFor(m) {
		return
	}
	defer s.mu.Unlock()
	for i := range s.values.slots {
		s.staleLocked(int32(i))
	}
}

// readAgain reads stale values until the link ends.
func (l *link) readAgain() {
	var next time.Time // the next try of what could not be read
	retry := time.NewTimer(math.MaxInt64)
	defer retry.Stop()
	for {
		select {
		case <-l.stale.wake:
		case <-retry.C:
			next = l.stale.retry()
		case <-l.ctx.Done():
			return
		}
		if next = sooner(next, l.readStale()); !next.IsZero() {
			retry.Reset(time.Until(next))
		}
	}
}

// readStale reads all values that are stale, some at one time, and returns when to
// try the first of those again that could not be read.
func (l *link) readStale() (next time.Time) {
	names, before := l.stale.take()
	var (
		reading  sync.WaitGroup
		places   = make(chan struct{}, currentAtOnce)
		mu       sync.Mutex
		failures int
		failed   error
	)
	for name := range names {
		places <- struct{}{}
		reading.Go(func() {
			defer func() { <-places }()
			err := l.read(name, before)
			due := l.stale.read(name, err)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				next = sooner(next, due)
				failures++
				failed = err
			}
		})
	}
	reading.Wait()
	if failures > 0 && l.ctx.Err() == nil {
		l.hub.log.Warn("mcplisten: values of extensions could not be read again", "values", failures, "error", failed)
	}
	return next
}

// read reads the value of one key for each principal that waits for it since the
// given mark or before, and makes it pending.
func (l *link) read(name keyName, before uint64) error {
	var failed error
	for principal := range l.waiting(name, before) {
		p, err := l.current(name, principal)
		if err != nil {
			failed = err
			continue
		}
		if behind := l.tell(name, principal, before, p); behind {
			failed = errBehind
		}
	}
	return failed
}

// errBehind is what reading again fails with where the application has not yet what
// another node published.
var errBehind = errors.New("core: the value is older than the one that was published")

// waiting returns the principals that wait for a value, for a Public one nobody in
// place of all.
func (l *link) waiting(name keyName, before uint64) map[string]struct{} {
	principals := make(map[string]struct{})
	l.hub.mu.RLock()
	defer l.hub.mu.RUnlock()
	entry := l.hub.index.keys[name]
	if entry == nil {
		return nil
	}
	for _, sub := range entry.subscribers {
		if sub.s.waitsFor(sub.i, before) {
			principals[name.family.reader(sub.s)] = struct{}{}
		}
	}
	return principals
}

// reader returns for whom a subscription's values are read.
func (f *family) reader(s *Subscription) string {
	if f.Public {
		return ""
	}
	return s.principal
}

func (s *Subscription) waitsFor(i int32, before uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	stale := s.values.slots[i].stale
	return stale != 0 && stale <= before
}

// current asks the application for a value. It returns nil where there is none.
func (l *link) current(name keyName, principal string) (*payload, error) {
	ctx, cancel := context.WithTimeout(l.ctx, currentTimeout)
	defer cancel()
	var value any
	err := l.hub.guard("Extension.Current", func() (err error) {
		value, err = name.family.Current(ctx, principal, name.key)
		return err
	})
	switch {
	case errors.Is(err, ErrNoValue):
		return nil, nil //nolint:nilnil // no value is no failure
	case err != nil:
		return nil, err
	}
	return l.hub.encode(name.family, name.key, value)
}

// tell makes a value that was read pending for those whom it was read for. Who
// began to wait after the reading did goes on waiting, and who knows of a newer one:
// then it is behind.
func (l *link) tell(name keyName, principal string, before uint64, p *payload) (behind bool) {
	h := l.hub
	h.mu.RLock()
	defer h.mu.RUnlock()
	entry := h.index.keys[name]
	if entry == nil {
		return false
	}
	m := marking{hub: h, all: true, now: max(1, h.deadlines.now())}
	entry.order.Lock()
	defer entry.order.Unlock()
	for _, sub := range entry.subscribers {
		if name.family.reader(sub.s) != principal {
			continue
		}
		news, waits := sub.s.wasRead(sub.i, before, p)
		behind = behind || waits
		if news {
			sub.s.markValue(sub.i, p, &m)
		}
	}
	return behind
}

// wasRead says that the value that slot i waited for has been read, nil for none. It
// reports whether that is news to who waited, and whether it is still older than one
// that is known to be there.
func (s *Subscription) wasRead(i int32, before uint64, p *payload) (news, behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &s.values.slots[i]
	switch {
	case slot.stale == 0 || slot.stale > before:
		return false, false
	case p != nil && p.version < slot.wanted && slot.version < slot.wanted:
		return p.version > slot.version, true // told once, however often it is read
	}
	slot.stale = 0
	return p != nil, false
}
