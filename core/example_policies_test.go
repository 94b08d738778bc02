// The examples of docs/policies.md that need no transport.

package core_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

func ExampleHub_PublishTo() {
	hub, err := core.NewHub(core.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, invoice := context.Background(), "file:///invoices/7"

	// To the streams of two users, and to those of a tenant whose users are
	// named acme/alice, acme/bob.
	err1 := hub.PublishTo(ctx, core.Principals("alice", "bob"), core.ResourceUpdated(invoice))
	err2 := hub.PublishTo(ctx, core.PrincipalPrefix("acme/"), core.ToolsListChanged())

	fmt.Println(err1, err2)
	// Output: <nil> <nil>
}

func ExampleConfig_limits() {
	hub, err := core.NewHub(core.Config{
		MaxStreams:             50_000,
		MaxStreamsPerPrincipal: 200,
		MaxShare:               0.05, // and nobody more than 2,500, were the other limit higher
		LimitKey: func(principal string) string { // the users of a tenant count as one
			tenant, _, _ := strings.Cut(principal, "/")
			return tenant
		},
		MaxOpening: 500, // in the authorizer and the watcher at one time
		Limits:     core.Limits{MaxURIs: 100},
	})
	fmt.Println(hub != nil, err)
	// Output: true <nil>
}

func ExampleConfig_lifetime() {
	hub, err := core.NewHub(core.Config{
		MaxLifetime: time.Hour, // 54 to 66 minutes
		DrainSpread: 20 * time.Second,
	})
	fmt.Println(hub != nil, err)
	// Output: true <nil>
}

func ExampleHub_Revoke() {
	hub, err := core.NewHub(core.Config{})
	if err != nil {
		log.Fatal(err)
	}
	blocked := "mallory"

	n := hub.Revoke(func(s core.StreamInfo) bool { return s.Principal == blocked })

	fmt.Println("ended:", n)
	// Output: ended: 0
}

func ExampleHub_Drain() {
	hub, err := core.NewHub(core.Config{})
	if err != nil {
		log.Fatal(err)
	}

	// After a scale-out from two nodes to three, a third of the streams moves on.
	n, err := hub.Drain(context.Background(), 1.0/3, time.Minute)

	fmt.Println("ended:", n, err)
	// Output: ended: 0 <nil>
}

func ExampleHub_SetMode() {
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	if err != nil {
		log.Fatal(err)
	}

	hub.SetMode(core.ModeNotFound)

	fmt.Println(hub.Capabilities().ToolsListChanged)
	// Output: false
}
