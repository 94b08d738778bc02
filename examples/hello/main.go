// Command hello is the shortest program that serves subscriptions/listen: it
// tells whoever listens, once a second, that its tools have changed.
package main

import (
	"context"
	"log"
	"net/http"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

func main() {
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	if err != nil {
		log.Fatal(err)
	}
	mcp, err := mcphttp.New(hub)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for range time.Tick(time.Second) {
			_ = hub.Publish(context.Background(), core.ToolsListChanged())
		}
	}()
	http.Handle("/mcp", mcp)
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
