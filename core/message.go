// Messages: the JSON-RPC envelope of what a client sends.

package core

import (
	"encoding/json"
	"errors"
)

// Message is one JSON-RPC request or notification, its params not yet looked
// into. It holds parts of the bytes that it was parsed from.
type Message struct {
	ID     ID // not valid: a notification
	Method string

	params []byte // raw, nil where absent
}

// ParseMessage parses one JSON-RPC 2.0 request or notification.
//
// It fails with an [*Error]: parse_error where data is not JSON, else
// invalid_request: a batch, a wrong envelope, an id that is neither string nor
// integer or is too long, a member name twice in the envelope
// ([ErrDuplicateMember]), or nesting over 64 levels. Along with the error comes
// what could be read of the message, so that the answer can carry the request's
// id; it is nil where that is nothing.
func ParseMessage(data []byte, limits Limits) (*Message, error) {
	limits = limits.withDefaults()
	switch err := checkJSON(data); {
	case errors.Is(err, errNotJSON):
		return nil, refuse(CodeParseError, RefusedParse, "the message is not valid JSON")
	case err != nil:
		return nil, invalidRequest("the message is nested too deeply")
	}
	data = data[skipSpace(data, 0):]
	if !isObject(data) {
		return nil, invalidRequest("the message is not one JSON-RPC object")
	}
	var (
		msg                     Message
		version, method, result []byte
		id                      []byte
	)
	err := members(data, func(name string, value []byte) error {
		switch name {
		case "jsonrpc":
			version = value
		case "id":
			id = value
		case "method":
			method = value
		case "params":
			msg.params = value
		case "result", "error":
			result = value
		}
		return nil
	})
	if err != nil {
		// Which of two ids is the request's cannot be known: answer none.
		return nil, notTwice("the message", err)
	}
	if isString(method) {
		msg.Method, _ = unquote(method)
	}
	var idErr error
	if id != nil {
		msg.ID, idErr = parseID(id, limits.MaxIDLength)
	}
	switch {
	case idErr != nil:
		return &msg, idErr
	case string(version) != `"2.0"`:
		return &msg, invalidRequest(`the member jsonrpc is not "2.0"`)
	case result != nil:
		return &msg, invalidRequest("the message is a response, not a request")
	case !isString(method):
		return &msg, invalidRequest("the member method is missing or no string")
	case msg.params != nil && !isObject(msg.params) && !isArray(msg.params):
		return &msg, invalidRequest("the member params is neither an object nor an array")
	}
	return &msg, nil
}

// Cancels returns the id of the request that a notifications/cancelled message is
// about, and whether there is one.
func (m *Message) Cancels() (ID, bool) {
	if m.Method != MethodCancelled || !isObject(m.params) {
		return ID{}, false
	}
	var id ID
	err := members(m.params, func(name string, value []byte) (err error) {
		if name == "requestId" {
			id, err = parseID(value, len(value))
		}
		return err
	})
	return id, err == nil && id.Valid()
}

// Meta is what a request says of itself in params._meta (MCP 2026-07-28,
// RequestMetaObject). It holds parts of the bytes that it was parsed from.
type Meta struct {
	ProtocolVersion    string
	ClientCapabilities json.RawMessage // a JSON object

	raw []byte
}

// maxVersionLength bounds the protocol version, the one part of a request that
// an answer repeats. Versions are dates.
const maxVersionLength = 64

// Meta returns the message's params._meta. It fails with an [*Error] where
// params or _meta hold a name twice (invalid_request), or where _meta, its
// protocol version or its client capabilities are absent or of a wrong type
// (invalid_params).
func (m *Message) Meta() (Meta, error) {
	var meta Meta
	if !isObject(m.params) {
		return meta, invalidParams("the member params is missing or no object")
	}
	if err := members(m.params, func(name string, value []byte) error {
		if name == "_meta" {
			meta.raw = value
		}
		return nil
	}); err != nil {
		return meta, notTwice("params", err)
	}
	if !isObject(meta.raw) {
		return meta, invalidParams("the member _meta is missing or no object")
	}
	var version, capabilities []byte
	if err := members(meta.raw, func(name string, value []byte) error {
		switch name {
		case MetaProtocolVersion:
			version = value
		case MetaClientCapabilities:
			capabilities = value
		}
		return nil
	}); err != nil {
		return meta, notTwice("_meta", err)
	}
	switch {
	case !isString(version) || len(version) > maxVersionLength:
		return meta, invalidParams("the protocol version in _meta is missing or no version")
	case !isObject(capabilities):
		return meta, invalidParams("the client capabilities in _meta are missing or no object")
	}
	meta.ProtocolVersion, _ = unquote(version)
	meta.ClientCapabilities = capabilities
	return meta, nil
}

// CheckVersion fails with an [*Error] of code -32022 unless the request's
// protocol version is supported.
func (m Meta) CheckVersion() error {
	if m.ProtocolVersion == ProtocolVersion {
		return nil
	}
	e := refuse(CodeUnsupportedVersion, RefusedVersion, "unsupported protocol version")
	e.Data, _ = json.Marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{SupportedVersions(), m.ProtocolVersion})
	return e
}

// String returns the string member of _meta with the given name, and whether
// there is one: traceparent, for one.
func (m Meta) String(name string) (string, bool) {
	var s string
	found := false
	if m.raw == nil {
		return "", false
	}
	// The names were checked for duplicates when the value was made.
	_ = members(m.raw, func(n string, value []byte) error {
		if n == name && isString(value) {
			s, found = unquote(value)
		}
		return nil
	})
	return s, found
}
