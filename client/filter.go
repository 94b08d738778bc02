// Filters on the wire: the one that is asked for, the one that is honored, and
// what lies between them.

package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/mcplisten/mcplisten/core"
)

func checkFilter(f core.Filter, families []core.Family) error {
	if len(f.Extensions) > 0 {
		return errors.New("client: the filter has raw extensions: ask for their Keys, with WithFamily")
	}
	if err := checkTexts(f.ResourceSubscriptions); err != nil {
		return fmt.Errorf("client: a resource URI of the filter: %w", err)
	}
	return checkKeys(f.Keys, families)
}

func checkTexts(texts []string) error {
	for _, text := range texts {
		if text == "" || !utf8.ValidString(text) {
			return errors.New("it is empty or not valid UTF-8")
		}
	}
	return nil
}

// encodeFilter returns the protocol's SubscriptionFilter as it is sent.
func encodeFilter(f core.Filter) map[string]any {
	filter := make(map[string]any)
	for name, on := range map[string]bool{
		"toolsListChanged": f.ToolsListChanged, "promptsListChanged": f.PromptsListChanged, "resourcesListChanged": f.ResourcesListChanged,
	} {
		if on {
			filter[name] = true
		}
	}
	if len(f.ResourceSubscriptions) > 0 {
		filter["resourceSubscriptions"] = f.ResourceSubscriptions
	}
	for name, keys := range f.Keys {
		if len(keys) > 0 {
			filter[name] = keys
		}
	}
	return filter
}

// decodeHonored reads the filter of an acknowledgment, which may hold nothing
// that was not asked for. Member names are case-sensitive. Members of extensions
// that were not asked for mean nothing here.
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
	for member, keys := range asked.Keys {
		value, given := members[member]
		if !given {
			continue
		}
		list, bad := decodeKeys(member, value, keys)
		if bad != nil {
			return core.Filter{}, bad
		}
		if honored.Keys == nil {
			honored.Keys = make(map[string][]string)
		}
		honored.Keys[member] = list
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
	left.ResourceSubscriptions = without(asked.ResourceSubscriptions, honored.ResourceSubscriptions)
	for member, keys := range asked.Keys {
		if missing := without(keys, honored.Keys[member]); len(missing) > 0 {
			if left.Keys == nil {
				left.Keys = make(map[string][]string)
			}
			left.Keys[member] = missing
		}
	}
	return left
}

// without returns what of all is not in some.
func without(all, some []string) (rest []string) {
	has := setOf(some)
	for _, s := range all {
		if _, ok := has[s]; !ok {
			rest = append(rest, s)
		}
	}
	return rest
}

func cloneFilter(f core.Filter) core.Filter {
	f.ResourceSubscriptions = slices.Clone(f.ResourceSubscriptions)
	if f.Keys != nil {
		keys := make(map[string][]string, len(f.Keys))
		for member, list := range f.Keys {
			keys[member] = slices.Clone(list)
		}
		f.Keys = keys
	}
	return f
}

func setOf(names []string) map[string]struct{} {
	set := make(map[string]struct{}, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}
