// Lists that keep changing. The SDK announces a list 10 ms after its last change, and
// so never while changes keep coming faster than that. So somebody has to look.

package gosdkbridge

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcplisten/mcplisten/core"
)

// listKinds is the number of kinds that are lists.
const listKinds = core.KindResourceUpdated

// looksPerDelay is how often the lists are looked at within the longest delay: a
// change is seen at the first look after it, and is known not to be announced at the
// second. It is seen by its pointers: the very same one registered again looks as
// before.
const looksPerDelay = 3

// lists are what the server's lists were when they were last looked at.
type lists struct {
	bridge *Bridge
	of     [listKinds]list // of the looking goroutine, but for told
}

type list struct {
	told       atomic.Bool // announced since the last look
	advertised bool        // by the server, at some look: an empty one is not
	seen       bool        // base is set
	base       []any       // as those who listen know it; the SDK's own pointers, which a change replaces
	moved      bool        // last is set
	last       []any       // as it was at the last look, where that was not base
}

func (l *lists) init(b *Bridge) { l.bridge = b }

// announced notes that the server has announced a list.
func (l *lists) announced(k core.Kind) { l.of[k].told.Store(true) }

// look looks at the lists again and again, while somebody may be listening.
func (l *lists) look() {
	b := l.bridge
	ticker := time.NewTicker(max(1, b.maxDelay/looksPerDelay))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-b.ctx.Done():
			return
		}
		nobody := b.config.Broker == nil && b.hub.Stats().Open == 0
		if !nobody {
			b.refresh() // a list's first member is not announced either while others follow
		}
		advertised := b.advertises()
		for k := range listKinds {
			// One that is empty for the moment is listened to all the same.
			l.of[k].advertised = l.of[k].advertised || advertised[k]
			if nobody || !l.of[k].advertised {
				l.of[k].forget()
				continue
			}
			if l.of[k].overdue(func() ([]any, bool) { return b.list(k) }) {
				b.publish(core.Change{Kind: k})
			}
		}
	}
}

// forget drops what is known of a list. What changes until it is looked at again is
// announced as ever.
func (l *list) forget() { l.seen, l.base, l.moved, l.last = false, nil, false, nil }

// overdue looks at the list and reports whether its change must be told of, since
// the server does not: it has changed between two looks, and again until the third,
// be it back to what it was, and was not announced in all that time. A list that stays
// as it was from one look to the next needs nobody's help: the server announces it.
func (l *list) overdue(look func() ([]any, bool)) bool {
	told := l.told.Swap(false)
	now, ok := look()
	switch {
	case !ok:
		return false
	case told, !l.seen, !l.moved && slices.Equal(now, l.base), l.moved && slices.Equal(now, l.last): // settled
		l.base, l.last, l.seen, l.moved = now, nil, true, false
		return false
	case !l.moved:
		l.last, l.moved = now, true
		return false
	}
	l.base, l.last = now, now
	return true
}

// list returns the members of a list.
func (b *Bridge) list(k core.Kind) (members []any, ok bool) {
	switch k {
	case core.KindTools:
		return pages(b, nil, methodTools, func(cursor string) mcp.Request {
			return &mcp.ListToolsRequest{Session: b.current(), Params: &mcp.ListToolsParams{Cursor: cursor}}
		}, func(r *mcp.ListToolsResult) ([]*mcp.Tool, string) { return r.Tools, r.NextCursor })
	case core.KindPrompts:
		return pages(b, nil, methodPrompts, func(cursor string) mcp.Request {
			return &mcp.ListPromptsRequest{Session: b.current(), Params: &mcp.ListPromptsParams{Cursor: cursor}}
		}, func(r *mcp.ListPromptsResult) ([]*mcp.Prompt, string) { return r.Prompts, r.NextCursor })
	}
	members, ok = pages(b, nil, methodResources, func(cursor string) mcp.Request {
		return &mcp.ListResourcesRequest{Session: b.current(), Params: &mcp.ListResourcesParams{Cursor: cursor}}
	}, func(r *mcp.ListResourcesResult) ([]*mcp.Resource, string) { return r.Resources, r.NextCursor })
	if !ok {
		return nil, false
	}
	return pages(b, members, methodTemplates, func(cursor string) mcp.Request {
		return &mcp.ListResourceTemplatesRequest{Session: b.current(), Params: &mcp.ListResourceTemplatesParams{Cursor: cursor}}
	}, func(r *mcp.ListResourceTemplatesResult) ([]*mcp.ResourceTemplate, string) {
		return r.ResourceTemplates, r.NextCursor
	})
}

// pages appends the members on all pages of a list.
func pages[R mcp.Result, T any](
	b *Bridge, members []any, method string, request func(cursor string) mcp.Request, page func(R) ([]*T, string),
) ([]any, bool) {
	for cursor := ""; ; {
		result, err := b.handle(context.Background(), method, request(cursor))
		answer, ok := result.(R)
		if err != nil || !ok {
			b.log.Error("mcplisten: the server does not list", "method", method, "error", err)
			return nil, false
		}
		var items []*T
		items, cursor = page(answer)
		for _, item := range items {
			members = append(members, item)
		}
		if cursor == "" {
			return members, true
		}
	}
}
