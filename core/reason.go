// Close reasons: why a subscription ended, as a closed set of words.

package core

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Reason says why a subscription ended.
type Reason string

// The reasons. Those that say so end with the result, which tells the client
// that the end is no fault.
const (
	ClientClosed Reason = "client_closed" // the client went away or cancelled; no result
	Completed    Reason = "completed"     // the application ended it, or nothing was honored; result
	MaxLifetime  Reason = "max_lifetime"  // result
	GrantExpired Reason = "grant_expired" // result
	Revoked      Reason = "revoked"       // the grant was withdrawn; result
	Deadline     Reason = "deadline"      // of the request context, or of the transport; result
	Shutdown     Reason = "shutdown"      // of the hub; result, unless it could not be flushed
	SlowClient   Reason = "slow_client"   // a write did not finish in time; no result
	WriteError   Reason = "write_error"   // a write failed otherwise; no result
	Panicked     Reason = "panic"         // in a hook; no result
)

// Reasons returns all close reasons.
func Reasons() []Reason {
	return []Reason{
		ClientClosed, Completed, MaxLifetime, GrantExpired, Revoked, Deadline, Shutdown, SlowClient, WriteError, Panicked,
	}
}

// deliversFirst reports whether what is still pending goes out before the
// result. It does not where the right to it has ended.
func (r Reason) deliversFirst() bool { return r != GrantExpired && r != Revoked }

// End tells how a subscription ended.
type End struct {
	Reason   Reason
	Graceful bool  // a result was flushed as the last message
	Err      error // what failed, nil where nothing did
	Stream   StreamInfo
}

// writeReason is the close reason for a failed write; ended is the error of the
// subscription's context.
func writeReason(ended, err error) Reason {
	switch {
	case errors.Is(err, ErrSlowClient), errors.Is(err, os.ErrDeadlineExceeded):
		return SlowClient
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe), ended != nil:
		return ClientClosed
	default:
		return WriteError
	}
}
