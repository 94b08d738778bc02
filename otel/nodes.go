// Nodes: the trace of a publish goes on where its changes go, and metrics tell how
// the broker between them fares.

package mcpotel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/core"
)

var (
	_ core.OriginCarrier  = (*Observer)(nil)
	_ core.BrokerObserver = (*Observer)(nil)
)

// betweenNodes is how trace context is written, whatever the propagator for
// clients is: nodes run the same library.
var betweenNodes = propagation.TraceContext{}

// The keys of the W3C's trace context.
const traceParent, traceState = "traceparent", "tracestate"

// InjectOrigin returns the trace context of a publish for other nodes: its
// traceparent and, where there is one, a space and the tracestate.
func (o *Observer) InjectOrigin(origin any) string {
	p, ours := origin.(*publication)
	if !ours {
		return ""
	}
	carrier := propagation.MapCarrier{}
	betweenNodes.Inject(trace.ContextWithSpanContext(context.Background(), p.span), carrier)
	return strings.TrimSuffix(carrier[traceParent]+" "+carrier[traceState], " ")
}

// ExtractOrigin returns ctx with the trace context that InjectOrigin on another
// node returned. What is malformed is left out.
func (o *Observer) ExtractOrigin(ctx context.Context, carried string) context.Context {
	parent, state, _ := strings.Cut(carried, " ")
	return betweenNodes.Extract(ctx, propagation.MapCarrier{traceParent: parent, traceState: state})
}

// BrokerConnected counts the hubs that are connected.
func (o *Observer) BrokerConnected(connected bool) {
	change := int64(1)
	if !connected {
		change = -1
	}
	o.metrics.connected.Add(context.Background(), change)
}

// BrokerGap counts the gaps.
func (o *Observer) BrokerGap(int) { o.metrics.gaps.Add(context.Background(), 1) }

// BrokerIgnored counts the messages that were ignored.
func (o *Observer) BrokerIgnored() { o.metrics.ignored.Add(context.Background(), 1) }
