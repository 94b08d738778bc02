// News: what has been announced and is not yet published, as the set that it stands
// for, so that it grows with what there is to change and not with how often it does.

package mcpgobridge

import (
	"encoding/json"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mcplisten/mcplisten/core"
)

// maxNews is how many resources are kept apart. Beyond them, the news are that
// everything changed.
const maxNews = 10_000

// news is a set of changes. The zero value is empty.
type news struct {
	everything bool
	kinds      [core.NumKinds]bool // of lists
	uris       map[string]struct{}
}

func (n *news) empty() bool {
	return !n.everything && n.kinds == [core.NumKinds]bool{} && len(n.uris) == 0
}

// add adds what a notification says, and reports whether it says anything that
// concerns a hub.
func (n *news) add(said mcp.JSONRPCNotification) bool {
	if fromHub(said) {
		return false
	}
	switch said.Method {
	case mcp.MethodNotificationToolsListChanged:
		n.put(core.ToolsListChanged())
	case mcp.MethodNotificationPromptsListChanged:
		n.put(core.PromptsListChanged())
	case mcp.MethodNotificationResourcesListChanged:
		n.put(core.ResourcesListChanged())
	case mcp.MethodNotificationResourceUpdated:
		uri := asString(said.Params.AdditionalFields["uri"])
		if uri == "" {
			return false // it says nothing to a client either
		}
		n.put(core.ResourceUpdated(uri))
	default:
		return false
	}
	return true
}

func (n *news) put(c core.Change) {
	switch {
	case n.everything:
	case c.Kind != core.KindResourceUpdated:
		n.kinds[c.Kind] = true
	case len(n.uris) >= maxNews:
		*n = news{everything: true}
	default:
		if n.uris == nil {
			n.uris = make(map[string]struct{})
		}
		n.uris[c.URI] = struct{}{}
	}
}

// changes returns the set as a hub takes it.
func (n *news) changes() []core.Change {
	var all []core.Change
	for k, changed := range n.kinds {
		if changed {
			all = append(all, core.Change{Kind: core.Kind(k)})
		}
	}
	for uri := range n.uris {
		all = append(all, core.ResourceUpdated(uri))
	}
	return all
}

// asString returns a value as the string that a client would see of it, or nothing.
func asString(v any) string {
	s, ok := v.(string)
	if !ok {
		encoded, err := json.Marshal(v)
		if err != nil || json.Unmarshal(encoded, &s) != nil {
			return ""
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
