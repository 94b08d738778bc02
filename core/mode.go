// Modes: switching listening off without a deploy, and without lying about it.

package core

// Mode says whether a hub serves listen requests.
type Mode int32

// The modes.
const (
	// ModeServe serves.
	ModeServe Mode = iota
	// ModeComplete acknowledges an empty filter and completes at once: clients that
	// insist on a subscription get one that is over.
	ModeComplete
	// ModeNotFound answers as if there were no such method.
	ModeNotFound
)

func (m Mode) valid() bool { return m >= ModeServe && m <= ModeNotFound }

// Mode returns the hub's mode.
func (h *Hub) Mode() Mode { return Mode(h.mode.Load()) }

// SetMode changes the hub's mode. Leaving ModeServe ends the open subscriptions
// with their result, for the reason completed. It does not wait. An unknown mode
// is ignored.
func (h *Hub) SetMode(m Mode) {
	if !m.valid() {
		return
	}
	// Under the lock, so that nothing is registered later by what was allowed
	// before.
	h.mu.Lock()
	h.mode.Store(int32(m))
	h.mu.Unlock()
	if m != ModeServe {
		h.EndWhere(func(StreamInfo) bool { return true })
	}
}
