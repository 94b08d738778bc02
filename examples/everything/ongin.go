// Mounted on gin.

package main

import (
	"bytes"
	"net/http"
	"time"

	"github.com/gin-contrib/cors"
	"github.com/gin-contrib/gzip"
	"github.com/gin-gonic/gin"
	mcpgin "github.com/mcplisten/mcplisten/adapters/gin"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
)

func init() { gin.SetMode(gin.ReleaseMode) } // else it prints each route

func onGin(a *app) (http.Handler, error) {
	listen, err := mcphttp.New(a.hub, a.options...)
	if err != nil {
		return nil, err
	}
	e := gin.New()
	e.Use(gin.Recovery())
	if len(a.origins) > 0 {
		e.Use(cors.New(cors.Config{
			AllowOrigins: a.origins, AllowMethods: corsMethods, AllowHeaders: corsHeaders,
			ExposeHeaders: corsExposed, MaxAge: corsMaxAge * time.Second,
		}))
	}
	var handler http.Handler = e
	switch a.middleware {
	case "compress":
		e.Use(gzip.Gzip(gzip.DefaultCompression))
	case "bodydump":
		e.Use(ginBodyDump)
	default: // gin has none of its own, and wraps none of net/http's: around it all
		handler = inFront(a.middleware, e)
	}
	mcp := e.Group("")
	if len(a.tokens) > 0 {
		mcp.Use(ginAuthentication(a.tokens))
	}
	mcpgin.Mount(mcp, endpoint, listen, mcpgin.WithNext(gin.WrapH(a.server)),
		mcpgin.WithPrincipal(func(c *gin.Context) string { return c.GetString("principal") }))
	for _, path := range pagePaths {
		e.GET(path, gin.WrapH(page()))
	}
	return handler, nil
}

// ginAuthentication puts the principal into gin's own context.
func ginAuthentication(t tokens) gin.HandlerFunc {
	return func(c *gin.Context) {
		principal, err := t.authenticate(c.GetHeader("Authorization"))
		if err != nil {
			c.Header("WWW-Authenticate", challenge)
			c.AbortWithStatusJSON(http.StatusUnauthorized, gin.H{"error": err.Error()})
			return
		}
		c.Set("principal", principal)
		c.Next()
	}
}

// ginBodyDump is the way in which gin's users look at what was answered.
func ginBodyDump(c *gin.Context) {
	c.Writer = &ginDumped{ResponseWriter: c.Writer}
	c.Next()
}

type ginDumped struct {
	gin.ResponseWriter
	body bytes.Buffer
}

func (d *ginDumped) Write(b []byte) (int, error) {
	d.body.Write(b)
	return d.ResponseWriter.Write(b)
}
