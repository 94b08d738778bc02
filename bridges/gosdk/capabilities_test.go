// Capabilities: what server/discover says and what is acknowledged are one, at any
// time.

package gosdkbridge_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// agreed returns what server/discover advertises and what a listen for everything is
// acknowledged, after checking that they agree.
func (s *service) agreed(t *testing.T) core.Capabilities {
	t.Helper()
	sdk := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	session, err := sdk.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: httpClient(t)}, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer session.Close()
	advertised := caps(session.InitializeResult().Capabilities)
	acknowledged := s.acknowledged(t)
	if advertised != acknowledged {
		t.Errorf("server/discover says %+v, the acknowledgment %+v", advertised, acknowledged)
	}
	return acknowledged
}

func caps(c *mcp.ServerCapabilities) core.Capabilities {
	return core.Capabilities{
		ToolsListChanged:      c.Tools != nil && c.Tools.ListChanged,
		PromptsListChanged:    c.Prompts != nil && c.Prompts.ListChanged,
		ResourcesListChanged:  c.Resources != nil && c.Resources.ListChanged,
		ResourceSubscriptions: c.Resources != nil && c.Resources.Subscribe,
	}
}

// acknowledged returns what a listen for everything is acknowledged.
func (s *service) acknowledged(t *testing.T) core.Capabilities {
	t.Helper()
	stream, err := client.Listen(t.Context(), client.URL(s.url), everything(uri), client.WithHTTPClient(httpClient(t)))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer stream.Close()
	f := stream.Honored()
	return core.Capabilities{
		ToolsListChanged: f.ToolsListChanged, PromptsListChanged: f.PromptsListChanged,
		ResourcesListChanged: f.ResourcesListChanged, ResourceSubscriptions: len(f.ResourceSubscriptions) > 0,
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	type c = core.Capabilities
	h := &handlers{}
	subscriptions := func(o mcp.ServerOptions) *mcp.ServerOptions {
		o.SubscribeHandler, o.UnsubscribeHandler = h.subscribe, h.unsubscribe
		return &o
	}
	for _, tc := range []struct {
		name    string
		options *mcp.ServerOptions
		add     func(*mcp.Server)
		own     core.Capabilities
		want    core.Capabilities
	}{
		{"an empty server", nil, func(*mcp.Server) {}, c{}, c{}},
		{"tools", nil, func(s *mcp.Server) { addTool(s, "first") }, c{}, c{ToolsListChanged: true}},
		{"prompts", nil, func(s *mcp.Server) { addPrompt(s, "first") }, c{}, c{PromptsListChanged: true}},
		{"resources", nil, func(s *mcp.Server) { addResource(s, uri) }, c{}, c{ResourcesListChanged: true}},
		{
			"resources and subscriptions", subscriptions(mcp.ServerOptions{}), func(s *mcp.Server) { addResource(s, uri) },
			c{}, c{ResourcesListChanged: true, ResourceSubscriptions: true},
		},
		{
			"tools that are announced to be some time",
			&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}}},
			func(*mcp.Server) {}, c{}, c{ToolsListChanged: true},
		},
		{
			"tools that are not announced", &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}},
			func(s *mcp.Server) { addTool(s, "first") }, c{}, c{},
		},
		{
			"tools that the application publishes itself",
			&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}},
			func(s *mcp.Server) { addTool(s, "first") }, c{ToolsListChanged: true}, c{ToolsListChanged: true},
		},
		{
			"updates that the application publishes itself", nil, func(s *mcp.Server) { addResource(s, uri) },
			c{ResourceSubscriptions: true}, c{ResourcesListChanged: true, ResourceSubscriptions: true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := mcp.NewServer(&mcp.Implementation{Name: "test"}, tc.options)
			tc.add(server)
			s := serve(t, "nethttp", server, core.Config{Capabilities: tc.own})
			if got := s.agreed(t); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// What is advertised changes with what the server has, and the acknowledgment with it,
// at once.
func TestCapabilitiesChange(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
	s := serve(t, "nethttp", server, core.Config{})
	is := func(want core.Capabilities) {
		t.Helper()
		if got := s.agreed(t); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	is(core.Capabilities{})
	addTool(server, "first")
	// Nothing was discovered nor announced since, and it is acknowledged all the same.
	if got, want := s.acknowledged(t), (core.Capabilities{ToolsListChanged: true}); got != want {
		t.Errorf("acknowledged %+v, want %+v", got, want)
	}
	is(core.Capabilities{ToolsListChanged: true})
	l := s.listen(t, "stream", everything())
	addPrompt(server, "first")
	is(core.Capabilities{ToolsListChanged: true, PromptsListChanged: true})
	server.RemovePrompts("first")
	is(core.Capabilities{ToolsListChanged: true})
	// A stream is told of what it was acknowledged, even the end of it.
	server.RemoveTools("first")
	l.expect(tools)
	is(core.Capabilities{})

	// Switched off, nothing is advertised nor acknowledged.
	addTool(server, "first")
	s.bridge.Hub().SetMode(core.ModeComplete)
	is(core.Capabilities{})
	s.bridge.Hub().SetMode(core.ModeServe)
	is(core.Capabilities{ToolsListChanged: true})
}

// The result that ends a stream names the server, unless the application names
// another.
func TestServerInfo(t *testing.T) {
	t.Parallel()
	server := newServer(&handlers{})
	bridge := attach(t, server, core.Config{})
	if got, want := bridge.Hub().ServerInfo(), (core.Implementation{Name: "test", Title: "Test", Version: "1.2.3"}); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	other := attach(t, server, core.Config{ServerInfo: &core.Implementation{Name: "other"}})
	if got := other.Hub().ServerInfo(); got.Name != "other" {
		t.Errorf("got %+v, want the application's", got)
	}
}

// The answer to server/discover that the application's own middleware made is not
// changed in place, and what it hides stays hidden.
func TestDiscoverOfMiddleware(t *testing.T) {
	t.Parallel()
	server := newServer(&handlers{})
	kept := &mcp.DiscoverResult{
		SupportedVersions: []string{core.ProtocolVersion},
		Capabilities:      &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "server/discover" {
				return kept, nil
			}
			return next(ctx, method, req)
		}
	})
	s := serve(t, "nethttp", server, core.Config{Mode: core.ModeComplete})
	sdk := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	session, err := sdk.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: httpClient(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	got := session.InitializeResult().Capabilities
	if got.Tools == nil || got.Tools.ListChanged || got.Prompts != nil || got.Resources != nil {
		t.Errorf("got %+v, want tools that are not announced", got)
	}
	if !kept.Capabilities.Tools.ListChanged {
		t.Error("the middleware's own answer was changed")
	}
}

// The answer to server/discover names the hub's extensions beside the server's own.
func TestDiscoverNamesExtensions(t *testing.T) {
	t.Parallel()
	own := &mcp.ServerCapabilities{Extensions: map[string]any{"com.example/own": map[string]any{}}}
	server := mcp.NewServer(&mcp.Implementation{Name: "test"}, &mcp.ServerOptions{Capabilities: own})
	family := core.Family{Member: "jobIds", Method: "notifications/jobs", Key: "job", Capability: "com.example/jobs"}
	s := serve(t, "nethttp", server, core.Config{Extensions: []core.Extension{{Family: family, Public: true}}})
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(
		t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: httpClient(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	got := slices.Sorted(maps.Keys(session.InitializeResult().Capabilities.Extensions))
	if want := []string{"com.example/jobs", "com.example/own"}; !slices.Equal(got, want) {
		t.Errorf("the extensions are %q, want %q", got, want)
	}
	if len(own.Extensions) != 1 {
		t.Error("the server's own capabilities were changed")
	}
}

// The application's Authorizer decides, as without a bridge.
func TestAuthorizer(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	s := serve(t, "nethttp", newServer(&handlers{}), core.Config{
		Authorizer: core.AuthorizerFunc(func(_ context.Context, _ string, f core.Filter) (core.Grant, error) {
			asked <- "asked"
			if f.PromptsListChanged {
				return core.Grant{}, context.Canceled
			}
			return core.Grant{}, nil
		}),
	})
	s.listen(t, "allowed", core.Filter{ToolsListChanged: true})
	_, err := client.Listen(t.Context(), client.URL(s.url), everything(), client.WithHTTPClient(httpClient(t)))
	if client.CauseOf(err) != client.Refused {
		t.Errorf("got %v, want a refusal", err)
	}
	if len(asked) != 2 {
		t.Errorf("asked %d times, want twice", len(asked))
	}
}
