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
	KindExtension                   // of an extension, which has a method of its own

	// NumKinds is the number of kinds: a Kind is always smaller.
	NumKinds    = 5
	numListKind = 3
)

var kindMethods = [...]string{
	MethodToolsListChanged, MethodPromptsListChanged, MethodResourcesListChanged, MethodResourceUpdated,
}

// Method returns the method of the notification that a change of this kind
// becomes. Of KindExtension there are several; [Change.Method] knows.
func (k Kind) Method() string {
	if int(k) >= len(kindMethods) {
		return "unknown"
	}
	return kindMethods[k]
}

// String returns the notification's method.
func (k Kind) String() string { return k.Method() }

// A Change is something that an application publishes: a list, or a resource,
// is not what it was. It carries no payload, but for the value of an extension's
// key.
type Change struct {
	Kind Kind
	URI  string // the changed resource; for KindResourceUpdated only

	// For KindExtension only: the extension's method, and whose value it is.
	Extension string
	Key       string
	content   *content
}

// Method returns the method of the notification that the change becomes.
func (c Change) Method() string {
	if c.Kind == KindExtension {
		return c.Extension
	}
	return c.Kind.Method()
}

// withoutContent is what the changes of one thing have in common.
func (c Change) withoutContent() Change {
	c.content = nil
	return c
}

// ToolsListChanged is the change of the list of tools.
func ToolsListChanged() Change { return Change{Kind: KindTools} }

// PromptsListChanged is the change of the list of prompts.
func PromptsListChanged() Change { return Change{Kind: KindPrompts} }

// ResourcesListChanged is the change of the list of resources.
func ResourcesListChanged() Change { return Change{Kind: KindResources} }

// ResourceUpdated is the change of the resource with the given URI.
func ResourceUpdated(uri string) Change { return Change{Kind: KindResourceUpdated, URI: uri} }

// ValueChanged is the change of what a key has become: value is what the extension
// with the given method encodes as the notification's params. Publishing it fails
// where the hub has no such extension, or the value no usable payload.
func ValueChanged(method, key string, value any) Change {
	return Change{Kind: KindExtension, Extension: method, Key: key, content: &content{value: value}}
}

var (
	errUnknownKind = errors.New("core: a change of no known kind")
	errURIOnList   = errors.New("core: a list change with a URI")
	errNoURI       = errors.New("core: a resource update without a URI")
	errURINotUTF8  = errors.New("core: a resource update whose URI is not valid UTF-8")
	errNoValue     = errors.New("core: a change of an extension that ValueChanged did not make")
	errNoKey       = errors.New("core: a value whose key is empty or not valid UTF-8")
	errValueOnKind = errors.New("core: a change with a value that is of no extension")
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
	case c.Kind == KindExtension && c.content == nil:
		return errNoValue
	case c.Kind == KindExtension && (c.Key == "" || !utf8.ValidString(c.Key)):
		return errNoKey
	case c.Kind != KindExtension && (c.Extension != "" || c.Key != "" || c.content != nil):
		return errValueOnKind
	}
	return nil
}
