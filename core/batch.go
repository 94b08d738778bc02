// Batches: what a subscription writes in one turn.

package core

import (
	"math/bits"
	"slices"
	"sync"
)

// batch is one delivery in the making. Batches are pooled: their scratch space is
// shared by all subscriptions, and their size would be stack for each.
type batch struct {
	s           *Subscription
	from        *pending // what it is taken from
	apart       pending  // what was set apart for it
	valuesApart bool     // its values are those in later
	buf         []byte   // scratch space for one message
	later       []taken  // values that were set apart
	sent        [NumKinds]int
	total       int // of sent
	bytes       int

	// What the observer is told of what was taken.
	taken     int64
	oldest    [NumKinds]int64
	coalesced [NumKinds]int
	origins   []Origin
	families  []familyDelivery
}

// familyDelivery is what the observer is told of one family.
type familyDelivery struct {
	ExtensionDelivery
	oldest int64
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func newBatch(s *Subscription) *batch {
	b := batches.Get().(*batch)
	b.s, b.from = s, &s.pending
	return b
}

// maxKeptBuffer is the largest scratch space that goes back to the pool.
const maxKeptBuffer = 64 << 10

func (b *batch) free() {
	if cap(b.buf) <= maxKeptBuffer {
		clear(b.later)
		*b = batch{buf: b.buf[:0], later: b.later[:0], families: b.families[:0]}
		batches.Put(b)
	}
}

// setApart takes all that is pending, so that what comes later is not part of the
// batch, and reports whether there is anything.
func (b *batch) setApart() bool {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	b.valuesApart = true
	if s.pending.empty() && s.values.empty() {
		b.from = &b.apart // what comes before it is written was not asked about
		return false
	}
	for !s.values.empty() {
		b.later = append(b.later, s.values.take())
	}
	b.apart, s.pending = s.pending, newPending(len(s.uris))
	b.from = &b.apart
	b.takeObserved()
	return true
}

// takeObserved takes what the observer is told of what is taken. The
// subscription's lock must be held.
func (b *batch) takeObserved() {
	o := b.s.observed
	if o == nil {
		return
	}
	b.taken = b.s.hub.deadlines.now()
	for k := range o.oldest {
		if b.oldest[k] == 0 {
			b.oldest[k] = o.oldest[k]
		}
		b.coalesced[k] += o.coalesced[k]
	}
	if b.origins == nil {
		b.origins = o.origins
	} else {
		b.origins = append(b.origins, o.origins[:min(len(o.origins), maxOrigins-len(b.origins))]...)
	}
	o.oldest, o.coalesced, o.origins = [NumKinds]int64{}, [NumKinds]int{}, nil
}

// writePending takes what is pending, in parts where it is much, and writes a
// notification for each member.
func (b *batch) writePending() error {
	s := b.s
	s.mu.Lock()
	nothing, values := s.pending.empty() && s.values.empty(), s.values.pending()
	kinds, set, below, words := b.from.takeKinds(), b.from.takeWord(0), b.from.takeBelow(), b.from.words()
	if b.from != &b.apart && !nothing {
		b.takeObserved()
	}
	s.mu.Unlock()
	for ; kinds != 0; kinds &= kinds - 1 {
		k := Kind(bits.TrailingZeros8(kinds))
		b.buf = appendListChanged(b.buf[:0], k, s.id)
		if err := b.write(k); err != nil {
			return err
		}
	}
	for w := 0; ; {
		for ; set != 0; set &= set - 1 {
			b.buf = appendUpdated(b.buf[:0], s.id, s.uris[64*w+bits.TrailingZeros64(set)].entry.uri)
			if err := b.write(KindResourceUpdated); err != nil {
				return err
			}
		}
		if w++; w == words {
			break
		}
		s.mu.Lock()
		set = b.from.takeWord(w)
		if w == words-1 && b.from != &b.apart && s.pending.empty() {
			b.takeObserved() // what came meanwhile was taken along
		}
		s.mu.Unlock()
	}
	for _, uri := range below {
		b.buf = appendUpdated(b.buf[:0], s.id, uri)
		if err := b.write(KindResourceUpdated); err != nil {
			return err
		}
	}
	return b.writeValues(values)
}

// writeValues writes the n values that have been pending longest. Each is taken
// just before it is written, so that what a slow client is sent is the newest.
func (b *batch) writeValues(n int) error {
	if b.valuesApart {
		for _, t := range b.later {
			if err := b.writeValue(t); err != nil {
				return err
			}
		}
		return nil
	}
	for ; n > 0; n-- {
		b.s.mu.Lock()
		t := b.s.values.take()
		b.s.mu.Unlock()
		if err := b.writeValue(t); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) writeValue(t taken) error {
	b.buf = t.append(b.buf[:0], b.s.id)
	err := b.write(KindExtension)
	if b.s.observed != nil && !isLapse(err) {
		b.observeValue(t)
	}
	return err
}

// observeValue counts a value that was written, or failed to be, for the observer.
func (b *batch) observeValue(t taken) {
	k := KindExtension
	b.coalesced[k] += int(t.merged)
	if b.oldest[k] == 0 || t.since < b.oldest[k] {
		b.oldest[k] = t.since
	}
	i := slices.IndexFunc(b.families, func(f familyDelivery) bool { return f.Method == t.family.Method })
	if i < 0 {
		i = len(b.families)
		b.families = append(b.families, familyDelivery{ExtensionDelivery{Method: t.family.Method}, t.since})
	}
	f := &b.families[i]
	f.Sent++
	f.Coalesced += int(t.merged)
	f.oldest = min(f.oldest, t.since)
}

// write writes the notification in the scratch space. Between two of them a slow
// client may have taken its time: it fails with a [lapse] where the right to them
// has ended meanwhile.
func (b *batch) write(k Kind) error {
	if b.total > 0 {
		if err := b.s.lapsed(); err != nil {
			return err
		}
	}
	b.sent[k]++
	b.total++
	b.bytes += len(b.buf)
	return b.s.conn.WriteMessage(b.buf)
}

func (b *batch) writeAcknowledged(honored Filter) error {
	b.buf = appendAcknowledged(b.buf[:0], b.s.id, honored)
	return b.writeOther()
}

// writeResult writes the last message. The client may come back as soon as it has
// read it, so the place is given back before.
func (b *batch) writeResult() error {
	b.s.hub.vacate(b.s)
	b.buf = appendResult(b.buf[:0], b.s.id, b.s.hub.serverInfo)
	err := b.writeOther()
	if e, ok := b.s.conn.(Ender); ok && err == nil {
		err = e.WriteEnd()
	}
	return err
}

// writeOther writes a message that is no notification of a change.
func (b *batch) writeOther() error {
	s := b.s
	s.mu.Lock()
	s.counts.Bytes += uint64(len(b.buf))
	s.mu.Unlock()
	return s.conn.WriteMessage(b.buf)
}
