// The example of docs/scaling.md. It needs a server: it is compiled, and not run.

package mcpnats_test

import (
	"context"
	"log"

	"github.com/nats-io/nats.go"

	mcpnats "github.com/mcplisten/mcplisten/brokers/nats"
	"github.com/mcplisten/mcplisten/core"
)

func Example() { //nolint:testableexamples // it needs a server
	url := nats.DefaultURL

	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		log.Fatal(err)
	}
	broker, err := mcpnats.New(nc, "mcplisten.orders")
	if err != nil {
		log.Fatal(err)
	}
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ToolsListChanged: true},
		Broker:       broker,
	})
	if err != nil {
		log.Fatal(err)
	}

	if err := hub.Shutdown(context.Background()); err != nil {
		log.Print(err)
	}
	nc.Close()
}
