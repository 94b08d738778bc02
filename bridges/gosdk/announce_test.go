// What the server announces, on streams over each framework.

package gosdkbridge_test

import (
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	gosdkbridge "github.com/mcplisten/mcplisten/bridges/gosdk"
	"github.com/mcplisten/mcplisten/core"
)

const uri = "test://first"

// Each change that is made through the SDK's own calls is told to those who listen,
// once, as what it is; a call that changes nothing is not.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	changes := []struct {
		name string
		make func(t *testing.T, s *mcp.Server)
		want []string
	}{
		{"a tool is added", func(_ *testing.T, s *mcp.Server) { addTool(s, "second") }, []string{tools}},
		{"a tool is replaced", func(_ *testing.T, s *mcp.Server) { addTool(s, "second") }, []string{tools}},
		{"a tool is removed", func(_ *testing.T, s *mcp.Server) { s.RemoveTools("second") }, []string{tools}},
		{"no tool is removed", func(_ *testing.T, s *mcp.Server) { s.RemoveTools("second") }, nil},
		{"a prompt is added", func(_ *testing.T, s *mcp.Server) { addPrompt(s, "second") }, []string{prompts}},
		{"a prompt is removed", func(_ *testing.T, s *mcp.Server) { s.RemovePrompts("second") }, []string{prompts}},
		{"a resource is added", func(_ *testing.T, s *mcp.Server) { addResource(s, "test://second") }, []string{resources}},
		{"resources are removed", func(_ *testing.T, s *mcp.Server) { s.RemoveResources("test://second") }, []string{resources}},
		{"a template is added", func(_ *testing.T, s *mcp.Server) {
			s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://{id}", Name: "any"}, read)
		}, []string{resources}},
		{"a template is removed", func(_ *testing.T, s *mcp.Server) { s.RemoveResourceTemplates("test://{id}") }, []string{resources}},
		{"a resource is updated", func(t *testing.T, s *mcp.Server) { update(t, s, uri) }, []string{updated + uri}},
		{"another one is updated", func(t *testing.T, s *mcp.Server) { update(t, s, "test://other") }, nil},
		{"a resource below it is updated", func(t *testing.T, s *mcp.Server) { update(t, s, uri+"/below") }, nil},
		{"all at once", func(t *testing.T, s *mcp.Server) {
			addTool(s, "third")
			addPrompt(s, "third")
			addResource(s, "test://third")
			update(t, s, uri)
		}, []string{tools, prompts, resources, updated + uri}},
	}
	onEach(t, func(t *testing.T, framework string) {
		server := newServer(&handlers{})
		s := serve(t, framework, server, core.Config{})
		ours := s.listen(t, "all", everything(uri))
		sdk := s.connect(t, "the SDK's client", core.ProtocolVersion)
		sdk.subscribe(uri)
		fewer := s.listen(t, "prompts alone", core.Filter{PromptsListChanged: true})
		for _, c := range changes {
			c.make(t, server)
			ours.expect(c.want...)
			sdk.expect(c.want...)
			for _, n := range c.want {
				if n == prompts {
					fewer.expect(prompts)
				}
			}
		}
		ours.nothing()
		sdk.nothing()
		fewer.nothing()
	})
}

// A loop that adds many tools is told of a few times, and once at least when it is
// over: who lists then sees them all.
func TestManyTools(t *testing.T) {
	t.Parallel()
	const many = 200
	onEach(t, func(t *testing.T, framework string) {
		server := newServer(&handlers{})
		s := serve(t, framework, server, core.Config{})
		l := s.listen(t, "stream", core.Filter{ToolsListChanged: true, PromptsListChanged: true})
		sdk := s.connect(t, "the SDK's client", core.ProtocolVersion)
		addTools(server, many)
		addPrompt(server, "second")
		count, listed, prompted := 0, 0, false
		for listed < 1+many || !prompted {
			switch n := l.next(); n {
			case tools:
				count++
				listed = sdk.listTools()
			case prompts:
				prompted = true
			default:
				t.Fatalf("got %q, want tools or prompts", n)
			}
		}
		if count > many/10 {
			t.Errorf("%d notifications of %d tools, want a few", count, many)
		}
	})
}

// A server that serves no older revision, and so has no session of anybody, announces
// all the same.
func TestStateless(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, framework string) {
		server := newServer(&handlers{})
		stateless := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
		s := serveWith(t, framework, server, core.Config{}, func(*gosdkbridge.Bridge) http.Handler { return stateless })
		l := s.listen(t, "stream", everything(uri))
		server.RemoveTools("first")
		l.expect(tools)
		update(t, server, uri)
		l.expect(updated + uri)
		l.nothing()
	})
}
