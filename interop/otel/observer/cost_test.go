// What an observer costs with the SDK; without one, see the benchmarks of package
// mcpotel itself. Spans go to a processor that drops them, and metrics to a reader
// that nobody reads: what exporters cost is theirs.

package observer_test

import (
	"context"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

// drop is a span processor that does nothing.
type drop struct{}

func (drop) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (drop) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (drop) Shutdown(context.Context) error                  { return nil }
func (drop) ForceFlush(context.Context) error                { return nil }

func withSDK(tb testing.TB, sampler sdktrace.Sampler, options ...mcpotel.Option) *mcpotel.Observer {
	tb.Helper()
	o, err := mcpotel.New(append(options,
		mcpotel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithSpanProcessor(drop{}))),
		mcpotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))))...)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return o
}

// setups are ways to use the SDK, from cheap to dear.
func setups(tb testing.TB) []struct {
	name     string
	observer *mcpotel.Observer
} {
	tb.Helper()
	return []struct {
		name     string
		observer *mcpotel.Observer
	}{
		{"SDK not sampled", withSDK(tb, sdktrace.NeverSample())},
		{"SDK", withSDK(tb, sdktrace.AlwaysSample())},
		{"SDK delivery spans", withSDK(tb, sdktrace.AlwaysSample(), mcpotel.WithDeliverySpans(1<<40, 1<<40))},
	}
}

var oneChange = []core.Change{core.ToolsListChanged()}

func BenchmarkDelivery(b *testing.B) {
	for _, setup := range setups(b) {
		b.Run(setup.name, func(b *testing.B) {
			stream := setup.observer.Accepted(b.Context(), core.Accepted{Request: &core.Request{}})
			stream.Acknowledged(nil)
			now := time.Now()
			d := &core.Delivery{
				Taken: now, Sent: [core.NumKinds]int{1}, Coalesced: [core.NumKinds]int{1}, Oldest: [core.NumKinds]time.Time{now},
			}
			if origin, _ := setup.observer.Publishing(b.Context(), oneChange); origin != nil {
				d.Origins = []core.Origin{{Change: oneChange[0], From: origin}}
			}
			b.ReportAllocs()
			for b.Loop() {
				stream.Delivered(d)
			}
			stream.Closed(core.End{Reason: core.Completed})
		})
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, setup := range setups(b) {
		b.Run(setup.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, published := setup.observer.Publishing(b.Context(), oneChange); published != nil {
					published()
				}
			}
		})
	}
}

func BenchmarkStream(b *testing.B) {
	for _, setup := range setups(b) {
		b.Run(setup.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				stream := setup.observer.Accepted(b.Context(), core.Accepted{Request: &core.Request{}, Arrival: overHTTP})
				stream.Acknowledged(nil)
				stream.Closed(core.End{Reason: core.Completed})
			}
		})
	}
}

// BenchmarkThroughHub is a whole way, from Publish to the flush of the one stream
// that is concerned, with the hub's own share.
func BenchmarkThroughHub(b *testing.B) {
	run := func(name string, o core.Observer) {
		b.Run(name, func(b *testing.B) {
			hub, err := core.NewHub(core.Config{Capabilities: telemetry.All, Observer: o, KeepAlive: -1})
			if err != nil {
				b.Fatalf("hub: %v", err)
			}
			flushed := make(chan struct{}, 1)
			s := telemetry.MustOpen(b.Context(), b, hub, telemetry.Listen{Conn: &telemetry.Conn{Fault: func(call string, flushes int) error {
				if call == "flush" && flushes > 0 {
					flushed <- struct{}{}
				}
				return nil
			}}})
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				_ = hub.Publish(ctx, oneChange...)
				<-flushed
			}
			hub.EndWhere(func(core.StreamInfo) bool { return true })
			<-flushed // of the result
			s.Wait(b)
		})
	}
	none, err := mcpotel.New()
	if err != nil {
		b.Fatalf("New: %v", err)
	}
	run("no observer", nil)
	run("no provider", none)
	for _, setup := range setups(b) {
		run(setup.name, setup.observer)
	}
}
