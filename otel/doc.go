// Package mcpotel makes OpenTelemetry spans and metrics of what a hub does. It
// uses the OpenTelemetry API alone: which SDK, sampler and exporter there are is
// the application's choice.
//
//	observer, err := mcpotel.New()
//	…
//	hub, err := core.NewHub(core.Config{Observer: observer, …})
//
// Each stream is one SERVER span, subscriptions/listen, from its acknowledgment
// to its close. No backend shows a span before it has ended, so a short span of
// the acknowledgment is exported at once. Each publish is one PRODUCER span;
// spans of deliveries are left out unless asked for ([WithDeliverySpans]).
// Metrics carry the volume.
//
// Names follow the semantic conventions for MCP (open-telemetry,
// semantic-conventions-genai, stability Development); what they do not define
// starts with mcplisten. Resource URIs are never part of a span's name or of a
// metric.
//
// At the end of a program, shut down in this order, or spans are lost: the hub,
// which ends the streams' spans; the HTTP server; the TracerProvider and the
// MeterProvider.
package mcpotel
