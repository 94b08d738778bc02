// What an observer costs where nobody has set up OpenTelemetry.

package mcpotel_test

import (
	"context"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/mcplisten/mcplisten/core"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

// providers are those that record nothing: the global one of a program that sets
// none, and the one that says so.
var providers = map[string][]mcpotel.Option{
	"no provider": nil,
	"no-op provider": {
		mcpotel.WithTracerProvider(tracenoop.NewTracerProvider()), mcpotel.WithMeterProvider(metricnoop.NewMeterProvider()),
	},
}

// delivery is a usual one: a notification that stands for two changes.
func delivery() *core.Delivery {
	now := time.Now()
	return &core.Delivery{
		Taken: now, Sent: [core.NumKinds]int{core.KindTools: 1}, Coalesced: [core.NumKinds]int{core.KindTools: 1},
		Oldest: [core.NumKinds]time.Time{core.KindTools: now}, Bytes: 100,
	}
}

func newObserver(tb testing.TB, options ...mcpotel.Option) *mcpotel.Observer {
	tb.Helper()
	o, err := mcpotel.New(options...)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return o
}

// TestNothingIsAllocated: per publish, per notification and per keep-alive.
func TestNothingIsAllocated(t *testing.T) {
	ctx := context.Background()
	for name, options := range providers {
		o := newObserver(t, append(options, mcpotel.WithDeliverySpans(100, 100))...)
		stream := o.Accepted(ctx, core.Accepted{Request: &core.Request{}})
		stream.Acknowledged(nil)
		d, changes := delivery(), []core.Change{core.ToolsListChanged()}
		for what, f := range map[string]func(){
			"publish": func() {
				origin, published := o.Publishing(ctx, changes)
				if origin != nil || published != nil {
					t.Errorf("%s: a publish that nobody traces is followed up", name)
				}
			},
			"delivery":   func() { stream.Delivered(d) },
			"keep-alive": func() { stream.KeptAlive(nil) },
		} {
			f() // the first one may find out that nobody records
			if allocations := testing.AllocsPerRun(1000, f); allocations != 0 {
				t.Errorf("%s: a %s allocates %v times, want none", name, what, allocations)
			}
		}
		stream.Closed(core.End{Reason: core.Completed})
	}
}

func BenchmarkDelivery(b *testing.B) {
	for name, options := range providers {
		b.Run(name, func(b *testing.B) {
			o := newObserver(b, options...)
			stream := o.Accepted(b.Context(), core.Accepted{Request: &core.Request{}})
			stream.Acknowledged(nil)
			d := delivery()
			b.ReportAllocs()
			for b.Loop() {
				stream.Delivered(d)
			}
			stream.Closed(core.End{Reason: core.Completed})
		})
	}
}

func BenchmarkPublish(b *testing.B) {
	for name, options := range providers {
		b.Run(name, func(b *testing.B) {
			o := newObserver(b, options...)
			changes := []core.Change{core.ToolsListChanged()}
			b.ReportAllocs()
			for b.Loop() {
				if _, published := o.Publishing(b.Context(), changes); published != nil {
					published()
				}
			}
		})
	}
}
