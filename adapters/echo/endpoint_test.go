// The table of behaviours that all adapters share, mounted on echo.

package mcpecho_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/adapters/echo"
	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEndpoint(t *testing.T) { listentest.Run(t, mount) }

func TestLeanEndpoint(t *testing.T) { listentest.RunLean(t, mount) }

func mount(tb testing.TB, e listentest.Endpoint) http.Handler {
	tb.Helper()
	mcp, err := mcphttp.New(e.Hub, e.Options...)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	var opts []mcpecho.Option
	if e.Next != nil {
		opts = append(opts, mcpecho.WithNext(echo.WrapHandler(e.Next)))
	}
	router := echo.New()
	mcpecho.Mount(router, listentest.Path, mcp, opts...)
	return router
}
