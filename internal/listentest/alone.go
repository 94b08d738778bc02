// What an endpoint answers that stands alone, and what it answers to methods
// other than POST.

package listentest

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

func (s suite) methods(t *testing.T) {
	t.Parallel()
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Next", r.Method)
		_, _ = io.WriteString(w, "next")
	})
	legacy := []mcphttp.Option{mcphttp.WithLegacyMethods()}
	passed := map[string]bool{http.MethodGet: true, http.MethodDelete: true}
	for name, c := range map[string]struct {
		options Options
		passed  map[string]bool
	}{
		"alone":                {Options{}, nil},
		"alone, legacy":        {Options{HTTP: legacy}, nil},
		"in front":             {Options{Next: next}, nil},
		"in front, legacy":     {Options{Next: next, HTTP: legacy}, passed},
		"in front, over HTTP2": {Options{Next: next, Protocol: H2C}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := s.start(t, c.options)
			client := srv.client(t)
			for _, method := range []string{"GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"} {
				for _, call := range []Call{
					Listen("7", everything).By(method),
					Call{Method: method, Header: http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {secret}}},
				} {
					answer := client.Do(t, call)
					answer.silent(t, secret)
					if c.passed[method] {
						if answer.is(t, http.StatusOK, "next"); answer.Header.Get("X-Next") != method {
							t.Errorf("%s: X-Next is %q, want %s", method, answer.Header.Get("X-Next"), method)
						}
						continue
					}
					if answer.Status != http.StatusMethodNotAllowed {
						t.Errorf("%s: status %d, want 405", method, answer.Status)
					}
					if got := answer.Header.Values("Allow"); len(got) != 1 || got[0] != "POST" {
						t.Errorf("%s: Allow is %q, want POST once", method, got)
					}
					if got := answer.Header.Get("X-Next"); got != "" {
						t.Errorf("%s reached the next handler", method)
					}
				}
			}
		})
	}
}

// alone: notifications are accepted, from clients that send them without header
// too, and end no stream.
func (s suite) alone(t *testing.T) {
	t.Parallel()
	srv := s.start(t, Options{})
	client := srv.client(t)
	stream := client.listen(t, Listen("7", everything))
	for _, call := range []Call{
		Post("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`),
		Post("notifications/cancelled", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"`+secret+`"}}`),
		Post("notifications/cancelled", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`),
		Post("", `{"jsonrpc":"2.0","method":"notifications/`+secret+`"}`),
	} {
		answer := client.Do(t, call)
		answer.is(t, http.StatusAccepted, "")
		answer.silent(t, secret)
	}
	srv.publish(t, core.ToolsListChanged())
	stream.expect(t, core.MethodToolsListChanged)
}

func (s suite) discover(t *testing.T) {
	t.Parallel()
	body := `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + metaMember + `}}`
	for name, c := range map[string]struct {
		hub          core.Config
		capabilities string
		meta         string
	}{
		"all": {
			core.Config{ServerInfo: &core.Implementation{Name: "n", Version: "v"}},
			`{"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`,
			`{"io.modelcontextprotocol/serverInfo":{"name":"n","version":"v"}}`,
		},
		"tools":         {core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}}, `{"tools":{"listChanged":true}}`, ""},
		"subscriptions": {core.Config{Capabilities: core.Capabilities{ResourceSubscriptions: true}}, `{"resources":{"subscribe":true}}`, ""},
		"an extension": {core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}, Extensions: taskExtension()},
			`{"extensions":{"io.modelcontextprotocol/tasks":{}},"tools":{"listChanged":true}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := s.start(t, Options{Hub: c.hub})
			answer := srv.client(t).Do(t, Post(core.MethodDiscover, body))
			var got struct {
				Version string `json:"jsonrpc"`
				ID      string `json:"id"`
				Result  struct {
					Type         string          `json:"resultType"`
					Versions     []string        `json:"supportedVersions"`
					Capabilities json.RawMessage `json:"capabilities"`
					TTL          int             `json:"ttlMs"`
					Scope        string          `json:"cacheScope"`
					Meta         json.RawMessage `json:"_meta"`
				} `json:"result"`
			}
			if err := decodeStrict(answer.Body, &got); err != nil {
				t.Fatalf("%v: %s", err, answer.Body)
			}
			r := got.Result
			if answer.Status != 200 || answer.Header.Get("Content-Type") != "application/json" || got.Version != "2.0" || got.ID != "d" ||
				r.Type != "complete" || len(r.Versions) != 1 || r.Versions[0] != "2026-07-28" || r.TTL <= 0 || r.Scope != "public" {
				t.Errorf("got %d %s", answer.Status, answer.Body)
			}
			if string(r.Capabilities) != c.capabilities || string(r.Meta) != c.meta {
				t.Errorf("got capabilities %s and _meta %s, want %s and %s", r.Capabilities, r.Meta, c.capabilities, c.meta)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{})
		client := srv.client(t)
		call := Post(core.MethodDiscover, body)
		mismatch := wantRefusal{status: 400, code: core.CodeHeaderMismatch, id: `"d"`}
		client.Do(t, call.With(headerMethod)).refused(t, mismatch, "")
		client.Do(t, call.With(headerVersion)).refused(t, mismatch, "")
		client.Do(t, call.With(headerVersion, "2025-11-25")).refused(t, mismatch, "")
		client.Do(t, call.Saying(`{"jsonrpc":"2.0","id":"d","method":"server/discover"}`)).refused(t,
			wantRefusal{status: 400, code: core.CodeInvalidParams, id: `"d"`}, "")
		old := Post(core.MethodDiscover, `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		client.Do(t, old.With(headerVersion, "2")).refused(t, wantRefusal{status: 400, code: core.CodeUnsupportedVersion, id: `"d"`,
			data: `{"supported":["2026-07-28"],"requested":"2"}`}, "")
	})
}
