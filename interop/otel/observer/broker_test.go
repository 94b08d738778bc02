// Hubs with a broker: what the metrics say of it, and one trace through it.

package observer_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

// flaky is a broker that connects, brings one message that means nothing, and is
// lost when it is told so.
type flaky struct {
	*core.LocalBroker
	lose chan struct{}
}

func (f flaky) Receive(ctx context.Context, to core.BrokerReceiver) error {
	to.Connected()
	to.Message([]byte("?"))
	select {
	case <-f.lose:
		return context.Canceled
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestMetricsOfABroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		o, err := mcpotel.New(mcpotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		broker := flaky{new(core.LocalBroker), make(chan struct{})}
		hub := newHub(t, core.Config{Broker: broker, GapSpread: -1, KeepAlive: -1}, o)
		synctest.Wait()
		s := telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{})
		want := func(when string, connected, gaps, ignored int64) {
			t.Helper()
			synctest.Wait()
			var data metricdata.ResourceMetrics
			if err := reader.Collect(t.Context(), &data); err != nil {
				t.Fatalf("collect: %v", err)
			}
			got := make(map[string]int64)
			for _, scope := range data.ScopeMetrics {
				for _, m := range scope.Metrics {
					if sum, ok := m.Data.(metricdata.Sum[int64]); ok && strings.HasPrefix(m.Name, "mcplisten.broker.") {
						got[m.Name] = sum.DataPoints[0].Value
						if sum.DataPoints[0].Attributes.Len() != 0 || m.Description == "" {
							t.Errorf("%s has attributes or no description", m.Name)
						}
					}
				}
			}
			if got["mcplisten.broker.connected"] != connected || got["mcplisten.broker.gaps"] != gaps || got["mcplisten.broker.ignored"] != ignored {
				t.Errorf("%s, the metrics are %v, want %d connected, %d gaps, %d ignored", when, got, connected, gaps, ignored)
			}
		}
		want("connected", 1, 0, 1)
		broker.lose <- struct{}{}
		want("lost", 0, 0, 1)
		<-time.After(time.Second)
		want("connected again", 1, 1, 2)
		endAll(t, hub, nil)
		s.Wait(t)
		if err := hub.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		want("shut down", 0, 1, 2)
	})
}

// TestOneTraceThroughABroker: a delivery on one node is part of the trace of the
// publish on another.
func TestOneTraceThroughABroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := telemetry.New(), telemetry.New()
		broker := new(core.LocalBroker)
		here := newHub(t, core.Config{Broker: broker, KeepAlive: -1}, near.Observer(t, mcpotel.WithDeliverySpans(10, 10)))
		there := newHub(t, core.Config{Broker: broker, KeepAlive: -1}, far.Observer(t, mcpotel.WithDeliverySpans(10, 10)))
		synctest.Wait()
		s := telemetry.MustOpen(t.Context(), t, there, telemetry.Listen{})
		if err := here.Publish(t.Context(), core.ToolsListChanged()); err != nil {
			t.Fatalf("publish: %v", err)
		}
		synctest.Wait()
		endAll(t, there, nil)
		s.Wait(t)
		for _, hub := range []*core.Hub{here, there} {
			if err := hub.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		}
		first := near.One(t, "publish "+toolsChanged).SpanContext()
		if delivered := far.One(t, toolsChanged).SpanContext(); delivered.TraceID() != first.TraceID() {
			t.Errorf("the delivery is in the trace %s, want that of the publish, %s", delivered.TraceID(), first.TraceID())
		}
	})
}
