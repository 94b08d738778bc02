// The service: weather stations whose temperature changes, and their MCP endpoint.

package main

import (
	"net/http"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

type service struct {
	hub    *core.Hub
	server *http.Server
}

func newService(spans *telemetry) (*service, error) {
	provider := spans.of("weather")
	observer, err := mcpotel.New(
		mcpotel.WithTracerProvider(provider),
		mcpotel.WithDeliverySpans(100, 60),
		// Stations are no secret.
		mcpotel.WithURIRedaction(func(uri string) string { return uri }),
	)
	if err != nil {
		return nil, err
	}
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ResourceSubscriptions: true},
		ServerInfo:   &core.Implementation{Name: "weather", Version: "1.0.0"},
		Observer:     observer,
	})
	if err != nil {
		return nil, err
	}
	mcp, err := mcphttp.New(hub)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp)
	mux.HandleFunc("PUT /stations/{name}", func(w http.ResponseWriter, r *http.Request) {
		// … the new temperature is stored …
		if err := hub.Publish(r.Context(), core.ResourceUpdated(station(r.PathValue("name")))); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	outer := http.NewServeMux()
	outer.Handle("/debug/tracez", spans.running)
	outer.Handle("/", otelhttp.NewHandler(mux, "weather",
		otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method + " " + r.URL.Path })))
	return &service{hub, &http.Server{Handler: outer, ReadHeaderTimeout: 10 * time.Second}}, nil
}

// station returns the URI of a station.
func station(name string) string { return "weather://" + name }
