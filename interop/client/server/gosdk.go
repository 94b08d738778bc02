// The official Go SDK.

package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type goSDK struct {
	server  *mcp.Server
	streams *requests
	tools   atomic.Int64
}

func newGoSDK(streams *requests) *goSDK {
	allow := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	forget := func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler: allow, UnsubscribeHandler: forget,
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{ListChanged: true},
			Resources: &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
		},
	})
	s.AddResource(&mcp.Resource{URI: "file:///a", Name: "a"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{}, nil
	})
	return &goSDK{server: s, streams: streams}
}

func (s *goSDK) handler() http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.server }, &mcp.StreamableHTTPOptions{Stateless: true})
}

func (s *goSDK) publish(kind, uri string) {
	if kind == "updated" {
		_ = s.server.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
		return
	}
	mcp.AddTool(s.server, &mcp.Tool{Name: fmt.Sprintf("tool-%d", s.tools.Add(1))}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
}

func (s *goSDK) end() { s.streams.cancel() }

func (s *goSDK) stdio(ctx context.Context) error { return s.server.Run(ctx, &mcp.StdioTransport{}) }
