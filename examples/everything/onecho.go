// Mounted on echo.

package main

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	mcpecho "github.com/mcplisten/mcplisten/adapters/echo"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
)

func onEcho(a *app) (http.Handler, error) {
	listen, err := mcphttp.New(a.hub, a.options...)
	if err != nil {
		return nil, err
	}
	e := echo.New()
	if len(a.origins) > 0 {
		e.Use(middleware.CORSWithConfig(middleware.CORSConfig{
			AllowOrigins: a.origins, AllowMethods: corsMethods, AllowHeaders: corsHeaders,
			ExposeHeaders: corsExposed, MaxAge: corsMaxAge,
		}))
	}
	e.Use(echoHostile(a.middleware))
	mcp := e.Group(endpoint)
	if len(a.tokens) > 0 {
		mcp.Use(echoAuthentication(a.tokens))
	}
	mcpecho.Mount(mcp, "", listen, mcpecho.WithNext(echo.WrapHandler(a.server)),
		mcpecho.WithPrincipal(func(c echo.Context) string {
			p, _ := c.Get("principal").(string)
			return p
		}))
	for _, path := range pagePaths {
		e.GET(path, echo.WrapHandler(page()))
	}
	return e, nil
}

// echoAuthentication puts the principal into echo's own context.
func echoAuthentication(t tokens) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			principal, err := t.authenticate(c.Request().Header.Get(echo.HeaderAuthorization))
			if err != nil {
				c.Response().Header().Set(echo.HeaderWWWAuthenticate, challenge)
				return echo.NewHTTPError(http.StatusUnauthorized, err.Error())
			}
			c.Set("principal", principal)
			return next(c)
		}
	}
}

// echoHostile returns the middleware called name, echo's own where it has one.
func echoHostile(name string) echo.MiddlewareFunc {
	switch name {
	case "timeout":
		//nolint:staticcheck // deprecated, and in services
		return middleware.TimeoutWithConfig(middleware.TimeoutConfig{Timeout: hostileTimeout})
	case "contexttimeout":
		return middleware.ContextTimeout(hostileTimeout)
	case "compress":
		return middleware.Gzip()
	case "bodydump":
		return middleware.BodyDump(func(echo.Context, []byte, []byte) {})
	default:
		return echo.WrapMiddleware(func(next http.Handler) http.Handler { return inFront(name, next) })
	}
}
