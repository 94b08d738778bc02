// chi, with otelchi and its metrics.

package beside

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/riandyrn/otelchi"
	otelchimetric "github.com/riandyrn/otelchi/metric"

	mcpchi "github.com/mcplisten/mcplisten/adapters/chi"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
)

// OnChi has a span of every HTTP request. The middleware that measures durations
// does not see streams.
func OnChi(mcp *mcphttp.Handler, server http.Handler, metrics otelchimetric.BaseConfig, options ...otelchi.Option) http.Handler {
	r := chi.NewRouter()
	r.Use(otelchi.Middleware("server", options...))
	r.Use(unlessListen(otelchimetric.NewRequestDurationMillis(metrics)))
	mcpchi.Mount(r, "/mcp", mcp, mcpchi.WithNext(server))
	return r
}

// unlessListen leaves streams out of any middleware, one that measures for
// example.
func unlessListen(middleware func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		others := middleware(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isListen(r) {
				next.ServeHTTP(w, r)
				return
			}
			others.ServeHTTP(w, r)
		})
	}
}

// OnChiFiltered has no spans of the HTTP requests that are streams either.
func OnChiFiltered(mcp *mcphttp.Handler, server http.Handler, metrics otelchimetric.BaseConfig, options ...otelchi.Option) http.Handler {
	options = append(options, otelchi.WithFilter(func(r *http.Request) bool { return !isListen(r) }))
	return OnChi(mcp, server, metrics, options...)
}
