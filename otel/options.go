// Options: what can be set on an Observer, and the defaults.

package mcpotel

import (
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/core"
)

// Option sets one thing of an [Observer].
type Option func(*config)

type config struct {
	tracers        trace.TracerProvider
	meters         metric.MeterProvider
	propagator     propagation.TextMapPropagator
	publicEndpoint bool

	deliverySpans         bool
	perPublish, perStream int
	redact                func(uri string) string

	refusedIsError func(*core.Error) bool
	endIsError     func(core.End) bool
}

func newConfig(options []Option) (config, error) {
	var c config
	for _, option := range options {
		option(&c)
	}
	if c.tracers == nil {
		c.tracers = otel.GetTracerProvider()
	}
	if c.meters == nil {
		c.meters = otel.GetMeterProvider()
	}
	if c.propagator == nil {
		c.propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	if c.refusedIsError == nil {
		c.refusedIsError = refusedIsError
	}
	if c.endIsError == nil {
		c.endIsError = endIsError
	}
	if c.deliverySpans && (c.perPublish <= 0 || c.perStream <= 0) {
		return c, errors.New("mcpotel: a cap on delivery spans is not positive")
	}
	return c, nil
}

// WithTracerProvider sets where spans go. Nil, the default, is the global
// provider, which may be set later than the Observer is made.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) { c.tracers = p }
}

// WithMeterProvider sets where metrics go. Nil, the default, is the global
// provider, which may be set later than the Observer is made.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) { c.meters = p }
}

// WithPropagator sets how trace context is read from params._meta and, where
// there is none and no span either, from the transport's headers. Nil, the
// default, is W3C trace context and baggage, whatever the global propagator is:
// traceparent, tracestate and baggage are the keys that MCP defines for _meta
// (SEP-414).
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(c *config) { c.propagator = p }
}

// WithPublicEndpoint makes each stream whose parent would be in another process
// the root of a trace of its own, with a link to that parent: for endpoints whose
// clients are strangers, and whose decision to sample is not to be followed.
func WithPublicEndpoint() Option {
	return func(c *config) { c.publicEndpoint = true }
}

// WithDeliverySpans makes a span of each delivered notification, as a child of
// the publish that caused it and with a link to its stream. There are at most
// perPublish of them for one publish and perStream for one stream in a minute;
// what is beyond is left out, so that a publish to thousands of streams does not
// push other spans out of the exporter's queue. Both must be positive; 100 and 60
// are a good start. A publish whose span is not recorded has none.
//
// By default there are none.
func WithDeliverySpans(perPublish, perStream int) Option {
	return func(c *config) { c.deliverySpans, c.perPublish, c.perStream = true, perPublish, perStream }
}

// WithURIRedaction makes the spans of deliveries carry, as mcp.resource.uri, what
// redact returns for a resource's URI; an empty string is left out. It is called
// on the stream's goroutine, for each such span. By default no URI is on any
// span, and none is on a metric ever.
func WithURIRedaction(redact func(uri string) string) Option {
	return func(c *config) { c.redact = redact }
}

// WithErrorClassifier sets which refused requests and which ends of streams count
// as errors: those get the attribute error.type, on spans and metrics, and the
// span's status Error. Nil for either one is its default.
//
// By default a refusal is an error unless it is the caller's fault by the
// conventions for MCP (the codes -32700, -32600, -32601, -32602 and -32002) or
// the client left before it was answered. An end is one where its reason is
// slow_client, write_error or panic, and where a shutdown could not flush the
// result.
func WithErrorClassifier(refused func(*core.Error) bool, ended func(core.End) bool) Option {
	return func(c *config) { c.refusedIsError, c.endIsError = refused, ended }
}
