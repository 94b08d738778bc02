// Names: the spans, metrics and attributes that this package makes, and nowhere
// else. OpenTelemetry's Go module for conventions had those of MCP in a few
// versions only, so they are spelt out here.

package mcpotel

import "go.opentelemetry.io/otel/attribute"

// scope names the instrumentation, after its import path.
const scope = "github.com/mcplisten/mcplisten/otel"

// Attributes of the conventions.
const (
	keyMethod          = attribute.Key("mcp.method.name")
	keyProtocolVersion = attribute.Key("mcp.protocol.version")
	keyResourceURI     = attribute.Key("mcp.resource.uri")
	keyRequestID       = attribute.Key("jsonrpc.request.id")
	keyTransport       = attribute.Key("network.transport")
	keyNetworkProtocol = attribute.Key("network.protocol.name")
	keyNetworkVersion  = attribute.Key("network.protocol.version")
	keyErrorType       = attribute.Key("error.type")

	// keyStatusCode is being renamed to rpc.status_code.
	keyStatusCode = attribute.Key("rpc.response.status_code")
)

// Attributes of our own.
const (
	keyRequested   = attribute.Key("mcplisten.requested")
	keyHonored     = attribute.Key("mcplisten.honored")
	keyResources   = attribute.Key("mcplisten.resource_subscriptions")
	keyCloseReason = attribute.Key("mcplisten.close_reason")
	keyGraceful    = attribute.Key("mcplisten.graceful")
	keyDelivered   = attribute.Key("mcplisten.notifications.delivered")
	keyCoalesced   = attribute.Key("mcplisten.notifications.coalesced")
	keyKeepAlives  = attribute.Key("mcplisten.keepalives")
	keyBytes       = attribute.Key("mcplisten.bytes_written")
	keyRefusal     = attribute.Key("mcplisten.refusal")
	keyChanges     = attribute.Key("mcplisten.changes")
)

// Metrics.
const (
	metricOperation  = "mcp.server.operation.duration"
	metricActive     = "mcplisten.stream.active"
	metricDuration   = "mcplisten.stream.duration"
	metricPublished  = "mcplisten.published.notifications"
	metricSent       = "mcplisten.sent.notifications"
	metricCoalesced  = "mcplisten.coalesced.notifications"
	metricDelivery   = "mcplisten.delivery.duration"
	metricKeepAlives = "mcplisten.sent.keepalives"
	metricRefused    = "mcplisten.refused.requests"
	metricConnected  = "mcplisten.broker.connected"
	metricGaps       = "mcplisten.broker.gaps"
	metricIgnored    = "mcplisten.broker.ignored"
)

// Words for error.type beside close reasons and JSON-RPC codes.
const errorDrainTimeout = "drain_timeout"
