// From a service with streams to Jaeger and back.

package jaeger

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	listen       = "subscriptions/listen"
	acknowledged = "notifications/subscriptions/acknowledged"
	toolsChanged = "notifications/tools/list_changed"
)

// service is one that exports to Jaeger.
type service struct {
	name   string
	hub    *core.Hub
	server *httptest.Server
	tracer *sdktrace.TracerProvider
	ends   chan core.End
}

func run(ctx context.Context, t *testing.T, name string, to *server, options ...sdktrace.BatchSpanProcessorOption) *service {
	t.Helper()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to.otlp+"/v1/traces"))
	if err != nil {
		t.Fatalf("exporter: %v", err)
	}
	s := &service{name: name, ends: make(chan core.End, 100)}
	s.tracer = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, options...),
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName(name))))
	t.Cleanup(func() { _ = s.tracer.Shutdown(context.WithoutCancel(ctx)) })
	observer, err := mcpotel.New(mcpotel.WithTracerProvider(s.tracer), mcpotel.WithDeliverySpans(100, 100))
	if err != nil {
		t.Fatalf("observer: %v", err)
	}
	s.hub, err = core.NewHub(core.Config{
		Capabilities: telemetry.All, Observer: observer, OnEnd: func(e core.End) { s.ends <- e },
	})
	if err != nil {
		t.Fatalf("hub: %v", err)
	}
	mcp, err := mcphttp.New(s.hub)
	if err != nil {
		t.Fatalf("handler: %v", err)
	}
	s.server = httptest.NewServer(otelhttp.NewHandler(mcp, "server", otelhttp.WithTracerProvider(s.tracer)))
	t.Cleanup(s.server.Close)
	return s
}

// traceparent returns the context of a span as a client sends it.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestStreamComesBack: the trace of a stream, before and after its end, and that
// of a publish.
func TestStreamComesBack(t *testing.T) {
	ctx := bounded(t)
	jaeger := start(ctx, t)
	s := run(ctx, t, "streams", jaeger, sdktrace.WithBatchTimeout(10*time.Millisecond))
	tracer := s.tracer.Tracer("test")

	listenCtx, clientSpan := tracer.Start(ctx, "client")
	clientSpan.End()
	client := telemetry.Dial(ctx, t, s.server.URL, telemetry.Listen{
		ID: `"request-7"`, Meta: map[string]any{"traceparent": traceparent(listenCtx)},
		Filter: `{"toolsListChanged":true,"resourceSubscriptions":["file:///secret"]}`,
	}, nil)
	defer client.Close()
	trace := clientSpan.SpanContext().TraceID().String()
	var spans []span
	await(ctx, t, "the acknowledgment of an open stream", func() bool {
		spans = jaeger.trace(ctx, t, trace)
		return len(named(spans, acknowledged)) > 0
	})
	if len(named(spans, listen)) > 0 {
		t.Error("the span of the stream is there before the stream has ended")
	}

	writeCtx, write := tracer.Start(ctx, "write")
	if err := s.hub.Publish(writeCtx, core.ToolsListChanged()); err != nil {
		t.Fatalf("publish: %v", err)
	}
	write.End()
	client.Expect(t, toolsChanged)
	s.hub.EndWhere(func(core.StreamInfo) bool { return true })
	client.Expect(t, "complete")

	await(ctx, t, "the stream", func() bool {
		spans = jaeger.trace(ctx, t, trace)
		return len(named(spans, listen)) > 0
	})
	stream := one(t, spans, listen)
	checkStream(t, stream, clientSpan.SpanContext())
	ack := one(t, spans, acknowledged)
	if !ack.refers("CHILD_OF", stream.TraceID, stream.SpanID) || ack.tag("span.kind") != "client" {
		t.Errorf("the acknowledgment is %+v, want a client span below the stream", ack)
	}
	checkHTTPSpan(ctx, t, jaeger, stream)
	checkPublish(ctx, t, jaeger, write.SpanContext(), stream)

	found := jaeger.search(ctx, t, s.name, listen, map[string]string{"mcplisten.close_reason": "completed"})
	if len(named(found, listen)) != 1 {
		t.Errorf("a search for completed streams finds %d, want 1", len(named(found, listen)))
	}
	if found := jaeger.search(ctx, t, s.name, listen, map[string]string{"mcplisten.close_reason": "slow_client"}); len(found) != 0 {
		t.Errorf("a search for slow clients finds %d spans, want none", len(found))
	}
}

func checkStream(t *testing.T, stream span, parent trace.SpanContext) {
	t.Helper()
	if !stream.refers("CHILD_OF", parent.TraceID().String(), parent.SpanID().String()) {
		t.Errorf("the stream refers to %+v, want the client's span as its parent", stream.References)
	}
	for key, want := range map[string]any{
		"span.kind": "server", "mcp.method.name": listen, "mcp.protocol.version": "2026-07-28", "jsonrpc.request.id": "request-7",
		"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "1.1",
		"mcplisten.requested":              `["toolsListChanged","resourceSubscriptions"]`,
		"mcplisten.honored":                `["toolsListChanged","resourceSubscriptions"]`,
		"mcplisten.resource_subscriptions": 1.0,
		"mcplisten.close_reason":           "completed", "mcplisten.graceful": true,
		"mcplisten.notifications.delivered": 1.0, "mcplisten.notifications.coalesced": 0.0, "mcplisten.keepalives": 0.0,
		"error.type": nil, "error": nil,
	} {
		if got := stream.tag(key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if bytes, ok := stream.tag("mcplisten.bytes_written").(float64); !ok || bytes < 300 {
		t.Errorf("mcplisten.bytes_written is %v, want three messages' worth", stream.tag("mcplisten.bytes_written"))
	}
}

// checkHTTPSpan looks for the span that the stream is linked to.
func checkHTTPSpan(ctx context.Context, t *testing.T, jaeger *server, stream span) {
	t.Helper()
	for _, r := range stream.References {
		if r.Type != "FOLLOWS_FROM" {
			continue
		}
		await(ctx, t, "the HTTP span", func() bool {
			for _, s := range jaeger.trace(ctx, t, r.TraceID) {
				if s.SpanID == r.SpanID && s.tag("http.request.method") == http.MethodPost {
					return true
				}
			}
			return false
		})
		return
	}
	t.Errorf("the stream refers to %+v, want a link to the HTTP span", stream.References)
}

// checkPublish follows the change from the request that caused it to its client.
func checkPublish(ctx context.Context, t *testing.T, jaeger *server, write trace.SpanContext, stream span) {
	t.Helper()
	var spans []span
	await(ctx, t, "the trace of the publish", func() bool {
		spans = jaeger.trace(ctx, t, write.TraceID().String())
		return len(spans) >= 3
	})
	published := one(t, spans, "publish "+toolsChanged)
	if !published.refers("CHILD_OF", write.TraceID().String(), write.SpanID().String()) || published.tag("span.kind") != "producer" {
		t.Errorf("the publish is %+v, want a producer span below its caller", published)
	}
	delivered := one(t, spans, toolsChanged)
	if !delivered.refers("CHILD_OF", published.TraceID, published.SpanID) || !delivered.refers("FOLLOWS_FROM", stream.TraceID, stream.SpanID) {
		t.Errorf("the delivery refers to %+v, want the publish as its parent and a link to the stream", delivered.References)
	}
}

// TestShutdownLosesNoSpan: hub, server, provider, in this order, and every stream
// is in Jaeger, though no batch was due.
func TestShutdownLosesNoSpan(t *testing.T) {
	ctx := bounded(t)
	jaeger := start(ctx, t)
	s := run(ctx, t, "shutdown", jaeger, sdktrace.WithBatchTimeout(time.Hour))
	const streams = 50
	for i := range streams {
		client := telemetry.Dial(ctx, t, s.server.URL, telemetry.Listen{ID: fmt.Sprint(i)}, nil)
		t.Cleanup(client.Close)
	}
	if err := s.hub.Shutdown(ctx); err != nil {
		t.Fatalf("the hub: %v", err)
	}
	if err := s.server.Config.Shutdown(ctx); err != nil {
		t.Fatalf("the server: %v", err)
	}
	if err := s.tracer.Shutdown(ctx); err != nil {
		t.Fatalf("the provider: %v", err)
	}
	await(ctx, t, "all streams", func() bool {
		found := jaeger.search(ctx, t, s.name, listen, map[string]string{"mcplisten.close_reason": "shutdown", "mcplisten.graceful": "true"})
		return len(named(found, listen)) == streams && len(named(found, acknowledged)) == streams
	})
}
