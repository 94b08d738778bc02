// Mounting on echo.

// Package mcpecho mounts MCP subscriptions/listen (revision 2026-07-28) on an
// echo router or group.
//
//	mcp, err := mcphttp.New(hub)
//	…
//	api := e.Group("/api", authenticate)
//	mcpecho.Mount(api, "/mcp", mcp, mcpecho.WithNext(echo.WrapHandler(server)))
//
// All of the protocol is in package mcphttp, and so are its options.
package mcpecho

import (
	"github.com/labstack/echo/v4"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
)

// Option sets one thing of a mounted endpoint.
type Option func(*config)

type config struct {
	next      echo.HandlerFunc
	principal func(echo.Context) string
}

// WithNext sets the handler that gets what is no listen request: the MCP server
// of the service, as an http.Handler through [echo.WrapHandler]. The body reaches
// it as it came, and its error reaches echo's error handler. Without one the
// endpoint answers alone, as [mcphttp.Handler.ServeHTTP] does.
func WithNext(next echo.HandlerFunc) Option {
	return func(c *config) { c.next = next }
}

// WithPrincipal sets how to get the name of the authenticated principal, for the
// hub's Authorizer; echo's middleware leaves it in the context. It replaces
// [mcphttp.WithPrincipal] for this endpoint.
func WithPrincipal(principal func(c echo.Context) string) Option {
	return func(c *config) { c.principal = principal }
}

// Router is an [echo.Echo] or an [echo.Group].
type Router interface {
	Any(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) []*echo.Route
}

// Mount serves the endpoint at path for every method that echo knows: GET and
// DELETE are answered with 405 behind the group's own middleware, not by the
// router in front of it, and OPTIONS reaches the group's CORS middleware.
func Mount(on Router, path string, mcp *mcphttp.Handler, opts ...Option) {
	on.Any(path, Handler(mcp, opts...))
}

// Handler returns the endpoint for those who register routes themselves. It
// should get every method: use Any.
func Handler(mcp *mcphttp.Handler, opts ...Option) echo.HandlerFunc {
	var cfg config
	for _, opt := range opts {
		opt(&cfg)
	}
	return func(c echo.Context) (err error) {
		var principal func() string
		if cfg.principal != nil {
			principal = func() string { return cfg.principal(c) }
		}
		var next func()
		if cfg.next != nil {
			next = func() { err = cfg.next(c) }
		}
		mcp.Serve(c.Response(), c.Request(), principal, next)
		return err
	}
}
