// The endpoint in chi's groups and sub-routers.

package mcpchi_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/mcplisten/mcplisten/adapters/chi"
	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/mounttest"
)

type userKey struct{}

func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, ok := mounttest.Authenticate(r)
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

func user(r *http.Request) string {
	name, _ := r.Context().Value(userKey{}).(string)
	return name
}

func TestMount(t *testing.T) {
	t.Parallel()
	for name, mount := range map[string]func(chi.Router, func(chi.Router, string)){
		"sub-router": func(r chi.Router, mount func(chi.Router, string)) {
			r.Route(mounttest.Prefix, func(r chi.Router) {
				r.Use(authenticate)
				mount(r, mounttest.Path)
			})
		},
		"group": func(r chi.Router, mount func(chi.Router, string)) {
			r.Group(func(r chi.Router) {
				r.Use(authenticate)
				mount(r, mounttest.Prefix+mounttest.Path)
			})
		},
		"with": func(r chi.Router, mount func(chi.Router, string)) {
			mount(r.With(authenticate), mounttest.Prefix+mounttest.Path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mounttest.Run(t, func(tb testing.TB, hub *core.Hub, next http.Handler) http.Handler {
				tb.Helper()
				mcp, err := mcphttp.New(hub)
				if err != nil {
					tb.Fatal(err)
				}
				r := chi.NewRouter()
				mount(r, func(r chi.Router, pattern string) {
					mcpchi.Mount(r, pattern, mcp, mcpchi.WithNext(next), mcpchi.WithPrincipal(user))
				})
				return r
			})
		})
	}
}
