// The endpoint in gin's groups and chains.

package mcpgin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/mcplisten/mcplisten/adapters/gin"
	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/mounttest"
)

func authenticate(c *gin.Context) {
	user, ok := mounttest.Authenticate(c.Request)
	if !ok {
		c.AbortWithStatus(http.StatusUnauthorized)
		return
	}
	c.Set("user", user)
}

func user(c *gin.Context) string { return c.GetString("user") }

func TestMount(t *testing.T) {
	t.Parallel()
	for name, mount := range map[string]func(*gin.Engine, func(gin.IRoutes, string)){
		"group": func(e *gin.Engine, mount func(gin.IRoutes, string)) {
			mount(e.Group(mounttest.Prefix, authenticate), mounttest.Path)
		},
		"group in a group": func(e *gin.Engine, mount func(gin.IRoutes, string)) {
			mount(e.Group("/api", authenticate).Group("/v1"), mounttest.Path)
		},
		"engine": func(e *gin.Engine, mount func(gin.IRoutes, string)) {
			mount(e.Use(authenticate), mounttest.Prefix+mounttest.Path)
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
				e := gin.New()
				mount(e, func(r gin.IRoutes, path string) {
					mcpgin.Mount(r, path, mcp, mcpgin.WithNext(gin.WrapH(next)), mcpgin.WithPrincipal(user))
				})
				return e
			})
		})
	}
}

// Handlers behind the endpoint in a chain run after the next handler, unless it
// aborts, and never after an answer of the endpoint's own.
func TestChain(t *testing.T) {
	t.Parallel()
	hub, err := core.NewHub(core.Config{})
	if err != nil {
		t.Fatal(err)
	}
	mcp, err := mcphttp.New(hub)
	if err != nil {
		t.Fatal(err)
	}
	var ran []string
	step := func(name string, aborts bool) gin.HandlerFunc {
		return func(c *gin.Context) {
			ran = append(ran, name)
			if aborts {
				c.AbortWithStatus(http.StatusTeapot)
			}
		}
	}
	e := gin.New()
	e.Any("/goes-on", step("before", false), mcpgin.Handler(mcp, mcpgin.WithNext(step("next", false))), step("behind", false))
	e.Any("/aborts", step("before", false), mcpgin.Handler(mcp, mcpgin.WithNext(step("next", true))), step("behind", false))
	for _, c := range []struct {
		path, method, mcpMethod string
		status                  int
		ran                     string
	}{
		{"/goes-on", http.MethodPost, "tools/list", http.StatusOK, "before next behind"},
		{"/goes-on", http.MethodPost, "", http.StatusOK, "before next behind"},
		{"/aborts", http.MethodPost, "tools/list", http.StatusTeapot, "before next"},
		{"/goes-on", http.MethodPost, core.MethodListen, http.StatusBadRequest, "before"},
		{"/goes-on", http.MethodGet, "", http.StatusMethodNotAllowed, "before"},
	} {
		ran = nil
		req := httptest.NewRequest(c.method, c.path, strings.NewReader(`{"method":"x"}`))
		req.Header.Set("Content-Type", "application/json")
		if c.mcpMethod != "" {
			req.Header.Set("Mcp-Method", c.mcpMethod)
		}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, req)
		if got := strings.Join(ran, " "); w.Code != c.status || got != c.ran {
			t.Errorf("%s %s %q: got %d after %q, want %d after %q", c.method, c.path, c.mcpMethod, w.Code, got, c.status, c.ran)
		}
	}
}
