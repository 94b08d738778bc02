// gin, with otelgin.

package beside

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/otel/attribute"

	mcpgin "github.com/mcplisten/mcplisten/adapters/gin"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// OnGin has a span of every HTTP request. The durations of streams are apart from
// those of other requests: they have the attribute mcp.method.name.
func OnGin(mcp *mcphttp.Handler, server http.Handler, options ...otelgin.Option) http.Handler {
	options = append(options, otelgin.WithMetricAttributeFn(func(r *http.Request) []attribute.KeyValue {
		if !isListen(r) {
			return nil
		}
		return []attribute.KeyValue{attribute.String("mcp.method.name", core.MethodListen)}
	}))
	g := gin.New()
	g.Use(otelgin.Middleware("server", options...))
	mcpgin.Mount(g, "/mcp", mcp, mcpgin.WithNext(gin.WrapH(server)))
	return g
}

// OnGinFiltered has neither spans nor durations of the HTTP requests that are
// streams.
func OnGinFiltered(mcp *mcphttp.Handler, server http.Handler, options ...otelgin.Option) http.Handler {
	options = append(options, otelgin.WithFilter(func(r *http.Request) bool { return !isListen(r) }))
	g := gin.New()
	g.Use(otelgin.Middleware("server", options...))
	mcpgin.Mount(g, "/mcp", mcp, mcpgin.WithNext(gin.WrapH(server)))
	return g
}
