// A handler on its own: what an endpoint answers that has no other MCP server
// behind it.

package mcphttp

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/mcplisten/mcplisten/core"
)

func (x *exchange) answerAlone(msg *core.Message) verdict {
	switch {
	case !msg.ID.Valid():
		// A notification, which cannot be answered: notifications/cancelled of
		// clients that send it, for one.
		x.w.WriteHeader(http.StatusAccepted)
		return answered
	case msg.Method == core.MethodDiscover:
		return x.discover(msg)
	case msg.Method == core.MethodInitialize:
		// This may be all that an older client can show to its user.
		supported, _ := json.Marshal(map[string][]string{"supported": core.SupportedVersions()})
		return x.refuse(msg, core.Meta{}, &core.Error{
			Code: core.CodeMethodNotFound, Refusal: core.RefusedMethod, Data: supported,
			Message: "there is no initialize: this server speaks MCP " + strings.Join(core.SupportedVersions(), ", "),
		})
	default:
		return x.refuse(msg, core.Meta{}, &core.Error{
			Code: core.CodeMethodNotFound, Message: "method not found", Refusal: core.RefusedMethod,
		})
	}
}

// discoverTTL is how long, in milliseconds, a client may keep the answer to
// server/discover: it changes with a deploy.
const discoverTTL = 5 * 60 * 1000

// discoverResult is the protocol's DiscoverResult.
type discoverResult struct {
	ResultType        string         `json:"resultType"`
	SupportedVersions []string       `json:"supportedVersions"`
	Capabilities      map[string]any `json:"capabilities"`
	TTL               int            `json:"ttlMs"`
	CacheScope        string         `json:"cacheScope"`
	Meta              map[string]any `json:"_meta,omitempty"`
}

func (x *exchange) discover(msg *core.Message) verdict {
	meta, err := msg.Meta()
	if err == nil {
		err = x.checkHeaders(msg, meta)
	}
	if err == nil {
		err = meta.CheckVersion()
	}
	if err != nil {
		return x.refuse(msg, meta, err)
	}
	result := discoverResult{
		ResultType:        "complete",
		SupportedVersions: core.SupportedVersions(),
		Capabilities:      capabilities(x.h.hub.Capabilities()),
		TTL:               discoverTTL,
		CacheScope:        "public",
	}
	if info := x.h.hub.ServerInfo(); info != nil {
		result.Meta = map[string]any{core.MetaServerInfo: info}
	}
	x.answer(http.StatusOK, message{ID: encodeID(msg.ID), Result: result})
	return answered
}

// capabilities returns the protocol's ServerCapabilities for what a hub delivers.
func capabilities(c core.Capabilities) map[string]any {
	advertised := make(map[string]any)
	if c.ToolsListChanged {
		advertised["tools"] = map[string]bool{"listChanged": true}
	}
	if c.PromptsListChanged {
		advertised["prompts"] = map[string]bool{"listChanged": true}
	}
	resources := make(map[string]bool)
	if c.ResourcesListChanged {
		resources["listChanged"] = true
	}
	if c.ResourceSubscriptions {
		resources["subscribe"] = true
	}
	if len(resources) > 0 {
		advertised["resources"] = resources
	}
	return advertised
}
