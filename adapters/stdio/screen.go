// Screening: what of the messages that pass by can be let through. Both sides are
// kept from what would break the subscriptions between them: the server behind from
// what is no message, the client from what would pass for one of a subscription.

package mcpstdio

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/mcplisten/mcplisten/core"
)

// likeness is what a JSON text looks like that is no request and no notification.
type likeness uint8

const (
	likeNothing likeness = iota
	likeResponse
	likeBrokenResponse
	likeBatch
)

// alike says what a JSON text that the client sent looks like.
func alike(line []byte) likeness {
	messages, ok := batch(line)
	if !ok {
		return alikeOne(line)
	}
	for _, m := range messages {
		if alikeOne(m) != likeResponse && requestLike(m) == nil {
			return likeNothing
		}
	}
	return likeBatch
}

func alikeOne(line []byte) likeness {
	var m map[string]json.RawMessage
	if json.Unmarshal(line, &m) != nil || m["result"] == nil && m["error"] == nil {
		return likeNothing
	}
	switch method := m["method"]; {
	case string(method) == "null":
		return likeBrokenResponse
	case method != nil:
		return likeNothing
	}
	var failure *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}
	_, idErr := core.ParseID(m["id"])
	if m["error"] != nil && json.Unmarshal(m["error"], &failure) != nil || idErr != nil || string(m["jsonrpc"]) != `"2.0"` {
		return likeBrokenResponse
	}
	return likeResponse
}

// batch returns the messages of a batch of at least one.
func batch(line []byte) ([]json.RawMessage, bool) {
	if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")) {
		return nil, false
	}
	var messages []json.RawMessage
	err := json.Unmarshal(line, &messages)
	return messages, err == nil && len(messages) > 0
}

// requestLike returns the id and the method of a request or notification, however
// deeply its params are nested, or nil where it is none.
func requestLike(line []byte) *core.Message {
	var m map[string]json.RawMessage
	var method *string
	if json.Unmarshal(line, &m) != nil || string(m["jsonrpc"]) != `"2.0"` ||
		json.Unmarshal(m["method"], &method) != nil || method == nil {
		return nil
	}
	msg := &core.Message{Method: *method}
	if raw, given := m["id"]; given {
		id, err := core.ParseID(raw)
		if err != nil {
			return nil
		}
		msg.ID = id
	}
	return msg
}

// screen returns what the client may get of a message or batch of the server behind,
// or nil for nothing, and the keys of the ids that it answers.
func (c *connection) screen(line []byte) (rest []byte, answers []string) {
	messages, ok := batch(line)
	if !ok {
		ok, key := c.harmless(line)
		switch {
		case !ok:
			return nil, nil
		case key != "":
			return line, []string{key}
		}
		return line, nil
	}
	var kept [][]byte
	for _, m := range messages {
		ok, key := c.harmless(m)
		if ok {
			kept = append(kept, m)
		}
		if ok && key != "" {
			answers = append(answers, key)
		}
	}
	switch len(kept) {
	case len(messages):
		return line, answers
	case 0:
		return nil, nil
	}
	rest = append([]byte("["), bytes.Join(kept, []byte(","))...)
	return append(rest, ']'), answers
}

// harmless reports whether a message of the server behind passes for none of a
// subscription of this connection. If it is a response, its id's key comes along.
func (c *connection) harmless(message []byte) (ok bool, answers string) {
	var m map[string]json.RawMessage
	if json.Unmarshal(message, &m) != nil {
		return false, ""
	}
	if raw, given := m["method"]; given {
		var method string
		_ = json.Unmarshal(raw, &method) // what is no string is no method of ours
		return c.wanted(method, m["params"]), ""
	}
	key := responseKey(m["id"])
	c.mu.Lock()
	open := c.open[key] != nil
	c.mu.Unlock()
	if open {
		c.mistook.Do(func() {
			c.config.log.Warn("mcpstdio: a response of the server behind has the id of an open subscription: such are dropped", "id", key)
		})
	}
	return !open, key
}

// wanted reports whether somebody can expect a notification or request of the server
// behind. What is subscribed to is the hub's, and comes from there. Clients of older
// revisions do not subscribe: they get what there is.
func (c *connection) wanted(method string, rawParams json.RawMessage) bool {
	switch method {
	case core.MethodAcknowledged:
		return false
	case core.MethodToolsListChanged, core.MethodPromptsListChanged,
		core.MethodResourcesListChanged, core.MethodResourceUpdated:
	default:
		return true
	}
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if len(rawParams) > 0 {
		_ = json.Unmarshal(rawParams, &params) // what has no _meta names no subscription
	}
	_, named := params.Meta[core.MetaSubscriptionID]
	return !named && c.older.Load()
}

// responseKey returns the key of a response's id, or "" for none. Clients that read
// numbers as such take 1.0 for 1.
func responseKey(raw json.RawMessage) string {
	if id, err := core.ParseID(raw); err == nil {
		return id.Key()
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != float64(int64(f)) {
		return ""
	}
	return strconv.FormatInt(int64(f), 10)
}
