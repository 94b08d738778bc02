// The session: how the server tells the bridge what changed. A server sends to a
// session's channel without waiting, and drops what finds no room, so the bridge sees
// to it that there is room, and knows when there may have been none.

package mcpgobridge

import (
	"crypto/rand"
	"maps"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// session is the bridge as the server sees it: a client that is told of everything.
// It knows what it is subscribed to, since programs ask their sessions for that before
// they tell them of an update.
type session struct {
	id    string
	inbox *inbox

	mu         sync.Mutex
	subscribed map[string]struct{}
}

var _ server.SessionWithResourceSubscriptions = (*session)(nil)

func newSession(to *inbox) *session {
	return &session{id: SessionPrefix + rand.Text(), inbox: to, subscribed: make(map[string]struct{})}
}

// Initialize does nothing: the session is ready from the start.
func (*session) Initialize() {}

// Initialized is true always: a server announces nothing to others.
func (*session) Initialized() bool { return true }

// SessionID returns the session's id.
func (s *session) SessionID() string { return s.id }

// NotificationChannel returns where the next notification goes. The server asks for
// it each time, just before it sends.
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.inbox.next() }

// SubscribeToResource is called by the server for a resources/subscribe.
func (s *session) SubscribeToResource(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribed[uri] = struct{}{}
}

// UnsubscribeFromResource is called by the server for a resources/unsubscribe.
func (s *session) UnsubscribeFromResource(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribed, uri)
}

// SubscribedResources returns what the streams listen to.
func (s *session) SubscribedResources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.subscribed))
}

// IsSubscribedToResource reports whether a stream listens to a resource.
func (s *session) IsSubscribedToResource(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, subscribed := s.subscribed[uri]
	return subscribed
}

// room is how many notifications wait in a channel at most.
const room = 256

// inbox takes what the server announces, and keeps it as the set that it stands for.
// Nothing that is sent is lost without a trace: a send can only find the channel full
// when more sends were begun than there is room and not yet taken, and then the inbox
// says that everything has changed.
type inbox struct {
	stirred chan struct{} // one slot: there is another channel, or something in the set

	mu    sync.Mutex
	slots *slots
	news  news
}

// slots is a channel and the account of it, which the inbox's lock guards.
type slots struct {
	c     chan mcp.JSONRPCNotification
	asked int // times that somebody was about to send
	taken int // notifications that came out
}

func newSlots() *slots { return &slots{c: make(chan mcp.JSONRPCNotification, room)} }

func newInbox() *inbox { return &inbox{stirred: make(chan struct{}, 1), slots: newSlots()} }

// next returns the channel for one more notification. It makes room where that gets
// scarce: the reader may be held up, while the server never is.
func (b *inbox) next() chan<- mcp.JSONRPCNotification {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slots.asked++
	if b.slots.asked-b.slots.taken > room/2 {
		b.collect()
	}
	if b.slots.asked-b.slots.taken > room {
		// So many are about to send that one of them may find no room. What they
		// announce has happened before they asked, so saying now that everything
		// changed covers all of it, and their channel can be forgotten.
		b.slots = newSlots()
		b.slots.asked = 1
		b.news = news{everything: true}
		b.stir()
	}
	return b.slots.c
}

// collect moves what is in the channel into the set. The lock must be held.
func (b *inbox) collect() {
	for {
		select {
		case n := <-b.slots.c:
			b.put(b.slots, n)
		default:
			return
		}
	}
}

// put adds a notification that came out of a channel to the set. The lock must be
// held.
func (b *inbox) put(from *slots, n mcp.JSONRPCNotification) {
	from.taken++
	if b.news.add(n) {
		b.stir()
	}
}

func (b *inbox) stir() { signal(b.stirred) }

// wait waits until there is something in the set, or stop is closed. It reports which.
func (b *inbox) wait(stop ...<-chan struct{}) bool {
	for {
		b.mu.Lock()
		from, empty := b.slots, b.news.empty()
		b.mu.Unlock()
		if !empty {
			return true
		}
		select {
		case n := <-from.c:
			b.mu.Lock()
			b.put(from, n)
			b.mu.Unlock()
		case <-b.stirred:
		case <-stop[0]:
			return false
		case <-stop[1]:
			return false
		}
	}
}

// take takes out everything that has been announced.
func (b *inbox) take() news {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.collect()
	taken := b.news
	b.news = news{}
	return taken
}

// signal puts something into a channel with one slot, unless it is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
