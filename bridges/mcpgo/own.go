// The server's own clients, who speak an older revision: what the hub publishes
// reaches them on the server's own streams.

package mcpgobridge

import (
	"context"
	"errors"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/mcplisten/mcplisten/core"
)

// own keeps account of the sessions of the server's own clients, and of what they are
// to be told.
type own struct {
	wake chan struct{} // one slot: there is something to be told

	mu       sync.Mutex
	sessions map[string]map[string]struct{} // the registered ones, and the URIs that each is subscribed to
	byURI    map[string]map[string]struct{} // the sessions that are subscribed to each URI
	news     news                           // to be told
}

func (o *own) init() {
	o.wake = make(chan struct{}, 1)
	o.sessions = make(map[string]map[string]struct{})
	o.byURI = make(map[string]map[string]struct{})
}

// publish takes in changes to be told. Of resources it takes those that somebody is
// subscribed to, so that it grows with those alone.
func (o *own) publish(changes []core.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range changes {
		if c.Kind == core.KindResourceUpdated && len(o.byURI[c.URI]) == 0 {
			continue
		}
		o.news.put(c)
		signal(o.wake)
	}
}

func (o *own) missed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.news = news{everything: true}
	signal(o.wake)
}

// message is a notification for the sessions that are named, or for all.
type message struct {
	kind core.Kind
	uri  string
	to   []string
}

// take takes out what is to be told, and to whom.
func (o *own) take() []message {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.news
	o.news = news{}
	var all []message
	for k := range core.KindResourceUpdated { // the lists
		if n.everything || n.kinds[k] {
			all = append(all, message{kind: k})
		}
	}
	for uri, subscribers := range o.byURI {
		if _, changed := n.uris[uri]; !changed && !n.everything {
			continue
		}
		m := message{kind: core.KindResourceUpdated, uri: uri}
		for id := range subscribers {
			m.to = append(m.to, id)
		}
		all = append(all, m)
	}
	return all
}

// registered notes a session. Only those count that the server can send to, so that
// made-up ids leave nothing behind.
func (o *own) registered(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sessions[id] == nil {
		o.sessions[id] = make(map[string]struct{})
	}
}

func (o *own) unregistered(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for uri := range o.sessions[id] {
		o.leave(id, uri)
	}
	delete(o.sessions, id)
}

// subscribed notes a subscription, and reports whether there was room for it.
func (o *own) subscribed(id, uri string, limits core.Limits) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	uris, known := o.sessions[id]
	if !known {
		return true
	}
	if _, again := uris[uri]; again {
		return true
	}
	if len(uris) >= limits.MaxURIs || len(uri) > limits.MaxURILength {
		return false
	}
	uris[uri] = struct{}{}
	if o.byURI[uri] == nil {
		o.byURI[uri] = make(map[string]struct{})
	}
	o.byURI[uri][id] = struct{}{}
	return true
}

func (o *own) unsubscribed(id, uri string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leave(id, uri)
}

// leave ends a subscription. The lock must be held.
func (o *own) leave(id, uri string) {
	delete(o.sessions[id], uri)
	delete(o.byURI[uri], id)
	if len(o.byURI[uri]) == 0 {
		delete(o.byURI, uri)
	}
}

// tellOwn tells the server's own clients what is published, until the bridge is
// closed.
func (b *Bridge) tellOwn() {
	pause := pause{least: b.config.interval}
	for {
		select {
		case <-b.own.wake:
		case <-b.ctx.Done():
			return
		}
		pause.wait(b.ctx)
		known := b.advertises()
		for _, m := range b.own.take() {
			if delivers(known, m.kind) {
				b.tell(m)
			}
		}
	}
}

func (b *Bridge) tell(m message) {
	if m.kind != core.KindResourceUpdated {
		b.server.SendNotificationToAllClients(m.kind.Method(), marked(nil))
		return
	}
	for _, id := range m.to {
		err := b.server.SendNotificationToSpecificClient(id, m.kind.Method(), marked(map[string]any{"uri": m.uri}))
		if errors.Is(err, server.ErrSessionNotFound) {
			b.own.unregistered(id)
		}
	}
}

// hubMark marks what comes from the hub: the bridge's own session is told of it like
// all others, and must not publish it again. It is where the member _meta would be,
// which mcp-go leaves out when it encodes these fields.
type hubMark struct{}

const markMember = "_meta"

func marked(fields map[string]any) map[string]any {
	if fields == nil {
		fields = make(map[string]any, 1)
	}
	fields[markMember] = hubMark{}
	return fields
}

func fromHub(n mcp.JSONRPCNotification) bool {
	_, ours := n.Params.AdditionalFields[markMember].(hubMark)
	return ours
}

// hookSessions follows the server's sessions: its clients' and the bridge's.
func (b *Bridge) hookSessions(hooks *server.Hooks) {
	hooks.AddOnRegisterSession(func(_ context.Context, s server.ClientSession) {
		if !b.closed.Load() && !b.mine(s) {
			b.own.registered(s.SessionID())
		}
	})
	hooks.AddOnUnregisterSession(func(_ context.Context, s server.ClientSession) {
		switch {
		case b.closed.Load():
		case b.mine(s):
			signal(b.lost)
		default:
			b.own.unregistered(s.SessionID())
		}
	})
	hooks.AddAfterSubscribe(func(ctx context.Context, _ any, request *mcp.SubscribeRequest, _ *mcp.EmptyResult) {
		s := server.ClientSessionFromContext(ctx)
		if b.closed.Load() || s == nil || b.mine(s) {
			return
		}
		if !b.own.subscribed(s.SessionID(), request.Params.URI, b.hub.Limits()) {
			b.log.Warn("mcplisten: a session is subscribed to more, or longer, URIs than are kept: it is not told of all that is published")
		}
	})
	hooks.AddAfterUnsubscribe(func(ctx context.Context, _ any, request *mcp.UnsubscribeRequest, _ *mcp.EmptyResult) {
		if s := server.ClientSessionFromContext(ctx); s != nil && !b.mine(s) {
			b.own.unsubscribed(s.SessionID(), request.Params.URI)
		}
	})
}

// mine reports whether a session is the bridge's.
func (b *Bridge) mine(s server.ClientSession) bool {
	own, ok := s.(*session)
	return ok && own.inbox == b.inbox
}
