// The listen request: what is asked for, checked against the protocol and the
// limits.

package core

import (
	"encoding/json"
	"slices"
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
	MaxURIs      int // resource URIs in one filter, and keys of each extension; 1,000 by default
	MaxURILength int // bytes of one resource URI, or one key; 2,048 by default
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
func parseListen(msg *Message, meta Meta, limits Limits, families []*family) (*Request, error) {
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
			req.Filter.ResourceSubscriptions, bad = parseStrings(value, limits, uriTexts)
		default:
			if req.Filter.Extensions == nil {
				req.Filter.Extensions = make(map[string]json.RawMessage)
			}
			req.Filter.Extensions[name] = value
			bad = req.Filter.parseKeys(name, value, limits, families)
		}
		return bad
	})
	switch {
	case bad != nil:
		return nil, bad
	case err != nil:
		return nil, notTwice("notifications", err)
	}
	if err := checkCapabilities(families, req.Filter, meta.ClientCapabilities); err != nil {
		return nil, err
	}
	return req, nil
}

// parseKeys reads a member of an extension, where one of the families has it.
func (f *Filter) parseKeys(name string, value []byte, limits Limits, families []*family) error {
	if !slices.ContainsFunc(families, func(family *family) bool { return family.Member == name }) {
		return nil
	}
	keys, err := parseStrings(value, limits, keyTexts)
	if err == nil && len(keys) > 0 {
		if f.Keys == nil {
			f.Keys = make(map[string][]string)
		}
		f.Keys[name] = keys
	}
	return err
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

// listTexts are what refusals call a list of the filter and what is in it.
type listTexts struct{ list, element, elements string }

var (
	uriTexts = listTexts{"the member resourceSubscriptions", "a resource URI", "resource URIs"}
	keyTexts = listTexts{"the member of an extension", "an extension's key", "keys of an extension"}
)

func parseStrings(value []byte, limits Limits, texts listTexts) ([]string, error) {
	if !isArray(value) {
		return nil, invalidParams(texts.list + " is no array")
	}
	var list []string
	seen := make(map[string]struct{})
	count := 0
	err := elements(value, func(element []byte) error {
		count++
		if count > limits.MaxURIs {
			return invalidParams("more than " + strconv.Itoa(limits.MaxURIs) + " " + texts.elements)
		}
		if !isString(element) {
			return invalidParams(texts.element + " is no string")
		}
		text, exact := unquote(element)
		switch {
		case text == "" || !exact:
			return invalidParams(texts.element + " is empty or no text")
		case len(text) > limits.MaxURILength:
			return invalidParams(texts.element + " is longer than " + strconv.Itoa(limits.MaxURILength) + " bytes")
		}
		if _, dup := seen[text]; !dup {
			seen[text] = struct{}{}
			list = append(list, text)
		}
		return nil
	})
	return list, err
}
