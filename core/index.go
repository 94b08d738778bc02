// The index: which open subscriptions a change concerns. It is kept by kind and
// by URI, so that the cost of a change follows the subscriptions interested in
// it, whatever else is open.

package core

// index is guarded by the hub's lock. Every subscription knows its places, so
// that leaving costs no search.
type index struct {
	all  []*Subscription
	kind [numListKind][]*Subscription
	uris map[string]*uriEntry
	keys map[keyName]*keyEntry

	// The subscriptions of each principal but nobody.
	principals map[string][]*Subscription
}

// uriEntry is a URI that somebody is subscribed to. All its subscribers share
// its string.
type uriEntry struct {
	uri         string
	subscribers []uriSubscriber
}

// uriSubscriber is a subscription and the place of the entry among its URIs.
type uriSubscriber struct {
	s *Subscription
	i int32
}

// uriSlot is a URI of a subscription and the subscription's place among the
// URI's subscribers.
type uriSlot struct {
	entry *uriEntry
	place int32
}

func (x *index) add(s *Subscription, honored Filter) {
	s.registered = true
	s.place = int32(len(x.all))
	s.uris = make([]uriSlot, len(honored.ResourceSubscriptions))
	s.pending = newPending(len(s.uris))
	x.all = append(x.all, s)
	if s.principal != "" {
		if x.principals == nil {
			x.principals = make(map[string][]*Subscription)
		}
		s.principalPlace = int32(len(x.principals[s.principal]))
		x.principals[s.principal] = append(x.principals[s.principal], s)
	}
	for k := range Kind(numListKind) {
		if honored.has(k) {
			s.kinds |= 1 << k
			s.kindPlace[k] = int32(len(x.kind[k]))
			x.kind[k] = append(x.kind[k], s)
		}
	}
	if x.uris == nil {
		x.uris = make(map[string]*uriEntry)
	}
	for i, uri := range honored.ResourceSubscriptions { // each once
		entry := x.uris[uri]
		if entry == nil {
			entry = &uriEntry{uri: uri}
			x.uris[uri] = entry
		}
		s.uris[i] = uriSlot{entry, int32(len(entry.subscribers))}
		entry.subscribers = append(entry.subscribers, uriSubscriber{s, int32(i)})
	}
}

func (x *index) remove(s *Subscription) {
	moved := takeOut(&x.all, s.place)
	moved.place = s.place
	if same, ok := x.principals[s.principal]; ok {
		moved := takeOut(&same, s.principalPlace)
		moved.principalPlace = s.principalPlace
		if x.principals[s.principal] = same; len(same) == 0 {
			delete(x.principals, s.principal)
		}
	}
	for k := range Kind(numListKind) {
		if s.kinds&(1<<k) != 0 {
			moved := takeOut(&x.kind[k], s.kindPlace[k])
			moved.kindPlace[k] = s.kindPlace[k]
		}
	}
	for i := range s.uris {
		slot := s.uris[i]
		moved := takeOut(&slot.entry.subscribers, slot.place)
		moved.s.uris[moved.i].place = slot.place
		if len(slot.entry.subscribers) == 0 {
			delete(x.uris, slot.entry.uri)
		}
	}
}

// takeOut removes the element at place by moving the last one there, and returns
// the one that moved.
func takeOut[T any](list *[]T, place int32) T {
	l := *list
	last := len(l) - 1
	moved := l[last]
	l[place] = moved
	clear(l[last:])
	l = l[:last]
	// A burst of streams must not leave its memory behind.
	if cap(l) >= 64 && len(l) < cap(l)/4 {
		l = append(make([]T, 0, cap(l)/2), l...)
	}
	*list = l
	return moved
}
