// The application: what is the same on every framework.

package main

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/everything/internal/backend"
	"github.com/mcplisten/mcplisten/examples/internal/nodes"
)

// info names the server to clients.
var info = core.Implementation{Name: "mcplisten-everything", Version: "1.0.0"}

// endpoint is the path of the MCP endpoint.
const endpoint = "/mcp"

// app is what a framework mounts.
type app struct {
	settings
	telemetry

	hub     *core.Hub
	leave   func() // closes the connection to the broker
	closed  ends
	server  http.Handler     // the MCP server, for all that is not listening
	options []mcphttp.Option // of the listen handler
}

func newApp(s settings) (*app, error) {
	a := &app{settings: s}
	watcher := &clock{}
	var err error
	if a.telemetry, err = newTelemetry(s.otlp); err != nil {
		return nil, err
	}
	var broker core.Broker
	if broker, a.leave, err = connect(s.broker); err != nil {
		return nil, err
	}
	a.hub, err = core.NewHub(core.Config{
		Capabilities:           backend.Capabilities(),
		ServerInfo:             &info,
		KeepAlive:              s.keepAlive,
		MaxLifetime:            s.maxLifetime,
		MaxStreams:             s.maxStreams,
		MaxStreamsPerPrincipal: s.maxStreamsPerPrincipal,
		DrainSpread:            s.drain,
		Authorizer:             newAuthorizer(s.tokens, s.private),
		Watcher:                watcher,
		Observer:               a.observer,
		Broker:                 broker,
		OnEnd:                  a.closed.add,
		Logger:                 slog.Default(),
	})
	if err != nil {
		return nil, err
	}
	watcher.publish = a.hub.Publish

	server, err := backend.New(info, a.hub)
	if err != nil {
		return nil, err
	}
	if a.server, err = server.Handler(s.origins, s.hosts); err != nil {
		return nil, err
	}
	a.options = []mcphttp.Option{mcphttp.WithWriteTimeout(s.writeTimeout)}
	if s.lean {
		a.options = append(a.options, mcphttp.WithLeanStreams())
	}
	if len(s.origins) > 0 {
		a.options = append(a.options, mcphttp.WithOrigins(s.origins...))
	}
	if len(s.hosts) > 0 {
		a.options = append(a.options, mcphttp.WithHosts(s.hosts...))
	}
	return a, nil
}

// connect returns the broker at a URL; without one there is none.
func connect(url string) (core.Broker, func(), error) {
	if url == "" {
		return nil, func() {}, nil
	}
	return nodes.Connect(url, "everything")
}

// frameworks are the ways to mount the application. Each puts, from the outside
// in: the framework's CORS middleware, the hostile middleware, authentication, and
// the listen handler in front of the MCP server.
var frameworks map[string]func(*app) (http.Handler, error)

func init() { // not a literal: flags.go, which the mounts need, lists it
	frameworks = map[string]func(*app) (http.Handler, error){
		"nethttp": onNetHTTP,
		"chi":     onChi,
		"echo":    onEcho,
		"gin":     onGin,
	}
}

func frameworkNames() []string { return slices.Sorted(maps.Keys(frameworks)) }

// What web pages of other origins may send and see.
var (
	corsMethods = []string{http.MethodPost}
	corsHeaders = []string{"Authorization", "Content-Type", "Accept", "Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Mcp-Param-Region"}
	corsExposed = []string{"Retry-After", "WWW-Authenticate"}
)

const corsMaxAge = 600 // seconds
