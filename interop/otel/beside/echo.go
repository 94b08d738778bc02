// echo, with otelecho for spans and otelhttp for durations.

package beside

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/contrib/instrumentation/github.com/labstack/echo/otelecho"

	mcpecho "github.com/mcplisten/mcplisten/adapters/echo"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
)

// OnEcho has a span of every HTTP request. otelecho measures no durations, so
// there are none to keep streams out of; a middleware that does goes into
// unlessListen.
func OnEcho(mcp *mcphttp.Handler, server http.Handler, measure func(http.Handler) http.Handler, options ...otelecho.Option) http.Handler {
	e := echo.New()
	e.Use(otelecho.Middleware("server", options...))
	e.Use(echo.WrapMiddleware(unlessListen(measure)))
	mcpecho.Mount(e, "/mcp", mcp, mcpecho.WithNext(echo.WrapHandler(server)))
	return e
}

// OnEchoFiltered has no spans of the HTTP requests that are streams either.
func OnEchoFiltered(mcp *mcphttp.Handler, server http.Handler, measure func(http.Handler) http.Handler, options ...otelecho.Option) http.Handler {
	options = append(options, otelecho.WithSkipper(func(c echo.Context) bool { return isListen(c.Request()) }))
	return OnEcho(mcp, server, measure, options...)
}
