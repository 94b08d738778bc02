// A server of mcp-go, as its users write one: notes that a tool adds and changes, each
// of them a resource.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// notes are texts by name.
type notes struct {
	mu    sync.Mutex
	texts map[string]string
}

func newServer() *server.MCPServer {
	n := &notes{texts: make(map[string]string)}
	s := server.NewMCPServer("notes", "1.0.0",
		server.WithToolCapabilities(true),
		server.WithResourceCapabilities(true, true),
	)
	s.AddTool(mcp.NewTool("write_note",
		mcp.WithDescription("Writes a note, a new one or another text for one that there is"),
		mcp.WithString("name", mcp.Required()),
		mcp.WithString("text", mcp.Required()),
	), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		name, err := r.RequireString("name")
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		text, err := r.RequireString("text")
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		uri := "note:///" + name
		if n.write(uri, text) {
			s.AddResource(mcp.NewResource(uri, name, mcp.WithMIMEType("text/plain")), n.read)
		} else {
			s.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": uri})
		}
		return mcp.NewToolResultText("written"), nil
	})
	return s
}

// write reports whether the note is a new one.
func (n *notes) write(uri, text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, known := n.texts[uri]
	n.texts[uri] = text
	return !known
}

func (n *notes) read(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return []mcp.ResourceContents{
		mcp.TextResourceContents{URI: r.Params.URI, MIMEType: "text/plain", Text: n.texts[r.Params.URI]},
	}, nil
}

func run(ctx context.Context, ln net.Listener) error {
	s := newServer()
	mcpServer := server.NewStreamableHTTPServer(s)
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcpServer)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		mcpServer.CloseSessions(ctx)
		stopped <- srv.Shutdown(ctx)
	})
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("MCP at http://%s/mcp\n", ln.Addr())
	if err := run(ctx, ln); err != nil {
		log.Fatal(err)
	}
}
