// The table of behaviours that all adapters share, mounted on an
// http.ServeMux.

package mcphttp_test

import (
	"net/http"
	"testing"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

func TestEndpoint(t *testing.T) { listentest.Run(t, mount) }

func mount(tb testing.TB, e listentest.Endpoint) http.Handler {
	tb.Helper()
	h, err := mcphttp.New(e.Hub, e.Options...)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	var endpoint http.Handler = h
	if e.Next != nil {
		endpoint = h.Middleware(e.Next)
	}
	mux := http.NewServeMux()
	mux.Handle(listentest.Path, endpoint)
	return mux
}
