// What a hostile client or a careless hook may do, and what it must not cost.

package mcphttp_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

// trickle is the writer to a client that takes a chunk, but only now and then.
type trickle struct {
	header http.Header
	pause  time.Duration // of every write but the first
	writes int
	last   time.Time // when the latest batch was flushed
}

func (w *trickle) Header() http.Header              { return w.header }
func (w *trickle) WriteHeader(int)                  {}
func (w *trickle) FlushError() error                { w.last = time.Now(); return nil }
func (w *trickle) SetWriteDeadline(time.Time) error { return nil }

func (w *trickle) Write(b []byte) (int, error) {
	if w.writes++; w.writes > 1 {
		<-time.After(w.pause)
	}
	return len(b), nil
}

// TestTheWriteTimeoutIsForAWholeBatch: a client that takes a little just in time
// again and again cannot stretch it. The stream may wake while the changes are still
// being published, so what counts begins at the last batch that was flushed.
func TestTheWriteTimeoutIsForAWholeBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan core.End, 1)
		hub := newHub(t, core.Config{Capabilities: everyKind, OnEnd: func(e core.End) { ends <- e }})
		h, err := mcphttp.New(hub, mcphttp.WithWriteTimeout(10*time.Second), mcphttp.WithHosts("example.com"))
		if err != nil {
			t.Fatal(err)
		}
		uris := make([]string, 500)
		var changes []core.Change
		for i := range uris {
			uris[i] = "file:///" + strings.Repeat("x", 1000) + strconv.Itoa(i)
			changes = append(changes, core.ResourceUpdated(uris[i]))
		}
		r := httptest.NewRequest(http.MethodPost, "http://example.com/mcp",
			strings.NewReader(listentest.ListenBody("1", `{"resourceSubscriptions":["`+strings.Join(uris, `","`)+`"]}`)))
		r.Header = listentest.Listen("1", "{}").Header.Clone()
		w := &trickle{header: http.Header{}, pause: 4 * time.Second}
		go h.ServeHTTP(w, r)
		synctest.Wait()
		if err := hub.Publish(context.Background(), changes...); err != nil {
			t.Fatal(err)
		}
		end := <-ends
		if took := time.Since(w.last); end.Reason != core.SlowClient || took < 10*time.Second || took > 15*time.Second {
			t.Errorf("ended as %s after %v, want slow_client after 10 s and the write under way then", end.Reason, took)
		}
	})
}

// TestAHookThatEndsItsGoroutine is answered like one that panics.
func TestAHookThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	s := serve(t, core.Config{Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
		runtime.Goexit()
		return core.Grant{}, nil
	})}, nil)
	if got := s.do(t, "", listentest.Listen("1", tools)); got.status != http.StatusInternalServerError || !strings.Contains(got.body, "-32603") {
		t.Errorf("got %d %q, want 500 with -32603", got.status, got.body)
	}
}

// TestAPanicKeepsItsStack: it goes on in the caller, and the log says where it began.
func TestAPanicKeepsItsStack(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	hub := newHub(t, core.Config{Capabilities: everyKind})
	h, err := mcphttp.New(hub, mcphttp.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
		mcphttp.WithPrincipal(thisFunctionPanics), mcphttp.WithHosts("example.com"))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://example.com/mcp", strings.NewReader(listentest.ListenBody("1", tools)))
	r.Header = listentest.Listen("1", "{}").Header.Clone()
	defer func() {
		if p := recover(); p != "of the principal" {
			t.Errorf("recovered %v, want the panic's own value", p)
		}
		if !strings.Contains(log.String(), "thisFunctionPanics") {
			t.Errorf("the log does not name the function that panicked:\n%s", &log)
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), r)
}

func thisFunctionPanics(*http.Request) string { panic("of the principal") }

// TestTheLogIsTheHubs where the handler has none of its own.
func TestTheLogIsTheHubs(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]mcphttp.Option{
		"none": nil, "nil": {mcphttp.WithLogger(nil)}, "its own": {mcphttp.WithLogger(slog.New(slog.DiscardHandler))},
	} {
		var log bytes.Buffer
		hub := newHub(t, core.Config{Capabilities: everyKind, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		h, err := mcphttp.New(hub, append(options, mcphttp.WithHosts("example.com"))...)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "http://example.com/mcp", strings.NewReader(listentest.ListenBody("1", tools)))
		r.Header = listentest.Listen("1", "{}").Header.Clone()
		h.ServeHTTP(struct{ http.ResponseWriter }{httptest.NewRecorder()}, r) // a writer that is in the way
		if got, want := strings.Contains(log.String(), "does not let streams through"), name != "its own"; got != want {
			t.Errorf("%s: the hub's log is %q", name, &log)
		}
	}
}

// TestNilOptionsAreNone.
func TestNilOptionsAreNone(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{Capabilities: everyKind})
	h, err := mcphttp.New(hub, nil, mcphttp.WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://example.com/mcp", strings.NewReader(listentest.ListenBody("1", tools)))
	r.Header = listentest.Listen("1", "{}").Header.Clone()
	w := httptest.NewRecorder()
	h.ServeHTTP(struct{ http.ResponseWriter }{w}, r) // a writer that is in the way, which is logged
	if w.Code != http.StatusInternalServerError {
		t.Errorf("got %d, want 500", w.Code)
	}
}
