package server

// This file is the library as its users run it: a hub with the defaults, and an endpoint on their router, in front of what answers
// the other methods.

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	mcpchi "github.com/mcplisten/mcplisten/adapters/chi"
	mcpecho "github.com/mcplisten/mcplisten/adapters/echo"
	mcpgin "github.com/mcplisten/mcplisten/adapters/gin"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// mount makes a service's handler of the endpoint and the handler of the other methods.
type mount func(mcp *mcphttp.Handler, next http.Handler) http.Handler

const path = "/mcp"

func onNetHTTP(mcp *mcphttp.Handler, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(path, mcp.Middleware(next))
	return mux
}

func onChi(mcp *mcphttp.Handler, next http.Handler) http.Handler {
	r := chi.NewRouter()
	mcpchi.Mount(r, path, mcp, mcpchi.WithNext(next))
	return r
}

func onEcho(mcp *mcphttp.Handler, next http.Handler) http.Handler {
	e := echo.New()
	mcpecho.Mount(e, path, mcp, mcpecho.WithNext(echo.WrapHandler(next)))
	return e
}

func onGin(mcp *mcphttp.Handler, next http.Handler) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	mcpgin.Mount(r, path, mcp, mcpgin.WithNext(gin.WrapH(next)))
	return r
}

func newMcplisten(on mount, config core.Config, options ...mcphttp.Option) (endpoint, error) {
	config.Capabilities = core.Capabilities{ToolsListChanged: true, ResourceSubscriptions: true}
	hub, err := core.NewHub(config)
	if err != nil {
		return endpoint{}, err
	}
	mcp, err := mcphttp.New(hub, options...)
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{
		handler: on(mcp, http.HandlerFunc(otherMethods)),
		publish: func(ctx context.Context, c change) error {
			switch c.kind {
			case toolsChange:
				return hub.Publish(ctx, core.ToolsListChanged())
			case resourceChange:
				return hub.Publish(ctx, core.ResourceUpdated(c.uri))
			}
			return errKind
		},
		streams: func() int { return hub.Stats().Open },
		shutdown: func(ctx context.Context) error {
			err := hub.Shutdown(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				return errors.New("server: streams were still open at the end of the shutdown")
			}
			return err
		},
	}, nil
}
