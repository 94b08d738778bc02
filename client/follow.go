// Following: a subscription that is kept up, one stream after another.

package client

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// Follower is a subscription that is kept up. Its methods are safe for
// concurrent use.
type Follower struct {
	cancel  context.CancelCauseFunc
	pending *pending
	done    chan struct{}
	end     End // after done

	mu      sync.Mutex
	honored core.Filter
	left    core.Filter
}

// Follow keeps a subscription up until ctx ends, and returns at once. After a
// graceful end, after a drop and after a refusal that may pass it comes back,
// each time with a new request id, after a wait that [Backoff] and the server's
// Retry-After decide (up to an hour of it). [WithOnRetry] says so.
//
// The protocol replays nothing, so each acknowledgment is told to the consumer:
// the first one as [Started], one after a gap as [Relist], before anything that
// came after it. What was pending from before the gap is covered by it.
//
// It stops, and [Follower.End] tells why:
//   - when ctx ends or Close is called,
//   - when the server refuses for good ([RefusedError.Permanent]): -32601, and
//     every other refusal of a request that will not become better. So is a 401,
//     unless there is a token source, which is then asked up to five times in a
//     row; and a 403. A 404 that is no JSON-RPC error, from a server that has
//     acknowledged before, is taken for a deploy instead,
//   - when the server honors nothing of the filter ([ErrNothingHonored]),
//   - when five streams in a row ended because the server broke the protocol,
//   - when the endpoint is a [Pair] that has ended, or a [Command] that does not
//     exist or may not be run and never did ([ErrCommand]).
//
// It fails where the endpoint, the filter or an option is not usable: the cause is
// [Unusable]. The filter must ask for something.
func Follow(ctx context.Context, endpoint Endpoint, filter core.Filter, options ...Option) (*Follower, error) {
	c, err := usable(endpoint, filter, options)
	if err == nil && filter.Empty() {
		err = &unusableError{errors.New("client: the filter asks for nothing")}
	}
	if err != nil {
		return nil, err
	}
	f := &Follower{pending: newPending(), done: make(chan struct{})}
	ctx, f.cancel = context.WithCancelCause(ctx)
	go f.run(ctx, endpoint, c, cloneFilter(filter))
	return f, nil
}

func (f *Follower) run(ctx context.Context, endpoint Endpoint, c *config, filter core.Filter) {
	defer close(f.done)
	defer f.cancel(nil)
	r := newRetrier(c)
	event := Started
	for {
		s := open(ctx, endpoint, c, filter, opening{
			pending: f.pending,
			idle:    r.idle,
			onAck: func(honored core.Filter) {
				f.mu.Lock()
				f.honored, f.left = honored, leftOut(filter, honored)
				f.mu.Unlock()
				if !honored.Empty() {
					f.pending.restart(event)
					event = Relist
				}
			},
			onEnd: func(End) {},
		})
		nothing := false
		select {
		case <-s.acked:
			// Coming back for nothing, or staying for it, helps nobody.
			if nothing = s.honored.Empty(); nothing {
				s.Close()
			}
		case <-s.done:
		}
		end := s.End()
		if nothing && ctx.Err() == nil {
			f.finish(End{Graceful, ErrNothingHonored})
			return
		}
		wait, again := r.after(end, s.age, s.quiet)
		if p, ok := endpoint.(*Pair); ok && p.ended() {
			again = false
		}
		if !again {
			f.finish(end)
			return
		}
		c.log.Debug("mcplisten: subscription ended", "end", end.String(), "age", s.age, "wait", wait)
		if c.onRetry != nil {
			c.onRetry(Retry{end, wait, r.attempt})
		}
		if !sleep(ctx, wait) {
			f.finish(endOf(&localError{context.Cause(ctx)}))
			return
		}
	}
}

func (f *Follower) finish(end End) {
	f.end = end
	f.pending.finish(end.Cause == Local)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Notifications yields what changed, and the events [Started] and [Relist],
// until following has ended and all that came before was yielded; after a local
// end, until that. Leaving the loop does not end the following. Where several
// loops run, each notification goes to one of them.
func (f *Follower) Notifications() iter.Seq[Notification] { return f.pending.all() }

// Honored returns the part of the filter that the server honored in its newest
// acknowledgment. It may change with each, since servers do.
func (f *Follower) Honored() core.Filter {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cloneFilter(f.honored)
}

// LeftOut returns the part of the filter that the newest acknowledgment left out.
func (f *Follower) LeftOut() core.Filter {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cloneFilter(f.left)
}

// End waits until following has ended and tells why it did.
func (f *Follower) End() End {
	<-f.done
	return f.end
}

// Close ends the following and waits until nothing of it is left. It is not an
// error to call it twice, or late.
func (f *Follower) Close() {
	f.cancel(ErrClosed)
	<-f.done
}
