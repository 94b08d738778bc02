// Request ids: labels chosen by clients, kept as their exact bytes.

package core

import (
	"bytes"
	"strconv"
	"strings"
)

// ID is a JSON-RPC request id: the exact bytes of a JSON string or integer as
// the client sent them. Decoding an id to a number loses ids over 2^53, and
// re-encoding a string changes its bytes, so neither is done. The zero ID is no
// id; [ID.Valid] tells.
//
// An ID is a label and nothing else: two clients may well choose the same one.
type ID struct{ raw string }

// ParseID returns the id that the JSON value raw is, for who reads messages that
// are not requests. It fails with an [*Error] where raw is neither a string nor an
// integer.
func ParseID(raw []byte) (ID, error) {
	if checkJSON(raw) != nil {
		return ID{}, invalidRequest("the id is not valid JSON")
	}
	raw = bytes.TrimSpace(raw)
	return parseID(raw, len(raw))
}

// parseID returns the id that the valid JSON value raw is. MCP allows strings and
// integers; a number with a fraction or an exponent is refused even where its
// value is whole, since readers disagree on what it is.
func parseID(raw []byte, maxLength int) (ID, error) {
	isNumber := raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'
	switch {
	case len(raw) > maxLength:
		return ID{}, invalidRequest("the id is longer than " + strconv.Itoa(maxLength) + " bytes")
	case isString(raw), isNumber && !bytes.ContainsAny(raw, ".eE"):
		return ID{string(raw)}, nil
	default:
		return ID{}, invalidRequest("the id is neither a string nor an integer")
	}
}

// Valid reports whether there is an id.
func (id ID) Valid() bool { return id.raw != "" }

// String returns the id's exact bytes: a string id with its quotes.
func (id ID) String() string { return id.raw }

// MarshalJSON returns the id's exact bytes, or null for no id.
func (id ID) MarshalJSON() ([]byte, error) {
	if !id.Valid() {
		return []byte("null"), nil
	}
	return []byte(id.raw), nil
}

// Equal reports whether both are the same id: the same type and the same value,
// however its characters are escaped. 1 and "1" are two ids.
func (id ID) Equal(other ID) bool { return id.Key() == other.Key() }

// Key returns what two equal ids have in common, to index by: [ID.Equal] ids have
// equal keys, and others do not.
func (id ID) Key() string {
	if !strings.Contains(id.raw, `\`) {
		return id.raw
	}
	s, exact := unquote([]byte(id.raw))
	if !exact {
		return id.raw
	}
	return string(appendString(nil, s))
}
