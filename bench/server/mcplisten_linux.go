package server

// This file is the library as its users run it: a hub with the defaults, and mcphttp on net/http.

import (
	"context"
	"errors"
	"net"
	"net/http"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

type mcplisten struct {
	hub    *core.Hub
	server http.Server
}

func newMcplisten(streams int) (*mcplisten, error) {
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ToolsListChanged: true},
		MaxStreams:   streams,
	})
	if err != nil {
		return nil, err
	}
	h, err := mcphttp.New(hub)
	if err != nil {
		return nil, err
	}
	return &mcplisten{hub: hub, server: http.Server{Handler: h}}, nil
}

func (m *mcplisten) serve(l net.Listener) error { return m.server.Serve(l) }

func (m *mcplisten) publish(ctx context.Context) error {
	return m.hub.Publish(ctx, core.ToolsListChanged())
}

func (m *mcplisten) streams() int { return len(m.hub.Streams()) }

func (m *mcplisten) close(ctx context.Context) error {
	err := m.hub.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("server: streams were still open at the end of the shutdown")
	}
	return errors.Join(err, m.server.Close())
}
