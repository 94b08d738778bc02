// Listening: from a listen request to its open stream.

package mcphttp

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

func (x *exchange) listen(msg *core.Message) verdict {
	meta, err := msg.Meta()
	if err == nil {
		err = x.checkHeaders(msg, meta)
	}
	var req *core.Request
	if err == nil {
		req, err = x.h.hub.ParseListen(msg, meta)
	}
	if err == nil {
		err = checkAccept(x.r.Header)
	}
	var to route
	if err == nil {
		if to, err = findRoute(x.w); err != nil {
			x.cannotStream(err)
		}
	}
	if err != nil {
		return x.refuse(msg, meta, err)
	}
	opening := core.Opening{
		Request:  req,
		Arrival:  x.arrival(),
		Deadline: x.cutBy(to.control),
		Connect:  func() (core.Conn, error) { return x.connect(to) },
	}
	if x.principal != nil {
		opening.Principal = x.principal()
	}
	subscription, err := x.h.hub.Open(x.r.Context(), opening)
	switch {
	case err != nil:
		x.answerError(msg.ID, core.AsError(err))
		return answered
	case x.lean != nil && x.lean.takeOver(subscription, x.h):
		return answered
	default:
		x.subscription = subscription
		return streaming
	}
}

// arrival says how the request came, for the hub's observer.
func (x *exchange) arrival() core.Arrival {
	version := strconv.Itoa(x.r.ProtoMajor)
	if x.r.ProtoMajor == 1 {
		version += "." + strconv.Itoa(x.r.ProtoMinor)
	}
	return core.Arrival{
		Received: x.received, NetworkTransport: "tcp", NetworkProtocol: "http", NetworkVersion: version,
		Header: x.r.Header.Get,
	}
}

// checkHeaders compares the headers with the body, as the Streamable HTTP
// transport of MCP 2026-07-28 demands: a proxy may have routed by the one what
// we read in the other.
func (x *exchange) checkHeaders(msg *core.Message, meta core.Meta) error {
	if !headerIs(x.r.Header, headerMethod, msg.Method) {
		return headerMismatch(headerMethod)
	}
	if !headerIs(x.r.Header, headerVersion, meta.ProtocolVersion) {
		return headerMismatch("MCP-Protocol-Version")
	}
	return nil
}

// headerIs reports whether a header is there once and has the value.
func headerIs(header http.Header, name, value string) bool {
	values := header[name]
	return len(values) == 1 && values[0] == value
}

// cutBy takes the server's write deadline off the connection. Where something in
// between hides the connection, it returns when the server will cut it; else the
// zero time.
func (x *exchange) cutBy(control deadliner) time.Time {
	server, _ := x.r.Context().Value(http.ServerContextKey).(*http.Server)
	if server != nil && x.r.ProtoMajor == 2 && (server.HTTP2 == nil || server.HTTP2.WriteByteTimeout == 0) {
		x.h.noByteTimeout.Do(func() {
			x.h.config.log.Warn("mcphttp: http.Server's HTTP2.WriteByteTimeout is not set: a client that reads nothing at all keeps its streams; RegisterShutdown sets it")
		})
	}
	if control != nil && control.SetWriteDeadline(time.Time{}) == nil {
		return time.Time{}
	}
	if server == nil || server.WriteTimeout <= 0 {
		return time.Time{}
	}
	x.h.noDeadline.Do(func() {
		x.h.config.log.Warn("mcphttp: a wrapped response writer hides the write deadline: streams end before the server's WriteTimeout",
			"write_timeout", server.WriteTimeout)
	})
	return x.received.Add(server.WriteTimeout)
}

// connect writes the headers of the stream. They are sent with the
// acknowledgment.
func (x *exchange) connect(to route) (core.Conn, error) {
	x.begun = true
	lean, why := x.canBeLean(to)
	headers := []http.Header{x.w.Header(), to.w.Header()}
	if lean != nil {
		for _, header := range headers {
			header.Set("Connection", "close")
		}
	} else if x.h.config.lean {
		x.h.cannotBeLean(why)
	}
	if err := to.writeHeaders(x.w); err != nil {
		x.begun = false
		if lean != nil {
			for _, header := range headers {
				header.Del("Connection")
			}
		}
		x.cannotStream(err)
		return nil, err
	}
	c := newConn(to, x.h.config.writeTimeout)
	c.plain = x.r.ProtoMajor == 1 && x.r.TLS == nil
	x.conn = c
	if held := to.holdsBack(); held != nil {
		c.check = func() error {
			if !held() {
				return nil
			}
			x.cannotStream(errHeldBack)
			return errHeldBack
		}
	}
	if lean != nil {
		lean.opening.conn = c
		x.lean = lean
		return lean, nil
	}
	return c, nil
}

// cannotStream tells the operator, once, that the service's own middleware is in
// the way.
func (x *exchange) cannotStream(err error) {
	x.h.inTheWay.Do(func() {
		x.h.config.log.Error("mcphttp: a middleware does not let streams through", "error", err,
			"writer", fmt.Sprintf("%T", x.w))
	})
}
