// Errors: one type that carries what a client may know, and the sentinels that
// callers branch on.

package core

import (
	"encoding/json"
	"errors"
	"time"
)

// Refusal says, as one of a closed set of words, why a request was refused. It
// is meant for counters and spans; clients never see it.
type Refusal string

// The refusals.
const (
	RefusedParse          Refusal = "parse_error"         // not JSON
	RefusedRequest        Refusal = "invalid_request"     // no usable JSON-RPC request
	RefusedParams         Refusal = "invalid_params"      // _meta, filter or a limit of the filter
	RefusedHeader         Refusal = "header_mismatch"     // headers and body disagree
	RefusedVersion        Refusal = "unsupported_version" // protocol version
	RefusedCapability     Refusal = "missing_capability"  // the client lacks a capability that an extension needs
	RefusedMethod         Refusal = "method_not_found"    // not a method of this endpoint
	RefusedAccept         Refusal = "not_acceptable"      // the client takes no event stream
	RefusedContentType    Refusal = "unsupported_media"   // the body is not declared as JSON
	RefusedTooLarge       Refusal = "too_large"           // body over the limit
	RefusedOrigin         Refusal = "origin"              // Origin not allowed
	RefusedHost           Refusal = "host"                // Host not allowed
	RefusedAuth           Refusal = "unauthorized"        // by the authorizer
	RefusedLimit          Refusal = "limit"               // streams in all
	RefusedPrincipalLimit Refusal = "principal_limit"     // streams of one principal
	RefusedOpening        Refusal = "opening_limit"       // requests being opened
	RefusedShutdown       Refusal = "shutting_down"       // the hub is closing
	RefusedWatch          Refusal = "watch"               // a watcher could not start
	RefusedTransport      Refusal = "transport"           // the transport cannot stream
	RefusedCanceled       Refusal = "canceled"            // the client left before the acknowledgment
	RefusedPanic          Refusal = "panic"               // a hook panicked
)

// Refusals returns all refusals.
func Refusals() []Refusal {
	return []Refusal{
		RefusedParse, RefusedRequest, RefusedParams, RefusedHeader, RefusedVersion, RefusedCapability, RefusedMethod, RefusedAccept,
		RefusedContentType, RefusedTooLarge, RefusedOrigin, RefusedHost, RefusedAuth, RefusedLimit, RefusedPrincipalLimit,
		RefusedOpening, RefusedShutdown, RefusedWatch, RefusedTransport, RefusedCanceled, RefusedPanic,
	}
}

// Error is a refusal as a client may see it: a JSON-RPC error code and a short
// fixed message that echoes nothing of the request. Every failure of this
// package that reaches a client is one.
type Error struct {
	Code    int             // JSON-RPC error code
	Message string          // short, safe to send
	Data    json.RawMessage // the error's data member, nil for none
	Refusal Refusal         // why, for telemetry

	// RetryAfter is how long the client should wait before it tries again; zero
	// means no advice. Transports add the jitter.
	RetryAfter time.Duration

	// Err is the cause. It is for logs and errors.Is, never for clients.
	Err error
}

// Error returns the message with the package's prefix and the cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return "core: " + e.Message + ": " + e.Err.Error()
	}
	return "core: " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Sentinels for errors.Is.
var (
	// ErrShutdown is in the chain of every refusal that a closing hub makes.
	ErrShutdown = errors.New("core: hub is shutting down")
	// ErrLimit is in the chain of every refusal at a limit on streams.
	ErrLimit = errors.New("core: limit reached")
	// ErrDuplicateMember is in the chain of every refusal of a message that names
	// a member twice where that would let two readers see two requests.
	ErrDuplicateMember = errors.New("core: a member name stands twice")
	// ErrNotFlushed is in the chain of the error of an [End] that was to be
	// graceful, of a hub shutting down, and whose result did not get out.
	ErrNotFlushed = errors.New("core: the result could not be flushed")
	// ErrMessageTooLarge is what a [Broker] wraps for a message that it never takes.
	ErrMessageTooLarge = errors.New("core: the broker takes no message of this size")
	// ErrUnsent is what [Hub.Shutdown] wraps where the broker did not take the last
	// changes.
	ErrUnsent = errors.New("core: the other nodes were not told of everything")
	// ErrSlowClient is what a [Conn] wraps when a write did not finish within
	// its deadline.
	ErrSlowClient = errors.New("core: client too slow")
)

// AsError returns err as an [*Error]: itself where it is or wraps one, else an
// internal error with err as its cause and a message that tells nothing.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternalError, Message: "internal error", Refusal: RefusedTransport, Err: err}
}

func refuse(code int, refusal Refusal, message string) *Error {
	return &Error{Code: code, Message: message, Refusal: refusal}
}

func invalidRequest(message string) *Error {
	return refuse(CodeInvalidRequest, RefusedRequest, message)
}

// notTwice is the refusal of err, a failure of members whose callback did not
// fail: a name stands twice in the object called where.
func notTwice(where string, err error) *Error {
	e := invalidRequest("a member name stands twice in " + where)
	e.Err = err
	return e
}

func invalidParams(message string) *Error {
	return refuse(CodeInvalidParams, RefusedParams, message)
}
