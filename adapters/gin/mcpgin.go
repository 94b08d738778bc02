// Mounting on gin.

// Package mcpgin mounts MCP subscriptions/listen (revision 2026-07-28) on a gin
// engine or group.
//
//	mcp, err := mcphttp.New(hub)
//	…
//	api := engine.Group("/api", authenticate)
//	mcpgin.Mount(api, "/mcp", mcp, mcpgin.WithNext(gin.WrapH(server)))
//
// All of the protocol is in package mcphttp, and so are its options.
package mcpgin

import (
	"github.com/gin-gonic/gin"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
)

// Option sets one thing of a mounted endpoint.
type Option func(*config)

type config struct {
	next      gin.HandlerFunc
	principal func(*gin.Context) string
}

// WithNext sets the handler that gets what is no listen request: the MCP server
// of the service, as an http.Handler through [gin.WrapH]. The body reaches it as
// it came. Without one the endpoint answers alone, as
// [mcphttp.Handler.ServeHTTP] does.
func WithNext(next gin.HandlerFunc) Option {
	return func(c *config) { c.next = next }
}

// WithPrincipal sets how to get the name of the authenticated principal, for the
// hub's Authorizer; gin's middleware leaves it in the context. It replaces
// [mcphttp.WithPrincipal] for this endpoint.
func WithPrincipal(principal func(c *gin.Context) string) Option {
	return func(c *config) { c.principal = principal }
}

// Mount serves the endpoint at path, on an engine or a group, for every method
// that gin knows: GET and DELETE are answered with 405 behind the group's own
// middleware, not by the router in front of it, and OPTIONS reaches the group's
// CORS middleware.
func Mount(r gin.IRoutes, path string, mcp *mcphttp.Handler, opts ...Option) {
	r.Any(path, Handler(mcp, opts...))
}

// Handler returns the endpoint for those who register routes themselves. It
// should get every method: use Any. What it answers itself, it aborts: handlers
// behind it in the chain run only after the next handler.
func Handler(mcp *mcphttp.Handler, opts ...Option) gin.HandlerFunc {
	var cfg config
	for _, opt := range opts {
		opt(&cfg)
	}
	return func(c *gin.Context) {
		var principal func() string
		if cfg.principal != nil {
			principal = func() string { return cfg.principal(c) }
		}
		passed := false
		var next func()
		if cfg.next != nil {
			next = func() {
				passed = true
				cfg.next(c)
			}
		}
		mcp.Serve(c.Writer, c.Request, principal, next)
		if !passed {
			c.Abort()
		}
	}
}
