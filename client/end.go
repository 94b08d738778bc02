// Ends: how a subscription ended, as values that a program can switch on.

package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// Cause says in one word how a subscription ended, or why there was none.
type Cause string

// The causes.
const (
	Graceful  Cause = "graceful"  // the server said goodbye: the result came
	Dropped   Cause = "dropped"   // the connection ended, or never was, without a word of the server
	Refused   Cause = "refused"   // the server answered with an error: see RefusedError
	Local     Cause = "local"     // the context ended, or Close was called
	Violation Cause = "violation" // the server broke the protocol: see ViolationError
	Unusable  Cause = "unusable"  // the endpoint, the filter or an option is not usable: nothing was sent
)

// End tells how a subscription ended.
type End struct {
	Cause Cause

	// Err is what happened. It is nil for Graceful only, and then not always: see
	// ErrNothingHonored.
	Err error
}

// String returns the cause and what happened.
func (e End) String() string {
	if e.Err == nil {
		return string(e.Cause)
	}
	return string(e.Cause) + ": " + strings.TrimPrefix(e.Err.Error(), "client: ")
}

// Sentinels for errors.Is. Those that say so are in the chain of ErrDropped.
var (
	// ErrDropped is in the chain of every error whose cause is [Dropped].
	ErrDropped = errors.New("client: the stream was dropped")
	// ErrUnreachable says that no answer came at all: the name, the connection,
	// TLS, or a command that does not start. Dropped.
	ErrUnreachable = errors.New("client: no answer from the server")
	// ErrCommand says that there is no such command, or that it may not be run.
	// Dropped, and in the chain of ErrUnreachable as well.
	ErrCommand = errors.New("client: the command cannot be run")
	// ErrNoAck says that the acknowledgment did not come in time. Dropped.
	ErrNoAck = errors.New("client: no acknowledgment in time")
	// ErrIdle says that nothing came for longer than the idle timeout: the
	// connection counts as dead. Dropped.
	ErrIdle = errors.New("client: nothing came for three keep-alive periods")
	// ErrToken says that the token source failed, so that nothing was sent.
	// Dropped.
	ErrToken = errors.New("client: no token")
	// ErrClosed says that Close was called. The cause is [Local].
	ErrClosed = errors.New("client: closed")
	// ErrNothingHonored is why [Follow] stops at a server that honors nothing of
	// the filter: it would for ever come back for nothing. The cause is
	// [Graceful].
	ErrNothingHonored = errors.New("client: the server honors nothing of the filter")
)

// CauseOf returns the cause behind an error of this package: [Graceful] for nil,
// [Local] for a context's error and [ErrClosed], and [Dropped] for what it does
// not know.
func CauseOf(err error) Cause {
	var local *localError
	var refused *RefusedError
	var violation *ViolationError
	var unusable *unusableError
	switch {
	case errors.As(err, &unusable):
		return Unusable
	case errors.As(err, &local):
		return Local
	case err == nil, errors.Is(err, ErrNothingHonored):
		return Graceful
	case errors.As(err, &refused):
		return Refused
	case errors.As(err, &violation):
		return Violation
	case errors.Is(err, ErrDropped):
		return Dropped
	case errors.Is(err, ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Local
	default:
		return Dropped
	}
}

// RefusedError is the server's answer that there is no subscription, or, where
// Acknowledged says so, that there is no more.
type RefusedError struct {
	Status  int    // of HTTP; 200 for an error within a stream, 0 where there is no HTTP
	Code    int    // JSON-RPC error code, 0 where the answer was no JSON-RPC error
	Message string // of the JSON-RPC error, or the beginning of the body; not to be trusted
	Data    []byte // JSON: the error's data, nil for none

	// RetryAfter is how long the server asks to be left alone; zero means that it
	// does not say.
	RetryAfter time.Duration

	// Challenge is the WWW-Authenticate header of a 401 or 403.
	Challenge string

	// Acknowledged says that the subscription had been acknowledged before.
	Acknowledged bool
}

// Error names status, code and message.
func (e *RefusedError) Error() string {
	var b strings.Builder
	b.WriteString("client: refused")
	if e.Status != 0 {
		fmt.Fprintf(&b, " with HTTP status %d", e.Status)
	}
	if e.Code != 0 {
		fmt.Fprintf(&b, ", JSON-RPC error %d", e.Code)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %q", e.Message)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, " (retry after %v)", e.RetryAfter)
	}
	return b.String()
}

// Permanent reports whether asking again cannot help: the method does not exist
// (-32601), the request is not acceptable as it is (a 4xx status, or the JSON-RPC
// error that goes with one), or access is denied. It is false for 408, 425, 429,
// every 5xx, other codes, and wherever the server says when to come back.
func (e *RefusedError) Permanent() bool {
	switch {
	case e.Code == core.CodeMethodNotFound:
		return true
	case e.RetryAfter > 0:
		return false
	case e.Status == 408 || e.Status == 425 || e.Status == 429 || e.Status >= 500:
		return false
	case e.Status >= 300:
		return true
	}
	switch e.Code {
	case core.CodeParseError, core.CodeInvalidRequest, core.CodeInvalidParams, core.CodeHeaderMismatch,
		core.CodeMissingCapability, core.CodeUnsupportedVersion:
		return true
	}
	return false
}

// Rule names a rule of the protocol that a server broke.
type Rule string

// The rules.
const (
	NotJSON     Rule = "not_json"     // a message is not JSON
	Malformed   Rule = "malformed"    // a message is JSON, but none that belongs here
	TooLarge    Rule = "too_large"    // a message is over the limit
	NotAStream  Rule = "not_a_stream" // success, and no event stream
	WrongID     Rule = "wrong_id"     // a message for another subscription, or for none
	BeforeAck   Rule = "before_ack"   // something came before the acknowledgment
	SecondAck   Rule = "second_ack"   // the acknowledgment came twice
	BadAck      Rule = "bad_ack"      // it honors what was not asked for, or cannot be read
	Unrequested Rule = "unrequested"  // a kind, a URI or a key outside the honored filter
	AfterResult Rule = "after_result" // something came after the result
)

// ViolationError says which rule a server broke.
type ViolationError struct {
	Rule   Rule
	Detail string // for people; may quote the server
}

// Error names the rule and the detail.
func (e *ViolationError) Error() string {
	return "client: the server broke the protocol (" + string(e.Rule) + "): " + e.Detail
}

func violation(rule Rule, format string, args ...any) *ViolationError {
	return &ViolationError{rule, fmt.Sprintf(format, args...)}
}

// dropped puts err into the chain of ErrDropped, behind a more precise sentinel
// where there is one. That then says what happened: there may have been no stream.
func dropped(sentinel, err error) error {
	said := ErrDropped
	if sentinel != nil {
		said = sentinel
	}
	if err == nil {
		return droppedError{said}
	}
	return droppedError{fmt.Errorf("%w: %w", said, err)}
}

type droppedError struct{ err error }

func (e droppedError) Error() string        { return e.err.Error() }
func (e droppedError) Unwrap() error        { return e.err }
func (e droppedError) Is(target error) bool { return target == ErrDropped }

// localError is the end of a context: its cause may be any error, another
// subscription's for one.
type localError struct{ err error }

func (e *localError) Error() string { return "client: ended here: " + e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// endOf makes an End of the error that a subscription ended with.
func endOf(err error) End { return End{Cause: CauseOf(err), Err: err} }
