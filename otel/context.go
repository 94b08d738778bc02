// Context: whose child a span is, and what it is linked to.

package mcpotel

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/core"
)

// lineage returns the context whose span is to be the parent of a request's span,
// and the links of that. By the conventions for MCP the context in params._meta
// is the parent, and the ambient span, which is the transport's, is linked. What
// is malformed counts as absent.
func (o *Observer) lineage(ctx context.Context, meta core.Meta, header func(string) string) (context.Context, []trace.Link) {
	ambient := trace.SpanFromContext(ctx)
	around := ambient.SpanContext()
	orphan := trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	ctx = o.propagator.Extract(orphan, metaCarrier{meta})
	switch parent := trace.SpanContextFromContext(ctx); {
	case parent.IsValid() && around.IsValid():
		return o.descend(ctx, orphan, trace.Link{SpanContext: around})
	case parent.IsValid():
		return o.descend(ctx, orphan)
	case around.IsValid():
		return o.descend(trace.ContextWithSpan(ctx, ambient), orphan)
	case header != nil:
		return o.descend(o.propagator.Extract(ctx, headerCarrier(header)), orphan)
	default:
		return ctx, nil
	}
}

// descend makes the span in ctx the parent, unless it is a stranger's.
func (o *Observer) descend(ctx, orphan context.Context, links ...trace.Link) (context.Context, []trace.Link) {
	parent := trace.SpanContextFromContext(ctx)
	if !o.publicEndpoint || !parent.IsRemote() {
		return ctx, links
	}
	return orphan, append([]trace.Link{{SpanContext: parent}}, links...)
}

// metaCarrier reads the trace context that a client put into params._meta.
type metaCarrier struct{ meta core.Meta }

// Get returns a string member of _meta.
func (c metaCarrier) Get(key string) string {
	s, _ := c.meta.String(key)
	return s
}

// Set does nothing: what a client sent is not changed.
func (metaCarrier) Set(string, string) {}

// Keys returns the keys that MCP defines.
func (metaCarrier) Keys() []string { return []string{traceParent, traceState, "baggage"} }

// headerCarrier reads the headers of a transport.
type headerCarrier func(name string) string

// Get returns a header.
func (c headerCarrier) Get(key string) string { return c(key) }

// Set does nothing.
func (headerCarrier) Set(string, string) {}

// Keys returns none: a transport cannot list its headers.
func (headerCarrier) Keys() []string { return nil }

var (
	_ propagation.TextMapCarrier = metaCarrier{}
	_ propagation.TextMapCarrier = headerCarrier(nil)
)
