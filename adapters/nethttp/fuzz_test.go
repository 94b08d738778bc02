// Fuzz targets: whatever a client sends gets an answer of the table.

package mcphttp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

// emptyHanded is an endpoint that delivers nothing, so that every stream ends at
// once.
func emptyHanded(tb testing.TB) (*core.Hub, *mcphttp.Handler) {
	tb.Helper()
	hub := newHub(tb, core.Config{})
	h, err := mcphttp.New(hub, mcphttp.WithMaxBody(4<<10))
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return hub, h
}

func FuzzHandler(f *testing.F) {
	valid := listentest.ListenBody("7", `{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}`)
	f.Add(valid, "POST", core.MethodListen, core.ProtocolVersion, "*/*", "application/json", "", "localhost", false)
	f.Add(valid, "POST", core.MethodListen, core.ProtocolVersion, "text/event-stream;q=0", "application/json", "", "localhost", true)
	f.Add(valid, "POST", "", "2025-11-25", "", "application/json;charset=x", "null", "evil", true)
	f.Add(listentest.ListenBody(`"\u00e9"`, `{}`), "POST", core.MethodListen, core.ProtocolVersion, "a/b,,;", "APPLICATION/JSON", "http://[::1]:0", "[::1]:1", false)
	f.Add(strings.Replace(valid, core.MethodListen, core.MethodDiscover, 1), "POST", core.MethodDiscover, core.ProtocolVersion, "", "application/json", "", "", false)
	f.Add(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, "POST", "", "", "", "application/json", "", "", false)
	f.Add(`{"jsonrpc":"2.0","id":0,"method":"initialize"}`, "POST", "initialize", "", "", "application/json", "", "", false)
	f.Add("["+valid+"]", "POST", core.MethodListen, core.ProtocolVersion, "", "application/json", "%", ":", true)
	f.Add(strings.Repeat("[", 5000), "GET", "", "", "", "", "", "", true)

	hub, h := emptyHanded(f)
	f.Fuzz(func(t *testing.T, body, method, mcpMethod, version, accept, contentType, origin, host string, inFront bool) {
		r := httptest.NewRequest(http.MethodPost, listentest.Path, strings.NewReader(body))
		r.Method, r.Host = method, host
		for name, value := range map[string]string{
			"Mcp-Method": mcpMethod, "Mcp-Protocol-Version": version, "Accept": accept, "Content-Type": contentType, "Origin": origin,
		} {
			if value != "" {
				r.Header[name] = []string{value}
			}
		}
		passed := false
		var handler http.Handler = h
		if inFront {
			handler = h.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				passed = true
				got := new(strings.Builder)
				if _, err := io.Copy(got, r.Body); err != nil || got.String() != body {
					t.Errorf("the next handler got %q and error %v, want %q", got, err, body)
				}
			}))
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if n := len(hub.Streams()); n != 0 {
			t.Errorf("%d streams are left", n)
		}
		switch {
		case passed:
			if mcpMethod == core.MethodListen || method != http.MethodPost {
				t.Error("the next handler was called")
			}
			return
		case w.Code == http.StatusMethodNotAllowed && method != http.MethodPost, w.Code == http.StatusAccepted:
			if w.Body.Len() > 0 {
				t.Errorf("status %d with a body: %s", w.Code, w.Body)
			}
			return
		}
		checkAnswer(t, w)
	})
}

// checkAnswer checks a stream that ended at once, a result or an error.
func checkAnswer(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code == http.StatusOK && w.Header().Get("Content-Type") == "text/event-stream" {
		if n := strings.Count(w.Body.String(), "data: "); n < 2 || !strings.HasPrefix(w.Body.String(), `data: {"jsonrpc":"2.0","method":"`+core.MethodAcknowledged) {
			t.Errorf("the stream is not an acknowledgment and a result: %s", w.Body)
		}
		return
	}
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   *core.Error     `json:"error"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || m.Version != "2.0" || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("the answer is no JSON-RPC: %v: %d %s", err, w.Code, w.Body)
	}
	if (m.Error == nil) != (w.Code == http.StatusOK) || (m.Result == nil) == (m.Error == nil) {
		t.Errorf("status and body do not agree: %d %s", w.Code, w.Body)
	}
	if !slices.Contains([]int{200, 400, 403, 404, 406, 413, 415}, w.Code) {
		t.Errorf("status %d is not in the table: %s", w.Code, w.Body)
	}
}

func FuzzAccept(f *testing.F) {
	for _, seed := range []string{
		"", "*/*", "text/*;q=0", "text/event-stream", "application/json, text/event-stream;q=0.5", "text/event-stream;q=0, */*",
		"TEXT/EVENT-STREAM;Q=0", ",;=,", "text/event-stream;q=nan", "*/*;q=1e-9", "text/event-stream;a=b;q=0;c",
	} {
		f.Add(seed)
	}
	_, h := emptyHanded(f)
	body := listentest.ListenBody("7", "{}")
	status := func(accept ...string) int {
		r := httptest.NewRequest(http.MethodPost, listentest.Path, strings.NewReader(body))
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "Mcp-Method": {core.MethodListen}, "Mcp-Protocol-Version": {core.ProtocolVersion},
			"Accept": accept,
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	f.Fuzz(func(t *testing.T, accept string) {
		got := status(accept)
		if got != http.StatusOK && got != http.StatusNotAcceptable {
			t.Fatalf("Accept %q: status %d, want 200 or 406", accept, got)
		}
		for what, same := range map[string]int{
			"over several lines": status(strings.Split(accept, ",")...),
			"with spaces":        status(" " + strings.ReplaceAll(strings.ReplaceAll(accept, ",", "\t, "), ";", " ; ")),
			"twice":              status(accept, accept),
			"in capitals":        status(upper(accept)),
		} {
			if same != got {
				t.Errorf("Accept %q: status %d, but %d %s", accept, got, same, what)
			}
		}
		if with := status(accept, "text/event-stream;q=1"); with != http.StatusOK {
			t.Errorf("Accept %q and text/event-stream: status %d, want 200", accept, with)
		}
		if strings.TrimSpace(accept) != "" && got == http.StatusNotAcceptable {
			if with := status(accept, "application/json"); with != got {
				t.Errorf("Accept %q and application/json: status %d, want %d", accept, with, got)
			}
		}
	})
}

// upper returns s with its ASCII letters in capitals.
func upper(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}
