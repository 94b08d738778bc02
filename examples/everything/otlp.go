// OpenTelemetry: traces and metrics over OTLP/HTTP, where -otlp says so.

package main

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/mcplisten/mcplisten/core"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

// telemetry is the SDK and the hub's observer. Its zero value is none.
type telemetry struct {
	observer core.Observer
	tracers  *trace.TracerProvider
	meters   *metric.MeterProvider
}

// newTelemetry returns what exports to the endpoint at url, nothing for none.
func newTelemetry(url string) (t telemetry, err error) {
	ctx := context.Background()
	if url == "" {
		return t, nil
	}
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return t, errors.New("-otlp is no URL that begins with http:// or https://")
	}
	url = strings.TrimSuffix(url, "/")
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(url+"/v1/traces"))
	if err != nil {
		return t, err
	}
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(url+"/v1/metrics"))
	if err != nil {
		return t, err
	}
	service := resource.NewSchemaless(semconv.ServiceName(info.Name), semconv.ServiceVersion(info.Version))
	t.tracers = trace.NewTracerProvider(trace.WithBatcher(spans), trace.WithResource(service))
	t.meters = metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(metrics)), metric.WithResource(service))
	t.observer, err = mcpotel.New(mcpotel.WithTracerProvider(t.tracers), mcpotel.WithMeterProvider(t.meters),
		mcpotel.WithDeliverySpans(100, 60))
	return t, err
}

// shutdown exports what is left. It comes last: the ends of streams and requests
// are what is left.
func (t telemetry) shutdown(ctx context.Context) error {
	if t.observer == nil {
		return nil
	}
	return errors.Join(t.tracers.Shutdown(ctx), t.meters.Shutdown(ctx))
}
