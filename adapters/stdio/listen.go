// Listening: the subscriptions of one connection, told apart by the request's id.

package mcpstdio

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// listening is one listen request that is being opened, or open.
type listening struct {
	c      *connection
	id     core.ID
	ctx    context.Context // the subscription's. Once it has ended nothing is written
	cancel context.CancelFunc
}

// maxUnsure is how many listen requests of one connection may be on their way to an
// answer. Beyond them the client is not listened to for a while, and then refused, so
// that one that asks and never reads costs a bounded number of goroutines. Open
// subscriptions are the hub's to limit.
const maxUnsure = 1000

// listen opens a subscription. Opening may take its time: it happens on the
// subscription's own goroutine. What the client sends next finds the id taken, or
// to be cancelled, all the same.
func (c *connection) listen(msg *core.Message) {
	meta, err := msg.Meta()
	var req *core.Request
	if err == nil {
		req, err = c.hub.ParseListen(msg, meta)
	}
	if err == nil && c.isOpen(msg.ID) {
		err = errIDOpen
	}
	if err == nil && c.isRunning(msg.ID) {
		err = errIDRunning // its answer would pass for the subscription's result
	}
	if err == nil && !c.makeSure() {
		err = errTooManyListens
	}
	if err != nil {
		c.refuse(msg, meta, err)
		return
	}
	l := &listening{c: c, id: req.ID}
	l.ctx, l.cancel = context.WithCancel(c.ctx)
	c.mu.Lock()
	c.open[l.id.Key()] = l
	c.mu.Unlock()
	opening := core.Opening{
		Request:   req,
		Principal: c.principal,
		Arrival:   arrival(),
		Connect:   func() (core.Conn, error) { return &conn{l: l}, nil },
	}
	c.running.Go(func() { l.run(opening) })
}

// makeSure takes one of the places of listen requests without an answer. It fails
// where none gets free for as long as one write may take, and from then on at once,
// until there is one.
func (c *connection) makeSure() bool {
	select {
	case c.unsure <- struct{}{}:
		c.crowded = false
		return true
	default:
	}
	if c.crowded {
		return false
	}
	timer := time.NewTimer(c.config.writeTimeout)
	defer timer.Stop()
	select {
	case c.unsure <- struct{}{}:
		return true
	case <-c.ctx.Done():
	case <-timer.C:
		c.crowded = true
	}
	return false
}

func (l *listening) run(opening core.Opening) {
	defer l.cancel()
	defer l.forget()
	defer l.c.out.report()
	s, err := l.c.hub.Open(l.ctx, opening)
	if err != nil {
		// A client that has cancelled, or gone, is not told.
		_ = l.c.out.send(l.ctx, errorLine(l.id, core.AsError(err)), l.forget)
	}
	<-l.c.unsure
	if err == nil {
		s.Serve()
	}
}

// forget frees the id for another request. It is called at the latest in the turn
// of the write that tells the client of the end, so that the client can use the id
// again at once.
func (l *listening) forget() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if key := l.id.Key(); l.c.open[key] == l {
		delete(l.c.open, key)
	}
}

func (c *connection) isOpen(id core.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[id.Key()] != nil
}

// cancel ends the subscription of a request, if there is one. Nothing of it is
// written from here on but what is being written right now.
func (c *connection) cancel(id core.ID) bool {
	c.mu.Lock()
	l := c.open[id.Key()]
	c.mu.Unlock()
	if l == nil {
		return false
	}
	l.cancel()
	l.forget()
	return true
}

// conn writes one subscription. It is a [core.Conn].
type conn struct {
	l    *listening
	buf  *[]byte // what is not yet written, nil while there is nothing
	last bool    // with the result, which is the last message
}

// buffers holds scratch space, so that an idle subscription keeps none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// chunk is how much is gathered before it is written.
const chunk = 16 << 10

// WriteMessage gathers one line: JSON on the wire has no line breaks, since those
// in strings are escaped and core writes none between values.
func (c *conn) WriteMessage(msg []byte) error {
	if c.buf == nil {
		c.buf = buffers.Get().(*[]byte)
	}
	*c.buf = append(append(*c.buf, msg...), '\n')
	c.last = c.last || isResult(msg)
	if len(*c.buf) < chunk {
		return nil
	}
	return c.Flush()
}

// WriteKeepAlive does nothing: the transport has no sign of life.
func (c *conn) WriteKeepAlive() error { return nil }

// Flush writes what was gathered.
func (c *conn) Flush() error {
	if c.buf == nil {
		return nil
	}
	var claim func()
	if c.last {
		claim = c.l.forget
	}
	err := c.l.c.out.send(c.l.ctx, *c.buf, claim)
	// After an error, the lines may still be in the middle of being written.
	if err == nil && cap(*c.buf) <= 2*chunk {
		*c.buf = (*c.buf)[:0]
		buffers.Put(c.buf)
	}
	c.buf = nil
	return err
}

// isResult reports whether a message of a subscription is its result: of all that
// core writes, nothing else begins with an id.
func isResult(msg []byte) bool {
	return bytes.HasPrefix(msg, []byte(`{"jsonrpc":"2.0","id":`))
}
