// Examples of what the package is for.

package mcpstdio_test

import (
	"bufio"
	"context"
	"fmt"
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

// An existing stdio server, a program of its own, gains subscriptions/listen. Here
// cat stands for it, which sends back what it gets.
func ExampleCommand() {
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	if err != nil {
		log.Fatal(err)
	}
	server, err := mcpstdio.New(hub, mcpstdio.WithUpstream(mcpstdio.Command(func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, "cat")
	})))
	if err != nil {
		log.Fatal(err)
	}
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`) // os.Stdin, as a rule
	if err := server.Serve(context.Background(), in, os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"jsonrpc":"2.0","id":1,"method":"ping"}
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

// Every client of a socket is a connection of its own.
func ExampleServer_Serve() {
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	if err != nil {
		log.Fatal(err)
	}
	server, err := mcpstdio.New(hub)
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0") // or "unix" and a path
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if err := server.Serve(context.Background(), conn, conn); err != nil {
					log.Print(err)
				}
			}()
		}
	}()

	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := fmt.Fprintln(client, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); err != nil {
		log.Fatal(err)
	}
	answer, err := bufio.NewReader(client).ReadString('\n')
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(answer)
	_, _ = client.Close(), ln.Close()
	// Output:
	// {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}
}
