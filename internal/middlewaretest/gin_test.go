// gin's own middleware, and what is used with it.

package middlewaretest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/gin-contrib/cors"
	"github.com/gin-contrib/gzip"
	"github.com/gin-contrib/requestid"
	ginsessions "github.com/gin-contrib/sessions"
	"github.com/gin-contrib/sessions/cookie"
	"github.com/gin-gonic/gin"

	"github.com/mcplisten/mcplisten/adapters/gin"
	"github.com/mcplisten/mcplisten/adapters/nethttp"
)

var ginCells = []cell{
	{middleware: "none", app: onGin(), also: passes},
	{middleware: "`gin.Logger`", app: onGin(gin.LoggerWithWriter(io.Discard)), note: onEnd},
	{middleware: "`gin.Recovery`", app: onGin(gin.RecoveryWithWriter(io.Discard))},
	{middleware: "`gin-contrib/requestid`", app: onGin(requestid.New())},
	{middleware: "`gin-contrib/cors`", app: onGin(cors.Default()), also: preflight, note: list},
	{middleware: "`gin-contrib/sessions`", app: onGin(ginsessions.Sessions("s", cookie.NewStore([]byte("key"))), ginSession)},
	{
		middleware: "`gin-contrib/gzip`", app: onGin(gzip.Gzip(gzip.DefaultCompression)),
		note: compressed, remedy: "gin: excluded path",
	},
	{
		middleware: "a timeout that buffers, as `gin-contrib/timeout` does", app: onGin(ginTimeout),
		note: "It keeps the whole response until the handler returns.", remedy: "gin: mount outside the group",
	},
	{
		middleware: "a context with a deadline", app: onGin(ginContextTimeout), limited: true,
		note: "Clients listen again.", remedy: "gin: mount outside the group",
	},
	{
		middleware: "a throttle: at most one request at a time", app: anew(func() app { return onGin(ginOneAtATime()) }), also: throttled,
		note: "Each stream takes a place for as long as it lasts.", remedy: "gin: mount outside the group",
	},
	{
		middleware: "a body dump: a `gin.ResponseWriter` that keeps a copy", app: onGin(ginDump), also: dumps(&ginDumped),
		note: dumped, remedy: "gin: mount outside the group",
	},
	{
		middleware: "a `gin.ResponseWriter` that holds the body back", app: onGin(ginHold),
		note: "It cannot stream.", remedy: "gin: mount outside the group",
	},
	{
		middleware: "sessions around the engine: `alexedwards/scs`", app: aroundGin(sessions),
		note: "The session is saved before the stream starts.",
	},
	{
		middleware: "`http.TimeoutHandler` around the engine", app: aroundGin(timeoutHandler),
		note: "It keeps the whole response until the handler returns.", remedy: "net/http: mount outside",
	},
	{
		middleware: "`http.TimeoutHandler` around the engine, a body dump inside", app: aroundGin(timeoutHandler, ginCopy),
		note: "gin's writers do not say that they cannot flush. It is seen all the same.", remedy: "net/http: mount outside",
	},
	{
		middleware: "a wrapper with neither `Flush` nor `Unwrap` around the engine", app: aroundGin(naive),
		note: "Nothing says how to get past it.", remedy: "net/http: a wrapper that streams pass",
	},
	{
		middleware: "a wrapper with `Unwrap`, without `Flush`, around the engine", app: aroundGin(statusRecorder),
		note: "It sees the header and the status. The bytes go past it, as a flush does.",
	},
	{
		middleware: "the same, and `gin-contrib/gzip` inside", app: aroundGin(statusRecorder, gzip.Gzip(gzip.DefaultCompression)),
		note: "What is compressed above cannot go past it.", remedy: "gin: excluded path",
	},
	{
		middleware: "many at once",
		app: aroundGin(snoop, gin.LoggerWithWriter(io.Discard), gin.RecoveryWithWriter(io.Discard), requestid.New(),
			ginCopy, gzip.Gzip(gzip.BestSpeed)),
	},
}

// onGin mounts the endpoint on a gin group that uses middlewares.
func onGin(all ...gin.HandlerFunc) app {
	return aroundGin(func(next http.Handler) http.Handler { return next }, all...)
}

// aroundGin also has a middleware around the engine.
func aroundGin(outer middlewareFunc, all ...gin.HandlerFunc) app {
	return func(mcp *mcphttp.Handler) http.Handler {
		engine := gin.New()
		g := engine.Group("", all...)
		mcpgin.Mount(g, path, mcp, mcpgin.WithNext(gin.WrapF(rest)))
		return outer(engine)
	}
}

func ginSession(c *gin.Context) {
	session := ginsessions.Default(c)
	session.Set("seen", time.Now().Unix())
	_ = session.Save()
}

func ginContextTimeout(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), timeout)
	defer cancel()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}

// ginBuffer is a writer that keeps header, status and body.
type ginBuffer struct {
	gin.ResponseWriter
	header http.Header
	code   int
	body   bytes.Buffer
}

func (w *ginBuffer) Header() http.Header                  { return w.header }
func (w *ginBuffer) Write(p []byte) (int, error)          { return w.body.Write(p) }
func (w *ginBuffer) WriteString(text string) (int, error) { return w.body.WriteString(text) }

func (w *ginBuffer) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

// ginTimeout runs the rest of the chain on a goroutine of its own and copies out
// what it wrote.
func ginTimeout(c *gin.Context) {
	outer := c.Writer
	buffer := &ginBuffer{ResponseWriter: outer, header: make(http.Header)}
	c.Writer = buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Next()
	}()
	select {
	case <-done:
	case <-time.After(hang):
		panic("the handler did not return")
	}
	c.Writer = outer
	for name, values := range buffer.header {
		outer.Header()[name] = values
	}
	outer.WriteHeader(buffer.code)
	_, _ = outer.Write(buffer.body.Bytes())
}

// ginTee copies the body.
type ginTee struct {
	gin.ResponseWriter
	copied bytes.Buffer
}

func (w *ginTee) Write(p []byte) (int, error) {
	w.copied.Write(p)
	return w.ResponseWriter.Write(p)
}

var ginDumped = make(chan []byte, 16)

func ginCopy(c *gin.Context) {
	c.Writer = &ginTee{ResponseWriter: c.Writer}
	c.Next()
}

func ginDump(c *gin.Context) {
	tee := &ginTee{ResponseWriter: c.Writer}
	c.Writer = tee
	c.Next()
	ginDumped <- tee.copied.Bytes()
}

// ginHeld keeps the body to change it.
type ginHeld struct {
	gin.ResponseWriter
	body bytes.Buffer
}

func (w *ginHeld) Write(p []byte) (int, error) { return w.body.Write(p) }

func ginHold(c *gin.Context) {
	held := &ginHeld{ResponseWriter: c.Writer}
	c.Writer = held
	c.Next()
	_, _ = held.ResponseWriter.Write(held.body.Bytes())
}

func ginOneAtATime() gin.HandlerFunc {
	place := make(chan struct{}, 1)
	return func(c *gin.Context) {
		select {
		case place <- struct{}{}:
			defer func() { <-place }()
			c.Next()
		default:
			c.AbortWithStatus(http.StatusTooManyRequests)
		}
	}
}

func outsideGin(mcp *mcphttp.Handler) http.Handler {
	engine := gin.New()
	engine.Use(gin.Recovery())
	limited := engine.Group("", ginContextTimeout, ginOneAtATime())
	limited.GET("/orders", gin.WrapF(orders))
	mcpgin.Mount(engine, "/mcp", mcp)
	return engine
}

func excludedGin(mcp *mcphttp.Handler) http.Handler {
	engine := gin.New()
	engine.Use(gzip.Gzip(gzip.DefaultCompression, gzip.WithExcludedPaths([]string{"/mcp"})))
	engine.GET("/orders", gin.WrapF(orders))
	mcpgin.Mount(engine, "/mcp", mcp)
	return engine
}
