// The table of behaviours that all adapters share, mounted on gin.

package mcpgin_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/adapters/gin"
	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

func TestEndpoint(t *testing.T) { listentest.Run(t, mount) }

func TestLeanEndpoint(t *testing.T) { listentest.RunLean(t, mount) }

func mount(tb testing.TB, e listentest.Endpoint) http.Handler {
	tb.Helper()
	mcp, err := mcphttp.New(e.Hub, e.Options...)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	var opts []mcpgin.Option
	if e.Next != nil {
		opts = append(opts, mcpgin.WithNext(gin.WrapH(e.Next)))
	}
	engine := gin.New()
	mcpgin.Mount(engine, listentest.Path, mcp, opts...)
	return engine
}
