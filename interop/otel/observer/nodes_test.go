// A publish on one node and its deliveries on another are one trace.

package observer_test

import (
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

func TestTraceGoesOnOnOtherNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := telemetry.New(), telemetry.New()
		here := near.Observer(t)
		there := far.Observer(t, mcpotel.WithDeliverySpans(10, 10))
		state, err := trace.ParseTraceState("vendor=1,other=2")
		if err != nil {
			t.Fatalf("tracestate: %v", err)
		}
		_, caller := remote(1)
		ctx := trace.ContextWithSpanContext(t.Context(), caller.WithTraceState(state))
		origin, published := here.Publishing(ctx, oneChange)
		carried := here.InjectOrigin(origin)
		published()

		hub := newHub(t, core.Config{}, there)
		s := telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{})
		if err := hub.Publish(there.ExtractOrigin(t.Context(), carried), core.ToolsListChanged()); err != nil {
			t.Fatalf("publish: %v", err)
		}
		synctest.Wait()
		endAll(t, hub, nil)
		s.Wait(t)
		first := near.One(t, "publish "+toolsChanged)
		second := far.One(t, "publish "+toolsChanged)
		if second.Parent().SpanID() != first.SpanContext().SpanID() || !second.Parent().IsRemote() {
			t.Errorf("the publish on the other node is a child of %v, want the first one's %v", second.Parent(), first.SpanContext())
		}
		delivered := far.One(t, toolsChanged).SpanContext()
		if delivered.TraceID() != caller.TraceID() || delivered.TraceState().Get("other") != "2" {
			t.Errorf("the delivery is in the trace %s with the state %q, want the caller's", delivered.TraceID(), delivered.TraceState())
		}
	})
}

func TestMalformedOrigins(t *testing.T) {
	t.Parallel()
	o := telemetry.New().Observer(t)
	for _, carried := range []string{"", " ", "x", valid() + "x", "00-zz-zz-01 a=b", "a=b " + valid()} {
		if sc := trace.SpanContextFromContext(o.ExtractOrigin(t.Context(), carried)); sc.IsValid() {
			t.Errorf("%q became the span context %v, want none", carried, sc)
		}
	}
	for _, origin := range []any{nil, "another observer's", 7} {
		if carried := o.InjectOrigin(origin); carried != "" {
			t.Errorf("the origin %v is carried as %q, want nothing", origin, carried)
		}
	}
}
