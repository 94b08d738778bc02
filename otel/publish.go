// Publishing: one span for each publish, however many streams it concerns, and
// the spans of its deliveries where they are asked for.

package mcpotel

import (
	"context"
	"sync"
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

// publishSpan is how a publish of one method is traced, or with the empty method
// one of several.
type publishSpan struct {
	name    string
	options []trace.SpanStartOption
}

// publishSpans are those that were needed so far. Methods are the protocol's and
// those of the extensions that hubs have.
var publishSpans sync.Map // method → publishSpan

func publishSpanOf(method string) publishSpan {
	if known, ok := publishSpans.Load(method); ok {
		return known.(publishSpan)
	}
	span := publishSpan{"publish", []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer)}}
	if method != "" {
		span.name += " " + method
		span.options = append(span.options, trace.WithAttributes(keyMethod.String(method)))
	}
	known, _ := publishSpans.LoadOrStore(method, span)
	return known.(publishSpan)
}

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
	method := o.count(ctx, changes)
	// A span that nobody records costs allocations too. Whether somebody will is
	// only told by starting one, so in vain that is tried once a second.
	now := time.Now().UnixNano()
	if now < o.untraced.Load() {
		return nil, nil
	}
	how := publishSpanOf(method)
	_, span := o.tracer.Start(ctx, how.name, how.options...)
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

// count counts the changes and returns their method, the empty one for several.
func (o *Observer) count(ctx context.Context, changes []core.Change) (method string) {
	var counts [core.KindExtension]int64
	method = changes[0].Method()
	for _, c := range changes {
		if c.Kind == core.KindExtension {
			o.metrics.published.Add(ctx, 1, o.metrics.extension(c.Extension).add...)
		} else {
			counts[c.Kind]++
		}
		if c.Method() != method {
			method = ""
		}
	}
	for k, n := range counts {
		if n > 0 {
			o.metrics.published.Add(ctx, n, o.metrics.kinds[k].add...)
		}
	}
	return method
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
	attributes := attributesOf(c.Method())
	if c.URI != "" && s.o.redact != nil {
		if uri := s.o.redact(c.URI); uri != "" {
			attributes = append(attributes, keyResourceURI.String(uri))
		}
	}
	_, span := s.o.tracer.Start(trace.ContextWithSpanContext(context.Background(), p.span), c.Method(),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(d.Taken),
		trace.WithLinks(links...), trace.WithAttributes(attributes...))
	return span
}
