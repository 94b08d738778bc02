// Package tasks is the service behind examples/chi, echo, gin and nethttp: a list
// of tasks, and an MCP server that shows it.
package tasks

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// URI is the list as an MCP resource.
const URI = "tasks://list"

// List is a list of tasks. It is safe for concurrent use.
type List struct {
	mu    sync.Mutex
	tasks []string
}

// Add adds a task.
func (l *List) Add(task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks = append(l.tasks, task)
}

// Text returns the tasks, one a line.
func (l *List) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.tasks, "\n")
}

// MCP returns the MCP server that shows the list, by the official SDK.
func (l *List) MCP() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "tasks", Version: "1.0.0"}, &mcp.ServerOptions{
		// What it advertises must agree with the hub's capabilities.
		Capabilities: &mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{Subscribe: true}},
	})
	server.AddResource(&mcp.Resource{URI: URI, Name: "tasks", MIMEType: "text/plain"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: URI, MIMEType: "text/plain", Text: l.Text()}}}, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
}
