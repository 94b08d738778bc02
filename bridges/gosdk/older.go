// Clients of older revisions: what is published on the hub is sent to them, unless it
// came from the server, which has done that already. Like what is pending for a
// stream, what is unsent to a session is a set, and a session that does not read holds
// up no other.

package gosdkbridge

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcplisten/mcplisten/core"
)

// olderSendTimeout bounds one message to a session, where its transport heeds it.
const olderSendTimeout = 10 * time.Second

// pruneFirst is the number of subscriptions at which those of sessions that have
// ended are looked for; then it is twice what was left.
const pruneFirst = 128

// older is the hub's Tap.
type older struct {
	bridge *Bridge
	wake   chan struct{} // one slot: something is in published

	mu        sync.Mutex
	published changes
	at        map[string]map[*mcp.ServerSession]struct{} // who subscribed to each URI at the server
	count     int                                        // entries in at
	prune     int                                        // the count at which to prune
	unsent    map[*mcp.ServerSession]*changes            // of each session that is being sent to
}

// changes are a set of changes.
type changes struct {
	lists [listKinds]bool
	uris  map[string]struct{}
}

func (c *changes) add(uri string) {
	if c.uris == nil {
		c.uris = make(map[string]struct{})
	}
	c.uris[uri] = struct{}{}
}

func (c *changes) empty() bool { return c.lists == [listKinds]bool{} && len(c.uris) == 0 }

// take takes everything out.
func (c *changes) take() changes {
	taken := *c
	*c = changes{}
	return taken
}

func (o *older) init(b *Bridge) {
	o.bridge = b
	o.wake = make(chan struct{}, 1)
	o.at = make(map[string]map[*mcp.ServerSession]struct{})
	o.prune = pruneFirst
	o.unsent = make(map[*mcp.ServerSession]*changes)
}

// subscribed notes that a session has subscribed at the server.
func (o *older) subscribed(session mcp.Session, uri string) {
	s, ok := session.(*mcp.ServerSession)
	if !ok || o.bridge.closed() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at[uri] == nil {
		o.at[uri] = make(map[*mcp.ServerSession]struct{})
	}
	if _, already := o.at[uri][s]; already {
		return
	}
	o.at[uri][s] = struct{}{}
	if o.count++; o.count < o.prune {
		return
	}
	live := make(map[*mcp.ServerSession]bool)
	for s := range o.bridge.server.Sessions() {
		live[s] = true
	}
	for uri, sessions := range o.at {
		for s := range sessions {
			if !live[s] {
				o.remove(uri, s)
			}
		}
	}
	o.prune = max(pruneFirst, 2*o.count)
}

// unsubscribed notes the end of that.
func (o *older) unsubscribed(session mcp.Session, uri string) {
	if s, ok := session.(*mcp.ServerSession); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.remove(uri, s)
	}
}

// remove removes a subscription. The lock must be held.
func (o *older) remove(uri string, s *mcp.ServerSession) {
	if _, there := o.at[uri][s]; !there {
		return
	}
	o.count--
	if delete(o.at[uri], s); len(o.at[uri]) == 0 {
		delete(o.at, uri)
	}
}

// Published notes what was published, here or on another node, but by this bridge or
// for some principals only. Then it is the application's Tap's turn.
func (o *older) Published(ctx context.Context, to core.Audience, published []core.Change) {
	if o.bridge.config.Tap != nil {
		defer o.bridge.config.Tap.Published(ctx, to, published)
	}
	if !to.Everyone() || ctx.Value(announcer{}) == o.bridge || o.bridge.closed() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range published {
		switch {
		case c.Kind < listKinds:
			o.published.lists[c.Kind] = true
		case c.Kind == core.KindResourceUpdated && len(o.at[c.URI]) > 0:
			o.published.add(c.URI)
		}
	}
	if !o.published.empty() {
		signal(o.wake)
	}
}

// Missed notes that everything may have changed.
func (o *older) Missed() {
	if o.bridge.config.Tap != nil {
		defer o.bridge.config.Tap.Missed()
	}
	if o.bridge.closed() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.published.lists = [listKinds]bool{true, true, true}
	for uri := range o.at {
		o.published.add(uri)
	}
	signal(o.wake)
}

// run hands out what is published, so that the publisher need not.
func (o *older) run() {
	for {
		select {
		case <-o.wake:
			o.handOut()
		case <-o.bridge.ctx.Done():
			return
		}
	}
}

// handOut adds what is published to what is unsent to each session that it concerns.
func (o *older) handOut() {
	o.mu.Lock()
	published := o.published.take()
	o.mu.Unlock()
	var sessions []*mcp.ServerSession
	if published.lists != [listKinds]bool{} {
		sessions = o.sessions()
	}
	advertised := o.bridge.advertises()

	o.mu.Lock()
	defer o.mu.Unlock()
	for k, changed := range published.lists {
		if changed && advertised[k] {
			for _, s := range sessions {
				o.unsentTo(s).lists[k] = true
			}
		}
	}
	for uri := range published.uris {
		for s := range o.at[uri] {
			o.unsentTo(s).add(uri)
		}
	}
}

// sessions returns the sessions of clients of older revisions that have initialized.
// Nobody else is told of lists without asking.
func (o *older) sessions() (older []*mcp.ServerSession) {
	own := o.bridge.current()
	for s := range o.bridge.server.Sessions() {
		if params := s.InitializeParams(); s != own && params != nil && params.ProtocolVersion < revisionWithListen {
			older = append(older, s)
		}
	}
	return older
}

// advertises reports which lists the server says that it announces.
func (b *Bridge) advertises() [listKinds]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return [listKinds]bool{b.advertised.ToolsListChanged, b.advertised.PromptsListChanged, b.advertised.ResourcesListChanged}
}

// unsentTo returns what is unsent to a session, and sees to it that it is sent. The
// lock must be held until something was added.
func (o *older) unsentTo(s *mcp.ServerSession) *changes {
	if o.unsent[s] == nil {
		o.unsent[s] = &changes{}
		// Nobody waits for it: it may write to a client that does not read, which
		// only the end of the connection ends.
		go o.sendAll(s)
	}
	return o.unsent[s]
}

// sendAll sends what is unsent to a session until nothing is.
func (o *older) sendAll(s *mcp.ServerSession) {
	for {
		o.mu.Lock()
		unsent := o.unsent[s].take()
		if unsent.empty() || o.bridge.closed() {
			delete(o.unsent, s)
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		for k, changed := range unsent.lists {
			if changed {
				o.send(core.Kind(k).Method(), listChanged(s, core.Kind(k)))
			}
		}
		for uri := range unsent.uris {
			o.send(core.MethodResourceUpdated, &mcp.ServerRequest[*mcp.ResourceUpdatedNotificationParams]{
				Session: s, Params: &mcp.ResourceUpdatedNotificationParams{URI: uri},
			})
		}
	}
}

// listChanged returns the notification of a list.
func listChanged(s *mcp.ServerSession, k core.Kind) mcp.Request {
	switch k {
	case core.KindTools:
		return &mcp.ServerRequest[*mcp.ToolListChangedParams]{Session: s, Params: &mcp.ToolListChangedParams{}}
	case core.KindPrompts:
		return &mcp.ServerRequest[*mcp.PromptListChangedParams]{Session: s, Params: &mcp.PromptListChangedParams{}}
	default:
		return &mcp.ServerRequest[*mcp.ResourceListChangedParams]{Session: s, Params: &mcp.ResourceListChangedParams{}}
	}
}

// send sends one notification as the SDK does: in no request's context, so that it
// comes on the session's own stream, and with what it does not deliver forgotten.
func (o *older) send(method string, notification mcp.Request) {
	ctx, cancel := context.WithTimeout(context.Background(), olderSendTimeout)
	defer cancel()
	err := o.bridge.safely("sending middleware", func() error {
		_, err := o.bridge.send(ctx, method, notification)
		return err
	})
	if err != nil {
		o.bridge.log.Debug("mcplisten: a client of an older revision was not told", "method", method, "error", err)
	}
}
