// The seams: small interfaces between the engine and what is around it.

package core

import (
	"context"
	"time"
)

// Conn is what a transport gives the hub to write to: the way to one client.
//
// The hub calls a Conn from one goroutine at a time, not always the same, and never
// after [Subscription.Serve] has returned. A call may block. The slices are valid only during the call.
type Conn interface {
	// WriteMessage writes one JSON-RPC message. It may buffer until Flush.
	WriteMessage(msg []byte) error
	// WriteKeepAlive writes the transport's sign of life, which is no message.
	// It may buffer until Flush. A transport without one does nothing.
	WriteKeepAlive() error
	// Flush sends what was written. Where it gives up because the client does
	// not read, its error wraps [ErrSlowClient] or os.ErrDeadlineExceeded.
	Flush() error
}

// Ender is a [Conn] that has something of its own to write behind the result: the
// end of a body, say.
type Ender interface {
	// WriteEnd is called after WriteMessage of the result and before its Flush.
	WriteEnd() error
}

// Watcher is told which resources somebody listens to, so that an application
// can watch its files, tables or upstream servers only while it matters.
//
// For one URI, Start and Stop alternate and never overlap; calls for different
// URIs run side by side. Both may block; they must not wait for a subscription
// to end.
type Watcher interface {
	// Start starts watching uri, for its first subscriber and before that
	// subscriber's acknowledgment. ctx bounds the start alone, not the watch. An
	// error refuses the listen request; an [*Error] says with what.
	Start(ctx context.Context, uri string) error
	// Stop ends the watch after the last subscriber has left.
	Stop(uri string)
}

// Matcher says which subscribed URIs a changed resource concerns. The default,
// nil, is the exact string.
//
// Cover calls yield with each URI whose subscribers are to hear of a change of
// the resource uri, and stops when yield returns false. It runs under the hub's
// lock on the publisher's goroutine: it must be quick and must not call the hub.
type Matcher interface {
	Cover(uri string, yield func(subscribed string) bool)
}

// Observer is told of each step. It holds no telemetry types; package mcpotel
// has one that makes spans and metrics. A nil Observer costs nothing.
//
// Its methods are called from many goroutines. They should be quick: they hold
// up the stream, or the publisher, that they are told of, and others for a moment.
type Observer interface {
	// Accepted is called when a request has passed every check, just before the
	// acknowledgment is written. ctx is the request's. What it returns is told
	// of the rest; nil is allowed.
	Accepted(ctx context.Context, a Accepted) StreamObserver
	// Refused is called when a request was refused, just before the error is
	// answered.
	Refused(ctx context.Context, r Refused)
	// Publishing is called when a publish starts, before any subscription is
	// marked; the slice must not be kept. origin, if not nil, travels with the
	// changes and comes back in the [Delivery] of each stream that is told of
	// them. published, if not nil, is called once all subscriptions are marked.
	Publishing(ctx context.Context, changes []Change) (origin any, published func())
}

// Arrival says how a request reached a transport.
type Arrival struct {
	Received time.Time // zero means now

	// Over what it came, in the words of OpenTelemetry's network attributes: tcp or
	// pipe, http or empty, 1.1 or 2.
	NetworkTransport, NetworkProtocol, NetworkVersion string

	// Header returns the transport's header with the given name, traceparent for
	// one. It is nil where the transport has none, and valid during the call that
	// it came with.
	Header func(name string) string
}

// Accepted describes a subscription about to be acknowledged.
type Accepted struct {
	Request *Request // valid during the call only
	Stream  StreamInfo
	Arrival Arrival
}

// Refused describes a refused request, as far as it was understood.
type Refused struct {
	ID      ID
	Method  string
	Meta    Meta // valid during the call only
	Err     *Error
	Arrival Arrival
}

// StreamObserver is told of the life of one subscription. Its methods are
// called by one goroutine at a time, in this order: Acknowledged once, unless the
// Conn panicked, Delivered and KeptAlive any number of times, Closed once.
type StreamObserver interface {
	// Acknowledged is called once the acknowledgment was flushed, or failed.
	Acknowledged(err error)
	// Delivered is called after each flushed, or failed, batch of notifications.
	// The value is reused: it must not be kept.
	Delivered(d *Delivery)
	// KeptAlive is called after each keep-alive.
	KeptAlive(err error)
	// Closed is called when everything of the subscription was released.
	Closed(e End)
}

// Delivery is one batch of notifications: what was pending when the
// subscription had its turn.
type Delivery struct {
	Taken     time.Time           // when it was taken from what is pending
	Sent      [NumKinds]int       // notifications written
	Coalesced [NumKinds]int       // changes that an unsent one already stood for
	Oldest    [NumKinds]time.Time // when the oldest change in it was published
	Origins   []Origin            // whence the changes came, as far as it is known; at most 64
	Bytes     int                 // bytes of messages written
	Err       error               // nil where all of it was flushed

	// Extensions tell apart what KindExtension counts: one for each extension of which
	// there is something in the batch. The slice is reused, too.
	Extensions []ExtensionDelivery
}

// ExtensionDelivery is what of a [Delivery] is of one extension.
type ExtensionDelivery struct {
	Method    string
	Sent      int       // notifications written
	Coalesced int       // values that a newer one took the place of
	Oldest    time.Time // when the oldest value that they stand for was published
}

// Origin is the publish that a change in a [Delivery] came from. A notification
// that stands for several changes has several.
type Origin struct {
	Change Change
	From   any // what Observer.Publishing returned
}
