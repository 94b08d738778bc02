// Contexts: what is recorded after a client has left is recorded all the same.

package mcpotel_test

import (
	"context"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/mcplisten/mcplisten/core"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

// strict is an SDK that drops what it is given with a context that has ended.
type strict struct {
	metricnoop.MeterProvider
	*drops
}

type drops struct{ recorded, dropped atomic.Int32 }

func (d *drops) note(ctx context.Context) {
	if ctx.Err() != nil {
		d.dropped.Add(1)
	} else {
		d.recorded.Add(1)
	}
}

func (s strict) Meter(string, ...metric.MeterOption) metric.Meter { return strictMeter{drops: s.drops} }

type strictMeter struct {
	metricnoop.Meter
	*drops
}

func (m strictMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return strictCounter{drops: m.drops}, nil
}

func (m strictMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return strictUpDownCounter{drops: m.drops}, nil
}

func (m strictMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return strictHistogram{drops: m.drops}, nil
}

type strictCounter struct {
	metricnoop.Int64Counter
	*drops
}

func (c strictCounter) Add(ctx context.Context, _ int64, _ ...metric.AddOption) { c.note(ctx) }

type strictUpDownCounter struct {
	metricnoop.Int64UpDownCounter
	*drops
}

func (c strictUpDownCounter) Add(ctx context.Context, _ int64, _ ...metric.AddOption) { c.note(ctx) }

type strictHistogram struct {
	metricnoop.Float64Histogram
	*drops
}

func (h strictHistogram) Record(ctx context.Context, _ float64, _ ...metric.RecordOption) {
	h.note(ctx)
}

type strictTracers struct {
	tracenoop.TracerProvider
	*drops
}

func (s strictTracers) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return strictTracer{drops: s.drops}
}

type strictTracer struct {
	tracenoop.Tracer
	*drops
}

func (s strictTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	s.note(ctx)
	return s.Tracer.Start(ctx, name, options...)
}

func TestEndedContextsDropNothing(t *testing.T) {
	t.Parallel()
	var d drops
	o := newObserver(t, mcpotel.WithMeterProvider(strict{drops: &d}), mcpotel.WithTracerProvider(strictTracers{drops: &d}))
	for name, f := range map[string]func(ctx context.Context, leave func()){
		"a stream": func(ctx context.Context, leave func()) {
			stream := o.Accepted(ctx, core.Accepted{Request: &core.Request{}})
			leave()
			stream.Acknowledged(nil)
			stream.Delivered(delivery())
			stream.KeptAlive(nil)
			stream.Closed(core.End{Reason: core.ClientClosed})
		},
		"a refusal": func(ctx context.Context, leave func()) {
			leave()
			o.Refused(ctx, core.Refused{Method: core.MethodListen, Err: &core.Error{Refusal: core.RefusedCanceled}})
		},
		"a publish": func(ctx context.Context, leave func()) {
			leave()
			_, _ = o.Publishing(ctx, []core.Change{core.ToolsListChanged()})
		},
	} {
		d.recorded.Store(0)
		f(context.WithCancel(t.Context()))
		if d.dropped.Load() != 0 || d.recorded.Load() == 0 {
			t.Errorf("%s: %d things were recorded with a context that had ended, and %d without", name, d.dropped.Swap(0), d.recorded.Load())
		}
	}
}
