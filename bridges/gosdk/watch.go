// Watching: the bridge subscribes to a resource at the server while anybody listens
// to it on the hub.

package gosdkbridge

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcplisten/mcplisten/core"
)

var errClosed = errors.New("gosdkbridge: the bridge is closed")

// watcher is the hub's Watcher.
type watcher struct{ *Bridge }

// Start subscribes to a URI, and starts the application's own watch.
func (w watcher) Start(ctx context.Context, uri string) error {
	if err := w.subscribe(ctx, uri); err != nil {
		return err
	}
	if w.config.Watcher == nil {
		return nil
	}
	started := false
	defer func() { // also where it panics
		if !started {
			w.unsubscribe(uri)
		}
	}()
	err := w.config.Watcher.Start(ctx, uri)
	started = err == nil
	return err
}

// Stop undoes Start.
func (w watcher) Stop(uri string) {
	defer w.unsubscribe(uri)
	if w.config.Watcher != nil {
		w.config.Watcher.Stop(uri)
	}
}

// subscribe subscribes to a URI. A server that does not advertise subscriptions need
// not take one where the application publishes updates itself.
func (b *Bridge) subscribe(ctx context.Context, uri string) error {
	b.moving.RLock()
	defer b.moving.RUnlock()
	s := b.current()
	err := errClosed
	if !b.closed() {
		err = b.subscribeAt(ctx, s, uri)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		if b.config.Capabilities.ResourceSubscriptions && !b.advertised.ResourceSubscriptions {
			return nil
		}
		return fmt.Errorf("gosdkbridge: subscribing at the server: %w", err)
	}
	b.watched[uri] = s
	return nil
}

// unsubscribe ends the subscription to a URI, if there is one.
func (b *Bridge) unsubscribe(uri string) {
	b.moving.RLock()
	defer b.moving.RUnlock()
	b.mu.Lock()
	s := b.watched[uri]
	delete(b.watched, uri)
	b.mu.Unlock()
	if s != nil {
		b.unsubscribeAt(s, uri)
	}
}

// moveAll subscribes to all URIs at a new session and ends the subscriptions of the
// one before, in this order: what the server's handler watches goes on. It returns
// the URIs. Streams that listen to one that the server does not take again are ended
// with their result.
func (b *Bridge) moveAll(s *mcp.ServerSession) (uris []string) {
	b.moving.Lock()
	defer b.moving.Unlock()
	lost := make(map[string]bool)
	for uri, old := range b.at() {
		if old == s {
			continue
		}
		err := b.safely("SubscribeHandler", func() error { return b.subscribeAt(b.ctx, s, uri) })
		b.mu.Lock()
		if err == nil {
			b.watched[uri] = s
			uris = append(uris, uri)
		} else {
			delete(b.watched, uri)
			lost[uri] = true
		}
		b.mu.Unlock()
		_ = b.safely("UnsubscribeHandler", func() error { b.unsubscribeAt(old, uri); return nil })
	}
	if len(lost) > 0 {
		b.log.Error("mcplisten: the server does not take the bridge's subscriptions again", "resources", len(lost))
		b.hub.EndWhere(func(stream core.StreamInfo) bool {
			for _, uri := range stream.Filter.ResourceSubscriptions {
				if lost[uri] {
					return true
				}
			}
			return false
		})
	}
	return uris
}

// leaveAll ends all subscriptions.
func (b *Bridge) leaveAll() {
	b.moving.Lock()
	defer b.moving.Unlock()
	for uri, s := range b.at() {
		_ = b.safely("UnsubscribeHandler", func() error { b.unsubscribeAt(s, uri); return nil })
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.watched)
}

// at returns the subscribed URIs and the sessions that they are subscribed at.
func (b *Bridge) at() map[string]*mcp.ServerSession {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]*mcp.ServerSession, len(b.watched))
	for uri, s := range b.watched {
		all[uri] = s
	}
	return all
}

// safely calls a handler of the application on a goroutine of the bridge: its panic
// must not end the process. On the hub's goroutines the hub sees to that.
func (b *Bridge) safely(name string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			b.log.Error("mcplisten: a handler panicked", "handler", name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("gosdkbridge: %s panicked", name)
		}
	}()
	return f()
}

// subscribeAt and unsubscribeAt are what the SDK does with the requests of a client.
// They call the server's handlers on the calling goroutine.

func (b *Bridge) subscribeAt(ctx context.Context, s *mcp.ServerSession, uri string) error {
	_, err := b.handle(b.request(ctx), methodSubscribe, &mcp.SubscribeRequest{
		Session: s, Params: &mcp.SubscribeParams{URI: uri}, Extra: &mcp.RequestExtra{},
	})
	return err
}

func (b *Bridge) unsubscribeAt(s *mcp.ServerSession, uri string) {
	_, err := b.handle(b.request(context.Background()), methodUnsubscribe, &mcp.UnsubscribeRequest{
		Session: s, Params: &mcp.UnsubscribeParams{URI: uri}, Extra: &mcp.RequestExtra{},
	})
	if err != nil {
		b.log.Warn("mcplisten: unsubscribing at the server", "error", err)
	}
}

// request returns ctx with the values that the SDK puts into a request's.
func (b *Bridge) request(ctx context.Context) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return requestContext{ctx, b.values}
}

type requestContext struct {
	context.Context
	values context.Context
}

// Value returns the value of the context, or else of the request.
func (c requestContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
