// The listen request: what is asked for, checked against the protocol and the
// limits.

package core

import (
	"encoding/json"
	"strconv"
)

// Request is a valid subscriptions/listen request. Meta and the filter's
// extensions hold parts of the bytes that it was parsed from; the rest does not.
type Request struct {
	ID     ID
	Meta   Meta
	Filter Filter // what was asked for
}

// Limits bound what one listen request may ask for. Zero means the default.
type Limits struct {
	MaxURIs      int // resource URIs in one filter; 1,000 by default
	MaxURILength int // bytes of one resource URI; 2,048 by default
	MaxIDLength  int // bytes of the request id as sent; 1,024 by default
}

func (l Limits) withDefaults() Limits {
	if l.MaxURIs == 0 {
		l.MaxURIs = 1000
	}
	if l.MaxURILength == 0 {
		l.MaxURILength = 2048
	}
	if l.MaxIDLength == 0 {
		l.MaxIDLength = 1024
	}
	return l
}

// parseListen makes a request of a message whose method is subscriptions/listen
// and whose _meta was read.
func parseListen(msg *Message, meta Meta, limits Limits) (*Request, error) {
	if !msg.ID.Valid() {
		return nil, invalidRequest("the request has no id")
	}
	if err := meta.CheckVersion(); err != nil {
		return nil, err
	}
	var notifications []byte
	if err := members(msg.params, func(name string, value []byte) error {
		if name == "notifications" {
			notifications = value
		}
		return nil
	}); err != nil {
		return nil, notTwice("params", err)
	}
	if !isObject(notifications) {
		return nil, invalidParams("the member notifications is missing or no object")
	}
	req := &Request{ID: msg.ID, Meta: meta}
	var bad error
	err := members(notifications, func(name string, value []byte) error {
		switch name {
		case filterTools:
			bad = parseFlag(&req.Filter.ToolsListChanged, value)
		case filterPrompts:
			bad = parseFlag(&req.Filter.PromptsListChanged, value)
		case filterResources:
			bad = parseFlag(&req.Filter.ResourcesListChanged, value)
		case filterURIs:
			req.Filter.ResourceSubscriptions, bad = parseURIs(value, limits)
		default:
			if req.Filter.Extensions == nil {
				req.Filter.Extensions = make(map[string]json.RawMessage)
			}
			req.Filter.Extensions[name] = value
		}
		return bad
	})
	switch {
	case bad != nil:
		return nil, bad
	case err != nil:
		return nil, notTwice("notifications", err)
	}
	return req, nil
}

func parseFlag(flag *bool, value []byte) error {
	switch string(value) {
	case "true":
		*flag = true
	case "false":
		*flag = false
	default:
		return invalidParams("a list member of notifications is no boolean")
	}
	return nil
}

func parseURIs(value []byte, limits Limits) ([]string, error) {
	if !isArray(value) {
		return nil, invalidParams("the member resourceSubscriptions is no array")
	}
	var uris []string
	seen := make(map[string]struct{})
	count := 0
	err := elements(value, func(element []byte) error {
		count++
		if count > limits.MaxURIs {
			return invalidParams("more than " + strconv.Itoa(limits.MaxURIs) + " resource URIs")
		}
		if !isString(element) {
			return invalidParams("a resource URI is no string")
		}
		uri, exact := unquote(element)
		switch {
		case uri == "" || !exact:
			return invalidParams("a resource URI is empty or no text")
		case len(uri) > limits.MaxURILength:
			return invalidParams("a resource URI is longer than " + strconv.Itoa(limits.MaxURILength) + " bytes")
		}
		if _, dup := seen[uri]; !dup {
			seen[uri] = struct{}{}
			uris = append(uris, uri)
		}
		return nil
	})
	return uris, err
}
