// Examples of what the package is for.

package mcpstdio_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"strings"

	mcpstdio "github.com/mcplisten/mcplisten/adapters/stdio"
	"github.com/mcplisten/mcplisten/core"
)

// A server on its own, asked over a reader and a writer what it can do.
func Example() {
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	if err != nil {
		log.Fatal(err)
	}
	server, err := mcpstdio.New(hub)
	if err != nil {
		log.Fatal(err)
	}
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n")
	if err := server.Serve(context.Background(), in, os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"there is no initialize: this server speaks MCP 2026-07-28","data":{"supported":["2026-07-28"]}}}
}

// An existing stdio server, a program of its own, gains subscriptions/listen.
func ExampleCommand() {
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	if err != nil {
		log.Fatal(err)
	}
	server, err := mcpstdio.New(hub, mcpstdio.WithUpstream(mcpstdio.Command(func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, "my-mcp-server", "--stdio")
	})))
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// A function answers everything else.
func ExampleWithNext() {
	hub, err := core.NewHub(core.Config{})
	if err != nil {
		log.Fatal(err)
	}
	server, err := mcpstdio.New(hub, mcpstdio.WithNext(func(_ context.Context, message []byte) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	if err != nil {
		log.Fatal(err)
	}
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	var out strings.Builder
	if err := server.Serve(context.Background(), in, &out); err != nil {
		log.Fatal(err)
	}
	fmt.Print(out.String())
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{}}
}

// Clients of a Unix socket, each a connection of its own.
func ExampleServer_Serve() {
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	if err != nil {
		log.Fatal(err)
	}
	server, err := mcpstdio.New(hub)
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("unix", "/run/my-service/mcp.sock")
	if err != nil {
		log.Fatal(err)
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer func(c io.Closer) { _ = c.Close() }(conn)
			if err := server.Serve(context.Background(), conn, conn); err != nil {
				log.Print(err)
			}
		}()
	}
}
