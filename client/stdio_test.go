// Listening to our own server over one channel of lines.

package client_test

import (
	"context"
	"net"
	"slices"
	"testing"

	"github.com/mcplisten/mcplisten/adapters/stdio"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

func TestPairWithOurServer(t *testing.T) {
	t.Parallel()
	ended := make(chan core.End, 2)
	hub := newHub(t, core.Config{OnEnd: func(e core.End) { ended <- e }})
	server, err := mcpstdio.New(hub)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	served := make(chan error, 1)
	ctx := testContext(t)
	go func() { served <- server.Serve(ctx, there, there) }()
	pair := client.NewPair(here)
	defer func() {
		_ = pair.Close()
		_ = there.Close()
		<-served
	}()
	tools, err := client.Listen(ctx, pair, core.Filter{ToolsListChanged: true})
	if err != nil {
		t.Fatal(err)
	}
	file, err := client.Listen(ctx, pair, core.Filter{ResourceSubscriptions: []string{"file:///a"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = hub.Publish(ctx, core.ToolsListChanged(), core.ResourceUpdated("file:///a"))
	for n := range tools.Notifications() {
		if n.Kind != client.Tools {
			t.Errorf("got %v, want tools", n)
		}
		break
	}
	tools.Close()
	if e := <-ended; e.Reason != core.ClientClosed {
		t.Errorf("the server saw %s, want that the client cancelled", e.Reason)
	}
	_ = hub.Shutdown(context.Background())
	if got, want := collect(file), []client.Notification{{Kind: client.Updated, URI: "file:///a"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if end := file.End(); end.Cause != client.Graceful {
		t.Errorf("the end is %v, want graceful", end)
	}
	if end := tools.End(); end.Cause != client.Local {
		t.Errorf("the end is %v, want local", end)
	}
}
