// Answers that are no stream: JSON-RPC errors with their HTTP status, and
// results.

package mcphttp

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// refusalStatus is the HTTP status of each refusal whose code does not tell.
var refusalStatus = map[core.Refusal]int{
	core.RefusedMethod:         http.StatusNotFound,
	core.RefusedAccept:         http.StatusNotAcceptable,
	core.RefusedContentType:    http.StatusUnsupportedMediaType,
	core.RefusedTooLarge:       http.StatusRequestEntityTooLarge,
	core.RefusedOrigin:         http.StatusForbidden,
	core.RefusedHost:           http.StatusForbidden,
	core.RefusedAuth:           http.StatusForbidden,
	core.RefusedLimit:          http.StatusServiceUnavailable,
	core.RefusedOpening:        http.StatusServiceUnavailable,
	core.RefusedPrincipalLimit: http.StatusTooManyRequests,
	core.RefusedShutdown:       http.StatusServiceUnavailable,
}

// status returns the HTTP status that goes with an error.
func status(e *core.Error) int {
	if d := (*denial)(nil); errors.As(e, &d) {
		return d.status
	}
	if s, ok := refusalStatus[e.Refusal]; ok {
		return s
	}
	switch e.Code {
	case core.CodeInternalError:
		return http.StatusInternalServerError
	case core.CodeMethodNotFound:
		return http.StatusNotFound
	default:
		return http.StatusBadRequest
	}
}

// Deny returns the error with which an Authorizer refuses a request over HTTP
// with a status of its choice, 401 or 403 as a rule. A challenge becomes the
// WWW-Authenticate header; empty means none. The message is the same for every
// cause, so that nobody learns from it which resources exist.
//
// A status that is no client error becomes 403.
func Deny(status int, challenge string) error {
	if status < 400 || status > 499 {
		status = http.StatusForbidden
	}
	return &core.Error{
		Code: core.CodeInvalidRequest, Message: "not allowed", Refusal: core.RefusedAuth,
		Err: &denial{status: status, challenge: challenge},
	}
}

type denial struct {
	status    int
	challenge string
}

func (d *denial) Error() string { return "mcphttp: denied with status " + strconv.Itoa(d.status) }

func errTooLarge() *core.Error {
	return &core.Error{Code: core.CodeInvalidRequest, Message: "the body is too large", Refusal: core.RefusedTooLarge}
}

func headerMismatch(header string) *core.Error {
	return &core.Error{
		Code: core.CodeHeaderMismatch, Message: "the header " + header + " is missing or differs from the body",
		Refusal: core.RefusedHeader,
	}
}

// refuse answers with an error and tells the hub's observer.
func (x *exchange) refuse(msg *core.Message, meta core.Meta, err error) verdict {
	e := core.AsError(err)
	refused := core.Refused{Meta: meta, Err: e, Arrival: x.arrival()}
	if msg != nil {
		refused.ID, refused.Method = msg.ID, msg.Method
	}
	x.h.hub.Refuse(x.r.Context(), refused)
	x.answerError(refused.ID, e)
	return answered
}

func (x *exchange) answerError(id core.ID, e *core.Error) {
	if e.RetryAfter > 0 {
		x.w.Header().Set("Retry-After", retryAfter(e.RetryAfter))
	}
	if d := (*denial)(nil); errors.As(e, &d) && d.challenge != "" {
		x.w.Header().Set("WWW-Authenticate", d.challenge)
	}
	x.answer(status(e), message{ID: encodeID(id), Error: &errorMember{e.Code, e.Message, e.Data}})
}

// retryAfter returns the header's value in seconds: the advised time and up to
// half as much again, so that those refused together do not all come back
// together.
func retryAfter(d time.Duration) string {
	d += rand.N(d/2 + 1)
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// message is a JSON-RPC response.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *errorMember    `json:"error,omitempty"`
}

type errorMember struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// encodeID returns the id's exact bytes, nothing for no id.
func encodeID(id core.ID) json.RawMessage {
	if !id.Valid() {
		return nil
	}
	return json.RawMessage(id.String())
}

func (x *exchange) answer(status int, m message) {
	m.Version = "2.0"
	x.begun = true
	// encoding/json compacts a raw message and escapes HTML in it: an id's bytes
	// would not stay what they were.
	encoded, err := json.Marshal(message{Version: m.Version, Result: m.Result, Error: m.Error})
	if err != nil {
		x.w.WriteHeader(http.StatusInternalServerError)
		return
	}
	const head = `{"jsonrpc":"2.0"`
	body := make([]byte, 0, len(encoded)+len(m.ID)+len(`,"id":`)+1)
	body = append(body, head...)
	if m.ID != nil {
		body = append(body, `,"id":`...)
		body = append(body, m.ID...)
	}
	body = append(body, encoded[len(head):]...)
	body = append(body, '\n')
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	// A client that has gone needs no answer.
	_, _ = x.w.Write(body)
}
