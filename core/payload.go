// Payloads: what a notification of an extension carries. It is encoded once, for
// all who listen to its key, and only the subscription's id differs.

package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Payload is a key's value as it is sent.
type Payload struct {
	// Params are the notification's params: a JSON object whose key member is the
	// key, without _meta, which is the hub's.
	Params json.RawMessage

	// Version orders the values of one key: of two, the one with the higher version
	// is newer, and what is older than what a stream was given already is not for it.
	// Without versions, zero, the order is that of the publishes; with a Broker that
	// is not known, and each value needs one. Of equal versions the one that comes
	// later counts.
	Version uint64
}

// Errors of values, for errors.Is.
var (
	// ErrUnknownExtension is what publishing a value of an extension that the hub
	// does not have wraps.
	ErrUnknownExtension = errors.New("core: the hub has no such extension")
	// ErrPayload is what publishing a value wraps whose payload is not usable: no JSON
	// object, another key's, larger than the extension allows, or without a version
	// where that is needed.
	ErrPayload = errors.New("core: the payload is not usable")
	// ErrNoValue is what [Extension.Current] returns for a key without a value.
	ErrNoValue = errors.New("core: the key has no value")
)

// payload is an encoded value. It does not change, and is shared by all who are to
// be told of it.
type payload struct {
	family  *family
	params  []byte // compact JSON; nil: it is to be read again
	version uint64
}

// content is what a [Change] of a value carries: the value as it is published, and
// from then on its payload.
type content struct {
	value   any
	payload *payload
}

// olderThan reports whether a stream that was given the version seen is not to be
// given this.
func (p *payload) olderThan(seen uint64) bool { return p.version != 0 && p.version < seen }

// append appends the notification.
func (p *payload) append(b []byte, id ID) []byte {
	b = append(b, p.family.head...)
	b = append(b, id.raw...)
	b = append(b, `},`...)
	b = append(b, p.params[1:]...)
	return append(b, '}')
}

// encode makes the payload of a value.
func (h *Hub) encode(f *family, key string, value any) (*payload, error) {
	var p Payload
	err := h.guard("Extension.Encode", func() (err error) {
		if f.Encode != nil {
			p, err = f.Encode(key, value)
		} else {
			p.Params, err = json.Marshal(value)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("core: encoding a value of %s: %w", f.Method, err)
	}
	if h.link != nil && p.Version == 0 {
		return nil, fmt.Errorf("%w: with a Broker it needs a version", ErrPayload)
	}
	params, err := f.params(key, p.Params)
	if err != nil {
		return nil, err
	}
	return &payload{f, params, p.Version}, nil
}

// params returns raw in one line. It fails where that cannot be sent as the params
// of key.
func (f *family) params(key string, raw []byte) ([]byte, error) {
	if len(raw) > f.MaxPayload {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrPayload, f.MaxPayload)
	}
	var compact bytes.Buffer
	if checkJSON(raw) != nil || json.Compact(&compact, raw) != nil {
		return nil, fmt.Errorf("%w: it is not valid JSON, or nested too deeply", ErrPayload)
	}
	return compact.Bytes(), f.checkParams(key, compact.Bytes())
}

// checkParams fails unless params, valid JSON, are those of key.
func (f *family) checkParams(key string, params []byte) error {
	if !isObject(params) {
		return fmt.Errorf("%w: it is no JSON object", ErrPayload)
	}
	named := false
	err := members(params, func(name string, value []byte) error {
		switch name {
		case "_meta":
			return fmt.Errorf("%w: it has a member _meta, which is the hub's", ErrPayload)
		case f.Key:
			if isString(value) {
				of, exact := unquote(value)
				named = exact && of == key
			}
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, ErrPayload):
		return fmt.Errorf("%w: %w", ErrPayload, err)
	case err != nil:
		return err
	case !named:
		return fmt.Errorf("%w: its member %s is missing, or is not the key", ErrPayload, f.Key)
	}
	return nil
}

// encodeValues returns the changes with the payloads of values that are among
// them. The slice is the caller's and stays as it is.
func (h *Hub) encodeValues(changes []Change) ([]Change, error) {
	cloned := false
	for i, c := range changes {
		if c.Kind != KindExtension {
			continue
		}
		f := h.familyOf(c.Extension)
		if f == nil {
			return nil, fmt.Errorf("%w: %q", ErrUnknownExtension, c.Extension)
		}
		p, err := h.encode(f, c.Key, c.content.value)
		if err != nil {
			return nil, err
		}
		if !cloned {
			changes, cloned = append([]Change(nil), changes...), true
		}
		changes[i].content = &content{payload: p}
	}
	return changes, nil
}
