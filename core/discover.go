// Discovery: what an endpoint answers that has no other MCP server behind it.

package core

import (
	"encoding/json"
	"strings"
)

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

// Discover returns the result of server/discover, a JSON object, for an endpoint
// that has nothing but this hub.
func (h *Hub) Discover() json.RawMessage {
	capabilities := h.Capabilities().advertised()
	h.advertise(capabilities)
	result := discoverResult{
		ResultType:        "complete",
		SupportedVersions: SupportedVersions(),
		Capabilities:      capabilities,
		TTL:               discoverTTL,
		CacheScope:        "public",
	}
	if info := h.ServerInfo(); info != nil {
		result.Meta = map[string]any{MetaServerInfo: info}
	}
	encoded, _ := json.Marshal(result) // nothing in it can fail
	return encoded
}

// advertised returns the protocol's ServerCapabilities for what a hub delivers.
func (c Capabilities) advertised() map[string]any {
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

// MethodNotFound returns the refusal of a method that an endpoint does not have.
// That of initialize names the supported versions: it may be all that an older
// client can show to its user.
func MethodNotFound(method string) *Error {
	e := refuse(CodeMethodNotFound, RefusedMethod, "method not found")
	if method == MethodInitialize {
		e.Message = "there is no initialize: this server speaks MCP " + strings.Join(SupportedVersions(), ", ")
		e.Data, _ = json.Marshal(map[string][]string{"supported": SupportedVersions()})
	}
	return e
}
