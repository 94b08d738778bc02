// What the server announces: each becomes a change on the hub.

package gosdkbridge

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcplisten/mcplisten/core"
)

// announcer is the key of a context value: which bridge publishes what its server
// announced. It is not passed back.
type announcer struct{}

// publish publishes what the server announced.
func (b *Bridge) publish(changes ...core.Change) {
	ctx := context.WithValue(context.Background(), announcer{}, b)
	if err := b.hub.Publish(ctx, changes...); err != nil && !errors.Is(err, core.ErrShutdown) {
		b.log.Warn("mcplisten: what the server announced could not be published", "error", err)
	}
}

// announced is called with each notification that the server sends to the bridge.
func (b *Bridge) announced(method string, params json.RawMessage) {
	if b.closed() {
		return
	}
	if method == core.MethodResourceUpdated {
		var updated struct {
			URI string `json:"uri"`
		}
		if err := json.Unmarshal(params, &updated); err != nil {
			b.log.Warn("mcplisten: an update of no known resource", "error", err)
			return
		}
		b.publish(core.ResourceUpdated(updated.URI))
		return
	}
	for k := range listKinds {
		if method == k.Method() {
			b.lists.announced(k)
			// A list that is no longer empty is advertised from now on.
			b.refresh()
			b.publish(core.Change{Kind: k})
			return
		}
	}
}
