// Notes is an MCP server that keeps notes, each of them a resource.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	gosdkbridge "github.com/mcplisten/mcplisten/bridges/gosdk"
	"github.com/mcplisten/mcplisten/core"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type note struct {
	Name string `json:"name" jsonschema:"the name of the note"`
	Text string `json:"text" jsonschema:"what it says"`
}

// newServer returns the server. It says what changes with the SDK's own calls.
func newServer() *mcp.Server {
	var texts sync.Map // by URI
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		text, ok := texts.Load(r.Params.URI)
		if !ok {
			return nil, mcp.ResourceNotFoundError(r.Params.URI)
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: text.(string)}}}, nil
	}
	write := func(ctx context.Context, _ *mcp.CallToolRequest, n note) (*mcp.CallToolResult, any, error) {
		uri := "note:///" + n.Name
		if _, there := texts.Swap(uri, n.Text); there {
			return &mcp.CallToolResult{}, nil, server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
		}
		server.AddResource(&mcp.Resource{URI: uri, Name: n.Name, MIMEType: "text/plain"}, read)
		return &mcp.CallToolResult{}, nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "write_note", Description: "write a note, or another text into it"}, write)
	texts.Store("note:///welcome", "Write me.")
	server.AddResource(&mcp.Resource{URI: "note:///welcome", Name: "welcome", MIMEType: "text/plain"}, read)
	return server
}

func run(ctx context.Context, addr string, out io.Writer) error {
	server := newServer()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	bridge, err := gosdkbridge.Attach(server, core.Config{})
	if err != nil {
		return err
	}
	defer bridge.Close()
	listen, err := mcphttp.New(bridge.Hub(), mcphttp.WithLegacyMethods())
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("/mcp", listen.Middleware(bridge.Handler(handler, nil)))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	mcphttp.RegisterShutdown(srv, bridge.Hub())
	srv.RegisterOnShutdown(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})

	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		stopped <- srv.Shutdown(ctx)
	})
	fmt.Fprintf(out, "listening on http://%s/mcp\n", ln.Addr())
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	if err := run(ctx, "127.0.0.1:8080", os.Stdout); err != nil {
		log.Fatal(err)
	}
}
