// Opening: the way of a request to an open subscription. Each check comes before
// anything is answered, and what was taken is given back wherever it ends.

package core

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// ParseListen makes a listen request of a message and the _meta that
// [Message.Meta] gave for it. It fails with an [*Error] where the hub's mode is
// [ModeNotFound], the request has no id, its protocol version is not supported,
// its filter is missing or malformed, a limit is passed, or the client lacks a
// capability that an extension of the filter needs.
func (h *Hub) ParseListen(msg *Message, meta Meta) (*Request, error) {
	if h.Mode() == ModeNotFound {
		return nil, &Error{Code: CodeMethodNotFound, Message: "method not found", Refusal: RefusedMethod}
	}
	return parseListen(msg, meta, h.config.Limits, h.families)
}

// Opening is what a transport brings to open a subscription.
type Opening struct {
	Request   *Request
	Principal string // who asks, as the transport authenticated them; empty for nobody
	Arrival   Arrival

	// Deadline is a time by which the transport will cut the connection. The
	// subscription ends with its result a little before. Zero means none. The
	// context's own deadline is obeyed as well.
	Deadline time.Time

	// Connect is called once the request has passed every check, and returns
	// where to write. Nothing may have been answered before. Where it fails,
	// nothing may have been answered either.
	Connect func() (Conn, error)
}

// Open opens a subscription: it authorizes and admits the request, starts its
// watches, registers it and writes the acknowledgment. ctx ends the
// subscription: it is the request's, or for a transport without requests the
// connection's.
//
// Open fails with an [*Error] and without having called Connect, or with
// Connect's error. Else the caller must call [Subscription.Serve], also where
// writing the acknowledgment failed.
func (h *Hub) Open(ctx context.Context, o Opening) (*Subscription, error) {
	if o.Arrival.Received.IsZero() {
		o.Arrival.Received = time.Now()
	}
	s, err := h.open(ctx, o)
	if err != nil {
		e := AsError(err)
		if ctx.Err() != nil && e.Refusal != RefusedShutdown {
			e = &Error{Code: CodeInternalError, Message: "the client has gone", Refusal: RefusedCanceled, Err: err}
		}
		h.Refuse(ctx, Refused{ID: o.Request.ID, Method: MethodListen, Meta: o.Request.Meta, Err: e, Arrival: o.Arrival})
		return nil, e
	}
	return s, nil
}

func (h *Hub) open(ctx context.Context, o Opening) (*Subscription, error) {
	if err := h.begin(); err != nil {
		return nil, err
	}
	s := newSubscription(ctx, h, o)
	served := false
	defer func() {
		switch {
		case served:
		case s.conn != nil: // the transport panicked
			s.release(&End{Reason: Panicked})
		default:
			s.giveBack()
			h.leave(s)
		}
	}()
	opening, opened := h.whileOpening(ctx)
	defer opened()
	grant, err := h.authorize(opening, o)
	if err != nil {
		return nil, err
	}
	if err := h.authorizeKeys(opening, &grant, o); err != nil {
		return nil, err
	}
	s.granted(grant)
	s.endAt, s.endWith = h.lifetime(ctx, o, s.grantEnd)
	if err := h.admit(s); err != nil {
		return nil, err
	}
	// Registered before the watches start, so that what a watcher publishes at
	// once is not missed.
	honored, err := h.register(s, o.Request.Filter)
	if err != nil {
		return nil, err
	}
	if err := h.watch(opening, honored.ResourceSubscriptions); err != nil {
		return nil, err
	}
	s.watched = true
	h.started(s)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn, err := o.Connect()
	if err != nil {
		return nil, err
	}
	s.acknowledge(conn, o, honored)
	served = true
	return s, nil
}

// whileOpening returns ctx for the hooks of one Open, which a closing hub cancels.
func (h *Hub) whileOpening(ctx context.Context) (_ context.Context, opened func()) {
	if h.config.Authorizer == nil && h.config.Watcher == nil && len(h.families) == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.closed, cancel)
	return ctx, func() { stop(); cancel() }
}

// watch starts the watches of uris.
func (h *Hub) watch(ctx context.Context, uris []string) error {
	err := h.watches.startAll(ctx, uris)
	return h.refusedBy(err, CodeInternalError, RefusedWatch, "a resource cannot be watched")
}

// refusedBy makes the refusal of a hook's error: the hook's own, or one that
// tells nothing.
func (h *Hub) refusedBy(err error, code int, refusal Refusal, message string) error {
	var own *Error
	switch {
	case err == nil:
		return nil
	case h.closing.Load():
		h.mu.RLock()
		defer h.mu.RUnlock()
		return h.shuttingDown()
	case errors.As(err, &own):
		named := *own
		if named.Refusal == "" {
			named.Refusal = refusal
		}
		return &named
	case errors.Is(err, errHookPanicked):
		return &Error{Code: CodeInternalError, Message: "internal error", Refusal: RefusedPanic, Err: err}
	default:
		return &Error{Code: code, Message: message, Refusal: refusal, Err: err}
	}
}

// lifetime returns when, and why, the subscription is to end by itself.
func (h *Hub) lifetime(ctx context.Context, o Opening, grantEnd int64) (endAt int64, reason Reason) {
	endAt, reason = grantEnd, GrantExpired
	earlier := func(after time.Duration, why Reason) {
		if at := later(h.deadlines.now(), max(0, after)); at < endAt {
			endAt, reason = at, why
		}
	}
	if life := h.config.MaxLifetime; life > 0 {
		jitter := time.Duration((rand.Float64() - 0.5) / 5 * float64(life))
		earlier(time.Duration(later(int64(life), jitter)), MaxLifetime)
	}
	if at, ok := ctx.Deadline(); ok {
		earlier(beforeDeadline(time.Until(at)), Deadline)
	}
	if !o.Deadline.IsZero() {
		earlier(beforeDeadline(time.Until(o.Deadline)), Deadline)
	}
	return endAt, reason
}

// beforeDeadline returns when to end with a result where the connection is cut
// after left: early enough to be flushed, late enough to be of use.
func beforeDeadline(left time.Duration) time.Duration {
	return left - min(left/10, 500*time.Millisecond)
}

// register puts a subscription into the index and returns the honored filter.
// That is settled under the lock under which the mode changes, too.
func (h *Hub) register(s *Subscription, requested Filter) (honored Filter, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing.Load() {
		return Filter{}, h.shuttingDown()
	}
	honored = h.honor(requested)
	h.index.add(s, honored)
	h.index.addKeys(s, h.families, honored)
	return honored, nil
}

func (h *Hub) unregister(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.index.remove(s)
	h.index.removeKeys(s)
}
