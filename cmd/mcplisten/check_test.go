// Checking: our own server is well, and each mistake of another is found.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// check runs the checks and returns the findings by their names.
func check(tb testing.TB, args ...string) (map[string]finding, int) {
	tb.Helper()
	var out, errs output
	code := run(testContext(tb), append([]string{"check", "--json"}, args...), &out, &errs)
	found := make(map[string]finding)
	for text := range strings.Lines(out.String()) {
		var f finding
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			tb.Fatalf("%q: %v", text, err)
		}
		if old, twice := found[f.Check]; !twice || old.Level == ok {
			found[f.Check] = f
		}
	}
	return found, code
}

func TestCheckOurOwn(t *testing.T) {
	t.Parallel()
	trigger := make(chan struct{}, 1)
	hub, url := serve(t, core.Config{KeepAlive: 100 * time.Millisecond}, nil)
	ctx := testContext(t)
	control := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		_ = hub.Publish(ctx, core.ToolsListChanged(), core.ResourcesListChanged(), core.ResourceUpdated("file:///a"))
		trigger <- struct{}{}
	}))
	defer control.Close()
	// The trigger is this very command, which posts the listen request.
	var out, errs output
	code := run(ctx, []string{
		"check", url, "--resource", "file:///a", "--wait", "5s", "--timeout", "2s",
		"--trigger", triggerCommand(control.URL),
	}, &out, &errs)
	if code != exitOK || strings.Contains(out.String(), "FAIL") || strings.Contains(out.String(), "warn") || strings.Contains(out.String(), "skip") {
		t.Errorf("exit code %d:\n%s%s", code, out.String(), errs.String())
	}
	if len(trigger) == 0 || !strings.Contains(out.String(), "delivery") {
		t.Errorf("nothing was triggered:\n%s", out.String())
	}
}

// triggerCommand is a shell command that makes one HTTP request.
func triggerCommand(url string) string {
	host := strings.TrimPrefix(url, "http://")
	name, port, _ := strings.Cut(host, ":")
	return fmt.Sprintf(`bash -c 'exec 3<>/dev/tcp/%s/%s; printf "GET / HTTP/1.0\r\n\r\n" >&3; cat <&3 >/dev/null'`, name, port)
}

func TestCheckNoStream(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	found, code := check(t, srv.URL)
	if code != exitRefused || found["acknowledgment"].Level != fail {
		t.Errorf("404: exit code %d, %v", code, found)
	}
	srv.Close()
	if _, code = check(t, srv.URL); code != exitDropped {
		t.Errorf("nobody there: exit code %d", code)
	}
}

// Each of these servers has one fault, made in front of a good one.
func TestCheckFindsFaults(t *testing.T) {
	t.Parallel()
	type middleware = func(http.Handler) http.Handler
	// request changes what the server reads.
	request := func(change func(r *http.Request, body string) string) middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				text := change(r, string(body))
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
				next.ServeHTTP(w, r)
			})
		}
	}
	// response changes what it writes.
	response := func(change func(h http.Header, body []byte) []byte) middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(&changing{w, change}, r)
			})
		}
	}
	replace := func(from, to string) func(http.Header, []byte) []byte {
		return func(_ http.Header, b []byte) []byte { return bytes.ReplaceAll(b, []byte(from), []byte(to)) }
	}
	good := `{"toolsListChanged":true,`
	tests := []struct {
		name  string
		fault middleware
		check string
		level level
	}{
		{"rounded id", response(replace("9007199254740993", "9007199254740992")), "id: 2^53+1", fail},
		{"id as text", response(replace(`Id":1}`, `Id":"1"}`)), "id: integer", fail},
		{"escaped id", response(replace(`<&>`, `\u003c\u0026\u003e`)), "id: text with quote and slash", note},
		{"notification first", response(replace(`"method":"notifications/subscriptions/acknowledged"`, `"method":"notifications/tools/list_changed"`)), "acknowledgment", fail},
		{"more than asked", response(replace(`"notifications":{"toolsListChanged":true}`, `"notifications":{"toolsListChanged":true,"resourcesListChanged":true}`)), "filter: tools alone", fail},
		{"any case", request(func(_ *http.Request, b string) string {
			return strings.Replace(b, `{"toolslistchanged":true,`, good, 1)
		}), "filter: another case", fail},
		{"result without subscription", response(replace(`"resultType":"complete",`, `"resultType":"complete","x":{},"_meta":{}},"y":{`)), "result", fail},
		{"no resultType", response(replace(`"resultType":"complete",`, ``)), "result", fail},
		{"fractions", request(func(_ *http.Request, b string) string { return strings.Replace(b, `"id":1.5`, `"id":1`, 1) }), "refuses: id 1.5", fail},
		{"lenient flags", request(func(_ *http.Request, b string) string { return strings.Replace(b, `"true"`, `true`, 1) }), "refuses: flag is text", fail},
		{"any version header", request(func(r *http.Request, b string) string {
			if r.Header.Get("MCP-Protocol-Version") != "" {
				r.Header.Set("MCP-Protocol-Version", core.ProtocolVersion)
			}
			return b
		}), "refuses: version header differs", fail},
		{"any origin", request(func(r *http.Request, b string) string { r.Header.Del("Origin"); return b }), "foreign Origin", fail},
		{"any host", request(func(r *http.Request, b string) string { r.Host = "localhost"; return b }), "foreign Host", warn},
		{"any type", request(func(r *http.Request, b string) string {
			if r.Method == http.MethodPost {
				r.Header.Set("Content-Type", "application/json")
			}
			return b
		}), "Content-Type text/plain", warn},
		{"any Accept", request(func(r *http.Request, b string) string { r.Header.Del("Accept"); return b }), "Accept without event-stream", warn},
		{"sessions", response(func(h http.Header, b []byte) []byte { h.Set("Mcp-Session-Id", "x"); return b }), "Mcp-Session-Id", warn},
		{"caching", response(func(h http.Header, b []byte) []byte { h.Del("Cache-Control"); return b }), "Cache-Control", warn},
		{"buffering", response(func(h http.Header, b []byte) []byte { h.Del("X-Accel-Buffering"); return b }), "X-Accel-Buffering", warn},
		{"plain text", response(func(h http.Header, b []byte) []byte {
			if strings.Contains(string(b), "-32700") {
				return []byte("bad request")
			}
			return b
		}), "refuses: not JSON", warn},
		{"GET answers", func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					next.ServeHTTP(w, r)
				}
			})
		}, http.MethodGet, warn},
		{"advertised only", response(replace(`"tools":{"listChanged":true}`, `"tools":{"listChanged":true},"prompts":{"listChanged":true}`)), "server/discover", fail},
		{"honored only", response(replace(`"tools":{"listChanged":true}`, `"x":1`)), "server/discover", warn},
		{"ping", response(replace(`: keep-alive`, `data: ping`)), "keep-alive", fail},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wait := "0"
			if tt.check == "keep-alive" {
				wait = "1s"
			}
			_, url := serve(t, core.Config{KeepAlive: 100 * time.Millisecond}, tt.fault)
			found, code := check(t, url, "--wait", wait, "--timeout", "2s")
			if got := found[tt.check]; got.Level != tt.level {
				t.Errorf("%s: got %q (%s), want %s", tt.check, got.Level, got.Found, tt.level)
			}
			if want := tt.level == fail; want != (code != exitOK) {
				t.Errorf("exit code %d", code)
			}
			area, _, _ := strings.Cut(tt.check, ":")
			for name, f := range found {
				if f.Level == fail && !strings.HasPrefix(name, area) && tt.check != "acknowledgment" && tt.check != "result" {
					t.Errorf("%s is said to fail too: %s", name, f.Found)
				}
			}
		})
	}
}

// changing changes what is written. Headers are changed with the first byte.
type changing struct {
	http.ResponseWriter
	change func(http.Header, []byte) []byte
}

func (c *changing) WriteHeader(status int) {
	c.change(c.Header(), nil)
	c.Header().Del("Content-Length")
	c.ResponseWriter.WriteHeader(status)
}

func (c *changing) Write(p []byte) (int, error) {
	if _, err := c.ResponseWriter.Write(c.change(c.Header(), p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// FlushError makes all that is written go through here.
func (c *changing) FlushError() error { return http.NewResponseController(c.ResponseWriter).Flush() }

func (c *changing) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// A server that keys its streams by the bare id, and lets anybody cancel them.
func TestCheckFindsSharedIDs(t *testing.T) {
	t.Parallel()
	shared := &byBareID{open: make(map[string]func())}
	_, url := serve(t, core.Config{}, shared.wrap)
	found, code := check(t, url, "--wait", "0", "--timeout", "2s")
	for _, name := range []string{"two streams with one id", "notifications/cancelled"} {
		if found[name].Level != fail {
			t.Errorf("%s: got %q", name, found[name].Level)
		}
	}
	if code != exitFindings {
		t.Errorf("exit code %d", code)
	}
}
