// Streams: one subscription, from the request to its end.

package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// Endpoint is where a server is reached: a [URL], a [Command] or a [*Pair].
type Endpoint interface {
	// check says what is wrong with the endpoint itself, before anything is sent.
	check() error
	// run sends the request and gives each message to x.take until the
	// subscription is over. It returns nil after the result, else why there is no
	// subscription any more. It returns soon after ctx ends.
	run(ctx context.Context, x *exchange) error
}

// usable returns the configuration that the options make, or what in it or in the
// other arguments is not usable.
func usable(e Endpoint, filter core.Filter, options []Option) (*config, error) {
	c, err := newConfig(options)
	switch {
	case err != nil:
	case e == nil:
		err = errors.New("client: no endpoint")
	default:
		err = e.check()
	}
	if err == nil {
		err = checkFilter(filter, c.families)
	}
	if err == nil {
		_, err = c.declared(filter)
	}
	if err != nil {
		return nil, &unusableError{err}
	}
	return c, nil
}

// unusableError is an error whose cause is [Unusable].
type unusableError struct{ error }

func (e *unusableError) Unwrap() error { return e.error }

// exchange is one subscription as a transport sees it.
type exchange struct {
	*config
	id   string
	body []byte
	take func(data []byte) (over bool, err error)
	idle time.Duration // zero: none
	read *bool         // set when bytes come after the acknowledgment
}

// Stream is one open subscription. Its methods are safe for concurrent use.
type Stream struct {
	id      string
	honored core.Filter
	left    core.Filter
	cancel  context.CancelCauseFunc
	pending *pending
	acked   chan struct{}
	done    chan struct{}
	age     time.Duration // from acknowledgment to end, -1 without one; after done
	quiet   bool          // nothing came after the acknowledgment; after done
	end     End           // after done
}

// Listen opens a subscription to what the filter covers, and returns once the
// server has acknowledged it. What changes after that is yielded by
// [Stream.Notifications]. The subscription ends with ctx at the latest.
//
// Where there is no acknowledgment, the error says why: a [*RefusedError], a
// [*ViolationError], one in whose chain is [ErrDropped], ctx's own, or what in the
// arguments is not usable. [CauseOf] tells which. A filter that asks for nothing is
// allowed: the server acknowledges it and says goodbye.
func Listen(ctx context.Context, endpoint Endpoint, filter core.Filter, options ...Option) (*Stream, error) {
	c, err := usable(endpoint, filter, options)
	if err != nil {
		return nil, err
	}
	p := newPending()
	s := open(ctx, endpoint, c, cloneFilter(filter), opening{
		pending: p,
		idle:    idleLimit(c.keepAlive),
		onAck:   func(core.Filter) {},
		onEnd:   func(e End) { p.finish(e.Cause == Local) },
	})
	select {
	case <-s.acked:
		return s, nil
	case <-s.done:
	}
	select {
	case <-s.acked: // and ended at once
		return s, nil
	default:
		return nil, s.end.Err
	}
}

// silentPeriods is how many keep-alives may fail to come before the connection
// counts as dead.
const silentPeriods = 3

func idleLimit(keepAlive time.Duration) time.Duration { return silentPeriods * max(0, keepAlive) }

// opening is what the stream of a Listen and those of a Follow do not share.
type opening struct {
	pending *pending
	idle    time.Duration
	onAck   func(honored core.Filter) // before anything after the acknowledgment is pending
	onEnd   func(End)
}

// open starts a subscription.
func open(parent context.Context, endpoint Endpoint, c *config, asked core.Filter, o opening) *Stream {
	ctx, cancel := context.WithCancelCause(parent)
	s := &Stream{
		id:      newID(),
		cancel:  cancel,
		pending: o.pending,
		acked:   make(chan struct{}),
		done:    make(chan struct{}),
		age:     -1,
	}
	patience := time.AfterFunc(c.ackTimeout, func() { cancel(ErrNoAck) })
	var ackedAt time.Time
	sub := &subscription{
		id: s.id, asked: asked, families: c.families,
		onAck: func(honored core.Filter) {
			patience.Stop()
			ackedAt = time.Now()
			s.honored, s.left = honored, leftOut(asked, honored)
			o.onAck(honored)
			close(s.acked)
		},
		onNote: o.pending.add,
	}
	read := false
	go func() {
		defer cancel(nil)
		defer patience.Stop()
		body, err := c.encodeListen(ctx, s.id, asked)
		if err == nil {
			err = endpoint.run(ctx, &exchange{config: c, id: s.id, body: body, take: sub.take, idle: o.idle, read: &read})
		}
		s.end = endOf(s.explain(ctx, err))
		if sub.acked {
			s.age, s.quiet = time.Since(ackedAt), !read
		}
		o.onEnd(s.end)
		close(s.done)
	}()
	return s
}

// explain returns the error that a subscription ended with, given what its
// transport reports: where the context had ended, that is the reason, unless the
// server's last word came first.
func (s *Stream) explain(ctx context.Context, err error) error {
	switch CauseOf(err) {
	case Graceful, Refused, Violation:
		return err
	}
	if ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if cause == ErrNoAck { //nolint:errorlint // exactly this value is our own timer's
		return dropped(ErrNoAck, nil)
	}
	return &localError{cause}
}

// ID returns the request's id, which the server's messages carry.
func (s *Stream) ID() string { return s.id }

// Honored returns the part of the filter that the server honors. It may be
// empty.
func (s *Stream) Honored() core.Filter { return cloneFilter(s.honored) }

// LeftOut returns the part of the filter that the server does not honor.
func (s *Stream) LeftOut() core.Filter { return cloneFilter(s.left) }

// Notifications yields what changed, until the subscription has ended and all
// that came before the end was yielded; after a local end, until that. Leaving
// the loop does not end the subscription. Where several loops run, each
// notification goes to one of them.
func (s *Stream) Notifications() iter.Seq[Notification] { return s.pending.all() }

// End waits until the subscription has ended and tells how.
func (s *Stream) End() End {
	<-s.done
	return s.end
}

// Close ends the subscription from this side, and waits until nothing of it is
// left. It is not an error to call it twice, or late.
func (s *Stream) Close() {
	s.cancel(ErrClosed)
	<-s.done
}

func (p *pending) all() iter.Seq[Notification] {
	return func(yield func(Notification) bool) {
		for {
			n, ok := p.take()
			if !ok || !yield(n) {
				return
			}
		}
	}
}
