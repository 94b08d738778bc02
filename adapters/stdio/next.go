// The next function: an MCP server that is a function from message to reply.

package mcpstdio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/mcplisten/mcplisten/core"
)

// Next answers a message that is not the hub's: a request, a notification or a
// response, byte for byte as the client sent it; or a batch, once the client has sent
// initialize, since there are none in this revision. It returns the reply, one
// JSON-RPC message or batch, or nil for none. A request that gets no reply, or none
// that is JSON, is answered with an internal error. Nothing of a reply passes for a
// message of the hub's subscriptions: see [WithUpstream].
//
// Each message is given to a call of its own, and calls run side by side, in no
// order: at most as many as [WithMaxCalls] says for each connection. ctx ends when
// the client cancels the request or has gone for longer than [WithGrace]; a reply is
// then not sent any more. The call must return soon after, since [Server.Serve]
// waits for it. A panic is logged and counts as no reply, and so does
// [runtime.Goexit].
type Next func(ctx context.Context, message []byte) (reply []byte)

// call is one call of the next function.
type call struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (c *connection) call(line []byte, msg *core.Message) {
	isRequest := msg != nil && msg.ID.Valid()
	if msg != nil && msg.Method == core.MethodCancelled && !isRequest {
		c.cancelCall(msg)
	}
	c.mu.Lock()
	full := c.count >= c.config.maxCalls
	if !full {
		c.count++
	}
	c.mu.Unlock()
	if full {
		if isRequest {
			c.out.post(c.ctx, errorLine(msg.ID, errTooManyCalls))
		}
		return
	}
	one := &call{}
	one.ctx, one.cancel = context.WithCancel(c.answers)
	if isRequest {
		c.mu.Lock()
		c.calls[msg.ID.Key()] = one
		c.mu.Unlock()
	}
	c.running.Go(func() {
		defer one.cancel()
		defer c.called(one, msg)
		var reply []byte
		err := errGoexit
		defer func() { c.answer(one, msg, reply, err) }() // also where Goexit ends the goroutine
		reply, err = c.callNext(one.ctx, line)
	})
}

// called takes a call that is over off the lists.
func (c *connection) called(one *call, msg *core.Message) {
	c.free(one, msg)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count--
}

// free frees the id of a call for another request. It is called at the latest in the
// turn of the write that answers, so that the client can use the id again at once.
func (c *connection) free(one *call, msg *core.Message) {
	if msg == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if key := msg.ID.Key(); c.calls[key] == one {
		delete(c.calls, key)
	}
}

// isRunning reports whether a request with that id is still without an answer of the
// server behind.
func (c *connection) isRunning(id core.ID) bool {
	key := id.Key()
	if c.upstream != nil {
		return c.upstream.isAsked(key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[key] != nil
}

// cancelCall ends the context of the call that a cancellation names.
func (c *connection) cancelCall(msg *core.Message) {
	id, ok := msg.Cancels()
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.calls[id.Key()]; one != nil {
		one.cancel() // from here on there is no answer
		delete(c.calls, id.Key())
	}
}

// errGoexit is how a next function fails that ends its goroutine.
var errGoexit = errors.New("mcpstdio: the function has ended its goroutine")

// answer sends what the next function has returned.
func (c *connection) answer(one *call, msg *core.Message, reply []byte, err error) {
	reply = c.reply(msg, reply, err)
	if reply == nil {
		return
	}
	if c.out.send(one.ctx, append(reply, '\n'), func() { c.free(one, msg) }) != nil {
		c.out.report()
	}
}

// reply returns what the client gets of the next function's reply, as one line.
func (c *connection) reply(msg *core.Message, reply []byte, err error) []byte {
	if err == nil && reply != nil {
		reply, err = oneLine(reply)
	}
	if err == nil && reply != nil {
		reply, _ = c.screen(reply)
	}
	isRequest := msg != nil && msg.ID.Valid()
	switch {
	case err != nil:
		c.config.log.Error("mcpstdio: the next function failed", "error", err)
		reply = nil
	case reply != nil && isRequest && msg.Method == core.MethodDiscover:
		return agree(reply, c.hub.Capabilities())
	}
	if reply == nil && isRequest {
		return bytes.TrimSpace(errorLine(msg.ID, errNoAnswer))
	}
	return reply
}

func (c *connection) callNext(ctx context.Context, line []byte) (reply []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("mcpstdio: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.config.next(ctx, line), nil
}

// oneLine returns a copy of a message without line breaks. It fails where that is
// no JSON-RPC message or batch.
func oneLine(message []byte) ([]byte, error) {
	var b bytes.Buffer
	if bytes.ContainsAny(message, "\r\n") {
		if err := json.Compact(&b, message); err != nil {
			return nil, fmt.Errorf("mcpstdio: the reply is not JSON: %w", err)
		}
	} else {
		b.Write(message)
	}
	if !isMessage(b.Bytes()) {
		return nil, fmt.Errorf("mcpstdio: the reply is no JSON-RPC message")
	}
	return b.Bytes(), nil
}

// isMessage reports whether a line can be a JSON-RPC message or batch.
func isMessage(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && (line[0] == '{' || line[0] == '[') && json.Valid(line)
}
