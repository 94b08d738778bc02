// mcplisten itself.

package main

import (
	"context"
	"errors"
	"log"
	"net/http"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

type own struct{ hub *core.Hub }

func newOwn() *own {
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ToolsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	return &own{hub}
}

func (s *own) handler() http.Handler {
	h, err := mcphttp.New(s.hub)
	if err != nil {
		log.Fatal(err)
	}
	return h
}

func (s *own) publish(kind, uri string) {
	change := core.ToolsListChanged()
	if kind == "updated" {
		change = core.ResourceUpdated(uri)
	}
	_ = s.hub.Publish(context.Background(), change)
}

func (s *own) end() { s.hub.EndWhere(func(core.StreamInfo) bool { return true }) }

func (s *own) stdio(context.Context) error { return errors.New("not served here") }
