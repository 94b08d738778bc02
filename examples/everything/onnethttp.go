// Mounted on net/http alone.

package main

import (
	"net/http"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/rs/cors"
)

func onNetHTTP(a *app) (http.Handler, error) {
	listen, err := mcphttp.New(a.hub, append(a.options, mcphttp.WithPrincipal(principal))...)
	if err != nil {
		return nil, err
	}
	mcp := listen.Middleware(a.server)
	if len(a.tokens) > 0 {
		mcp = a.tokens.authentication(mcp)
	}
	mux := http.NewServeMux()
	mux.Handle(endpoint, mcp)
	for _, path := range pagePaths {
		mux.Handle("GET "+path+exactly(path), page())
	}
	handler := inFront(a.middleware, mux)
	if len(a.origins) > 0 {
		// net/http has none of its own; this is what its users take.
		handler = cors.New(cors.Options{
			AllowedOrigins: a.origins, AllowedMethods: corsMethods, AllowedHeaders: corsHeaders,
			ExposedHeaders: corsExposed, MaxAge: corsMaxAge,
		}).Handler(handler)
	}
	return handler, nil
}

// exactly makes a pattern that ends with a slash match no longer path.
func exactly(path string) string {
	if path == "/" {
		return "{$}"
	}
	return ""
}
