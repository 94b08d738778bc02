// The sensor: puts a new temperature to the service again and again. It knows
// nothing of MCP; the service publishes.

package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

func measure(ctx context.Context, provider trace.TracerProvider, url string, every time.Duration) {
	transport := otelhttp.NewTransport(http.DefaultTransport,
		otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}))
	sensor := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		ctx, span := provider.Tracer("tracing").Start(ctx, "measure")
		if err := put(ctx, sensor, url+"/stations/oslo", "-7"); err != nil && ctx.Err() == nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func put(ctx context.Context, client *http.Client, url, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
