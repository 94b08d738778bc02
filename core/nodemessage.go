// Node messages: what hubs tell each other through a broker. Nodes of two versions
// run side by side during a deploy, so a message has a version, members that a
// node does not know are ignored, and what it cannot understand counts as a
// change of everything. So a member that narrows what is said needs a new version;
// v, node, seq, hello and beat mean the same in all of them.

package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
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

	nodeChanges
	Then   []nodeChanges `json:"then,omitempty"` // changes of other publishes
	All    bool          `json:"all,omitempty"`  // everything changed
	To     *nodeAudience `json:"to,omitempty"`   // nil: everybody
	Cancel *nodeCancel   `json:"cancel,omitempty"`
	Hello  bool          `json:"hello,omitempty"` // the other nodes are to say how many they have sent
	Beat   bool          `json:"beat,omitempty"`  // it says nothing else
}

// nodeChanges are the changes of one publish.
type nodeChanges struct {
	Kinds  []string    `json:"kinds,omitempty"`  // methods of list kinds
	URIs   []string    `json:"uris,omitempty"`   // updated resources
	Values []nodeValue `json:"values,omitempty"` // of extensions; in Then only, see newNodeMessage
	Origin string      `json:"origin,omitempty"`
}

// nodeValue is the value of an extension's key.
type nodeValue struct {
	Method  string          `json:"method"`
	Key     string          `json:"key"`
	Version uint64          `json:"version"`
	Params  json.RawMessage `json:"params,omitempty"` // absent: it is to be read again
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

func newNodeMessage(to Audience, changes []unsentChange) nodeMessage {
	var m nodeMessage
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
	part := &m.nodeChanges
	for i, c := range changes {
		// Nodes that know no values take a message without a change that they know, and
		// without Then, for a beat.
		switch {
		case c.origin != part.Origin && i > 0, c.Kind == KindExtension && part == &m.nodeChanges:
			m.Then = append(m.Then, nodeChanges{Origin: c.origin})
			part = &m.Then[len(m.Then)-1]
		case i == 0:
			part.Origin = c.origin
		}
		switch c.Kind {
		case KindExtension:
			p := c.content.payload
			part.Values = append(part.Values, nodeValue{c.Extension, c.Key, p.version, p.params})
		case KindResourceUpdated:
			part.URIs = append(part.URIs, c.URI)
		default:
			part.Kinds = append(part.Kinds, c.Kind.Method())
		}
	}
	return m
}

// withoutPayloads returns the message with values that other nodes have to read
// again, and whether that is another message.
func (m nodeMessage) withoutPayloads() (lighter nodeMessage, ok bool) {
	lighter = m
	lighter.Then = slices.Clone(m.Then)
	for i := range lighter.Then {
		part := &lighter.Then[i]
		part.Values = slices.Clone(part.Values)
		for j := range part.Values {
			ok = ok || part.Values[j].Params != nil
			part.Values[j].Params = nil
		}
	}
	return lighter, ok
}

// parts returns the changes, publish by publish.
func (m nodeMessage) parts() []nodeChanges {
	return append([]nodeChanges{m.nodeChanges}, m.Then...)
}

// isBeat reports whether the message says nothing but how many came before it.
func (m nodeMessage) isBeat() bool {
	return !m.All && m.Cancel == nil && len(m.Kinds) == 0 && len(m.URIs) == 0 && len(m.Then) == 0
}

// encode returns the message's bytes. What would be too large for other nodes to
// look at becomes the change of everything.
func (m nodeMessage) encode() ([]byte, error) {
	m.Version, m.Beat = nodeVersion, m.isBeat()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // URIs have many &
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	if b.Len() > maxNodeMessage {
		if lighter, ok := m.withoutPayloads(); ok {
			return lighter.encode()
		}
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
	if m.Version > nodeVersion {
		// These members are the same in all versions, and are read even where another
		// one has another type by then.
		newer := nodeMessage{Node: m.Node, Seq: m.Seq, Hello: m.Hello, Beat: m.Beat}
		newer.All = !m.Beat
		return newer, nil
	}
	if err != nil || m.Version < 1 || m.Node == "" {
		return nodeMessage{}, errNodeMessage
	}
	if m.To != nil && len(m.To.Principals) == 0 && m.To.Prefix == nil {
		m.All = true // an audience of a kind that is not known: nobody sends to nobody
	}
	for _, part := range m.parts() {
		for _, method := range part.Kinds {
			if _, known := listKind(method); !known {
				m.All = true
			}
		}
		for _, uri := range part.URIs {
			if ResourceUpdated(uri).validate() != nil {
				return nodeMessage{}, errNodeMessage
			}
		}
		for _, v := range part.Values {
			if v.change().validate() != nil || v.Version == 0 || v.Params != nil && !isObject(v.Params) {
				return nodeMessage{}, errNodeMessage
			}
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

// changes returns all changes in the message that this node knows.
func (m nodeMessage) changes() []Change {
	var changes []Change
	for _, part := range m.parts() {
		changes = append(changes, part.changes()...)
	}
	return changes
}

// changes returns those that this node knows.
func (c nodeChanges) changes() []Change {
	changes := make([]Change, 0, len(c.Kinds)+len(c.URIs))
	for _, method := range c.Kinds {
		if k, known := listKind(method); known {
			changes = append(changes, Change{Kind: k})
		}
	}
	for _, uri := range c.URIs {
		changes = append(changes, ResourceUpdated(uri))
	}
	for _, v := range c.Values {
		changes = append(changes, v.change())
	}
	return changes
}

func (v nodeValue) change() Change {
	return Change{
		Kind: KindExtension, Extension: v.Method, Key: v.Key,
		content: &content{payload: &payload{params: v.Params, version: v.Version}},
	}
}

func listKind(method string) (Kind, bool) {
	for k := range Kind(numListKind) {
		if k.Method() == method {
			return k, true
		}
	}
	return 0, false
}
