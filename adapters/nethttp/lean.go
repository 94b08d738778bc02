// Lean streams: the connection is taken over from net/http once the acknowledgment
// is written. What net/http keeps of a request, four fifths of a stream's memory,
// goes, and so does the handler's goroutine: what is left waits for the client to go
// away.

package mcphttp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// leanConn writes one stream. It is a [core.Conn]: the ordinary one until the
// connection is taken over, then chunks of the HTTP/1.1 body that was begun
// (RFC 9112, section 7.1).
type leanConn struct {
	opening *leanOpening // until then

	net     net.Conn
	raw     syscall.RawConn // writes without waiting; nil where the connection has none
	timeout time.Duration
	armed   bool // with a deadline, since something had to wait

	buf *[]byte // a chunk in the making, nil while there is nothing
}

// leanOpening is what a lean stream has before it is one.
type leanOpening struct {
	*conn
	hijacker http.Hijacker
	header   http.Header // as it was written
	broken   bool        // the acknowledgment was not written
}

// canBeLean returns the connection to be taken over, or why it cannot be.
func (x *exchange) canBeLean(to route) (_ *leanConn, why string) {
	switch {
	case !x.h.config.lean:
		return nil, ""
	case x.r.ProtoMajor != 1 || x.r.ProtoMinor < 1:
		return nil, x.r.Proto
	case x.r.TLS != nil:
		return nil, "TLS"
	}
	hijacker := innermostHijacker(to.w)
	if hijacker == nil {
		return nil, "a middleware's response writer hides the connection"
	}
	return &leanConn{opening: &leanOpening{hijacker: hijacker, header: to.w.Header()}, timeout: x.h.config.writeTimeout}, ""
}

// cannotBeLean says in the log, once, that a stream is an ordinary one.
func (h *Handler) cannotBeLean(why string) {
	h.notLean.Do(func() {
		h.config.log.Warn("mcphttp: a stream cannot be lean, and is served in the ordinary way", "cause", why)
	})
}

// innermostHijacker returns net/http's own writer behind w, or what hides it. nil is
// none: wrappers have a Hijack method also where what they wrap has none, so only the
// innermost counts.
func innermostHijacker(w http.ResponseWriter) http.Hijacker {
	for {
		inner := unwrap(w, true)
		if inner == nil {
			h, _ := w.(http.Hijacker)
			return h
		}
		w = inner
	}
}

// hijack takes the connection. Some wrappers panic where there is none to take.
func hijack(h http.Hijacker) (c net.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a middleware's response writer: %v", p)
		}
	}()
	c, _, err = h.Hijack()
	return c, err
}

// takeOver takes the connection over and starts the subscription. Where it cannot, it
// reports false, and all is as it was.
func (l *leanConn) takeOver(s *core.Subscription, h *Handler) bool {
	if l.opening.broken {
		return false
	}
	// Some middlewares say so only when the first bytes come, so it is asked now.
	header := l.opening.header
	switch encoding := header.Get("Content-Encoding"); {
	case encoding != "" && encoding != "identity":
		h.cannotBeLean("a middleware encodes the response")
		return false
	case header.Get("Transfer-Encoding") != "" || header.Get("Content-Length") != "":
		h.cannotBeLean("a middleware says how the body is framed") // not in chunks
		return false
	}
	c, err := hijack(l.opening.hijacker)
	if err != nil {
		h.cannotBeLean(err.Error())
		return false
	}
	l.opening, l.net, l.raw = nil, c, rawConn(c)
	s.Start(func(core.End) { _ = c.Close() })
	go await(c, s, l.raw != nil)
	return true
}

// maxIgnored is how much a client may send behind its request, in bytes. There is
// nothing more to say on a connection that ends with its stream.
const maxIgnored = 64 << 10

// await waits until the client has gone, or sends and sends. It has a small stack:
// what waits here waits for the life of the stream. A plain connection has no read
// deadline but one that a middleware sets through the request, which is over: some do
// when its context ends. Any other connection may have its own.
func await(c net.Conn, s *core.Subscription, plain bool) {
	_, err := c.Read(make([]byte, 1))
	for plain && errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if err == nil {
		_, _ = io.CopyN(io.Discard, c, maxIgnored)
	}
	s.Leave()
}

func (l *leanConn) WriteMessage(msg []byte) error {
	if o := l.opening; o != nil {
		return o.note(o.conn.WriteMessage(msg))
	}
	b := l.chunk()
	*b = appendEvent(*b, msg)
	if len(*b) < chunk {
		return nil
	}
	return l.write("")
}

func (l *leanConn) WriteKeepAlive() error {
	if o := l.opening; o != nil {
		return o.note(o.conn.WriteKeepAlive())
	}
	b := l.chunk()
	*b = append(*b, keepAlive...)
	return nil
}

// WriteEnd implements [core.Ender]: the last chunk goes out with the result.
func (l *leanConn) WriteEnd() error {
	if l.opening != nil {
		return nil // that is net/http's
	}
	return l.write("0\r\n\r\n")
}

// Flush sends what was written.
func (l *leanConn) Flush() error {
	if o := l.opening; o != nil {
		return o.note(o.conn.Flush())
	}
	err := l.write("")
	if l.armed {
		l.armed = false
		_ = l.net.SetWriteDeadline(time.Time{})
	}
	return err
}

func (o *leanOpening) note(err error) error {
	o.broken = o.broken || err != nil
	return err
}

// sizeSpace is room in front of a chunk for its size and a line break.
const sizeSpace = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\r\n"

func (l *leanConn) chunk() *[]byte {
	if l.buf == nil {
		l.buf = buffers.Get().(*[]byte)
		*l.buf = append(*l.buf, sizeSpace...)
	}
	return l.buf
}

// write sends the chunk, and behind it what the body ends with.
func (l *leanConn) write(end string) error {
	if l.buf == nil && end == "" {
		return nil
	}
	b := *l.chunk()
	start := len(sizeSpace)
	if size := len(b) - len(sizeSpace); size > 0 {
		var digits [8]byte
		hex := strconv.AppendInt(digits[:0], int64(size), 16)
		start = len(sizeSpace) - len("\r\n") - len(hex)
		copy(b[start:], hex)
		b = append(b, "\r\n"...)
	}
	b = append(b, end...)
	err := l.send(b[start:])
	*l.buf = b
	putBack(l.buf)
	l.buf = nil
	return err
}

// send writes b. There is a deadline only where the client is not quick enough, and
// then one for all that is written until the next flush is done: a client that takes a
// little now and then must not stretch it.
func (l *leanConn) send(b []byte) error {
	if !l.armed {
		n, err := writeNow(l.raw, b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil // a deadline that is none of ours: see await
		}
		if b = b[n:]; err != nil || len(b) == 0 {
			return err
		}
		_ = l.net.SetWriteDeadline(time.Now().Add(l.timeout)) // some connections have none
		l.armed = true
	}
	_, err := l.net.Write(b)
	return err
}
