// Dispatching: which messages are the hub's, and what becomes of the others.

package mcpstdio

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/mcplisten/mcplisten/core"
)

// dispatch does with one line what there is to do, and waits for nothing but
// room: for answers that nobody reads, or with an upstream that reads nothing.
func (c *connection) dispatch(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	msg, err := core.ParseMessage(line, c.hub.Limits())
	switch {
	case err != nil:
		c.dispatchBroken(line, msg, err)
	case msg.Method == core.MethodListen:
		c.listen(msg)
	case msg.Method == core.MethodCancelled && !msg.ID.Valid():
		if id, ok := msg.Cancels(); !ok || !c.cancel(id) {
			c.pass(line, msg)
		}
	case msg.ID.Valid() && c.isOpen(msg.ID):
		// Its answer would pass for the subscription's result.
		c.refuse(msg, core.Meta{}, errIDOpen)
	default:
		c.pass(line, msg)
	}
}

// dispatchBroken deals with what is no request and no notification. Where it is
// JSON and nothing in it can be meant for the hub, the server behind shall judge.
func (c *connection) dispatchBroken(line []byte, msg *core.Message, err error) {
	switch {
	case core.AsError(err).Code == core.CodeParseError,
		errors.Is(err, core.ErrDuplicateMember), // of two methods, the server behind may see the other one
		msg != nil && msg.Method == core.MethodListen:
		c.refuse(msg, core.Meta{}, err)
	case c.config.next != nil || c.upstream != nil:
		c.pass(line, nil)
	case isResponse(line):
		// To what was never asked. A response is not answered.
	default:
		c.refuse(msg, core.Meta{}, err)
	}
}

// isResponse reports whether a JSON text is a JSON-RPC response.
func isResponse(line []byte) bool {
	var m struct {
		Method *json.RawMessage `json:"method"`
		Result *json.RawMessage `json:"result"`
		Error  *json.RawMessage `json:"error"`
	}
	return json.Unmarshal(line, &m) == nil && m.Method == nil && (m.Result != nil || m.Error != nil)
}

// pass passes a message on. msg is nil where it could not be parsed.
func (c *connection) pass(line []byte, msg *core.Message) {
	switch {
	case c.config.next != nil:
		c.call(line, msg)
	case c.upstream != nil:
		c.upstream.pass(c.ctx, line, msg)
	case !msg.ID.Valid():
		// A notification is not answered.
	case msg.Method == core.MethodDiscover:
		c.discover(msg)
	default:
		c.refuse(msg, core.Meta{}, core.MethodNotFound(msg.Method))
	}
}

func (c *connection) discover(msg *core.Message) {
	meta, err := msg.Meta()
	if err == nil {
		err = meta.CheckVersion()
	}
	if err != nil {
		c.refuse(msg, meta, err)
		return
	}
	c.out.post(c.ctx, responseLine(msg.ID, "result", c.hub.Discover()))
}
