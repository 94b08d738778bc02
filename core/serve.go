// Serving: what is done in a subscription's turns. Nothing else writes to the Conn:
// the acknowledgment first, then batch by batch what is pending, a keep-alive after
// silence, and at last the result.

package core

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// acknowledge writes the acknowledgment. A failure is kept for Serve.
func (s *Subscription) acknowledge(conn Conn, o Opening, honored Filter) {
	s.conn = conn
	panicked := s.observe(o)
	b := newBatch(s)
	err := b.writeAcknowledged(honored)
	b.free()
	if err == nil {
		err = s.flush()
	}
	if s.observed != nil {
		panicked = s.hub.hook("StreamObserver.Acknowledged", func() error {
			s.observed.Acknowledged(err)
			return nil
		})
	}
	switch {
	case err != nil:
		s.conn = failedConn{err}
		s.end(writeReason(s.contextErr(), err))
	case panicked != nil:
		s.end(Panicked)
	case honored.Empty():
		s.end(Completed)
	}
	s.hub.deadlines.add(s)
}

// failedConn takes the place of a Conn that failed at the acknowledgment: nothing
// may follow, whatever else ends the subscription.
type failedConn struct{ err error }

func (c failedConn) WriteMessage([]byte) error { return c.err }
func (c failedConn) WriteKeepAlive() error     { return c.err }
func (c failedConn) Flush() error              { return c.err }

// observe gets the subscription's observer.
func (s *Subscription) observe(o Opening) error {
	if s.hub.config.Observer == nil {
		return nil
	}
	return s.hub.hook("Observer.Accepted", func() error {
		stream := s.hub.config.Observer.Accepted(s.ctx, Accepted{Request: o.Request, Stream: s.info(), Arrival: o.Arrival})
		if stream != nil {
			s.mu.Lock()
			s.observed = &observed{StreamObserver: stream}
			s.mu.Unlock()
		}
		return nil
	})
}

// Serve delivers what is published until the subscription ends, and returns how
// it ended. When it returns, everything of the subscription has been released
// and its Conn is not used any more. Serve or [Subscription.Start] must be called,
// exactly once.
//
// A panic of the Conn goes on in Serve, after everything was released.
//
// A goroutine keeps the stack that it once needed, and this one waits for as long
// as the stream lives. So it does nothing else: see [writers].
func (s *Subscription) Serve() End {
	done := make(chan *closing, 1)
	s.start(func(c *closing) { done <- c })
	var c *closing
	select {
	case c = <-done:
	case <-s.ctx.Done():
		s.rouse()
		c = <-done
	}
	if c.panicked != nil {
		panic(c.panicked)
	}
	return c.end
}

// Start is [Subscription.Serve] for a transport that has no goroutine to spare: it
// returns at once, and calls ended, from another goroutine, when Serve would have
// returned. A panic of the Conn is logged and goes no further. From Start on the
// context of [Hub.Open] does not count any more, neither its end nor its values;
// the transport must call [Subscription.Leave] when the client has gone.
func (s *Subscription) Start(ended func(End)) {
	if errors.Is(s.ctx.Err(), context.Canceled) {
		s.gone.Store(true)
		s.rouse()
	}
	s.ctx = context.Background()
	if r := s.recheck; r != nil {
		s.ctx, r.stop = context.WithCancel(s.ctx)
	}
	s.start(func(c *closing) { s.stopAsking(); ended(c.end) })
}

// Leave says that the client has gone: the subscription ends without a result. It
// is only for a subscription that was started with [Subscription.Start], and does
// not wait.
func (s *Subscription) Leave() {
	s.gone.Store(true)
	s.stopAsking()
	s.rouse()
}

// stopAsking ends a re-check that is under way, of a subscription without a context
// of its own.
func (s *Subscription) stopAsking() {
	if r := s.recheck; r != nil {
		r.stop()
	}
}

// contextErr is the error of the subscription's context, or what would be.
func (s *Subscription) contextErr() error {
	if s.gone.Load() {
		return context.Canceled
	}
	return s.ctx.Err()
}

// closing is the end of a subscription on its way to the transport.
type closing struct {
	end      End
	panicked any // what the Conn panicked with
}

func (s *Subscription) start(closed func(*closing)) {
	s.closed = closed
	s.yield()
}

// A subscription has one turn at a time: that of whoever opens it, then those of
// the writers. rouse gives it another.
const (
	turnTaken  int32 = iota // somebody runs it
	turnAgain               // and it is to run once more
	turnFree                // nobody does
	turnQueued              // it stands in line for a writer
)

// rouse has the subscription run, now or once more.
func (s *Subscription) rouse() {
	for {
		switch s.turn.Load() {
		case turnFree:
			if s.turn.CompareAndSwap(turnFree, turnQueued) {
				s.hub.writers.add(s)
				return
			}
		case turnTaken:
			if s.turn.CompareAndSwap(turnTaken, turnAgain) {
				return
			}
		default:
			return
		}
	}
}

// yield ends a turn.
func (s *Subscription) yield() {
	if !s.turn.CompareAndSwap(turnTaken, turnFree) {
		s.turn.Store(turnQueued)
		s.hub.writers.add(s)
	}
}

// run is one turn. A subscription that has ended keeps it.
func (s *Subscription) run() {
	defer s.hub.survive()
	s.turn.Store(turnTaken)
	c := (*closing)(nil)
	defer func() {
		switch {
		case c == nil: // a panic, or a hook that ended the goroutine
			c = &closing{end: End{Reason: Panicked}, panicked: recover()}
			if c.panicked != nil {
				s.hub.log.Error("mcplisten: a transport panicked", "panic", c.panicked, "stack", string(debug.Stack()))
			}
		case c == unended:
			s.yield()
			return
		}
		defer s.closed(c)
		s.release(&c.end)
	}()
	c = s.step()
}

// survive keeps a panic on a writer, which is nobody's goroutine, from ending the
// process: one of a transport that closes its connection.
func (h *Hub) survive() {
	if p := recover(); p != nil {
		h.log.Error("mcplisten: a panic when a subscription had ended", "panic", p, "stack", string(debug.Stack()))
	}
}

// unended is the closing of a subscription that goes on.
var unended = new(closing)

// step does what there is to do, and returns how the subscription ended where that
// was the end.
func (s *Subscription) step() *closing {
	s.mu.Lock()
	ending, dirty, tick := s.ending, s.dirty, s.tick
	s.dirty, s.tick = false, false
	s.mu.Unlock()

	now := s.hub.deadlines.now()
	if ending != "" || now >= s.endAt || s.contextErr() != nil {
		c := new(closing)
		s.conclude(&c.end, ending, now)
		return c
	}
	var err error
	if dirty {
		err = s.deliver(false)
	}
	if err == nil && tick {
		err = s.ticked(now) // if nothing was to be delivered after all
	}
	if err == nil {
		return unended
	}
	c := new(closing)
	s.failed(&c.end, err)
	return c
}

// conclude ends the subscription for the reason that was asked for, or that time
// or the context give.
//
//go:noinline
func (s *Subscription) conclude(end *End, ending Reason, now int64) {
	switch err := s.contextErr(); {
	case ending == SlowClient, ending == WriteError, ending == ClientClosed, ending == Panicked:
		*end = End{Reason: ending}
		if failed, ok := s.conn.(failedConn); ok {
			end.Err = failed.err
		}
		return
	case errors.Is(err, context.DeadlineExceeded):
		// The context has ended but the connection has not.
		ending = firstReason(ending, Deadline)
	case err != nil:
		*end = End{Reason: ClientClosed}
		return
	case now >= s.endAt:
		ending = firstReason(ending, s.endWith)
	}
	if now >= s.grantEnd && ending != Revoked {
		ending = GrantExpired // whatever else: nothing is delivered after it
	}
	*end = s.finish(ending, ending.deliversFirst())
}

func firstReason(asked, due Reason) Reason {
	if asked != "" {
		return asked
	}
	return due
}

// failed ends the subscription after a failed write or hook, or a lapse.
//
//go:noinline
func (s *Subscription) failed(end *End, err error) {
	if l := (*lapse)(nil); errors.As(err, &l) {
		*end = s.finish(l.reason, false)
		if end.Err == nil {
			end.Err = l.err // a failing database looks like mass revocation otherwise
		}
		return
	}
	if errors.Is(err, errHookPanicked) {
		*end = End{Reason: Panicked, Err: err}
		return
	}
	*end = End{Reason: writeReason(s.contextErr(), err), Err: err}
}

// deliver takes what is pending and writes a notification for each member of the
// set, and the result behind them if it is the last time. It flushes once.
func (s *Subscription) deliver(last bool) error {
	b := newBatch(s)
	var err error
	if s.recheck != nil {
		err = s.permit(b)
	}
	if err == nil {
		err = b.writePending()
	}
	if err == nil && last {
		err = b.writeResult()
	}
	lapsed := error(nil)
	if err != nil && isLapse(err) {
		lapsed, err = err, nil
	}
	if err == nil && (b.total > 0 || last && lapsed == nil) {
		err = s.flush()
	}
	panicked := s.delivered(b, err)
	b.free()
	switch {
	case err != nil:
		return err
	case lapsed != nil:
		return lapsed
	default:
		return panicked
	}
}

// delivered counts a batch and tells the observer.
func (s *Subscription) delivered(b *batch, err error) error {
	if b.total == 0 {
		return nil
	}
	s.mu.Lock()
	s.counts.Bytes += uint64(b.bytes)
	if err == nil {
		s.counts.Delivered += uint64(b.total)
	}
	s.mu.Unlock()
	if s.observed == nil {
		return nil
	}
	return s.tellDelivered(b, err)
}

//go:noinline
func (s *Subscription) tellDelivered(b *batch, err error) error {
	d := &s.observed.delivery
	*d = Delivery{Sent: b.sent, Coalesced: b.coalesced, Origins: b.origins, Bytes: b.bytes, Err: err, Extensions: d.Extensions[:0]}
	d.Taken = s.hub.deadlines.at(b.taken)
	for _, f := range b.families {
		f.Oldest = s.hub.deadlines.at(f.oldest)
		d.Extensions = append(d.Extensions, f.ExtensionDelivery)
	}
	for k, at := range b.oldest {
		if at != 0 {
			d.Oldest[k] = s.hub.deadlines.at(at)
		}
	}
	return s.hub.hook("StreamObserver.Delivered", func() error {
		s.observed.Delivered(d)
		return nil
	})
}

// ticked does what is due by time: it asks whether the grant still holds, always
// before a sign of life, and after enough silence writes that.
func (s *Subscription) ticked(now int64) error {
	if s.recheck != nil && now >= min(s.recheckAt(), s.keepAliveAt()) {
		if err := s.ask(); err != nil {
			return err
		}
	}
	if now >= s.keepAliveAt() {
		return s.keepAlive()
	}
	return nil
}

// keepAlive writes a sign of life.
func (s *Subscription) keepAlive() error {
	err := s.conn.WriteKeepAlive()
	if err == nil {
		err = s.flush()
	}
	if err == nil {
		s.mu.Lock()
		s.counts.KeepAlives++
		s.mu.Unlock()
	}
	if o := s.observed; o != nil {
		panicked := s.hub.hook("StreamObserver.KeptAlive", func() error {
			o.KeptAlive(err)
			return nil
		})
		if err == nil {
			return panicked
		}
	}
	return err
}

// finish ends the subscription with its result, and with what is pending before
// it.
func (s *Subscription) finish(reason Reason, pending bool) End {
	end := End{Reason: reason}
	if pending {
		end.Err = s.deliver(true)
		if l := (*lapse)(nil); errors.As(end.Err, &l) {
			return s.finish(l.reason, false)
		}
	} else {
		b := newBatch(s)
		if end.Err = b.writeResult(); end.Err == nil {
			end.Err = s.flush()
		}
		b.free()
	}
	end.Graceful = end.Err == nil || errors.Is(end.Err, errHookPanicked)
	if end.Graceful {
		return end
	}
	switch failed := writeReason(s.contextErr(), end.Err); {
	case failed == ClientClosed:
		end.Reason = ClientClosed
	case reason == Shutdown:
		end.Err = fmt.Errorf("%w: %w", ErrNotFlushed, end.Err)
	default:
		end.Reason = failed
	}
	return end
}

func (s *Subscription) flush() error {
	err := s.conn.Flush()
	s.lastWrite.Store(s.hub.deadlines.now())
	return err
}

// release gives back everything, whatever the end, and tells who wants to know.
func (s *Subscription) release(end *End) {
	h := s.hub
	defer h.leave(s) // these come also where a hook ends the goroutine
	end.Stream = s.info()
	h.stats.close(end)
	if h.config.OnEnd != nil {
		defer func() { _ = h.hook("OnEnd", func() error { h.config.OnEnd(*end); return nil }) }()
	}
	if o := s.observed; o != nil {
		defer func() { _ = h.hook("StreamObserver.Closed", func() error { o.Closed(*end); return nil }) }()
	}
	s.giveBack()
	attrs := []any{
		"serial", s.serial, "reason", end.Reason, "graceful", end.Graceful,
		"age", time.Duration(s.hub.deadlines.now() - s.opened), "delivered", end.Stream.Delivered,
	}
	if end.Err != nil {
		attrs = append(attrs, "error", end.Err)
	}
	h.log.Debug("mcplisten: subscription ended", attrs...)
}
