// The endpoint in echo's groups, and errors on their way to echo's error handler.

package mcpecho_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/mcplisten/mcplisten/adapters/echo"
	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/mounttest"
)

func authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		user, ok := mounttest.Authenticate(c.Request())
		if !ok {
			return echo.ErrUnauthorized
		}
		c.Set("user", user)
		return next(c)
	}
}

func user(c echo.Context) string {
	name, _ := c.Get("user").(string)
	return name
}

func TestMount(t *testing.T) {
	t.Parallel()
	for name, mount := range map[string]func(*echo.Echo, func(mcpecho.Router, string)){
		"group": func(e *echo.Echo, mount func(mcpecho.Router, string)) {
			mount(e.Group(mounttest.Prefix, authenticate), mounttest.Path)
		},
		"group in a group": func(e *echo.Echo, mount func(mcpecho.Router, string)) {
			mount(e.Group("/api", authenticate).Group("/v1"), mounttest.Path)
		},
		"echo": func(e *echo.Echo, mount func(mcpecho.Router, string)) {
			e.Use(authenticate)
			mount(e, mounttest.Prefix+mounttest.Path)
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
				e := echo.New()
				mount(e, func(on mcpecho.Router, path string) {
					mcpecho.Mount(on, path, mcp, mcpecho.WithNext(echo.WrapHandler(next)), mcpecho.WithPrincipal(user))
				})
				return e
			})
		})
	}
}

// The next handler's error is echo's to handle, whether or not the body was
// looked at; the endpoint's own answers are none of it.
func TestErrorOfNext(t *testing.T) {
	t.Parallel()
	hub, err := core.NewHub(core.Config{})
	if err != nil {
		t.Fatal(err)
	}
	mcp, err := mcphttp.New(hub)
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	var handled []error
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		handled = append(handled, err)
		_ = c.NoContent(http.StatusTeapot)
	}
	mcpecho.Mount(e, "/mcp", mcp, mcpecho.WithNext(func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		if err != nil || string(body) != `{"method":"x"}` {
			t.Errorf("the next handler got %q, %v", body, err)
		}
		return boom
	}))
	for _, c := range []struct {
		method, mcpMethod string
		status            int
	}{
		{http.MethodPost, "tools/list", http.StatusTeapot},
		{http.MethodPost, "", http.StatusTeapot},
		{http.MethodPost, core.MethodListen, http.StatusBadRequest},
		{http.MethodGet, "", http.StatusMethodNotAllowed},
	} {
		handled = nil
		req := httptest.NewRequest(c.method, "/mcp", strings.NewReader(`{"method":"x"}`))
		req.Header.Set("Content-Type", "application/json")
		if c.mcpMethod != "" {
			req.Header.Set("Mcp-Method", c.mcpMethod)
		}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, req)
		if w.Code != c.status {
			t.Errorf("%s %q: got %d, want %d", c.method, c.mcpMethod, w.Code, c.status)
		}
		if want := c.status == http.StatusTeapot; want != (len(handled) == 1 && errors.Is(handled[0], boom)) || !want && handled != nil {
			t.Errorf("%s %q: the error handler got %v", c.method, c.mcpMethod, handled)
		}
	}
}
