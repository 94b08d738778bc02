// Findings that are true: a server that says goodbye, is full, is cut or goes away
// during the check is not said to have faults that it does not have.

package main

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// wantNoFault complains about each finding that says something bad.
func wantNoFault(t *testing.T, found map[string]finding, code, wantCode int) {
	t.Helper()
	if code != wantCode {
		t.Errorf("exit code %d, want %d", code, wantCode)
	}
	for _, f := range found {
		if f.Level == fail || f.Level == warn {
			t.Errorf("%s %s: %s", f.Level, f.Check, f.Found)
		}
	}
}

func wantSkips(t *testing.T, found map[string]finding, says string, checks ...string) {
	t.Helper()
	for _, name := range checks {
		if f := found[name]; f.Level != skip || !strings.Contains(f.Found, says) {
			t.Errorf("%s: got %q (%s), want it skipped since %s", name, f.Level, f.Found, says)
		}
	}
}

func TestCheckGoodbyes(t *testing.T) {
	t.Parallel()
	_, url := serve(t, core.Config{MaxLifetime: 40 * time.Millisecond, KeepAlive: time.Minute}, nil)
	found, code := check(t, url, "--wait", "5s", "--timeout", "2s", "--trigger", "true")
	wantNoFault(t, found, code, exitOK)
	wantSkips(t, found, "with its result", "two streams with one id", "notifications/cancelled", "keep-alive")
	wantSkips(t, found, "before anything came", "delivery")
}

func TestCheckTriggerFails(t *testing.T) {
	t.Parallel()
	_, url := serve(t, core.Config{KeepAlive: 20 * time.Millisecond}, nil)
	found, code := check(t, url, "--wait", "5s", "--timeout", "500ms", "--trigger", "exit 3")
	wantNoFault(t, found, code, exitOK)
	wantSkips(t, found, "trigger failed", "delivery")
}

func TestCheckFullServer(t *testing.T) {
	t.Parallel()
	_, url := serve(t, core.Config{MaxStreams: 1, KeepAlive: 20 * time.Millisecond}, nil)
	found, code := check(t, url, "--wait", "5s", "--timeout", "2s")
	wantNoFault(t, found, code, exitOK)
	wantSkips(t, found, "at its limit", "two streams with one id", "notifications/cancelled")
	if found["keep-alive"].Level != ok || found["ids"].Level != ok {
		t.Errorf("got %v and %v", found["keep-alive"], found["ids"])
	}
}

// A limit on the rate that is reached once the server has been seen.
func TestCheckRateLimit(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			_, url := serve(t, core.Config{}, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if requests.Add(1) > 1 {
						w.WriteHeader(status)
						return
					}
					next.ServeHTTP(w, r)
				})
			})
			found, code := check(t, url, "--wait", "1s", "--timeout", "2s")
			wantNoFault(t, found, code, exitOK)
			wantSkips(t, found, "at its limit", "id: integer", "filter: tools alone", "empty filter", "server/discover",
				"two streams with one id", "notifications/cancelled", "GET", "refuses: id null", "Accept without event-stream",
				"foreign Origin", "foreign Host", "keep-alive")
		})
	}
}

// Something in between cuts each stream, whatever its id.
func TestCheckCutStreams(t *testing.T) {
	t.Parallel()
	_, url := serve(t, core.Config{}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// A deadline would be a goodbye.
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer time.AfterFunc(40*time.Millisecond, cancel).Stop()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	})
	found, code := check(t, url, "--wait", "0", "--timeout", "2s")
	wantNoFault(t, found, code, exitOK)
	wantSkips(t, found, "nothing was done to", "two streams with one id", "notifications/cancelled")
}

// The server goes away at one request or another, as after a crash.
func TestCheckServerGoes(t *testing.T) {
	t.Parallel()
	// Of the requests, those up to 11 are about ids, 13 to 17 about filters, and so on
	// to some fifty.
	for _, at := range []int32{2, 7, 13, 16, 18, 19, 21, 22, 24, 27, 33, 50, 54, 57} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}, KeepAlive: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			handler, err := mcphttp.New(hub)
			if err != nil {
				t.Fatal(err)
			}
			var requests atomic.Int32
			gone, crash := context.WithCancel(context.Background())
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) >= at {
					crash()
					panic(http.ErrAbortHandler)
				}
				ctx, cut := context.WithCancel(r.Context())
				defer cut()
				defer context.AfterFunc(gone, cut)()
				handler.ServeHTTP(w, r.WithContext(ctx))
			}))
			t.Cleanup(func() {
				_ = hub.Shutdown(context.Background())
				srv.Close()
			})
			var out, errs output
			code := run(testContext(t), []string{"check", srv.URL, "--wait", "5s", "--timeout", "2s"}, &out, &errs)
			if code != exitDropped || !strings.Contains(errs.String(), "stopped answering") || strings.Contains(out.String(), "FAIL") || strings.Contains(out.String(), "warn") {
				t.Errorf("gone at request %d of %d: exit code %d\n%s%s", at, requests.Load(), code, out.String(), errs.String())
			}
		})
	}
}

// One request without an answer is a finding about that request.
func TestCheckOneWithoutAnswer(t *testing.T) {
	t.Parallel()
	_, url := serve(t, core.Config{}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})
	found, code := check(t, url, "--wait", "0", "--timeout", "2s")
	if code != exitOK || found[http.MethodPut].Level != warn || found["foreign Origin"].Level != ok {
		t.Errorf("exit code %d, %v", code, found)
	}
}

// Refused is what was refused, and nothing else.
func TestCheckExitWithoutStream(t *testing.T) {
	t.Parallel()
	answer := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			_ = http.NewResponseController(w).Flush()
			if contentType == "text/event-stream" {
				<-r.Context().Done()
			}
		}
	}
	const failed = `{"jsonrpc":"2.0","id":"check-1","error":{"code":-32601,"message":"no"}}`
	tests := []struct {
		name    string
		handler http.HandlerFunc
		code    int
		level   level
		says    string
	}{
		{"no message", answer(200, "text/event-stream", ""), exitFindings, fail, "sends nothing"},
		{"comments", answer(200, "text/event-stream", ": hello\n\n"), exitFindings, fail, "sends nothing"},
		{"a page", answer(200, "text/html", "<html>"), exitFindings, fail, "200"},
		{"a result", answer(200, "application/json", `{"jsonrpc":"2.0","id":"check-1","result":{}}`), exitFindings, fail, "200, a result"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, exitFindings, fail, "302"},
		{"gzip", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, "data: {}\n\n")
			_ = z.Flush()
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, exitFindings, fail, "gzip"},
		{"an error in a 200", answer(200, "application/json", failed), exitRefused, fail, "-32601"},
		{"an error in a stream", answer(200, "text/event-stream", "data: "+failed+"\n\n"), exitRefused, fail, "-32601"},
		{"unauthorized", answer(401, "text/plain", "no"), exitRefused, fail, "401"},
		{"full", answer(503, "text/plain", "no"), exitRefused, skip, "at its limit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tt.handler)
			t.Cleanup(srv.Close)
			found, code := check(t, srv.URL, "--timeout", "300ms")
			if f := found["acknowledgment"]; code != tt.code || f.Level != tt.level || !strings.Contains(f.Found, tt.says) {
				t.Errorf("exit code %d, want %d: %+v", code, tt.code, f)
			}
		})
	}
}
