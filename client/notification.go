// Notifications: what a consumer is told.

package client

import (
	"encoding/json"

	"github.com/mcplisten/mcplisten/core"
)

// Kind says what a [Notification] is about.
type Kind uint8

// The kinds. Started and Relist come from [Follow] only, always before what
// follows from the acknowledgment that they stand for.
const (
	Tools     Kind = iota // the list of tools changed
	Prompts               // the list of prompts changed
	Resources             // the list of resources changed
	Updated               // a resource changed

	// Started says that the first acknowledgment came. What is listed from now on
	// misses nothing.
	Started

	// Relist says that there was a gap, and that a new acknowledgment has ended
	// it. Anything that the filter covers may have changed meanwhile: list again.
	Relist

	// Value says what a key of an extension has become ([WithFamily]).
	Value
)

// String returns the notification's method, or the name of the event.
func (k Kind) String() string {
	switch k {
	case Started:
		return "started"
	case Relist:
		return "relist"
	case Value:
		return "value"
	default:
		return core.Kind(k).Method()
	}
}

// Notification says that something is stale and should be fetched again, or what
// the key of an extension has become.
type Notification struct {
	Kind Kind

	// URI is the resource of Updated. It is one of the filter, or lies below one
	// of them. Where the consumer is slow and many resources below one URI have
	// changed, that URI stands for all of them.
	URI string

	// Method and Key are whose value it is, of Value. Where the consumer is slow,
	// it is told the newest value of each key.
	Method string
	Key    string
	params *json.RawMessage
}

// Params returns the notification's params, a JSON object, of Value; else nil.
func (n Notification) Params() json.RawMessage {
	if n.params == nil {
		return nil
	}
	return *n.params
}

// String returns the kind and the URI, or the method and the key.
func (n Notification) String() string {
	switch {
	case n.Kind == Value:
		return n.Method + " " + n.Key
	case n.URI == "":
		return n.Kind.String()
	default:
		return n.Kind.String() + " " + n.URI
	}
}

var kindOfMethod = map[string]Kind{
	core.MethodToolsListChanged:     Tools,
	core.MethodPromptsListChanged:   Prompts,
	core.MethodResourcesListChanged: Resources,
	core.MethodResourceUpdated:      Updated,
}
