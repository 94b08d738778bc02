// Messages: one JSON-RPC message of a server, taken apart and trusted with
// nothing.

package client

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/mcplisten/mcplisten/core"
)

// message is one message of a server. Member names are case-sensitive, which
// encoding/json's structs are not: so everything is read through maps.
type message struct {
	method string
	id     json.RawMessage // nil where absent
	params map[string]json.RawMessage

	rawParams json.RawMessage
	meta      map[string]json.RawMessage // of params, or of the result
	result    map[string]json.RawMessage // nil unless this is a result
	err       *RefusedError              // nil unless this is an error
}

func parseMessage(data []byte) (m message, _ *ViolationError) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return m, violation(NotJSON, "%q", clip(string(data)))
	}
	members, ok := object(data)
	if !ok {
		return m, violation(Malformed, "the message is no JSON-RPC object: %s", clip(string(data)))
	}
	if version, ok := text(members["jsonrpc"]); !ok || version != "2.0" {
		return m, violation(Malformed, "no JSON-RPC 2.0: %s", clip(string(data)))
	}
	m.id = members["id"]
	method, isCall := members["method"]
	result, isResult := members["result"]
	failure, isError := members["error"]
	switch {
	case isCall && !isResult && !isError:
		if m.method, ok = text(method); !ok {
			return m, violation(Malformed, "the method is no string")
		}
		if params, given := members["params"]; given {
			if m.params, ok = object(params); !ok {
				return m, violation(Malformed, "the params of %s are no object", clip(m.method))
			}
			m.rawParams = params
		}
		m.meta, _ = object(m.params["_meta"])
	case isResult && !isCall && !isError:
		if m.result, ok = object(result); !ok {
			return m, violation(Malformed, "the result is no object")
		}
		m.meta, _ = object(m.result["_meta"])
	case isError && !isCall && !isResult:
		if m.err, ok = parseError(failure); !ok {
			return m, violation(Malformed, "the error has no code and message")
		}
	default:
		return m, violation(Malformed, "neither a notification nor a response: %s", clip(string(data)))
	}
	return m, nil
}

func parseError(raw json.RawMessage) (*RefusedError, bool) {
	members, ok := object(raw)
	if !ok {
		return nil, false
	}
	e := &RefusedError{}
	message, hasMessage := text(members["message"])
	code, hasCode := integer(members["code"])
	if !hasMessage || !hasCode {
		return nil, false
	}
	e.Code, e.Message = code, clip(message)
	if data, given := members["data"]; given && !isNull(data) {
		e.Data = data
	}
	return e, true
}

// subscriptionID returns the id of the subscription that a message says it
// belongs to, as it stands there.
func (m *message) subscriptionID() json.RawMessage { return m.meta[core.MetaSubscriptionID] }

// object returns the members of a JSON object.
func object(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if raw == nil || json.Unmarshal(raw, &members) != nil || members == nil {
		return nil, false
	}
	return members, true
}

// text returns the string that raw is.
func text(raw json.RawMessage) (string, bool) {
	var s *string
	if raw == nil || json.Unmarshal(raw, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// integer returns the integer that raw is.
func integer(raw json.RawMessage) (int, bool) {
	var n *int
	if raw == nil || json.Unmarshal(raw, &n) != nil || n == nil {
		return 0, false
	}
	return *n, true
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// isID reports whether raw is the string id.
func isID(raw json.RawMessage, id string) bool {
	s, ok := text(raw)
	return ok && s == id
}

// clip shortens what a server said to what a log line can hold.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
