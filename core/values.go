// Values: the keys that a subscription listens to, and which newest values it has
// still to be told. A key has one place, so what is pending is bounded by the
// filter, and a newer value takes the place of an older one.

package core

import "sync"

// keyName is a key of a family.
type keyName struct {
	family *family
	key    string
}

// keyEntry is a key that somebody listens to. All who do share its string.
type keyEntry struct {
	keyName
	subscribers []keySubscriber // guarded by the hub's lock

	// order is held while a value is marked, so that of two publishes all who listen
	// see the same one last. It is taken after the hub's lock and before any
	// subscription's.
	order sync.Mutex
}

// keySubscriber is a subscription and the place of the entry among its keys.
type keySubscriber struct {
	s *Subscription
	i int32
}

// values are the keys of one subscription, nil where it has none.
type values struct {
	slots []keySlot

	// What is pending, in the order in which it became so: a list through the slots.
	first, last int32
	count       int
}

// keySlot is a key of a subscription. But for entry and place it is guarded by
// the subscription's lock.
type keySlot struct {
	entry   *keyEntry
	pending *payload // nil: nothing
	version uint64   // of the newest value that was ever pending
	since   int64    // when the pending one became so
	merged  int32    // values that the pending one stands for, beside itself
	place   int32    // among the entry's subscribers
	next    int32    // the slot that became pending after this one
	stale   uint64   // the value is to be read again: when that was noticed, 0 for not
	wanted  uint64   // the newest version that is known to be there to read
}

func (v *values) empty() bool { return v.pending() == 0 }

// pending returns how many values are.
func (v *values) pending() int {
	if v == nil {
		return 0
	}
	return v.count
}

// put makes p the pending value of slot i, and reports whether there was none.
func (v *values) put(i int32, p *payload, now int64) (added bool) {
	slot := &v.slots[i]
	slot.version = max(slot.version, p.version)
	if slot.pending != nil {
		slot.pending = p
		slot.merged++
		return false
	}
	slot.pending, slot.since, slot.merged = p, now, 0
	if v.count == 0 {
		v.first = i
	} else {
		v.slots[v.last].next = i
	}
	v.last = i
	v.count++
	return true
}

// take takes the value that has been pending longest.
func (v *values) take() taken {
	slot := &v.slots[v.first]
	t := taken{slot.pending, slot.since, slot.merged}
	slot.pending = nil
	v.first = slot.next
	v.count--
	return t
}

// taken is a value that was taken from what is pending.
type taken struct {
	*payload
	since  int64
	merged int32
}

// addKeys puts the keys of a subscription into the index.
func (x *index) addKeys(s *Subscription, families []*family, honored Filter) {
	total := 0
	for _, keys := range honored.Keys {
		total += len(keys)
	}
	if total == 0 {
		return
	}
	if x.keys == nil {
		x.keys = make(map[keyName]*keyEntry)
	}
	s.values = &values{slots: make([]keySlot, 0, total)}
	for _, f := range families {
		for _, key := range honored.Keys[f.Member] { // each once
			name := keyName{f, key}
			entry := x.keys[name]
			if entry == nil {
				entry = &keyEntry{keyName: name}
				x.keys[name] = entry
			}
			s.values.slots = append(s.values.slots, keySlot{entry: entry, place: int32(len(entry.subscribers))})
			entry.subscribers = append(entry.subscribers, keySubscriber{s, int32(len(s.values.slots) - 1)})
		}
	}
}

func (x *index) removeKeys(s *Subscription) {
	if s.values == nil {
		return
	}
	for i := range s.values.slots {
		slot := &s.values.slots[i]
		moved := takeOut(&slot.entry.subscribers, slot.place)
		moved.s.values.slots[moved.i].place = slot.place
		if len(slot.entry.subscribers) == 0 {
			delete(x.keys, slot.entry.keyName)
		}
	}
}

// keys returns the honored keys by filter member, nil for none.
func (s *Subscription) keys() map[string][]string {
	if s.values == nil {
		return nil
	}
	keys := make(map[string][]string)
	for i := range s.values.slots {
		entry := s.values.slots[i].entry
		keys[entry.family.Member] = append(keys[entry.family.Member], entry.key)
	}
	return keys
}

// value marks all who listen to a key.
func (m *marking) value(c Change) {
	p := c.content.payload
	entry := m.hub.index.keys[keyName{p.family, c.Key}]
	if entry == nil {
		return
	}
	entry.order.Lock()
	defer entry.order.Unlock()
	for _, sub := range entry.subscribers {
		if m.concerns(sub.s) {
			sub.s.markValue(sub.i, p, m)
		}
	}
}

// markValue makes a value pending, or has it read again where it did not come
// along.
func (s *Subscription) markValue(i int32, p *payload, m *marking) {
	if !s.lockFor(m) {
		return
	}
	slot := &s.values.slots[i]
	switch {
	case p.olderThan(slot.version): // it stands for this one
		s.counts.Coalesced++
		if slot.pending != nil {
			slot.merged++
		}
		s.mu.Unlock()
		return
	case p.params == nil:
		slot.wanted = max(slot.wanted, p.version)
		s.staleLocked(i)
		s.mu.Unlock()
		return
	}
	if !s.values.put(i, p, m.now) {
		s.counts.Coalesced++
	}
	if o := s.observed; o != nil && m.origin != nil && len(o.origins) < maxOrigins {
		c := Change{Kind: KindExtension, Extension: p.family.Method, Key: slot.entry.key}
		o.origins = append(o.origins, Origin{c, m.origin})
	}
	first := !s.dirty
	s.dirty = true
	s.mu.Unlock()
	if first {
		s.rouse()
	}
}
