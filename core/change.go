// Changes: what an application publishes.

package core

import (
	"errors"
	"unicode/utf8"
)

// Kind is the kind of a change: which notification it becomes.
type Kind uint8

// The kinds of change, in the order in which one batch delivers them.
const (
	KindTools           Kind = iota // notifications/tools/list_changed
	KindPrompts                     // notifications/prompts/list_changed
	KindResources                   // notifications/resources/list_changed
	KindResourceUpdated             // notifications/resources/updated

	// NumKinds is the number of kinds: a Kind is always smaller.
	NumKinds    = 4
	numListKind = 3
)

var kindMethods = [NumKinds]string{
	MethodToolsListChanged, MethodPromptsListChanged, MethodResourcesListChanged, MethodResourceUpdated,
}

// Method returns the method of the notification that a change of this kind
// becomes.
func (k Kind) Method() string {
	if k >= NumKinds {
		return "unknown"
	}
	return kindMethods[k]
}

// String returns the notification's method.
func (k Kind) String() string { return k.Method() }

// A Change is something that an application publishes: a list, or a resource,
// is not what it was. It carries no payload.
type Change struct {
	Kind Kind
	URI  string // the changed resource; for KindResourceUpdated only
}

// ToolsListChanged is the change of the list of tools.
func ToolsListChanged() Change { return Change{Kind: KindTools} }

// PromptsListChanged is the change of the list of prompts.
func PromptsListChanged() Change { return Change{Kind: KindPrompts} }

// ResourcesListChanged is the change of the list of resources.
func ResourcesListChanged() Change { return Change{Kind: KindResources} }

// ResourceUpdated is the change of the resource with the given URI.
func ResourceUpdated(uri string) Change { return Change{Kind: KindResourceUpdated, URI: uri} }

var (
	errUnknownKind = errors.New("core: a change of no known kind")
	errURIOnList   = errors.New("core: a list change with a URI")
	errNoURI       = errors.New("core: a resource update without a URI")
	errURINotUTF8  = errors.New("core: a resource update whose URI is not valid UTF-8")
)

func (c Change) validate() error {
	switch {
	case c.Kind >= NumKinds:
		return errUnknownKind
	case c.Kind != KindResourceUpdated && c.URI != "":
		return errURIOnList
	case c.Kind == KindResourceUpdated && c.URI == "":
		return errNoURI
	case !utf8.ValidString(c.URI):
		return errURINotUTF8
	}
	return nil
}
