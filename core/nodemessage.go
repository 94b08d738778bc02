// Node messages: what hubs tell each other through a broker. Nodes of two versions
// run side by side during a deploy, so a message has a version, members that a
// node does not know are ignored, and what it cannot understand counts as a
// change of everything.

package core

import (
	"encoding/json"
	"errors"
)

// nodeVersion is the version of the encoding. A higher one means that a node of
// this version would misunderstand the message.
const nodeVersion = 1

// maxNodeMessage is the largest message, in bytes, that is looked at.
const maxNodeMessage = 1 << 20

type nodeMessage struct {
	Version int    `json:"v"`
	Node    string `json:"node"`

	Kinds  []string      `json:"kinds,omitempty"` // methods of list kinds
	URIs   []string      `json:"uris,omitempty"`  // updated resources
	All    bool          `json:"all,omitempty"`   // everything changed
	To     *nodeAudience `json:"to,omitempty"`    // nil: everybody
	Origin string        `json:"origin,omitempty"`
	Cancel *nodeCancel   `json:"cancel,omitempty"`
}

type nodeAudience struct {
	Principals []string `json:"principals,omitempty"`
	Prefix     *string  `json:"prefix,omitempty"`
}

// nodeCancel is a client's cancellation, for the node that holds its stream.
type nodeCancel struct {
	Principal string `json:"principal"`
	ID        string `json:"id"` // the id's exact bytes
}

func newNodeMessage(to Audience, changes []Change, origin string) nodeMessage {
	m := nodeMessage{Origin: origin}
	if !to.Everyone() {
		m.To = &nodeAudience{Principals: to.principals, Prefix: to.prefix}
	}
	for _, c := range changes {
		if c.Kind == KindResourceUpdated {
			m.URIs = append(m.URIs, c.URI)
		} else {
			m.Kinds = append(m.Kinds, c.Kind.Method())
		}
	}
	return m
}

func (m nodeMessage) encode() ([]byte, error) {
	m.Version = nodeVersion
	return json.Marshal(m)
}

var errNodeMessage = errors.New("core: malformed message of another node")

func decodeNodeMessage(data []byte) (nodeMessage, error) {
	var m nodeMessage
	if len(data) > maxNodeMessage || json.Unmarshal(data, &m) != nil || m.Version < 1 || m.Node == "" {
		return nodeMessage{}, errNodeMessage
	}
	if m.Version > nodeVersion {
		return nodeMessage{Node: m.Node, All: true}, nil
	}
	for _, method := range m.Kinds {
		if _, known := listKind(method); !known {
			m.All = true
		}
	}
	for _, uri := range m.URIs {
		if ResourceUpdated(uri).validate() != nil {
			return nodeMessage{}, errNodeMessage
		}
	}
	if c := m.Cancel; c != nil {
		if _, err := ParseID([]byte(c.ID)); err != nil {
			return nodeMessage{}, errNodeMessage
		}
	}
	return m, nil
}

func (m nodeMessage) audience() Audience {
	if m.To == nil {
		return Audience{}
	}
	to := Principals(m.To.Principals...)
	to.prefix = m.To.Prefix
	return to
}

// changes returns the changes in the message that this node knows.
func (m nodeMessage) changes() []Change {
	changes := make([]Change, 0, len(m.Kinds)+len(m.URIs))
	for _, method := range m.Kinds {
		if k, known := listKind(method); known {
			changes = append(changes, Change{Kind: k})
		}
	}
	for _, uri := range m.URIs {
		changes = append(changes, ResourceUpdated(uri))
	}
	return changes
}

func listKind(method string) (Kind, bool) {
	for k := range Kind(numListKind) {
		if k.Method() == method {
			return k, true
		}
	}
	return 0, false
}
