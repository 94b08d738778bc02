package server

// This file is mcp-go.

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func newMCPGo() endpoint {
	s := server.NewMCPServer("bench", "1", server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true))
	var changes atomic.Int64
	setTool := func() {
		tool := mcp.NewTool("bench", mcp.WithDescription(fmt.Sprintf("does nothing, revision %d", changes.Add(1))))
		s.AddTool(tool, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(""), nil
		})
	}
	setTool()
	return endpoint{
		handler: server.NewStreamableHTTPServer(s),
		publish: func(_ context.Context, c change) error {
			switch c.kind {
			case toolsChange:
				setTool()
				return nil
			case resourceChange:
				s.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": c.uri})
				return nil
			}
			return errKind
		},
	}
}
