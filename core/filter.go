// Filters: what a client asks for, what a server can deliver, and the honored
// part of the one within the other.

package core

import "encoding/json"

// Filter says which notifications a subscription is for. It is the protocol's
// SubscriptionFilter.
type Filter struct {
	ToolsListChanged     bool
	PromptsListChanged   bool
	ResourcesListChanged bool

	// ResourceSubscriptions are the URIs whose updates are asked for, each once,
	// in the order in which the client named them first.
	ResourceSubscriptions []string

	// Extensions are the members that the protocol itself does not define, as
	// they were sent. They are for an Authorizer to see; none is honored.
	Extensions map[string]json.RawMessage
}

// Empty reports whether the filter lets nothing through.
func (f Filter) Empty() bool {
	return !f.ToolsListChanged && !f.PromptsListChanged && !f.ResourcesListChanged && len(f.ResourceSubscriptions) == 0
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
	return names
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
	if len(f.ResourceSubscriptions) > 0 {
		member(filterURIs)
		for i, uri := range f.ResourceSubscriptions {
			b = append(b, "[,"[min(i, 1)])
			b = appendString(b, uri)
		}
		b = append(b, ']')
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
	return [NumKinds]bool{c.ToolsListChanged, c.PromptsListChanged, c.ResourcesListChanged, c.ResourceSubscriptions}[k]
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
