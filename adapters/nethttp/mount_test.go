// The endpoint behind a group's authentication, as net/http has it.

package mcphttp_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/mounttest"
)

func TestMount(t *testing.T) {
	type userKey struct{}
	mounttest.Run(t, func(tb testing.TB, hub *core.Hub, next http.Handler) http.Handler {
		tb.Helper()
		mcp, err := mcphttp.New(hub, mcphttp.WithPrincipal(func(r *http.Request) string {
			name, _ := r.Context().Value(userKey{}).(string)
			return name
		}))
		if err != nil {
			tb.Fatal(err)
		}
		group := http.NewServeMux()
		group.Handle(mounttest.Path, mcp.Middleware(next))
		mux := http.NewServeMux()
		mux.Handle(mounttest.Prefix+"/", http.StripPrefix(mounttest.Prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, ok := mounttest.Authenticate(r)
			if !ok {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			group.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
		})))
		return mux
	})
}
