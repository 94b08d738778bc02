package server

// This file is mcplisten with OpenTelemetry on: the SDK records and batches as in production, and what it would export goes nowhere.

import (
	"context"
	"errors"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcplisten/mcplisten/core"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

// nowhere is an exporter that takes everything.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }

func (nowhere) Export(context.Context, *metricdata.ResourceMetrics) error { return nil }

func (nowhere) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(k)
}

func (nowhere) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

func (nowhere) ForceFlush(context.Context) error { return nil }

func (nowhere) Shutdown(context.Context) error { return nil }

func newMcplistenOTel(config core.Config) (endpoint, error) {
	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(nowhere{}))
	metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(nowhere{})))
	observer, err := mcpotel.New(mcpotel.WithTracerProvider(traces), mcpotel.WithMeterProvider(metrics))
	if err != nil {
		return endpoint{}, err
	}
	config.Observer = observer
	e, err := newMcplisten(onNetHTTP, config)
	if err != nil {
		return endpoint{}, err
	}
	shutdown := e.shutdown
	e.shutdown = func(ctx context.Context) error {
		return errors.Join(shutdown(ctx), traces.Shutdown(ctx), metrics.Shutdown(ctx))
	}
	return e, nil
}
