// Publishing: one span for each publish, however many streams it concerns, and
// the spans of its deliveries where they are asked for.

package mcpotel

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/core"
)

// publication is what travels with the changes of a publish, to the deliveries and
// to other nodes.
type publication struct {
	span trace.SpanContext
	left atomic.Int64 // spans of deliveries that it may still have
}

// publishNames are the names of the spans of publishes; the last one is for
// changes of several kinds.
var publishNames = func() (names [core.NumKinds + 1]string) {
	for k := range core.Kind(core.NumKinds) {
		names[k] = "publish " + k.Method()
	}
	names[core.NumKinds] = "publish"
	return names
}()

var publishOptions = func() (options [core.NumKinds + 1][]trace.SpanStartOption) {
	producer := trace.WithSpanKind(trace.SpanKindProducer)
	for k := range core.Kind(core.NumKinds) {
		options[k] = []trace.SpanStartOption{producer, trace.WithAttributes(keyMethod.String(k.Method()))}
	}
	options[core.NumKinds] = []trace.SpanStartOption{producer}
	return options
}()

// untracedFor is how long publishes are not traced once it was seen that nobody
// traces.
const untracedFor = int64(time.Second)

// Publishing counts the changes of a publish and traces it.
func (o *Observer) Publishing(ctx context.Context, changes []core.Change) (origin any, published func()) {
	if len(changes) == 0 {
		return nil, nil
	}
	if ctx.Err() != nil { // the change is published all the same, and so it counts
		ctx = context.WithoutCancel(ctx)
	}
	kind := o.count(ctx, changes)
	// A span that nobody records costs allocations too. Whether somebody will is
	// only told by starting one, so in vain that is tried once a second.
	now := time.Now().UnixNano()
	if now < o.untraced.Load() {
		return nil, nil
	}
	_, span := o.tracer.Start(ctx, publishNames[kind], publishOptions[kind]...)
	made := span.SpanContext()
	if made.SpanID() == trace.SpanContextFromContext(ctx).SpanID() { // nobody made one
		o.untraced.Store(now + untracedFor)
		return nil, nil
	}
	if !span.IsRecording() {
		return nil, nil
	}
	span.SetAttributes(keyChanges.Int(len(changes)))
	p := &publication{span: made}
	p.left.Store(int64(o.perPublish))
	return p, func() { span.End() }
}

// count counts the changes and returns their kind, core.NumKinds for several.
func (o *Observer) count(ctx context.Context, changes []core.Change) core.Kind {
	var counts [core.NumKinds]int64
	for _, c := range changes {
		counts[c.Kind]++
	}
	of := core.Kind(core.NumKinds)
	for k, n := range counts {
		if n == 0 {
			continue
		}
		o.metrics.published.Add(ctx, n, o.metrics.kinds[k].add...)
		if int(n) == len(changes) {
			of = core.Kind(k)
		}
	}
	return of
}

// maxPublishers is how many publishes the span of one delivery tells.
const maxPublishers = 8

// budget is how many spans of deliveries a stream may still have in this minute.
type budget struct {
	until time.Time
	left  int
}

// has reports whether there is one.
func (b *budget) has(now time.Time, perMinute int) bool {
	if !now.Before(b.until) {
		b.until, b.left = now.Add(time.Minute), perMinute
	}
	return b.left > 0
}

// deliveries starts the spans of a batch: one for each of its notifications whose
// publish is known, as far as the caps allow. The parent is the first publish that
// the notification stands for; further ones are linked, and so is the stream.
func (s *stream) deliveries(d *core.Delivery) (spans []trace.Span) {
	if !s.o.deliverySpans {
		return nil
	}
	done := uint64(0) // bit i: Origins[i] is part of a span, or was left out with one
	for i, first := range d.Origins {
		p, ours := first.From.(*publication)
		if !ours || done&(1<<i) != 0 {
			continue
		}
		links := []trace.Link{{SpanContext: s.span.SpanContext()}}
		for j := i + 1; j < len(d.Origins); j++ {
			if d.Origins[j].Change != first.Change {
				continue
			}
			done |= 1 << j
			other, ours := d.Origins[j].From.(*publication)
			if ours && other != p && len(links) < maxPublishers {
				links = append(links, trace.Link{SpanContext: other.span})
			}
		}
		if !s.budget.has(d.Taken, s.o.perStream) || p.left.Add(-1) < 0 {
			continue
		}
		s.budget.left--
		spans = append(spans, s.delivery(d, first.Change, p, links))
	}
	return spans
}

// delivery starts the span of one notification.
func (s *stream) delivery(d *core.Delivery, c core.Change, p *publication, links []trace.Link) trace.Span {
	attributes := attributesOf(c.Kind)
	if c.URI != "" && s.o.redact != nil {
		if uri := s.o.redact(c.URI); uri != "" {
			attributes = append(attributes, keyResourceURI.String(uri))
		}
	}
	_, span := s.o.tracer.Start(trace.ContextWithSpanContext(context.Background(), p.span), c.Kind.Method(),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(d.Taken),
		trace.WithLinks(links...), trace.WithAttributes(attributes...))
	return span
}
