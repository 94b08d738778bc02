// The MCP server behind the subscriptions: list and read, by the official SDK.

package main

import (
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
	s := mcp.NewServer(&mcp.Implementation{Name: "stdio", Version: "1.0.0"}, &mcp.ServerOptions{
		// Also while there are no files yet. Older clients are told of the list by
		// the SDK itself.
		Capabilities: &mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{ListChanged: true}},
	})
	return server{dirmcp.Add(s, files), s}
}
