// What programs look like that listen.

package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// exampleServer is a server that publishes changes of its tools, and of nothing
// else.
func exampleServer() (hub *core.Hub, url string, stop func()) {
	hub, _ = core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	handler, _ := mcphttp.New(hub)
	srv := httptest.NewServer(handler)
	return hub, srv.URL, srv.Close
}

func ExampleListen() {
	hub, url, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	stream, err := client.Listen(ctx, client.URL(url), core.Filter{ToolsListChanged: true, PromptsListChanged: true})
	if err != nil {
		fmt.Println(client.CauseOf(err), err)
		return
	}
	defer stream.Close()
	fmt.Println("honored:", stream.Honored().Members())
	fmt.Println("left out:", stream.LeftOut().Members())

	_ = hub.Publish(ctx, core.ToolsListChanged())
	go func() { _ = hub.Shutdown(ctx) }()
	for n := range stream.Notifications() {
		fmt.Println(n)
	}
	fmt.Println("end:", stream.End())
	// Output:
	// honored: [toolsListChanged]
	// left out: [promptsListChanged]
	// notifications/tools/list_changed
	// end: graceful
}

func ExampleFollow() {
	hub, url, stop := exampleServer()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	f, err := client.Follow(ctx, client.URL(url), core.Filter{ToolsListChanged: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range f.Notifications() {
		switch n.Kind {
		case client.Started, client.Relist:
			fmt.Println("list everything: what came before is not known")
			_ = hub.Publish(ctx, core.ToolsListChanged())
		case client.Tools:
			fmt.Println("list the tools")
			cancel()
		}
	}
	fmt.Println(f.End().Cause)
	// Output:
	// list everything: what came before is not known
	// list the tools
	// local
}

func ExampleCauseOf() {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	_, err := client.Listen(context.Background(), client.URL(srv.URL), core.Filter{ToolsListChanged: true})
	switch client.CauseOf(err) {
	case client.Refused:
		var refused *client.RefusedError
		errors.As(err, &refused)
		fmt.Println("refused for good:", refused.Permanent(), refused.Status)
	case client.Dropped:
		fmt.Println("unreachable:", errors.Is(err, client.ErrUnreachable))
	}
	// Output: refused for good: true 404
}

func ExampleCommand() {
	server := client.Command(func() *exec.Cmd { return exec.Command("my-mcp-server", "--stdio") })
	_, err := client.Listen(context.Background(), server, core.Filter{ToolsListChanged: true})
	fmt.Println(errors.Is(err, client.ErrUnreachable))
	// Output: true
}
