// Mounted on chi.

package main

import (
	"bytes"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/cors"
	mcpchi "github.com/mcplisten/mcplisten/adapters/chi"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
)

func onChi(a *app) (http.Handler, error) {
	listen, err := mcphttp.New(a.hub, a.options...)
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	if len(a.origins) > 0 {
		r.Use(cors.Handler(cors.Options{
			AllowedOrigins: a.origins, AllowedMethods: corsMethods, AllowedHeaders: corsHeaders,
			ExposedHeaders: corsExposed, MaxAge: corsMaxAge,
		}))
	}
	r.Use(chiHostile(a.middleware))
	r.Group(func(r chi.Router) {
		if len(a.tokens) > 0 {
			r.Use(a.tokens.authentication)
		}
		mcpchi.Mount(r, endpoint, listen, mcpchi.WithNext(a.server), mcpchi.WithPrincipal(principal))
	})
	for _, path := range pagePaths {
		r.Method(http.MethodGet, path, page())
	}
	return r, nil
}

// chiHostile returns the middleware called name, chi's own where it has one.
func chiHostile(name string) func(http.Handler) http.Handler {
	switch name {
	case "timeout":
		return middleware.Timeout(hostileTimeout)
	case "compress":
		// chi compresses event streams for those who ask for it.
		return middleware.Compress(5, "application/json", "text/html", "text/event-stream")
	case "throttle":
		return middleware.Throttle(throttleLimit)
	case "bodydump":
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body bytes.Buffer
				recorded := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
				recorded.Tee(&body)
				next.ServeHTTP(recorded, r)
			})
		}
	default:
		return func(next http.Handler) http.Handler { return inFront(name, next) }
	}
}
