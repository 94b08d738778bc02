// The SDK: where spans go. In one process there are several services, each with a
// provider of its own and one name; what they export to is the same.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/zpages"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

type telemetry struct {
	exporter  sdktrace.SpanExporter
	kept      *keeper
	open      *zpages.SpanProcessor
	running   http.Handler // a page of the spans that are open
	providers []*sdktrace.TracerProvider
}

func newTelemetry(ctx context.Context, s settings, out io.Writer) (*telemetry, error) {
	t := &telemetry{exporter: &printer{out: out}, kept: &keeper{}, open: zpages.NewSpanProcessor()}
	t.running = zpages.NewTracezHandler(t.open)
	if s.otlp == "" {
		return t, nil
	}
	var err error
	t.exporter, err = otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimSuffix(s.otlp, "/")+"/v1/traces"))
	return t, err
}

// of returns the provider of a new service.
func (t *telemetry) of(service string) trace.TracerProvider {
	p := sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName(service))),
		sdktrace.WithBatcher(shared{t.exporter}, sdktrace.WithBatchTimeout(time.Second)),
		sdktrace.WithSpanProcessor(sdktrace.NewSimpleSpanProcessor(t.kept)),
		sdktrace.WithSpanProcessor(t.open),
	)
	t.providers = append(t.providers, p)
	return p
}

// shutdown exports what is left.
func (t *telemetry) shutdown(ctx context.Context) error {
	var errs []error
	for _, p := range t.providers {
		errs = append(errs, p.Shutdown(ctx))
	}
	return errors.Join(append(errs, t.exporter.Shutdown(ctx))...)
}

// shared is an exporter that several providers have: none of them shuts it down.
type shared struct{ sdktrace.SpanExporter }

// Shutdown leaves it to whoever shares it.
func (shared) Shutdown(context.Context) error { return nil }

// printer is an exporter for people: a line for each span.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

// ExportSpans prints the spans.
func (p *printer) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range spans {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %-8s %-48s %9s  trace %.8s span %.8s", s.StartTime().Format("15:04:05.000"), serviceOf(s), s.Name(),
			s.EndTime().Sub(s.StartTime()).Round(time.Microsecond), s.SpanContext().TraceID(), s.SpanContext().SpanID())
		if s.Parent().IsValid() {
			fmt.Fprintf(&b, " parent %.8s", s.Parent().SpanID())
		}
		for _, link := range s.Links() {
			fmt.Fprintf(&b, " link %.8s", link.SpanContext.SpanID())
		}
		for _, a := range s.Attributes() {
			if strings.HasPrefix(string(a.Key), "mcplisten.") {
				fmt.Fprintf(&b, " %s=%s", strings.TrimPrefix(string(a.Key), "mcplisten."), a.Value.String())
			}
		}
		if _, err := fmt.Fprintln(p.out, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// Shutdown does nothing.
func (*printer) Shutdown(context.Context) error { return nil }

func serviceOf(s sdktrace.ReadOnlySpan) string {
	name, _ := s.Resource().Set().Value(semconv.ServiceNameKey)
	return name.AsString()
}
