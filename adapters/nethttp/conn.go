// The connection: server-sent events, a deadline around every write, and a flush
// that tells when the client has gone.

package mcphttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// conn writes one stream. It is a [core.Conn].
type conn struct {
	w       http.ResponseWriter
	control deadliner
	flusher flusher
	timeout time.Duration // zero: the writer knows no deadlines
	until   time.Time     // the deadline of the flush under way; zero between flushes
	plain   bool          // HTTP/1 without TLS: a deadline that passes between writes harms nothing

	buf   *[]byte      // what is not yet written, nil while there is nothing
	check func() error // called after the first flush; may be nil
}

func newConn(to route, timeout time.Duration) *conn {
	c := &conn{w: to.w, control: to.control, flusher: to.flusher, timeout: timeout}
	if c.control == nil {
		c.timeout = 0
	}
	return c
}

// buffers holds scratch space, so that an idle stream keeps none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// chunk is how much is gathered before it is written: enough for one write per
// flush in all ordinary cases.
const chunk = 16 << 10

// appendEvent appends a message as one event of one data line. JSON has no raw line
// breaks, so one line always holds it.
func appendEvent(b, msg []byte) []byte {
	b = append(b, "data: "...)
	b = append(b, msg...)
	return append(b, "\n\n"...)
}

// keepAlive is a comment, which clients skip.
const keepAlive = ": keep-alive\n\n"

func (c *conn) WriteMessage(msg []byte) error {
	b := c.scratch()
	*b = appendEvent(*b, msg)
	return c.spill()
}

func (c *conn) WriteKeepAlive() error {
	b := c.scratch()
	*b = append(*b, keepAlive...)
	return c.spill()
}

func (c *conn) scratch() *[]byte {
	if c.buf == nil {
		c.buf = buffers.Get().(*[]byte)
	}
	return c.buf
}

// spill writes what was gathered, if it is much.
func (c *conn) spill() error {
	if len(*c.buf) < chunk {
		return nil
	}
	if err := c.arm(); err != nil {
		return err
	}
	return c.explain(c.write())
}

// Flush sends what was written.
func (c *conn) Flush() error {
	err := c.arm()
	if err == nil {
		err = c.write()
	}
	if err == nil {
		err = c.flusher.flush()
	}
	if err == nil && c.check != nil {
		err = c.check()
		c.check = nil
	}
	err = c.explain(err)
	if c.until = (time.Time{}); !c.plain {
		c.disarm()
	}
	return err
}

// write hands the gathered bytes to the response writer.
func (c *conn) write() error {
	if c.buf == nil {
		return nil
	}
	n, err := c.w.Write(*c.buf)
	if err == nil && n < len(*c.buf) {
		err = io.ErrShortWrite
	}
	if err == nil { // else HTTP/2 may still have hold of the bytes
		putBack(c.buf)
	}
	c.buf = nil
	return err
}

func putBack(buf *[]byte) {
	if cap(*buf) <= 2*chunk {
		*buf = (*buf)[:0]
		buffers.Put(buf)
	}
}

// arm sets the deadline for all that is written until the next flush is done. It is
// one deadline however much that is: a client that takes a little now and then must
// not stretch it. It fails where the deadline has passed.
func (c *conn) arm() error {
	switch {
	case c.timeout == 0:
		return nil
	case !c.until.IsZero():
		if !time.Now().Before(c.until) {
			return core.ErrSlowClient
		}
		return nil
	}
	c.until = time.Now().Add(c.timeout)
	if err := c.control.SetWriteDeadline(c.until); errors.Is(err, http.ErrNotSupported) {
		c.timeout, c.until = 0, time.Time{}
	}
	return nil
}

// disarm takes the deadline away again: left armed, it would reset an idle HTTP/2
// stream, spoil a TLS connection that has to write because it reads, and cut short the
// next response on an HTTP/1.1 connection. Where none of them can happen before the
// stream has ended, that is soon enough: it costs a twentieth of a delivery.
func (c *conn) disarm() {
	if c.timeout != 0 {
		_ = c.control.SetWriteDeadline(time.Time{})
	}
}

// explain makes the error of a write that passed its deadline say so: HTTP/2
// resets the stream and then only tells that it is closed.
func (c *conn) explain(err error) error {
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) || c.until.IsZero() || time.Now().Before(c.until) {
		return err
	}
	return fmt.Errorf("%w: %w", core.ErrSlowClient, err)
}
