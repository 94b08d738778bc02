package main

// This file has the frameworks under test: how a service of each mounts the endpoint, behind its own authentication. What is
// added to this table is soaked like the rest.

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	mcpchi "github.com/mcplisten/mcplisten/adapters/chi"
	mcpecho "github.com/mcplisten/mcplisten/adapters/echo"
	mcpgin "github.com/mcplisten/mcplisten/adapters/gin"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
)

const (
	endpointPath    = "/mcp"
	headerPrincipal = "X-Soak-Principal" // stands for authentication
	headerDeadline  = "X-Soak-Deadline"  // has the request's context end after deadlineLife
)

// leanMount is net/http with lean streams.
const leanMount = "lean"

// mount is one way to serve the endpoint.
type mount struct {
	name    string
	options []mcphttp.Option // beside those that all have
	serve   func(*mcphttp.Handler) http.Handler
}

func mounts() []mount {
	return []mount{
		{name: "nethttp", serve: onNetHTTP},
		{name: "chi", serve: onChi},
		{name: "echo", serve: onEcho},
		{name: "gin", serve: onGin},
		{name: leanMount, options: []mcphttp.Option{mcphttp.WithLeanStreams()}, serve: onNetHTTP},
	}
}

type principalKey struct{}

// authenticate is a middleware of net/http and chi.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), principalKey{}, r.Header.Get(headerPrincipal))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func principalOf(r *http.Request) string {
	name, _ := r.Context().Value(principalKey{}).(string)
	return name
}

// onNetHTTP gets its principal through [mcphttp.WithPrincipal], as a plain handler does.
func onNetHTTP(h *mcphttp.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(endpointPath, authenticate(h))
	return mux
}

func onChi(h *mcphttp.Handler) http.Handler {
	r := chi.NewRouter()
	r.Group(func(r chi.Router) {
		r.Use(authenticate)
		mcpchi.Mount(r, endpointPath, h, mcpchi.WithPrincipal(principalOf))
	})
	return r
}

func onEcho(h *mcphttp.Handler) http.Handler {
	e := echo.New()
	api := e.Group("", func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set(headerPrincipal, c.Request().Header.Get(headerPrincipal))
			return next(c)
		}
	})
	mcpecho.Mount(api, endpointPath, h, mcpecho.WithPrincipal(func(c echo.Context) string {
		name, _ := c.Get(headerPrincipal).(string)
		return name
	}))
	return e
}

func onGin(h *mcphttp.Handler) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	api := engine.Group("", func(c *gin.Context) {
		c.Set(headerPrincipal, c.GetHeader(headerPrincipal))
	})
	mcpgin.Mount(api, endpointPath, h, mcpgin.WithPrincipal(func(c *gin.Context) string {
		return c.GetString(headerPrincipal)
	}))
	return engine
}
