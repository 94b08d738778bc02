// Filters: what a client asks for, what a server can deliver, and the honored
// part of the one within the other.

package core

import (
	"encoding/json"
	"maps"
	"slices"
)

// Filter says which notifications a subscription is for. It is the protocol's
// SubscriptionFilter.
type Filter struct {
	ToolsListChanged     bool
	PromptsListChanged   bool
	ResourcesListChanged bool

	// ResourceSubscriptions are the URIs whose updates are asked for, each once,
	// in the order in which the client named them first.
	ResourceSubscriptions []string

	// Keys are what is asked for of extensions that the hub has, by the filter's
	// members ([Family]): the keys, each once, in the order in which the client named
	// them first.
	Keys map[string][]string

	// Extensions are all members that the protocol itself does not define, as
	// they were sent. They are for an Authorizer to see; none is honored but as Keys.
	Extensions map[string]json.RawMessage
}

// Empty reports whether the filter lets nothing through.
func (f Filter) Empty() bool {
	return !f.ToolsListChanged && !f.PromptsListChanged && !f.ResourcesListChanged && len(f.ResourceSubscriptions) == 0 &&
		len(f.keyMembers()) == 0
}

// keyMembers returns the names of the extensions' members that let something
// through, in the order in which they are written.
func (f Filter) keyMembers() []string {
	if len(f.Keys) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.Keys)), func(name string) bool { return len(f.Keys[name]) == 0 })
}

// Members returns the names of the filter's members that let something through,
// as they are on the wire.
func (f Filter) Members() []string {
	names := make([]string, 0, NumKinds)
	for k := range Kind(numListKind) {
		if f.has(k) {
			names = append(names, filterMembers[k])
		}
	}
	if len(f.ResourceSubscriptions) > 0 {
		names = append(names, filterURIs)
	}
	return append(names, f.keyMembers()...)
}

var filterMembers = [numListKind]string{filterTools, filterPrompts, filterResources}

// has reports whether the filter asks for the list kind k.
func (f Filter) has(k Kind) bool {
	switch k {
	case KindTools:
		return f.ToolsListChanged
	case KindPrompts:
		return f.PromptsListChanged
	case KindResources:
		return f.ResourcesListChanged
	default:
		return false
	}
}

// appendJSON appends the filter as the acknowledgment carries it: only what is
// honored.
func (f Filter) appendJSON(b []byte) []byte {
	b = append(b, '{')
	start := len(b)
	member := func(name string) {
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
	}
	for k := range Kind(numListKind) {
		if f.has(k) {
			member(filterMembers[k])
			b = append(b, "true"...)
		}
	}
	list := func(name string, of []string) {
		member(name)
		for i, s := range of {
			b = append(b, "[,"[min(i, 1)])
			b = appendString(b, s)
		}
		b = append(b, ']')
	}
	if len(f.ResourceSubscriptions) > 0 {
		list(filterURIs, f.ResourceSubscriptions)
	}
	for _, name := range f.keyMembers() {
		list(name, f.Keys[name])
	}
	return append(b, '}')
}

// Capabilities says which notifications this server really delivers. A listen
// request is narrowed by them and by nothing else: claim only what is published.
type Capabilities struct {
	ToolsListChanged      bool // tools.listChanged
	PromptsListChanged    bool // prompts.listChanged
	ResourcesListChanged  bool // resources.listChanged
	ResourceSubscriptions bool // resources.subscribe
}

// deliver reports whether changes of kind k are among the capabilities.
func (c Capabilities) deliver(k Kind) bool {
	return [...]bool{c.ToolsListChanged, c.PromptsListChanged, c.ResourcesListChanged, c.ResourceSubscriptions}[k]
}

// Honor returns the part of the requested filter that these capabilities cover.
func (c Capabilities) Honor(requested Filter) Filter {
	honored := Filter{
		ToolsListChanged:     requested.ToolsListChanged && c.ToolsListChanged,
		PromptsListChanged:   requested.PromptsListChanged && c.PromptsListChanged,
		ResourcesListChanged: requested.ResourcesListChanged && c.ResourcesListChanged,
	}
	if c.ResourceSubscriptions {
		honored.ResourceSubscriptions = requested.ResourceSubscriptions
	}
	return honored
}
