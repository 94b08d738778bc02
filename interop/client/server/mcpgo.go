// mcp-go.

package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type mcpGo struct {
	server  *server.MCPServer
	streams *requests
	tools   atomic.Int64
}

func newMCPGo(streams *requests) *mcpGo {
	s := server.NewMCPServer("mcpgo", "1", server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true))
	return &mcpGo{server: s, streams: streams}
}

func (s *mcpGo) handler() http.Handler {
	return server.NewStreamableHTTPServer(s.server, server.WithStateLess(true))
}

func (s *mcpGo) publish(kind, uri string) {
	if kind == "updated" {
		s.server.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": uri})
		return
	}
	s.server.AddTool(mcp.NewTool(fmt.Sprintf("tool-%d", s.tools.Add(1))), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(""), nil
	})
}

func (s *mcpGo) end() { s.streams.cancel() }

func (s *mcpGo) stdio(context.Context) error { return server.ServeStdio(s.server) }
