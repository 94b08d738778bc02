// Mounting on chi.

// Package mcpchi mounts MCP subscriptions/listen (revision 2026-07-28) on a chi
// router.
//
//	mcp, err := mcphttp.New(hub)
//	…
//	r.Route("/api", func(r chi.Router) {
//		r.Use(authenticate)
//		mcpchi.Mount(r, "/mcp", mcp, mcpchi.WithNext(server))
//	})
//
// All of the protocol is in package mcphttp, and so are its options.
package mcpchi

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
)

// Option sets one thing of a mounted endpoint.
type Option func(*config)

type config struct {
	next      http.Handler
	principal func(*http.Request) string
}

// WithNext sets the handler that gets what is no listen request: the MCP server
// of the service. The body reaches it as it came. Without one the endpoint
// answers alone, as [mcphttp.Handler.ServeHTTP] does.
func WithNext(next http.Handler) Option {
	return func(c *config) { c.next = next }
}

// WithPrincipal sets how to get the name of the authenticated principal, for the
// hub's Authorizer; chi's middleware leaves it in r.Context(). It replaces
// [mcphttp.WithPrincipal] for this endpoint.
func WithPrincipal(principal func(r *http.Request) string) Option {
	return func(c *config) { c.principal = principal }
}

// Mount serves the endpoint at pattern, on a router, a sub-router or a group, for
// every method that chi knows: GET and DELETE are answered with 405 behind the
// group's own middleware, not by the router in front of it, and OPTIONS reaches
// the group's CORS middleware.
func Mount(r chi.Router, pattern string, mcp *mcphttp.Handler, opts ...Option) {
	r.Handle(pattern, Handler(mcp, opts...))
}

// Handler returns the endpoint for those who register routes themselves. It
// should get every method: use r.Handle.
func Handler(mcp *mcphttp.Handler, opts ...Option) http.HandlerFunc {
	var c config
	for _, opt := range opts {
		opt(&c)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		var principal func() string
		if c.principal != nil {
			principal = func() string { return c.principal(r) }
		}
		var next func()
		if c.next != nil {
			next = func() { c.next.ServeHTTP(w, r) }
		}
		mcp.Serve(w, r, principal, next)
	}
}
