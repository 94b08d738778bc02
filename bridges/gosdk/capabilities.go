// Capabilities: what the server advertises at the time is what the hub delivers, so
// that server/discover and the acknowledgment agree.

package gosdkbridge

import (
	"context"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcplisten/mcplisten/core"
)

// refresh asks the server what it advertises, and makes it what the hub delivers.
func (b *Bridge) refresh() {
	b.asking.Lock()
	defer b.asking.Unlock()
	if b.closed() {
		return
	}
	result, err := b.handle(context.Background(), methodDiscover, &mcp.ServerRequest[*mcp.DiscoverParams]{
		Session: b.current(), Params: &mcp.DiscoverParams{},
	})
	answer, ok := result.(*mcp.DiscoverResult)
	if err != nil || !ok {
		b.log.Error("mcplisten: the server does not say what it advertises", "error", err)
		return
	}
	b.deliver(capabilities(answer.Capabilities))
}

// settle is refresh with a given answer.
func (b *Bridge) settle(advertised core.Capabilities) {
	b.asking.Lock()
	defer b.asking.Unlock()
	b.deliver(advertised)
}

// deliver takes over what the server advertises. b.asking must be held.
func (b *Bridge) deliver(advertised core.Capabilities) {
	b.mu.Lock()
	b.advertised = advertised
	b.mu.Unlock()
	if all := union(advertised, b.config.Capabilities); all != b.delivered {
		b.delivered = all
		b.hub.SetCapabilities(all)
	}
}

// capabilities returns what is announced where c is advertised.
func capabilities(c *mcp.ServerCapabilities) core.Capabilities {
	if c == nil {
		return core.Capabilities{}
	}
	return core.Capabilities{
		ToolsListChanged:      c.Tools != nil && c.Tools.ListChanged,
		PromptsListChanged:    c.Prompts != nil && c.Prompts.ListChanged,
		ResourcesListChanged:  c.Resources != nil && c.Resources.ListChanged,
		ResourceSubscriptions: c.Resources != nil && c.Resources.Subscribe,
	}
}

func union(a, b core.Capabilities) core.Capabilities {
	return core.Capabilities{
		ToolsListChanged:      a.ToolsListChanged || b.ToolsListChanged,
		PromptsListChanged:    a.PromptsListChanged || b.PromptsListChanged,
		ResourcesListChanged:  a.ResourcesListChanged || b.ResourcesListChanged,
		ResourceSubscriptions: a.ResourceSubscriptions || b.ResourceSubscriptions,
	}
}

// beyond reports whether a filter has anything that the capabilities do not cover.
func beyond(f core.Filter, c core.Capabilities) bool {
	honored := c.Honor(f)
	return honored.ToolsListChanged != f.ToolsListChanged || honored.PromptsListChanged != f.PromptsListChanged ||
		honored.ResourcesListChanged != f.ResourcesListChanged || len(honored.ResourceSubscriptions) != len(f.ResourceSubscriptions)
}

// agree returns an answer to server/discover that says of tools, prompts and
// resources, as far as they are in it, what the hub delivers: the application may
// publish more than the server announces, and the hub may be switched off. It names
// the hub's extensions; what the server itself says of one stays.
func (b *Bridge) agree(answer *mcp.DiscoverResult) *mcp.DiscoverResult {
	b.refresh()
	delivers := b.hub.Capabilities()
	if answer.Capabilities == nil {
		return answer
	}
	agreed, c := *answer, *answer.Capabilities // the application's middleware may keep its own
	if c.Tools != nil {
		tools := *c.Tools
		tools.ListChanged = delivers.ToolsListChanged
		c.Tools = &tools
	}
	if c.Prompts != nil {
		prompts := *c.Prompts
		prompts.ListChanged = delivers.PromptsListChanged
		c.Prompts = &prompts
	}
	if c.Resources != nil {
		resources := *c.Resources
		resources.ListChanged = delivers.ResourcesListChanged
		resources.Subscribe = delivers.ResourceSubscriptions
		c.Resources = &resources
	}
	for _, f := range b.hub.Extensions() {
		if _, named := c.Extensions[f.Capability]; f.Capability != "" && !named {
			c.Extensions = maps.Clone(c.Extensions)
			if c.Extensions == nil {
				c.Extensions = make(map[string]any)
			}
			c.Extensions[f.Capability] = struct{}{}
		}
	}
	agreed.Capabilities = &c
	return &agreed
}

// gate is the hub's Authorizer: it makes an acknowledgment as fresh as an answer to
// server/discover, and leaves the decision to the application's.
type gate struct{ *Bridge }

// Authorize asks the application's Authorizer, if there is one.
func (g gate) Authorize(ctx context.Context, principal string, filter core.Filter) (core.Grant, error) {
	g.refresh()
	if g.config.Authorizer == nil {
		return core.Grant{}, nil
	}
	return g.config.Authorizer.Authorize(ctx, principal, filter)
}
