// A tracer provider that traces nothing until it is told to, like the global one.

package observer_test

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

type switching struct {
	embedded.TracerProvider
	to      trace.Tracer
	started int
}

func (s *switching) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return switchingTracer{switching: s}
}

type switchingTracer struct {
	embedded.Tracer
	*switching
}

func (s switchingTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	s.started++
	if s.to == nil {
		return noop.NewTracerProvider().Tracer("").Start(ctx, name, options...)
	}
	return s.to.Start(ctx, name, options...)
}
