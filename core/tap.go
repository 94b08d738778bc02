// The tap: who else is told of what is published, beside the subscriptions. It is
// for a bridge to a server that has clients of its own.

package core

import (
	"context"
	"slices"
)

// Tap is told of everything that is published on a hub, here or on another node,
// whether or not anybody is subscribed to it. A bridge to an MCP server passes it
// on to that server's own clients, who speak an older revision. It is not told of
// the values of extensions, which are for those who may listen to their keys.
//
// Its methods are called from many goroutines and hold up the publisher: they should
// be quick, and must not wait for a client.
type Tap interface {
	// Published is called once the subscriptions are marked. ctx is the publisher's,
	// or for changes of another node the hub's own. Whoever passes the changes on
	// must keep to the audience. The slice must not be kept.
	Published(ctx context.Context, to Audience, changes []Change)
	// Missed is called when changes of other nodes may have been lost: then anything
	// may have changed. It may be called several times for one gap.
	Missed()
}

// tell tells the tap of changes.
func (h *Hub) tell(ctx context.Context, to Audience, changes []Change) {
	if h.config.Tap == nil {
		return
	}
	if isValue := func(c Change) bool { return c.Kind == KindExtension }; slices.ContainsFunc(changes, isValue) {
		changes = slices.DeleteFunc(slices.Clone(changes), isValue)
	}
	if len(changes) > 0 {
		_ = h.guard("Tap.Published", func() error { h.config.Tap.Published(ctx, to, changes); return nil })
	}
}

// tellMissed tells the tap of a gap.
func (h *Hub) tellMissed() {
	if h.config.Tap != nil {
		_ = h.guard("Tap.Missed", func() error { h.config.Tap.Missed(); return nil })
	}
}
