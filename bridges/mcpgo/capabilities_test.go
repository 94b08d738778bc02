// server/discover and the acknowledgment agree, also where the server changes its mind.

package mcpgobridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	mcpgobridge "github.com/mcplisten/mcplisten/bridges/mcpgo"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// discover asks an endpoint what it advertises.
func discover(t *testing.T, url string) core.Capabilities {
	t.Helper()
	capabilities, _ := discoverAll(t, url)
	return capabilities
}

// discoverAll is discover with the names of the extensions.
func discoverAll(t *testing.T, url string) (capabilities core.Capabilities, extensions []string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"` + core.MetaProtocolVersion + `":"` + core.ProtocolVersion +
		`","` + core.MetaClientCapabilities + `":{}}}}`
	r, err := http.NewRequestWithContext(testContext(t), http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", core.ProtocolVersion)
	r.Header.Set("Mcp-Method", "server/discover")
	resp, err := newHTTPClient(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Result *struct {
			Capabilities struct {
				Tools, Prompts struct{ ListChanged bool }
				Resources      struct{ ListChanged, Subscribe bool }
				Extensions     map[string]struct{}
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Result == nil {
		t.Fatalf("server/discover: %v, %d", err, resp.StatusCode)
	}
	c := answer.Result.Capabilities
	return core.Capabilities{
		ToolsListChanged: c.Tools.ListChanged, PromptsListChanged: c.Prompts.ListChanged,
		ResourcesListChanged: c.Resources.ListChanged, ResourceSubscriptions: c.Resources.Subscribe,
	}, slices.Sorted(maps.Keys(c.Extensions))
}

// acknowledged returns what the acknowledgment of a listen for everything honors.
func acknowledged(t *testing.T, url string) core.Capabilities {
	t.Helper()
	s, err := client.Listen(testContext(t), client.URL(url), everything, client.WithHTTPClient(newHTTPClient(t)))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer s.Close()
	f := s.Honored()
	return core.Capabilities{
		ToolsListChanged: f.ToolsListChanged, PromptsListChanged: f.PromptsListChanged,
		ResourcesListChanged: f.ResourcesListChanged, ResourceSubscriptions: len(f.ResourceSubscriptions) > 0,
	}
}

func TestDiscoverAndTheAcknowledgmentAgree(t *testing.T) {
	t.Parallel()
	tools, prompts := core.Capabilities{ToolsListChanged: true}, core.Capabilities{PromptsListChanged: true}
	resource := server.ServerResource{Resource: mcp.NewResource(notesA, "a"), Handler: noResource}
	tests := []struct {
		name    string
		options []server.ServerOption
		own     core.Capabilities
		later   func(*server.MCPServer, *mcpgobridge.Bridge)
		want    core.Capabilities
	}{
		{name: "nothing"},
		{name: "tools", options: []server.ServerOption{server.WithToolCapabilities(true)}, want: tools},
		{name: "tools that do not change", options: []server.ServerOption{server.WithToolCapabilities(false)}},
		{name: "prompts", options: []server.ServerOption{server.WithPromptCapabilities(true)}, want: prompts},
		{name: "resources that change", options: []server.ServerOption{server.WithResourceCapabilities(false, true)}, want: core.Capabilities{ResourcesListChanged: true}},
		{name: "resources to subscribe to", options: []server.ServerOption{server.WithResourceCapabilities(true, false)}, want: core.Capabilities{ResourceSubscriptions: true}},
		{name: "a first tool", later: func(s *server.MCPServer, _ *mcpgobridge.Bridge) { addTool(s, "one") }, want: tools},
		{name: "a first tool of one session alone, which nobody else is told of", later: func(s *server.MCPServer, _ *mcpgobridge.Bridge) {
			_ = s.RegisterSession(context.Background(), sessionWithResources{newFakeSession("a")})
			_ = s.AddSessionResources("a", resource)
		}, want: core.Capabilities{ResourcesListChanged: true}},
		{
			name: "what the application publishes itself", options: []server.ServerOption{server.WithToolCapabilities(false)},
			own: tools, want: tools,
		},
		{name: "a hub that is switched off", options: []server.ServerOption{server.WithToolCapabilities(true)}, later: func(_ *server.MCPServer, b *mcpgobridge.Bridge) {
			b.Hub().SetMode(core.ModeComplete)
		}},
		{name: "a bridge that is closed", options: []server.ServerOption{server.WithToolCapabilities(true), server.WithPromptCapabilities(true)}, own: prompts, later: func(_ *server.MCPServer, b *mcpgobridge.Bridge) {
			_ = b.Close()
		}, want: prompts},
	}
	for _, test := range tests {
		for _, first := range []string{"discover", "listen"} {
			t.Run(test.name+", "+first+" first", func(t *testing.T) {
				t.Parallel()
				srv := server.NewMCPServer("s", "1", test.options...)
				b := attach(t, srv, core.Config{Capabilities: test.own})
				url := serve(t, "nethttp", srv, b)
				if test.later != nil {
					test.later(srv, b)
				}
				ask := []func(*testing.T, string) core.Capabilities{discover, acknowledged}
				if first == "listen" {
					ask[0], ask[1] = ask[1], ask[0]
				}
				for _, f := range ask {
					if got := f(t, url); got != test.want {
						t.Errorf("got %+v, want %+v", got, test.want)
					}
				}
			})
		}
	}
}

// TestServersThatShareTheirHooks say each what its own hub delivers.
func TestServersThatShareTheirHooks(t *testing.T) {
	t.Parallel()
	hooks := new(server.Hooks)
	var urls []string
	changes := []bool{true, false}
	for _, c := range changes {
		srv := server.NewMCPServer("s", "1", server.WithHooks(hooks), server.WithToolCapabilities(c))
		urls = append(urls, serve(t, "nethttp", srv, attach(t, srv, core.Config{})))
	}
	for i, url := range urls {
		if said, got := discover(t, url), acknowledged(t, url); said != got || got.ToolsListChanged != changes[i] {
			t.Errorf("server %d says %+v and acknowledges %+v", i, said, got)
		}
	}
}

// TestDiscoverNamesExtensions: the hub's beside the server's own, as long as the hub
// serves.
func TestDiscoverNamesExtensions(t *testing.T) {
	t.Parallel()
	srv := server.NewMCPServer("s", "1", server.WithExtensions(map[string]any{"com.example/own": map[string]any{}}))
	family := jobs
	family.Capability = "com.example/jobs"
	b := attach(t, srv, core.Config{Extensions: []core.Extension{{Family: family, Public: true}}})
	url := serve(t, "nethttp", srv, b)
	for mode, want := range map[core.Mode][]string{
		core.ModeServe:    {"com.example/jobs", "com.example/own"},
		core.ModeComplete: {"com.example/own"},
	} {
		b.Hub().SetMode(mode)
		if _, got := discoverAll(t, url); !slices.Equal(got, want) {
			t.Errorf("in mode %v the extensions are %q, want %q", mode, got, want)
		}
	}
}

// sessionWithResources can have resources of its own.
type sessionWithResources struct{ *fakeSession }

func (sessionWithResources) GetSessionResources() map[string]server.ServerResource { return nil }
func (sessionWithResources) SetSessionResources(map[string]server.ServerResource)  {}

// TestI10_WhatIsNotAdvertisedAnyMore ends the streams that were promised it.
func TestI10_WhatIsNotAdvertisedAnyMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, _ := newServer()
		b := attach(t, srv, core.Config{KeepAlive: -1})
		prompts := open(t, b.Hub(), core.Filter{PromptsListChanged: true})
		tools := open(t, b.Hub(), core.Filter{ToolsListChanged: true})
		server.WithPromptCapabilities(false)(srv)
		if _, err := tryOpen(t, b.Hub(), core.Filter{ToolsListChanged: true}); err != nil {
			t.Fatal(err)
		}
		srv.HandleMessage(t.Context(), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"`+
			core.MetaProtocolVersion+`":"`+core.ProtocolVersion+`","`+core.MetaClientCapabilities+`":{}}}}`))
		prompts.want("a stream that was promised prompts", "result")
		if end := <-prompts.done; end.Reason != core.Completed || !end.Graceful {
			t.Errorf("it ended: %+v", end)
		}
		tools.want("a stream that was promised tools")
	})
}

func TestServerInfoIsTheServers(t *testing.T) {
	t.Parallel()
	srv := server.NewMCPServer("notes", "1.2.3", server.WithTitle("Notes"))
	b := attach(t, srv, core.Config{})
	if got, want := b.Hub().ServerInfo(), (core.Implementation{Name: "notes", Title: "Notes", Version: "1.2.3"}); got == nil || *got != want {
		t.Errorf("the hub's server info is %+v, want %+v", got, want)
	}
	own := &core.Implementation{Name: "mine", Version: "2"}
	b = attach(t, server.NewMCPServer("notes", "1.2.3"), core.Config{ServerInfo: own})
	if b.Hub().ServerInfo() != own {
		t.Errorf("the hub's server info is %+v, want the configured one", b.Hub().ServerInfo())
	}
}

func TestAttachFails(t *testing.T) {
	t.Parallel()
	closed := &server.Hooks{}
	closed.AddOnRequestInitialization(func(ctx context.Context, _ any, _ any) error {
		if ctx.Value(password{}) == nil {
			return errors.New("who are you?")
		}
		return nil
	})
	refusing := server.NewMCPServer("s", "1", server.WithHooks(closed))
	tests := []struct {
		name    string
		server  *server.MCPServer
		config  core.Config
		options []mcpgobridge.Option
	}{
		{name: "no server"},
		{name: "a contradiction in the hub's configuration", server: server.NewMCPServer("s", "1"), config: core.Config{MaxStreams: -1}},
		{name: "a negative interval", server: server.NewMCPServer("s", "1"), options: []mcpgobridge.Option{mcpgobridge.WithInterval(-1)}},
		{name: "a nil context", server: server.NewMCPServer("s", "1"), options: []mcpgobridge.Option{mcpgobridge.WithContext(nil)}}, //nolint:staticcheck // what is tested
		{name: "a server that does not answer strangers", server: refusing},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if b, err := mcpgobridge.Attach(test.server, test.config, test.options...); err == nil {
				_ = b.Close()
				t.Error("it was attached")
			}
		})
	}
	ctx := context.WithValue(context.Background(), password{}, true)
	attach(t, refusing, core.Config{}, nil, mcpgobridge.WithContext(ctx))
}

type password struct{}
