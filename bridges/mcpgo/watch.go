// Watching and tapping: what the hub asks of the bridge and tells it.

package mcpgobridge

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mcplisten/mcplisten/core"
)

// watcher is the bridge as the hub's Watcher.
type watcher Bridge

// Start subscribes to a resource on the server, as a client of an older revision
// would: servers that keep account of who is subscribed then tell the bridge, too.
// Then it is the application's Watcher's turn.
func (w *watcher) Start(ctx context.Context, uri string) error {
	b := (*Bridge)(w)
	if err := b.watch(ctx, uri); err != nil {
		return err
	}
	if b.given.Watcher == nil {
		return nil
	}
	started := false
	defer func() {
		if !started { // also where it panics
			b.unwatch(uri)
		}
	}()
	err := b.given.Watcher.Start(ctx, uri)
	started = err == nil
	return err
}

// Stop ends that.
func (w *watcher) Stop(uri string) {
	b := (*Bridge)(w)
	defer b.unwatch(uri)
	if b.given.Watcher != nil {
		b.given.Watcher.Stop(uri)
	}
}

// watch subscribes to a resource that the server sends updates of.
func (b *Bridge) watch(ctx context.Context, uri string) error {
	b.returning.RLock()
	defer b.returning.RUnlock()
	if b.closed.Load() || !b.advertises().ResourceSubscriptions {
		return nil
	}
	if err := b.subscription(ctx, mcp.MethodResourcesSubscribe, uri); err != nil {
		return err
	}
	b.watching.Lock()
	defer b.watching.Unlock()
	b.watched[uri] = true
	return nil
}

// unwatch ends that.
func (b *Bridge) unwatch(uri string) {
	b.returning.RLock()
	defer b.returning.RUnlock()
	b.watching.Lock()
	watched := b.watched[uri]
	delete(b.watched, uri)
	b.watching.Unlock()
	if watched {
		b.leave(uri)
	}
}

// leave unsubscribes from a resource.
func (b *Bridge) leave(uri string) {
	if err := b.subscription(context.WithoutCancel(b.ctx), mcp.MethodResourcesUnsubscribe, uri); err != nil {
		b.log.Warn("mcplisten: unsubscribing from a resource on the server", "error", err)
	}
}

// leaveAll unsubscribes from everything.
func (b *Bridge) leaveAll() {
	b.returning.Lock()
	defer b.returning.Unlock()
	for uri := range b.watched {
		b.leave(uri)
	}
	clear(b.watched)
}

// subscription asks the server to start or end a subscription of the bridge's session.
func (b *Bridge) subscription(ctx context.Context, method mcp.MCPMethod, uri string) error {
	var answer struct{ Error *mcp.JSONRPCErrorDetails }
	if err := b.request(b.server.WithContext(ctx, b.session.Load()), method, map[string]any{"uri": uri}, &answer); err != nil {
		return err
	}
	if answer.Error == nil {
		return nil
	}
	err := fmt.Errorf("mcpgobridge: %s: %s (%d)", method, answer.Error.Message, answer.Error.Code)
	switch code := answer.Error.Code; code {
	case mcp.INVALID_PARAMS, mcp.RESOURCE_NOT_FOUND: // the listening client's fault
		return &core.Error{Code: code, Message: "the server does not take a subscription to a resource", Err: err}
	default:
		return err
	}
}

// watchAgain subscribes to everything that is watched, for a new session. b.returning
// must be held for writing.
func (b *Bridge) watchAgain() {
	for _, uri := range slices.Sorted(maps.Keys(b.watched)) {
		if err := b.subscription(context.WithoutCancel(b.ctx), mcp.MethodResourcesSubscribe, uri); err != nil {
			b.log.Error("mcplisten: subscribing to a resource on the server again", "error", err)
			// Nothing stays promised that may not come.
			delete(b.watched, uri)
			b.hub.EndWhere(func(s core.StreamInfo) bool {
				return slices.Contains(s.Filter.ResourceSubscriptions, uri)
			})
		}
	}
}

// tap is the bridge as the hub's Tap.
type tap Bridge

// Published passes on what others published to the server's own clients. What was
// published for some principals is for none of them: nobody knows which ones they
// are. Then it is the application's Tap's turn.
func (t *tap) Published(ctx context.Context, to core.Audience, changes []core.Change) {
	b := (*Bridge)(t)
	if to.Everyone() && !b.closed.Load() && ctx.Value(ownPublish{}) != b {
		b.own.publish(changes)
	}
	if b.given.Tap != nil {
		b.given.Tap.Published(ctx, to, changes)
	}
}

// Missed tells the server's own clients that everything may have changed.
func (t *tap) Missed() {
	b := (*Bridge)(t)
	if !b.closed.Load() {
		b.own.missed()
	}
	if b.given.Tap != nil {
		b.given.Tap.Missed()
	}
}
