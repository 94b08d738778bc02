// The observer: what a hub is given, and what becomes of each thing that the hub
// tells it.

package mcpotel

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/core"
)

// Observer makes spans and metrics of what a hub does. It is a [core.Observer],
// for one hub or for several, and safe for concurrent use.
type Observer struct {
	config
	tracer  trace.Tracer
	metrics *metrics

	untraced atomic.Int64 // no publish is traced before this time, see Publishing
}

var _ core.Observer = (*Observer)(nil)

// New returns an Observer. It fails where the options contradict themselves, or
// where the meter provider refuses an instrument.
func New(options ...Option) (*Observer, error) {
	c, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(c.meters)
	if err != nil {
		return nil, fmt.Errorf("mcpotel: %w", err)
	}
	return &Observer{config: c, tracer: c.tracers.Tracer(scope), metrics: m}, nil
}

// Accepted starts the span of a stream and that of its acknowledgment.
func (o *Observer) Accepted(ctx context.Context, a core.Accepted) core.StreamObserver {
	parent, links := o.lineage(ctx, a.Request.Meta, a.Arrival.Header)
	s := &stream{
		o:        o,
		op:       newOperation(a.Arrival, a.Request.Meta),
		received: a.Arrival.Received,
		accepted: time.Now(),
	}
	attributes := append(s.op.attributes(),
		keyRequestID.String(shortID(a.Request.ID)),
		keyRequested.StringSlice(a.Request.Filter.Members()),
		keyHonored.StringSlice(a.Stream.Filter.Members()),
		keyResources.Int(len(a.Stream.Filter.ResourceSubscriptions)))
	// The request's end must not end the recording: it is what is recorded.
	s.ctx, s.span = o.tracer.Start(context.WithoutCancel(parent), core.MethodListen,
		trace.WithSpanKind(trace.SpanKindServer), trace.WithLinks(links...), trace.WithAttributes(attributes...))
	_, s.ack = o.tracer.Start(s.ctx, core.MethodAcknowledged, acknowledgedOptions...)
	o.metrics.active.Add(s.ctx, 1)
	return s
}

var acknowledgedOptions = []trace.SpanStartOption{
	trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(keyMethod.String(core.MethodAcknowledged)),
}

// Refused makes the span of a listen request that was refused, and counts every
// refused request.
func (o *Observer) Refused(ctx context.Context, r core.Refused) {
	ctx = context.WithoutCancel(ctx)
	refusal := o.metrics.known(r.Err.Refusal)
	o.metrics.refused.Add(ctx, 1, o.metrics.refusal(refusal).add...)
	if !isListen(r) {
		return
	}
	now := time.Now()
	received := r.Arrival.Received
	if received.IsZero() {
		received = now
	}
	op := newOperation(r.Arrival, r.Meta)
	op.statusCode, op.errorType = strconv.Itoa(r.Err.Code), o.refusedType(r.Err)
	attributes := append(op.attributes(), keyRefusal.String(string(refusal)))
	if r.ID.Valid() {
		attributes = append(attributes, keyRequestID.String(shortID(r.ID)))
	}
	parent, links := o.lineage(ctx, r.Meta, r.Arrival.Header)
	ctx, span := o.tracer.Start(parent, core.MethodListen, trace.WithTimestamp(received),
		trace.WithSpanKind(trace.SpanKindServer), trace.WithLinks(links...), trace.WithAttributes(attributes...))
	if op.errorType != "" {
		span.SetStatus(codes.Error, "refused: "+string(refusal)) // the message is the application's
	}
	o.metrics.recordOperation(ctx, op, now.Sub(received).Seconds())
	span.End(trace.WithTimestamp(now))
}

// isListen reports whether a refused request was to listen. Where it was refused
// before it was read, the header that MCP demands over HTTP says so.
func isListen(r core.Refused) bool {
	if r.Method == "" && r.Arrival.Header != nil {
		return r.Arrival.Header("Mcp-Method") == core.MethodListen
	}
	return r.Method == core.MethodListen
}

// maxID bounds the request id on a span, in bytes. Ids are chosen by clients.
const maxID = 128

// shortID returns a request id as the conventions show it, a string without its
// quotes, cut to a length.
func shortID(id core.ID) string {
	text := id.String()
	if strings.HasPrefix(text, `"`) {
		// It is valid JSON: the hub has checked that.
		_ = json.Unmarshal([]byte(text), &text)
	}
	if len(text) > maxID {
		text = strings.ToValidUTF8(text[:maxID], "")
	}
	return text
}

// attributesOf returns what a span of a notification says of itself.
func attributesOf(method string) []attribute.KeyValue {
	return []attribute.KeyValue{keyMethod.String(method)}
}
