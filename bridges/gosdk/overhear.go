// Overhearing: the SDK tells its sessions of a change one after another, all within
// 10 s, and one that does not read holds up those behind it, or has them never told.
// So what the first session of a round is told counts as announced.

package gosdkbridge

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcplisten/mcplisten/core"
)

// rounds are those of the sessions that the SDK goes now. Each has a context of its
// own, with a deadline, which ends with it; what tells them apart is when it is done,
// which middleware that puts values into a context leaves alone.
type rounds struct {
	mu  sync.Mutex
	now map[<-chan struct{}]struct{}
}

// first reports whether nobody was told in this round before. The round is forgotten
// with its context.
func (r *rounds) first(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.now[ctx.Done()]; known {
		return false
	}
	if r.now == nil {
		r.now = make(map[<-chan struct{}]struct{})
	}
	r.now[ctx.Done()] = struct{}{}
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.now, ctx.Done())
	})
	return true
}

// overhear is the bridge's sending middleware.
func (b *Bridge) overhear(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		s, ok := req.GetSession().(*mcp.ServerSession)
		_, bounded := ctx.Deadline()
		if !ok || !bounded || !announces(method) || b.closed() {
			return next(ctx, method, req)
		}
		own := s == b.current()
		if !own && !b.concerns(s, req.GetParams()) {
			return next(ctx, method, req)
		}
		switch first := b.rounds.first(ctx); {
		case own && !first:
			return nil, nil //nolint:nilnil // what a notification returns; it has been announced
		case !own && first:
			if params, err := json.Marshal(req.GetParams()); err == nil {
				b.announced(method, params)
			}
		}
		return next(ctx, method, req)
	}
}

// concerns reports whether what a session is told would be told the bridge's own, in
// the same round: both are of an older revision, and a resource has to be subscribed
// to.
func (b *Bridge) concerns(s *mcp.ServerSession, params mcp.Params) bool {
	if p := s.InitializeParams(); p != nil && p.ProtocolVersion >= revisionWithListen {
		return false
	}
	updated, ok := params.(*mcp.ResourceUpdatedNotificationParams)
	if !ok {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watched[updated.URI] != nil
}

// announces reports whether a notification is of a kind that is listened to.
func announces(method string) bool {
	for k := range listKinds {
		if method == k.Method() {
			return true
		}
	}
	return method == core.MethodResourceUpdated
}
