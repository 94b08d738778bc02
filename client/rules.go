// The rules of one subscription: each message is held against them, in the order
// in which they come, whatever the transport.

package client

import (
	"github.com/mcplisten/mcplisten/core"
)

// subscription is the state of one subscription. One goroutine calls take.
type subscription struct {
	id    string
	asked core.Filter

	families []core.Family
	onAck    func(honored core.Filter)
	onNote   func(n Notification, parent string)

	acked   bool
	over    bool
	honored core.Filter
	uris    map[string]struct{}            // honored
	keys    map[string]map[string]struct{} // honored, by member
}

// take handles one message. It returns true when the subscription is over: with
// its result, or with an error that is a *RefusedError or a *ViolationError.
func (s *subscription) take(data []byte) (over bool, err error) {
	m, bad := parseMessage(data)
	switch {
	case bad != nil:
	case s.over:
		bad = violation(AfterResult, "%s", clip(string(data)))
	case m.err != nil:
		return s.refused(&m)
	case m.result != nil:
		bad = s.result(&m)
	case m.id != nil:
		bad = violation(Malformed, "the server sent a request: %s", clip(m.method))
	case m.method == core.MethodCancelled && s.acked && isID(m.params["requestId"], s.id):
		// The pages of the protocol disagree on the server's goodbye. This one is as
		// clear as the result.
		s.over = true
	default:
		bad = s.notification(&m)
	}
	if bad != nil {
		return true, bad
	}
	return s.over, nil
}

func (s *subscription) refused(m *message) (bool, error) {
	// A server that could not read the id answers with none.
	if m.id != nil && !isNull(m.id) && !isID(m.id, s.id) {
		return true, violation(WrongID, "an error for the request %s: %s", clip(string(m.id)), m.err.Message)
	}
	m.err.Acknowledged = s.acked
	return true, m.err
}

func (s *subscription) result(m *message) *ViolationError {
	switch {
	case !isID(m.id, s.id):
		return violation(WrongID, "a result for the request %s", clip(string(m.id)))
	case !s.acked:
		return violation(BeforeAck, "the result came without an acknowledgment")
	}
	if id := m.subscriptionID(); id != nil && !isID(id, s.id) {
		return violation(WrongID, "the result is for the subscription %s", clip(string(id)))
	}
	// Without a type it is of an older kind that knows this one only.
	if kind, given := m.result["resultType"]; given {
		if s, ok := text(kind); !ok || s != "complete" {
			return violation(Malformed, "the resultType is %s", clip(string(kind)))
		}
	}
	s.over = true
	return nil
}

func (s *subscription) notification(m *message) *ViolationError {
	if id := m.subscriptionID(); !isID(id, s.id) {
		if id == nil {
			return violation(WrongID, "%s names no subscription", clip(m.method))
		}
		return violation(WrongID, "%s is for the subscription %s", clip(m.method), clip(string(id)))
	}
	isAck := m.method == core.MethodAcknowledged
	switch {
	case isAck && s.acked:
		return violation(SecondAck, "the acknowledgment came twice")
	case isAck:
		honored, bad := decodeHonored(m.params["notifications"], s.asked)
		if bad != nil {
			return bad
		}
		s.acked, s.honored, s.uris = true, honored, setOf(honored.ResourceSubscriptions)
		s.keys = make(map[string]map[string]struct{})
		for member, keys := range honored.Keys {
			s.keys[member] = setOf(keys)
		}
		s.onAck(honored)
		return nil
	case !s.acked:
		return violation(BeforeAck, "%s came before the acknowledgment", clip(m.method))
	}
	if f, ok := familyOf(s.families, m.method); ok {
		n, bad := s.value(m, f)
		if bad == nil {
			s.onNote(n, "")
		}
		return bad
	}
	n := Notification{}
	kind, known := kindOfMethod[m.method]
	if !known || kind != Updated && !s.honors(kind) {
		return violation(Unrequested, "%s was not asked for", clip(m.method))
	}
	n.Kind = kind
	parent := ""
	if kind == Updated {
		var ok bool
		if n.URI, ok = text(m.params["uri"]); !ok || n.URI == "" {
			return violation(Malformed, "an updated resource without a URI")
		}
		if parent, ok = s.covering(n.URI); !ok {
			return violation(Unrequested, "the resource %q was not asked for", clip(n.URI))
		}
	}
	s.onNote(n, parent)
	return nil
}

func (s *subscription) honors(k Kind) bool {
	switch k {
	case Tools:
		return s.honored.ToolsListChanged
	case Prompts:
		return s.honored.PromptsListChanged
	default:
		return s.honored.ResourcesListChanged
	}
}

// covering reports whether the filter covers a URI, and returns the URI of the
// filter that it lies below, if it is none of the filter itself: the protocol
// lets a server name the sub-resource that changed.
func (s *subscription) covering(uri string) (parent string, ok bool) {
	core.SubResources{}.Cover(uri, func(subscribed string) bool {
		if _, ok = s.uris[subscribed]; ok && subscribed != uri {
			parent = subscribed
		}
		return !ok
	})
	return parent, ok
}
