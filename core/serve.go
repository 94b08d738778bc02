// Serving: what a subscription's own goroutine does. It is the only one that
// writes to the Conn: the acknowledgment first, then batch by batch what is
// pending, a keep-alive after silence, and at last the result.

package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errNotFlushed is the error of a graceful end whose result did not get out.
var errNotFlushed = errors.New("core: the result could not be flushed")

// acknowledge writes the acknowledgment. A failure is kept for Serve.
func (s *Subscription) acknowledge(conn Conn, o Opening, honored Filter) {
	s.conn = conn
	panicked := s.observe(o)
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	*buf = appendAcknowledged((*buf)[:0], s.id, honored)
	err := s.write(*buf)
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
		s.end(writeReason(s.ctx, err))
	case panicked != nil:
		s.end(Panicked)
	case honored.Empty():
		s.end(Completed)
	}
	s.hub.deadlines.add(s)
}

// observe gets the subscription's observer.
func (s *Subscription) observe(o Opening) error {
	if s.hub.config.Observer == nil {
		return nil
	}
	return s.hub.hook("Observer.Accepted", func() error {
		stream := s.hub.config.Observer.Accepted(s.ctx, Accepted{Request: o.Request, Stream: s.info(), Received: o.Received})
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
// and its Conn is not used any more. It must be called exactly once.
//
// A panic of the Conn passes through, after everything was released.
func (s *Subscription) Serve() (end End) {
	end.Reason = Panicked // unless it returns
	defer func() { s.release(&end) }()
	for {
		select {
		case <-s.ctx.Done():
		case <-s.wake:
		}
		if over := s.step(&end); over {
			return end
		}
	}
}

// step does what there is to do after a wake-up and reports whether that was the
// end. It is apart from Serve so that a waiting goroutine's stack stays small.
func (s *Subscription) step(end *End) (over bool) {
	s.mu.Lock()
	ending, dirty, silent := s.ending, s.dirty, s.silent
	s.dirty, s.silent = false, false
	s.mu.Unlock()

	now := s.hub.deadlines.now()
	switch err := s.ctx.Err(); {
	case ending == SlowClient, ending == WriteError, ending == ClientClosed, ending == Panicked:
		*end = End{Reason: ending}
		return true
	case errors.Is(err, context.DeadlineExceeded):
		// The context has ended but the connection has not.
		ending = firstReason(ending, Deadline)
	case err != nil:
		*end = End{Reason: ClientClosed}
		return true
	case now >= s.endAt:
		ending = firstReason(ending, s.endWith)
	}

	var err error
	switch {
	case ending != "":
		*end = s.finish(ending)
		return true
	case dirty:
		err = s.deliver(false)
	case silent && now-s.lastWrite.Load() >= int64(s.hub.config.KeepAlive):
		err = s.keepAlive()
	}
	switch {
	case err == nil:
		return false
	case errors.Is(err, errHookPanicked):
		*end = End{Reason: Panicked, Err: err}
	default:
		*end = End{Reason: writeReason(s.ctx, err), Err: err}
	}
	return true
}

func firstReason(asked, due Reason) Reason {
	if asked != "" {
		return asked
	}
	return due
}

// deliver takes what is pending and writes a notification for each member of the
// set, and the result behind them if it is the last time. It flushes once.
func (s *Subscription) deliver(last bool) error {
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	b := batch{s: s, buf: *buf}
	err := b.writePending()
	if err == nil && last {
		err = b.writeResult()
	}
	if err == nil {
		err = s.flush()
	}
	*buf = b.buf // it may have grown
	panicked := s.delivered(&b, err)
	if err != nil {
		return err
	}
	return panicked
}

// batch is one delivery in the making.
type batch struct {
	s     *Subscription
	buf   []byte
	sent  [NumKinds]int
	bytes int
	// What the observer is told of what was taken.
	oldest    [NumKinds]int64
	coalesced [NumKinds]int
}

func (b *batch) writePending() error {
	s := b.s
	s.mu.Lock()
	kinds, first, below, words := s.pending.takeKinds(), s.pending.takeWord(0), s.pending.takeBelow(), s.pending.words()
	if o := s.observed; o != nil {
		b.oldest, b.coalesced = o.oldest, o.coalesced
		o.oldest, o.coalesced = [NumKinds]int64{}, [NumKinds]int{}
	}
	s.mu.Unlock()
	if err := eachBit(uint64(kinds), func(k int) error {
		return b.write(Kind(k), appendListChanged(b.buf[:0], Kind(k), s.id))
	}); err != nil {
		return err
	}
	for w := range words {
		set := first
		if w > 0 {
			s.mu.Lock()
			set = s.pending.takeWord(w)
			s.mu.Unlock()
		}
		if err := eachBit(set, func(i int) error {
			return b.write(KindResourceUpdated, appendUpdated(b.buf[:0], s.id, s.uris[64*w+i].entry.uri))
		}); err != nil {
			return err
		}
	}
	for _, uri := range below {
		if err := b.write(KindResourceUpdated, appendUpdated(b.buf[:0], s.id, uri)); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) write(k Kind, msg []byte) error {
	b.buf = msg
	b.sent[k]++
	b.bytes += len(msg)
	return b.s.conn.WriteMessage(msg)
}

func (b *batch) writeResult() error {
	b.buf = appendResult(b.buf[:0], b.s.id, b.s.hub.serverInfo)
	return b.s.write(b.buf)
}

// delivered counts a batch and tells the observer.
func (s *Subscription) delivered(b *batch, err error) error {
	total := 0
	for _, n := range b.sent {
		total += n
	}
	if total == 0 {
		return nil
	}
	s.mu.Lock()
	s.counts.Bytes += uint64(b.bytes)
	if err == nil {
		s.counts.Delivered += uint64(total)
	}
	s.mu.Unlock()
	o := s.observed
	if o == nil {
		return nil
	}
	o.delivery = Delivery{Sent: b.sent, Coalesced: b.coalesced, Bytes: b.bytes, Err: err}
	for k, at := range b.oldest {
		if at != 0 {
			o.delivery.Oldest[k] = s.hub.deadlines.epoch.Add(time.Duration(at))
		}
	}
	return s.hub.hook("StreamObserver.Delivered", func() error {
		o.Delivered(&o.delivery)
		return nil
	})
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

// finish ends the subscription with its result.
func (s *Subscription) finish(reason Reason) End {
	end := End{Reason: reason}
	if reason.deliversFirst() {
		end.Err = s.deliver(true)
	} else {
		buf := buffers.Get().(*[]byte)
		defer putBuffer(buf)
		*buf = appendResult((*buf)[:0], s.id, s.hub.serverInfo)
		if end.Err = s.write(*buf); end.Err == nil {
			end.Err = s.flush()
		}
	}
	end.Graceful = end.Err == nil || errors.Is(end.Err, errHookPanicked)
	if end.Graceful {
		return end
	}
	switch failed := writeReason(s.ctx, end.Err); {
	case failed == ClientClosed:
		end.Reason = ClientClosed
	case reason == Shutdown:
		end.Err = fmt.Errorf("%w: %w", errNotFlushed, end.Err)
	default:
		end.Reason = failed
	}
	return end
}

// write writes a message that is no notification of a change.
func (s *Subscription) write(msg []byte) error {
	s.mu.Lock()
	s.counts.Bytes += uint64(len(msg))
	s.mu.Unlock()
	return s.conn.WriteMessage(msg)
}

func (s *Subscription) flush() error {
	err := s.conn.Flush()
	s.lastWrite.Store(s.hub.deadlines.now())
	return err
}

// release gives back everything, whatever the end, and tells who wants to know.
func (s *Subscription) release(end *End) {
	h := s.hub
	end.Stream = s.info()
	s.giveBack()
	if o := s.observed; o != nil {
		_ = h.hook("StreamObserver.Closed", func() error { o.Closed(*end); return nil })
	}
	if h.config.OnEnd != nil {
		_ = h.hook("OnEnd", func() error { h.config.OnEnd(*end); return nil })
	}
	h.log.Debug("mcplisten: subscription ended", "serial", s.serial, "reason", end.Reason, "graceful", end.Graceful,
		"age", time.Since(s.opened), "delivered", end.Stream.Delivered, "error", end.Err)
	h.leave()
}
