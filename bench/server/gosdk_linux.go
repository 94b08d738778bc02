package server

// This file is the official Go SDK. Its stateless mode is the one that serves revision 2026-07-28.

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func newGoSDK() endpoint {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	var changes atomic.Int64
	setTool := func() {
		s.AddTool(&mcp.Tool{
			Name:        "bench",
			Description: fmt.Sprintf("does nothing, revision %d", changes.Add(1)),
			InputSchema: map[string]any{"type": "object"},
		}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	}
	setTool()
	s.AddResource(&mcp.Resource{URI: "bench:///one", Name: "one"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{}, nil
	})
	return endpoint{
		handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}),
		publish: func(ctx context.Context, c change) error {
			switch c.kind {
			case toolsChange:
				setTool()
				return nil
			case resourceChange:
				return s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: c.uri})
			}
			return errKind
		},
	}
}
