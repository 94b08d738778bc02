// For the tests outside of the package.

package mcpgobridge

import (
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// Kept says what is kept of the server's own clients.
func Kept(b *Bridge) string {
	b.own.mu.Lock()
	defer b.own.mu.Unlock()
	return fmt.Sprintf("%d sessions, %d URIs", len(b.own.sessions), len(b.own.byURI))
}

// Missed tells the bridge of a gap.
func Missed(b *Bridge) { (*tap)(b).Missed() }

// SessionID is the id of the bridge's session at the time.
func SessionID(b *Bridge) string { return b.session.Load().id }

// Room is how many notifications wait in an inbox's channel at most.
const Room = room

// Inbox is an inbox by itself.
type Inbox struct{ *inbox }

// NewInbox returns one.
func NewInbox() Inbox { return Inbox{newInbox()} }

// Next returns the channel for one more notification.
func (i Inbox) Next() chan<- mcp.JSONRPCNotification { return i.next() }

// Take takes out what was announced: whether everything changed, and how many things.
func (i Inbox) Take() (everything bool, changes int) {
	n := i.take()
	return n.everything, len(n.changes())
}
