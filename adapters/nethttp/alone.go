// A handler on its own: what an endpoint answers that has no other MCP server
// behind it.

package mcphttp

import (
	"net/http"

	"github.com/mcplisten/mcplisten/core"
)

func (x *exchange) answerAlone(msg *core.Message) verdict {
	switch {
	case !msg.ID.Valid():
		// A notification, which cannot be answered: notifications/cancelled of
		// clients that send it, for one.
		x.w.WriteHeader(http.StatusAccepted)
		return answered
	case msg.Method == core.MethodDiscover:
		return x.discover(msg)
	default:
		return x.refuse(msg, core.Meta{}, core.MethodNotFound(msg.Method))
	}
}

func (x *exchange) discover(msg *core.Message) verdict {
	meta, err := msg.Meta()
	if err == nil {
		err = x.checkHeaders(msg, meta)
	}
	if err == nil {
		err = meta.CheckVersion()
	}
	if err != nil {
		return x.refuse(msg, meta, err)
	}
	x.answer(http.StatusOK, message{ID: encodeID(msg.ID), Result: x.h.hub.Discover()})
	return answered
}
