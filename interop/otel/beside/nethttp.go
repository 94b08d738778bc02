// net/http, with otelhttp.

package beside

import (
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// OnNetHTTP has a span of every HTTP request. The durations of streams are apart
// from those of other requests: they have the attribute mcp.method.name.
func OnNetHTTP(mcp *mcphttp.Handler, server http.Handler, options ...otelhttp.Option) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", labelStreams(mcp.Middleware(server)))
	return otelhttp.NewHandler(mux, "server", options...)
}

func labelStreams(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isListen(r) {
			labeler, _ := otelhttp.LabelerFromContext(r.Context())
			labeler.Add(attribute.String("mcp.method.name", core.MethodListen))
		}
		next.ServeHTTP(w, r)
	})
}

// OnNetHTTPFiltered has neither spans nor durations of the HTTP requests that are
// streams: mcplisten's own are enough.
func OnNetHTTPFiltered(mcp *mcphttp.Handler, server http.Handler, options ...otelhttp.Option) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.Middleware(server))
	options = append(options, otelhttp.WithFilter(func(r *http.Request) bool { return !isListen(r) }))
	return otelhttp.NewHandler(mux, "server", options...)
}
