// echo's own middleware, and what is used with it.

package middlewaretest

import (
	"io"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/mcplisten/mcplisten/adapters/echo"
	"github.com/mcplisten/mcplisten/adapters/nethttp"
)

var echoCells = []cell{
	{middleware: "none", app: onEcho(), also: passes},
	{
		middleware: "`middleware.Logger`", note: onEnd,
		//nolint:staticcheck // deprecated, and in many services
		app: onEcho(middleware.LoggerWithConfig(middleware.LoggerConfig{Output: io.Discard})),
	},
	{middleware: "`middleware.RequestLogger`", app: onEcho(echoLogger), note: onEnd},
	{middleware: "`middleware.Recover`", app: onEcho(middleware.Recover())},
	{middleware: "`middleware.RequestID`", app: onEcho(middleware.RequestID())},
	{middleware: "`middleware.CORS`", app: onEcho(middleware.CORS()), also: preflight, note: list},
	{
		middleware: "`middleware.Timeout`", note: "It keeps the whole response until the handler returns.",
		app: onEcho(echoTimeout), remedy: "echo: mount outside the group",
	},
	{
		middleware: "`middleware.ContextTimeout`", app: onEcho(middleware.ContextTimeout(timeout)), limited: true,
		note: "Clients listen again.", remedy: "echo: skippers",
	},
	{middleware: "`middleware.Gzip`", app: onEcho(middleware.Gzip()), note: compressed, remedy: "echo: skippers"},
	{
		middleware: "`middleware.Gzip` with a `MinLength`", note: compressed, remedy: "echo: skippers",
		app: onEcho(middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1000})),
	},
	{middleware: "`middleware.Decompress`", app: onEcho(middleware.Decompress())},
	{middleware: "`middleware.BodyLimit`", app: onEcho(middleware.BodyLimit("1M"))},
	{
		middleware: "`middleware.BodyDump`", app: onEcho(echoDump), also: dumps(&echoDumped),
		note: dumped + " Newer versions stop at 5 MiB.", remedy: "echo: skippers",
	},
	{
		middleware: "`middleware.RateLimiter`", note: "It counts a stream once, when it is opened.",
		app: onEcho(middleware.RateLimiter(middleware.NewRateLimiterMemoryStore(1000))),
	},
	{
		middleware: "a throttle: at most one request at a time", app: anew(func() app { return onEcho(echo.WrapMiddleware(oneAtATime())) }), also: throttled,
		note: "Each stream takes a place for as long as it lasts.", remedy: "echo: mount outside the group",
	},
	{
		middleware: "sessions: `alexedwards/scs`", app: onEcho(echo.WrapMiddleware(sessions)),
		note: "The session is saved before the stream starts.",
	},
	{
		middleware: "`http.TimeoutHandler`", app: onEcho(echo.WrapMiddleware(timeoutHandler)),
		note: "It keeps the whole response until the handler returns.", remedy: "echo: mount outside the group",
	},
	{
		middleware: "a wrapper with neither `Flush` nor `Unwrap`", app: onEcho(echo.WrapMiddleware(naive)),
		note: "Nothing says how to get past it.", remedy: "net/http: a wrapper that streams pass",
	},
	{
		middleware: "many at once",
		app: onEcho(middleware.RequestID(), echoLogger, middleware.Recover(), middleware.Gzip(), echo.WrapMiddleware(sessions),
			echo.WrapMiddleware(buffering), middleware.Decompress()),
	},
}

// onEcho mounts the endpoint on an echo group that uses middlewares.
func onEcho(all ...echo.MiddlewareFunc) app {
	return func(mcp *mcphttp.Handler) http.Handler {
		e := echo.New()
		e.Logger.SetOutput(io.Discard)
		g := e.Group("", all...)
		mcpecho.Mount(g, path, mcp, mcpecho.WithNext(echo.WrapHandler(http.HandlerFunc(rest))))
		return e
	}
}

var (
	echoLogger = middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
		LogStatus: true, LogResponseSize: true,
		LogValuesFunc: func(echo.Context, middleware.RequestLoggerValues) error { return nil },
	})
	//nolint:staticcheck // deprecated, and in many services
	echoTimeout = middleware.TimeoutWithConfig(middleware.TimeoutConfig{Timeout: timeout})
	echoDumped  = make(chan []byte, 16)
	echoDump    = middleware.BodyDump(func(_ echo.Context, _, response []byte) { echoDumped <- response })
)

// oneAtATime refuses requests while another one runs.
func oneAtATime() middlewareFunc {
	place := make(chan struct{}, 1)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case place <- struct{}{}:
				defer func() { <-place }()
				next.ServeHTTP(w, r)
			default:
				http.Error(w, "too many requests", http.StatusTooManyRequests)
			}
		})
	}
}

func skippersEcho(mcp *mcphttp.Handler) http.Handler {
	e := echo.New()
	stream := func(c echo.Context) bool { return c.Path() == "/mcp" }
	e.Use(
		middleware.ContextTimeoutWithConfig(middleware.ContextTimeoutConfig{Timeout: timeout, Skipper: stream}),
		middleware.GzipWithConfig(middleware.GzipConfig{Skipper: stream}),
		middleware.BodyDumpWithConfig(middleware.BodyDumpConfig{Handler: keep, Skipper: stream}),
	)
	e.GET("/orders", echo.WrapHandler(http.HandlerFunc(orders)))
	mcpecho.Mount(e, "/mcp", mcp)
	return e
}

func outsideEcho(mcp *mcphttp.Handler) http.Handler {
	e := echo.New()
	e.Use(middleware.RequestID(), middleware.Recover())
	limited := e.Group("", echo.WrapMiddleware(timeoutHandler), middleware.Gzip())
	limited.GET("/orders", echo.WrapHandler(http.HandlerFunc(orders)))
	mcpecho.Mount(e, "/mcp", mcp)
	return e
}

func keep(echo.Context, []byte, []byte) {}
