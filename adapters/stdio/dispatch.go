// Dispatching: which messages are the hub's, and what becomes of the others.

package mcpstdio

import (
	"bytes"
	"errors"

	"github.com/mcplisten/mcplisten/core"
)

// dispatch does with one line what there is to do. It waits for nothing but room,
// for answers that nobody reads or with an upstream that reads nothing, and never for
// long: an end of input or a cancellation may be behind.
func (c *connection) dispatch(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	msg, err := core.ParseMessage(line, c.hub.Limits())
	if err != nil {
		c.dispatchBroken(line, msg, err)
		return
	}
	c.dispatchMessage(line, msg)
}

func (c *connection) dispatchMessage(line []byte, msg *core.Message) {
	switch {
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

// dispatchBroken deals with what is no request and no notification, or none that the
// hub can read. The server behind gets it where it is a message to it all the same.
// Anything else is refused here: there are servers that end at it, and all
// subscriptions with them; and of a request without a proper id nobody knows which id
// the answer will have.
func (c *connection) dispatchBroken(line []byte, msg *core.Message, err error) {
	if core.AsError(err).Code == core.CodeParseError ||
		errors.Is(err, core.ErrDuplicateMember) { // of two methods, the server behind may see the other one
		c.refuse(msg, core.Meta{}, err)
		return
	}
	hasNext := c.config.next != nil || c.upstream != nil
	switch like := alike(line); {
	case like == likeResponse && hasNext:
		c.pass(line, nil)
	case like == likeResponse, like == likeBrokenResponse:
		// To what was never asked. A response is not answered.
	case like == likeBatch && hasNext && c.older.Load():
		c.pass(line, nil)
	default:
		if deep := requestLike(line); msg == nil && deep != nil && deep.Method != core.MethodListen && hasNext {
			c.dispatchMessage(line, deep)
			return
		}
		c.refuse(msg, core.Meta{}, err)
	}
}

// pass passes a message on. msg is nil where it is no request or notification.
func (c *connection) pass(line []byte, msg *core.Message) {
	if msg != nil && msg.ID.Valid() && msg.Method == core.MethodInitialize {
		c.older.Store(true)
	}
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
