// One request and what was answered: each message by its definition, and all of
// them by the rules that the protocol states in prose.

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// exchange is what came and went.
type exchange struct {
	request     []byte
	status      int
	contentType string
	body        []byte
	cut         bool // a write failed: the client was gone
}

type filter struct {
	Tools     bool     `json:"toolsListChanged"`
	Prompts   bool     `json:"promptsListChanged"`
	Resources bool     `json:"resourcesListChanged"`
	URIs      []string `json:"resourceSubscriptions"`
	Tasks     []string `json:"taskIds"`
}

// message is any message, with its ids as they were written.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta          meta   `json:"_meta"`
		Notifications filter `json:"notifications"`
		URI           string `json:"uri"`
		Task          string `json:"taskId"`
	} `json:"params"`
	Result *struct {
		Meta meta `json:"_meta"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

type meta struct {
	Subscription json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
}

// check returns all that is wrong.
func (x exchange) check(d *definitions) error {
	switch {
	case x.contentType == "text/event-stream":
		return x.stream(d)
	case x.contentType == "application/json" && len(x.body) > 0:
		return x.answer(d)
	case x.status == 202 || x.status == 405:
		if len(x.body) > 0 {
			return fmt.Errorf("status %d with a body: %s", x.status, x.body)
		}
		return nil
	case x.cut:
		return nil
	default:
		return fmt.Errorf("status %d with Content-Type %q: %q", x.status, x.contentType, x.body)
	}
}

// answer checks a response that is one message.
func (x exchange) answer(d *definitions) error {
	var request, m message
	_ = json.Unmarshal(x.request, &request) // what is no request is answered without an id
	if err := json.Unmarshal(x.body, &m); err != nil {
		return fmt.Errorf("%w: %s", err, x.body)
	}
	var wrong error
	if m.ID != nil && !bytes.Equal(m.ID, request.ID) {
		wrong = fmt.Errorf("the id %s was answered with %s", request.ID, m.ID)
	}
	if m.Error == nil {
		if request.Method != "server/discover" {
			return errors.Join(wrong, fmt.Errorf("%s was answered with a result: %s", request.Method, x.body))
		}
		return errors.Join(wrong, d.check("DiscoverResultResponse", x.body))
	}
	wrong = errors.Join(wrong, d.check("JSONRPCErrorResponse", x.body))
	var member struct{ Code int }
	_ = json.Unmarshal(m.Error, &member)
	if name, ok := errorMembers[member.Code]; ok {
		return errors.Join(wrong, d.check(name, m.Error))
	}
	if name, ok := errorResponses[member.Code]; ok {
		return errors.Join(wrong, d.check(name, x.body))
	}
	if member.Code < -32099 || member.Code > -32000 { // those are for servers to choose
		wrong = errors.Join(wrong, fmt.Errorf("the code %d is not of the protocol", member.Code))
	}
	return wrong
}

// stream checks a response that is a stream.
func (x exchange) stream(d *definitions) error {
	var request message
	if err := json.Unmarshal(x.request, &request); err != nil {
		return fmt.Errorf("what was answered with a stream: %w", err)
	}
	wrong := d.check("SubscriptionsListenRequest", x.request)
	events := bytes.SplitAfter(x.body, []byte("\n\n"))
	if last := len(events) - 1; len(events[last]) > 0 && !x.cut {
		wrong = errors.Join(wrong, fmt.Errorf("the stream ends with a part of an event: %q", events[last]))
	}
	s := subscription{id: request.ID, asked: request.Params.Notifications}
	for _, event := range events[:len(events)-1] {
		if err := s.event(d, bytes.TrimSuffix(event, []byte("\n\n"))); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%w: %s", err, event))
		}
	}
	if !s.acknowledged && !x.cut {
		wrong = errors.Join(wrong, errors.New("a stream without an acknowledgment"))
	}
	return wrong
}

// subscription is what is known of one in the course of its stream.
type subscription struct {
	id             json.RawMessage
	asked, honored filter
	acknowledged   bool
	ended          bool
}

func (s *subscription) event(d *definitions, event []byte) error {
	if s.ended {
		return errors.New("something follows the result")
	}
	if bytes.HasPrefix(event, []byte(":")) {
		if !s.acknowledged {
			return errors.New("a comment before the acknowledgment")
		}
		return nil
	}
	text, isData := bytes.CutPrefix(event, []byte("data: "))
	if !isData || bytes.ContainsAny(text, "\r\n") {
		return errors.New("more or less than one data line")
	}
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	if m.Result != nil {
		s.ended = true
		wrong := d.check("SubscriptionsListenResultResponse", text)
		if !s.acknowledged {
			wrong = errors.Join(wrong, errors.New("a result before the acknowledgment"))
		}
		return errors.Join(wrong, s.same("the result's id", m.ID), s.same("the subscription id", m.Result.Meta.Subscription))
	}
	name, known := notifications[m.Method]
	if !known {
		return fmt.Errorf("%q is no notification of a subscription", m.Method)
	}
	wrong := errors.Join(d.check(name, text), s.same("the subscription id", m.Params.Meta.Subscription))
	if m.ID != nil {
		wrong = errors.Join(wrong, errors.New("a notification with an id"))
	}
	isAck := name == "SubscriptionsAcknowledgedNotification"
	switch {
	case isAck == s.acknowledged:
		return errors.Join(wrong, errors.New("the acknowledgment comes first, and once"))
	case isAck:
		s.acknowledged, s.honored = true, m.Params.Notifications
		if !s.honored.within(s.asked) {
			wrong = errors.Join(wrong, errors.New("more is honored than was asked for"))
		}
	case !s.honored.has(name, m.Params.URI, m.Params.Task):
		wrong = errors.Join(wrong, errors.New("that was not honored"))
	}
	return wrong
}

// same compares ids byte by byte.
func (s *subscription) same(what string, id json.RawMessage) error {
	if !bytes.Equal(id, s.id) {
		return fmt.Errorf("%s is %s, not %s", what, id, s.id)
	}
	return nil
}

func (f filter) within(other filter) bool {
	if slices.ContainsFunc(f.Tasks, func(id string) bool { return !slices.Contains(other.Tasks, id) }) {
		return false
	}
	return (!f.Tools || other.Tools) && (!f.Prompts || other.Prompts) && (!f.Resources || other.Resources) &&
		!slices.ContainsFunc(f.URIs, func(uri string) bool { return !slices.Contains(other.URIs, uri) })
}

func (f filter) has(name, uri, task string) bool {
	switch name {
	case "ToolListChangedNotification":
		return f.Tools
	case "PromptListChangedNotification":
		return f.Prompts
	case "ResourceListChangedNotification":
		return f.Resources
	case taskNotification:
		return slices.Contains(f.Tasks, task)
	default:
		return slices.Contains(f.URIs, uri)
	}
}
