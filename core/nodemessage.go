// Node messages: what hubs tell each other through a broker. Nodes of two versions
// run side by side during a deploy, so a message has a version, members that a
// node does not know are ignored, and what it cannot understand counts as a
// change of everything.

package core

import (
	"bytes"
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
	Seq     uint64 `json:"seq,omitempty"` // how many messages but beats the node has sent, this one included

	Kinds  []string      `json:"kinds,omitempty"` // methods of list kinds
	URIs   []string      `json:"uris,omitempty"`  // updated resources
	All    bool          `json:"all,omitempty"`   // everything changed
	To     *nodeAudience `json:"to,omitempty"`    // nil: everybody
	Origin string        `json:"origin,omitempty"`
	Cancel *nodeCancel   `json:"cancel,omitempty"`
	Hello  bool          `json:"hello,omitempty"` // the other nodes are to say how many they have sent
}

// nodeAudience is an Audience. Names are base64: they are the application's, and
// need not be UTF-8.
type nodeAudience struct {
	Principals [][]byte `json:"principals,omitempty"`
	Prefix     *[]byte  `json:"prefix,omitempty"`
}

// nodeCancel is a client's cancellation, for the node that holds its stream.
type nodeCancel struct {
	Principal []byte `json:"principal"`
	ID        []byte `json:"id"` // the id's exact bytes
}

func newNodeMessage(to Audience, changes []Change, origin string) nodeMessage {
	m := nodeMessage{Origin: origin}
	if !to.Everyone() {
		m.To = new(nodeAudience)
		for _, name := range to.principals {
			m.To.Principals = append(m.To.Principals, []byte(name))
		}
		if to.prefix != nil {
			prefix := []byte(*to.prefix)
			m.To.Prefix = &prefix
		}
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

// isBeat reports whether the message says nothing but how many came before it.
func (m nodeMessage) isBeat() bool {
	return !m.All && m.Cancel == nil && len(m.Kinds) == 0 && len(m.URIs) == 0
}

// encode returns the message's bytes. What would be too large for other nodes to
// look at becomes the change of everything.
func (m nodeMessage) encode() ([]byte, error) {
	m.Version = nodeVersion
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // URIs have many &
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	if b.Len() > maxNodeMessage {
		return nodeMessage{Node: m.Node, Seq: m.Seq, All: true}.encode()
	}
	return b.Bytes(), nil
}

var errNodeMessage = errors.New("core: malformed message of another node")

func decodeNodeMessage(data []byte) (nodeMessage, error) {
	if len(data) > maxNodeMessage {
		return nodeMessage{}, errNodeMessage
	}
	var m nodeMessage
	err := json.Unmarshal(data, &m)
	if m.Version > nodeVersion { // known even where another member has another type by then
		return nodeMessage{Node: m.Node, All: true}, nil
	}
	if err != nil || m.Version < 1 || m.Node == "" {
		return nodeMessage{}, errNodeMessage
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
		if _, err := ParseID(c.ID); err != nil {
			return nodeMessage{}, errNodeMessage
		}
	}
	return m, nil
}

func (m nodeMessage) audience() Audience {
	if m.To == nil {
		return Audience{}
	}
	if m.To.Prefix != nil {
		return PrincipalPrefix(string(*m.To.Prefix))
	}
	names := make([]string, len(m.To.Principals))
	for i, name := range m.To.Principals {
		names[i] = string(name)
	}
	return Principals(names...)
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
