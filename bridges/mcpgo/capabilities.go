// Capabilities: the hub delivers what the server advertises, also where that changes,
// so that server/discover and the acknowledgment say the same.

package mcpgobridge

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/mcplisten/mcplisten/core"
)

// advertised is what a server says of itself, as far as it concerns listening.
type advertised struct {
	Tools     struct{ ListChanged bool }
	Prompts   struct{ ListChanged bool }
	Resources struct{ ListChanged, Subscribe bool }
}

func (a advertised) capabilities() core.Capabilities {
	return core.Capabilities{
		ToolsListChanged:      a.Tools.ListChanged,
		PromptsListChanged:    a.Prompts.ListChanged,
		ResourcesListChanged:  a.Resources.ListChanged,
		ResourceSubscriptions: a.Resources.Subscribe,
	}
}

// asking marks the context of the bridge's own server/discover.
type asking struct{}

// answer is what a server answers to server/discover.
type answer struct {
	delivers core.Capabilities
	info     *core.Implementation
}

// ask asks the server what it advertises.
func (b *Bridge) ask() (answer, error) {
	var reply struct {
		Result struct {
			Capabilities advertised
			Meta         struct {
				ServerInfo *core.Implementation `json:"io.modelcontextprotocol/serverInfo"`
			} `json:"_meta"`
		}
		Error *mcp.JSONRPCErrorDetails
	}
	ctx := context.WithValue(context.WithoutCancel(b.ctx), asking{}, true)
	err := b.request(ctx, mcp.MethodServerDiscover, map[string]any{"_meta": map[string]any{
		mcp.MetaKeyProtocolVersion:    core.ProtocolVersion,
		mcp.MetaKeyClientCapabilities: struct{}{},
		mcp.MetaKeyClientInfo:         map[string]string{"name": "mcplisten", "version": "1"},
	}}, &reply)
	if err == nil && reply.Error != nil {
		err = fmt.Errorf("%s (%d)", reply.Error.Message, reply.Error.Code)
	}
	if err != nil {
		return answer{}, fmt.Errorf("mcpgobridge: the server does not say what it advertises: %w", err)
	}
	return answer{reply.Result.Capabilities.capabilities(), reply.Result.Meta.ServerInfo}, nil
}

// request sends the server a request of the bridge's own.
func (b *Bridge) request(ctx context.Context, method mcp.MCPMethod, params, reply any) error {
	message, err := json.Marshal(map[string]any{
		"jsonrpc": mcp.JSONRPC_VERSION, "id": b.ids.Add(1), "method": method, "params": params,
	})
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(b.server.HandleMessage(ctx, message))
	if err != nil {
		return err
	}
	return json.Unmarshal(encoded, reply)
}

// learn asks the server what it advertises, and makes it what the hub delivers.
func (b *Bridge) learn() {
	b.learning.Lock()
	defer b.learning.Unlock()
	if b.closed.Load() {
		return
	}
	// Asked with the lock held: of two answers the later one counts.
	answer, err := b.ask()
	if err != nil {
		b.log.Error("mcplisten: asking the server for its capabilities", "error", err)
		return
	}
	b.learned(answer.delivers)
}

// learned makes what the server advertises what the hub delivers. Streams that were
// promised more end with their result. The lock must be held.
func (b *Bridge) learned(advertised core.Capabilities) {
	if advertised == b.known {
		return
	}
	b.known = advertised
	all := union(advertised, b.given.Capabilities)
	b.hub.SetCapabilities(all)
	b.hub.EndWhere(func(s core.StreamInfo) bool { return beyond(s.Filter, all) })
}

// beyond reports whether a filter has anything that the capabilities do not cover.
// Keys are no matter of theirs: extensions are the hub's.
func beyond(f core.Filter, c core.Capabilities) bool {
	f.Keys = nil
	return len(c.Honor(f).Members()) < len(f.Members())
}

func union(a, b core.Capabilities) core.Capabilities {
	a.ToolsListChanged = a.ToolsListChanged || b.ToolsListChanged
	a.PromptsListChanged = a.PromptsListChanged || b.PromptsListChanged
	a.ResourcesListChanged = a.ResourcesListChanged || b.ResourcesListChanged
	a.ResourceSubscriptions = a.ResourceSubscriptions || b.ResourceSubscriptions
	return a
}

// advertises returns the capabilities that the server was last known to advertise.
func (b *Bridge) advertises() core.Capabilities {
	b.learning.Lock()
	defer b.learning.Unlock()
	return b.known
}

// unknown reports whether one of the changes is of a kind that the server is not
// known to advertise.
func (b *Bridge) unknown(changes []core.Change) bool {
	known := b.advertises()
	return slices.ContainsFunc(changes, func(c core.Change) bool { return !delivers(known, c.Kind) })
}

func delivers(c core.Capabilities, k core.Kind) bool {
	switch k {
	case core.KindTools:
		return c.ToolsListChanged
	case core.KindPrompts:
		return c.PromptsListChanged
	case core.KindResources:
		return c.ResourcesListChanged
	case core.KindResourceUpdated:
		return c.ResourceSubscriptions
	default:
		return false
	}
}

// gate is the bridge as the hub's Authorizer: where somebody asks for more than the
// hub delivers, it looks whether the server has come to advertise it, so that an
// acknowledgment is as fresh as an answer to server/discover. The decision is the
// application's.
type gate Bridge

// Authorize asks the application's Authorizer, if there is one.
func (g *gate) Authorize(ctx context.Context, principal string, filter core.Filter) (core.Grant, error) {
	b := (*Bridge)(g)
	if b.hub.Mode() == core.ModeServe && beyond(filter, b.hub.Capabilities()) {
		b.learn()
	}
	if b.given.Authorizer == nil {
		return core.Grant{}, nil
	}
	return b.given.Authorizer.Authorize(ctx, principal, filter)
}

// hookCapabilities makes the server's answer to server/discover say what the hub
// delivers, as far as tools, prompts and resources are in it, and name the hub's
// extensions. Several servers may share their hooks.
func (b *Bridge) hookCapabilities(hooks *server.Hooks) {
	hooks.AddAfterDiscover(func(ctx context.Context, _ any, _ *mcp.DiscoverRequest, result *mcp.DiscoverResult) {
		if ctx.Value(asking{}) != nil || server.ServerFromContext(ctx) != b.server {
			return
		}
		c := &result.Capabilities
		var says advertised
		if c.Tools != nil {
			says.Tools.ListChanged = c.Tools.ListChanged
		}
		if c.Prompts != nil {
			says.Prompts.ListChanged = c.Prompts.ListChanged
		}
		if c.Resources != nil {
			says.Resources.ListChanged, says.Resources.Subscribe = c.Resources.ListChanged, c.Resources.Subscribe
		}
		if says.capabilities() != b.advertises() {
			b.learn() // anew: this answer may be older than one that came in between
		}
		delivers := b.hub.Capabilities()
		if c.Tools != nil {
			c.Tools.ListChanged = delivers.ToolsListChanged
		}
		if c.Prompts != nil {
			c.Prompts.ListChanged = delivers.PromptsListChanged
		}
		if c.Resources != nil {
			c.Resources.ListChanged, c.Resources.Subscribe = delivers.ResourcesListChanged, delivers.ResourceSubscriptions
		}
		c.Extensions = b.name(c.Extensions)
	})
}

// name returns extensions with the hub's among them. What the server itself says of
// one stays.
func (b *Bridge) name(extensions map[string]any) map[string]any {
	named := make(map[string]any)
	for _, f := range b.hub.Extensions() {
		if f.Capability != "" {
			named[f.Capability] = struct{}{}
		}
	}
	if len(named) == 0 {
		return extensions // the server's own map
	}
	maps.Copy(named, extensions)
	return named
}
