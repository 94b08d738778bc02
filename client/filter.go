// Filters on the wire: the one that is asked for, the one that is honored, and
// what lies between them.

package client

import (
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/mcplisten/mcplisten/core"
)

// wireFilter is the protocol's SubscriptionFilter as it is sent.
type wireFilter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

func checkFilter(f core.Filter) error {
	if len(f.Extensions) > 0 {
		return errors.New("client: the filter has extensions, whose notifications this package does not know")
	}
	for _, uri := range f.ResourceSubscriptions {
		if uri == "" || !utf8.ValidString(uri) {
			return errors.New("client: a resource URI of the filter is empty or not valid UTF-8")
		}
	}
	return nil
}

func encodeFilter(f core.Filter) wireFilter {
	return wireFilter{f.ToolsListChanged, f.PromptsListChanged, f.ResourcesListChanged, f.ResourceSubscriptions}
}

// decodeHonored reads the filter of an acknowledgment, which may hold nothing
// that was not asked for. Member names are case-sensitive. Members of extensions
// mean nothing here.
func decodeHonored(raw json.RawMessage, asked core.Filter) (honored core.Filter, err *ViolationError) {
	members, ok := object(raw)
	if !ok {
		return honored, violation(BadAck, "its member notifications is missing or no object")
	}
	flag := func(name string, asked bool) bool {
		var on bool
		value, given := members[name]
		switch {
		case given && (isNull(value) || json.Unmarshal(value, &on) != nil):
			err = violation(BadAck, "its member %s is no boolean", name)
		case on && !asked:
			err = violation(BadAck, "it honors %s, which was not asked for", name)
		}
		return on
	}
	honored.ToolsListChanged = flag("toolsListChanged", asked.ToolsListChanged)
	honored.PromptsListChanged = flag("promptsListChanged", asked.PromptsListChanged)
	honored.ResourcesListChanged = flag("resourcesListChanged", asked.ResourcesListChanged)
	if err != nil {
		return core.Filter{}, err
	}
	uris, given := members["resourceSubscriptions"]
	if !given {
		return honored, nil
	}
	if isNull(uris) || json.Unmarshal(uris, &honored.ResourceSubscriptions) != nil {
		return core.Filter{}, violation(BadAck, "its member resourceSubscriptions is no array of strings")
	}
	askedURIs := setOf(asked.ResourceSubscriptions)
	for _, uri := range honored.ResourceSubscriptions {
		if _, ok := askedURIs[uri]; !ok {
			return core.Filter{}, violation(BadAck, "it honors the resource %q, which was not asked for", clip(uri))
		}
	}
	return honored, nil
}

// leftOut returns what of asked is not in honored.
func leftOut(asked, honored core.Filter) core.Filter {
	left := core.Filter{
		ToolsListChanged:     asked.ToolsListChanged && !honored.ToolsListChanged,
		PromptsListChanged:   asked.PromptsListChanged && !honored.PromptsListChanged,
		ResourcesListChanged: asked.ResourcesListChanged && !honored.ResourcesListChanged,
	}
	has := setOf(honored.ResourceSubscriptions)
	for _, uri := range asked.ResourceSubscriptions {
		if _, ok := has[uri]; !ok {
			left.ResourceSubscriptions = append(left.ResourceSubscriptions, uri)
		}
	}
	return left
}

func cloneFilter(f core.Filter) core.Filter {
	f.ResourceSubscriptions = slices.Clone(f.ResourceSubscriptions)
	return f
}

func setOf(names []string) map[string]struct{} {
	set := make(map[string]struct{}, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}
