// Extensions: families of notifications that the protocol itself does not have,
// and that a program says it knows.

package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcplisten/mcplisten/core"
)

// WithFamily lets the filter ask for keys of an extension: those in its Keys under
// the family's member. What comes of them is yielded as notifications of the kind
// [Value]. Where the filter asks for some, the request declares the family's
// capability beside those of [WithClientCapabilities].
func WithFamily(family core.Family) Option {
	return func(c *config) {
		if err := family.Validate(); err != nil {
			c.failed = fmt.Errorf("client: the extension %q: %w", family.Method, err)
		}
		c.families = append(c.families, family)
	}
}

// familyOf returns the family with the given method.
func familyOf(families []core.Family, method string) (core.Family, bool) {
	i := slices.IndexFunc(families, func(f core.Family) bool { return f.Method == method })
	if i < 0 {
		return core.Family{}, false
	}
	return families[i], true
}

// checkKeys fails where the filter has keys that no family has, or that are no
// keys.
func checkKeys(keys map[string][]string, families []core.Family) error {
	for member, list := range keys {
		if !slices.ContainsFunc(families, func(f core.Family) bool { return f.Member == member }) {
			return fmt.Errorf("client: the filter has keys of %q, which no family of WithFamily has", member)
		}
		if err := checkTexts(list); err != nil {
			return fmt.Errorf("client: a key of %q: %w", member, err)
		}
	}
	return nil
}

// declared returns the client capabilities with those that the families need whose
// keys the filter asks for.
func (c *config) declared(filter core.Filter) (any, error) {
	needed := make(map[string]json.RawMessage)
	for _, f := range c.families {
		if f.Capability != "" && len(filter.Keys[f.Member]) > 0 {
			needed[f.Capability] = json.RawMessage("{}")
		}
	}
	if len(needed) == 0 {
		return c.capabilities, nil
	}
	encoded, err := json.Marshal(c.capabilities)
	if err != nil {
		return nil, err
	}
	capabilities, _ := object(encoded) // newConfig has seen that it is one
	extensions, given := capabilities["extensions"]
	if given {
		had, ok := object(extensions)
		if !ok {
			return nil, errors.New("client: the extensions of the client capabilities are no object")
		}
		for name, settings := range had {
			needed[name] = settings
		}
	}
	if capabilities["extensions"], err = json.Marshal(needed); err != nil {
		return nil, err
	}
	return capabilities, nil
}

// decodeKeys reads what an acknowledgment honors of a family.
func decodeKeys(member string, value json.RawMessage, asked []string) ([]string, *ViolationError) {
	var keys []string
	if isNull(value) || json.Unmarshal(value, &keys) != nil {
		return nil, violation(BadAck, "its member %s is no array of strings", member)
	}
	may := setOf(asked)
	for _, key := range keys {
		if _, ok := may[key]; !ok {
			return nil, violation(BadAck, "it honors the key %q of %s, which was not asked for", clip(key), member)
		}
	}
	return keys, nil
}

// value returns the notification of a family's message.
func (s *subscription) value(m *message, f core.Family) (n Notification, _ *ViolationError) {
	key, ok := text(m.params[f.Key])
	if !ok {
		return n, violation(Malformed, "%s without its member %s", m.method, f.Key)
	}
	if _, ok := s.keys[f.Member][key]; !ok {
		return n, violation(Unrequested, "the key %q of %s was not asked for", clip(key), m.method)
	}
	params := m.rawParams // and not the whole message
	return Notification{Kind: Value, Method: f.Method, Key: key, params: &params}, nil
}
