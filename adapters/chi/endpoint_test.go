// The table of behaviours that all adapters share, mounted on chi.

package mcpchi_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/adapters/chi"
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
	var opts []mcpchi.Option
	if e.Next != nil {
		opts = append(opts, mcpchi.WithNext(e.Next))
	}
	r := chi.NewRouter()
	mcpchi.Mount(r, listentest.Path, mcp, opts...)
	return r
}
