// Answers: JSON-RPC responses, one a line.

package mcpstdio

import (
	"encoding/json"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

var (
	errIDOpen = &core.Error{
		Code: core.CodeInvalidRequest, Message: "the id is that of an open subscription", Refusal: core.RefusedRequest,
	}
	errIDRunning = &core.Error{
		Code: core.CodeInvalidRequest, Message: "the id is that of a request without an answer yet", Refusal: core.RefusedRequest,
	}
	errTooManyListens = &core.Error{
		Code: core.CodeInternalError, Message: "too many listen requests at a time", Refusal: core.RefusedOpening,
	}
	// Of requests that are not the hub's, and not in its statistics.
	errTooManyCalls = &core.Error{Code: core.CodeInternalError, Message: "too many requests at a time"}
	errNoAnswer     = &core.Error{Code: core.CodeInternalError, Message: "internal error"}
)

// refuse answers with an error and tells the hub's observer.
func (c *connection) refuse(msg *core.Message, meta core.Meta, err error) {
	e := core.AsError(err)
	refused := core.Refused{Meta: meta, Err: e, Arrival: arrival()}
	if msg != nil {
		refused.ID, refused.Method = msg.ID, msg.Method
	}
	c.hub.Refuse(c.ctx, refused)
	c.out.post(c.ctx, errorLine(refused.ID, e))
}

func arrival() core.Arrival {
	return core.Arrival{Received: time.Now(), NetworkTransport: "pipe"}
}

// errorLine returns a line with an error.
func errorLine(id core.ID, e *core.Error) []byte {
	encoded, err := json.Marshal(struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	}{e.Code, e.Message, e.Data})
	if err != nil { // data that is no JSON
		encoded, _ = json.Marshal(map[string]any{"code": e.Code, "message": e.Message})
	}
	return responseLine(id, "error", encoded)
}

// responseLine returns a line with a response, the id's bytes as they are. No id
// means that it could not be read.
func responseLine(id core.ID, member string, value []byte) []byte {
	b := []byte(`{"jsonrpc":"2.0"`)
	if id.Valid() {
		b = append(b, `,"id":`...)
		b = append(b, id.String()...)
	}
	b = append(b, `,"`...)
	b = append(b, member...)
	b = append(b, `":`...)
	b = append(b, value...)
	return append(b, "}\n"...)
}
