// The MCP server behind the subscriptions: list and read, by the official SDK.

package main

import (
	"context"
	"net/http"

	"github.com/mcplisten/mcplisten/examples/internal/dirmcp"
	"github.com/mcplisten/mcplisten/examples/internal/dirwatch"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is an MCP server whose resources are the files of a directory.
type server struct {
	*dirmcp.Resources
	mcp *mcp.Server
}

func newServer(files *dirwatch.Dir) server {
	s := mcp.NewServer(&mcp.Implementation{Name: "quickstart", Version: "1.0.0"}, &mcp.ServerOptions{
		// What server/discover says must agree with the hub's capabilities.
		Capabilities: &mcp.ServerCapabilities{
			Resources: &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
		},
	})
	s.AddReceivingMiddleware(promiseOldClientsNothing)
	return server{dirmcp.Add(s, files), s}
}

// handler returns the server as an HTTP handler, closed to other sites' pages.
func (s server) handler() http.Handler {
	h := mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s.mcp },
		&mcp.StreamableHTTPOptions{Stateless: true},
	)
	return http.NewCrossOriginProtection().Handler(h)
}

// promiseOldClientsNothing corrects the answer to initialize, by which clients of
// older revisions start: they can list and read, but only subscriptions/listen
// tells of changes, and they do not know it.
func promiseOldClientsNothing(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if init, ok := res.(*mcp.InitializeResult); ok && init != nil {
			init.Capabilities.Resources = &mcp.ResourceCapabilities{}
		}
		return res, err
	}
}
