// What the server announces reaches the streams: each change once, on every framework.

package mcpgobridge_test

import (
	"context"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// TestEachChangeIsToldOnce: exactly the notification that belongs to it, though no
// client holds a stream of the server's own.
func TestEachChangeIsToldOnce(t *testing.T) {
	t.Parallel()
	tools, prompts, resources := client.Notification{Kind: client.Tools}, client.Notification{Kind: client.Prompts}, client.Notification{Kind: client.Resources}
	updated := client.Notification{Kind: client.Updated, URI: notesA}
	resource := mcp.NewResource(notesA, "a")
	changes := []struct {
		name string
		do   func(*server.MCPServer, *accounts)
		want client.Notification
	}{
		{"AddTool", func(s *server.MCPServer, _ *accounts) { addTool(s, "one") }, tools},
		{"AddTools", func(s *server.MCPServer, _ *accounts) {
			s.AddTools(server.ServerTool{Tool: mcp.NewTool("two"), Handler: noTool}, server.ServerTool{Tool: mcp.NewTool("three"), Handler: noTool})
		}, tools},
		{"SetTools", func(s *server.MCPServer, _ *accounts) {
			s.SetTools(server.ServerTool{Tool: mcp.NewTool("four"), Handler: noTool})
		}, tools},
		{"DeleteTools", func(s *server.MCPServer, _ *accounts) { s.DeleteTools("four") }, tools},
		{"AddPrompt", func(s *server.MCPServer, _ *accounts) { s.AddPrompt(mcp.NewPrompt("one"), noPrompt) }, prompts},
		{"DeletePrompts", func(s *server.MCPServer, _ *accounts) { s.DeletePrompts("one") }, prompts},
		{"AddResource", func(s *server.MCPServer, _ *accounts) { s.AddResource(resource, noResource) }, resources},
		{"RemoveResource", func(s *server.MCPServer, _ *accounts) { s.RemoveResource(notesA) }, resources},
		{"SetResources", func(s *server.MCPServer, _ *accounts) {
			s.SetResources(server.ServerResource{Resource: resource, Handler: noResource})
		}, resources},
		{"DeleteResources", func(s *server.MCPServer, _ *accounts) { s.DeleteResources(notesA) }, resources},
		{"AddResourceTemplate", func(s *server.MCPServer, _ *accounts) {
			s.AddResourceTemplate(mcp.NewResourceTemplate("notes://{name}", "note"), nil)
		}, resources},
		{"an update for all", func(s *server.MCPServer, _ *accounts) {
			s.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": notesA})
		}, updated},
		{"an update for the subscribers", func(_ *server.MCPServer, a *accounts) { a.updated(notesA) }, updated},
		{"an update whose URI is of a type of its own", func(s *server.MCPServer, _ *accounts) {
			s.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": note(notesA)})
		}, updated},
	}
	for framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			srv, accounts := newServer()
			b := attach(t, srv, core.Config{})
			l := listen(t, serve(t, framework, srv, b), everything)
			if got := l.stream.LeftOut(); !got.Empty() {
				t.Fatalf("not honored: %+v", got)
			}
			for _, change := range changes {
				change.do(srv, accounts)
				// Nothing of these concerns anybody.
				srv.SendNotificationToAllClients("notifications/of/another/kind", nil)
				srv.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": 7})
				srv.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, nil)
				srv.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": "notes://other"})
				srv.DeleteTools("there is no such tool")
				l.want(change.name, change.want)
			}
			accounts.updated(notesB)
			l.want("the last", client.Notification{Kind: client.Updated, URI: notesB})
			b.Hub().EndWhere(func(core.StreamInfo) bool { return true })
			for more := range l.told {
				t.Errorf("after all that: told %v", more)
			}
		})
	}
}

type note string

// TestManyToolsMakeFewNotifications, and the last one comes after the last change.
func TestManyToolsMakeFewNotifications(t *testing.T) {
	t.Parallel()
	for framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			srv, _ := newServer()
			ended := make(chan core.End, 1)
			b := attach(t, srv, core.Config{OnEnd: func(e core.End) { ended <- e }})
			l := listen(t, serve(t, framework, srv, b), everything)
			go func() {
				for _, name := range toolNames(200) {
					addTool(srv, name)
				}
			}()
			for seen := 0; seen < 200; {
				l.want("tools", client.Notification{Kind: client.Tools})
				seen = len(srv.ListTools())
			}
			b.Hub().EndWhere(func(core.StreamInfo) bool { return true })
			for got := range l.told { // there may be one more of what was seen
				if got.Kind != client.Tools {
					t.Errorf("told %v", got)
				}
			}
			if got := (<-ended).Stream.Delivered; got > 50 {
				t.Errorf("200 tools made %d notifications", got)
			}
		})
	}
}

// TestNobodyElseIsNeeded: with no session at all a server of mcp-go tells nobody.
// Whoever listens is told all the same, and what comes before the first listener is
// no trouble.
func TestNobodyElseIsNeeded(t *testing.T) {
	t.Parallel()
	srv := server.NewMCPServer("bare", "1", server.WithToolCapabilities(true)) // without hooks
	b := attach(t, srv, core.Config{})
	for _, name := range toolNames(1000) {
		addTool(srv, name)
	}
	url := serve(t, "nethttp", srv, b)
	l := listen(t, url, core.Filter{ToolsListChanged: true})
	srv.DeleteTools("tool-1")
	l.want("a change", client.Notification{Kind: client.Tools})
}

// TestTheApplicationPublishesToo: beside the server, on the hub, where the
// configuration says so.
func TestTheApplicationPublishesToo(t *testing.T) {
	t.Parallel()
	srv := server.NewMCPServer("tools only", "1", server.WithToolCapabilities(true))
	b := attach(t, srv, core.Config{Capabilities: core.Capabilities{ResourceSubscriptions: true}})
	l := listen(t, serve(t, "nethttp", srv, b), core.Filter{ToolsListChanged: true, ResourceSubscriptions: []string{notesA}})
	if err := b.Hub().Publish(context.Background(), core.ResourceUpdated(notesA)); err != nil {
		t.Fatal(err)
	}
	l.want("the application's", client.Notification{Kind: client.Updated, URI: notesA})
	addTool(srv, "one")
	l.want("the server's", client.Notification{Kind: client.Tools})
}
