// Streams: from the acknowledgment of a subscription to its close.

package mcpotel

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/core"
)

// stream observes one subscription. Its methods are called by one goroutine at a
// time.
type stream struct {
	o    *Observer
	ctx  context.Context // has the span, and no end
	span trace.Span
	ack  trace.Span // nil once it has ended

	op                 operation
	received, accepted time.Time

	budget budget  // of spans of deliveries
	failed failure // what could not be written
}

// failure is what failed to be written. Why is told by the close that follows it,
// so it is recorded then.
type failure struct {
	at        time.Time // of the acknowledgment
	sent      [core.KindExtension]int
	values    []core.ExtensionDelivery
	spans     []trace.Span // of deliveries
	keepAlive bool
}

// Acknowledged ends the span of the acknowledgment, which is exported at once.
func (s *stream) Acknowledged(err error) {
	now := time.Now()
	if err != nil {
		s.failed.at = now
		return
	}
	s.acknowledged(now, "")
}

func (s *stream) acknowledged(at time.Time, errorType string) {
	if errorType != "" {
		s.ack.SetAttributes(keyErrorType.String(errorType))
		s.ack.SetStatus(codes.Error, describe(errorType))
	}
	s.ack.End(trace.WithTimestamp(at))
	s.ack = nil
	s.op.errorType = errorType
	s.o.metrics.recordOperation(s.ctx, s.op, at.Sub(s.received).Seconds())
}

// Delivered counts a batch.
func (s *stream) Delivered(d *core.Delivery) {
	m := s.o.metrics
	for k, n := range d.Coalesced[:core.KindExtension] {
		if n > 0 {
			m.coalesced.Add(s.ctx, int64(n), m.kinds[k].add...)
		}
	}
	for _, x := range d.Extensions {
		if x.Coalesced > 0 {
			m.coalesced.Add(s.ctx, int64(x.Coalesced), m.extension(x.Method).add...)
		}
	}
	if d.Err != nil {
		s.failed.sent = [core.KindExtension]int(d.Sent[:core.KindExtension])
		s.failed.values = slices.Clone(d.Extensions)
		s.failed.spans = s.deliveries(d)
		return
	}
	now := time.Now()
	s.deliveredValues(d.Extensions, now)
	for k, n := range d.Sent[:core.KindExtension] {
		if n == 0 {
			continue
		}
		m.sent.Add(s.ctx, int64(n), m.kinds[k].add...)
		if oldest := d.Oldest[k]; !oldest.IsZero() {
			m.delivery.Record(s.ctx, now.Sub(oldest).Seconds(), m.kinds[k].record...)
		}
	}
	for _, span := range s.deliveries(d) {
		span.End(trace.WithTimestamp(now))
	}
}

// deliveredValues counts what of a batch is of extensions.
func (s *stream) deliveredValues(extensions []core.ExtensionDelivery, now time.Time) {
	m := s.o.metrics
	for _, x := range extensions {
		l := m.extension(x.Method)
		m.sent.Add(s.ctx, int64(x.Sent), l.add...)
		m.delivery.Record(s.ctx, now.Sub(x.Oldest).Seconds(), l.record...)
	}
}

// KeptAlive counts a keep-alive.
func (s *stream) KeptAlive(err error) {
	if err != nil {
		s.failed.keepAlive = true
		return
	}
	s.o.metrics.keepAlives.Add(s.ctx, 1, s.o.metrics.keptAlive.add...)
}

// Closed ends the span of the stream.
func (s *stream) Closed(e core.End) {
	m := s.o.metrics
	m.active.Add(s.ctx, -1)
	defer s.span.End() // also where the application's classifier panics
	errorType := s.o.endType(e)
	s.settle(failureOf(e), errorType)
	m.duration.Record(s.ctx, time.Since(s.accepted).Seconds(), m.ends[ending{e.Reason, errorType}].record...)
	if !s.span.IsRecording() {
		return
	}
	s.span.SetAttributes(
		keyCloseReason.String(string(e.Reason)),
		keyGraceful.Bool(e.Graceful),
		keyDelivered.Int64(int64(e.Stream.Delivered)),
		keyCoalesced.Int64(int64(e.Stream.Coalesced)),
		keyKeepAlives.Int64(int64(e.Stream.KeepAlives)),
		keyBytes.Int64(int64(e.Stream.Bytes)))
	if errorType != "" {
		s.span.SetAttributes(keyErrorType.String(errorType))
		s.span.SetStatus(codes.Error, describe(errorType))
	}
}

// settle records what failed on the way to the close.
func (s *stream) settle(failure, errorType string) {
	m := s.o.metrics
	if s.ack != nil {
		at := s.failed.at
		if at.IsZero() { // writing it panicked
			at = time.Now()
		}
		s.acknowledged(at, errorType)
	}
	for k, n := range s.failed.sent {
		if n > 0 {
			m.sent.Add(s.ctx, int64(n), m.unsent[failure][k].add...)
		}
	}
	for _, x := range s.failed.values {
		m.sent.Add(s.ctx, int64(x.Sent), m.notSentExtension(x.Method, failure).add...)
	}
	if s.failed.keepAlive {
		m.keepAlives.Add(s.ctx, 1, m.notAlive[failure].add...)
	}
	for _, span := range s.failed.spans {
		if errorType != "" {
			span.SetAttributes(keyErrorType.String(errorType))
			span.SetStatus(codes.Error, describe(errorType))
		}
		span.End()
	}
}
