// Nethttp shows the mount in a service on net/http alone:
//
//	go run ./examples/nethttp
//	curl -H 'Authorization: Bearer secret' -d 'task=buy milk' http://127.0.0.1:8080/api/tasks
//
// Look at newHandler: listening has a route of its own under /api, behind the
// service's authentication and in front of the MCP server that it already has; and
// at run: RegisterShutdown lets srv.Shutdown end the streams.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/internal/tasks"
)

func newHandler(hub *core.Hub) (http.Handler, error) {
	list := &tasks.List{}
	listen, err := mcphttp.New(hub, mcphttp.WithPrincipal(user))
	if err != nil {
		return nil, err
	}
	api := http.NewServeMux()
	api.HandleFunc("POST /api/tasks", func(w http.ResponseWriter, r *http.Request) {
		list.Add(r.FormValue("task"))
		// Where the data has changed, publish: whoever listens is told.
		if err := hub.Publish(r.Context(), core.ResourceUpdated(tasks.URI)); err != nil {
			log.Print(err)
		}
		w.WriteHeader(http.StatusCreated)
	})
	api.Handle("/api/mcp", listen.Middleware(list.MCP()))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("/api/", authenticate(api))
	return mux, nil
}

func run(ctx context.Context, addr string, out io.Writer) error {
	hub, err := core.NewHub(core.Config{
		Capabilities:           core.Capabilities{ResourceSubscriptions: true},
		MaxStreamsPerPrincipal: 10,
		Logger:                 slog.Default(),
	})
	if err != nil {
		return err
	}
	handler, err := newHandler(hub)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	mcphttp.RegisterShutdown(srv, hub)
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		stopped <- srv.Shutdown(ctx)
	})
	fmt.Fprintf(out, "listening on http://%s\n", ln.Addr())
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	if err := run(ctx, "127.0.0.1:8080", os.Stdout); err != nil {
		log.Fatal(err)
	}
}
