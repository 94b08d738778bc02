// Quickstart serves the files of a directory as MCP resources, and tells clients
// when they change.
//
//	go run ./examples/quickstart -dir . -addr 127.0.0.1:8080
//
// It prints a curl command that opens a subscription. Edit a file, or create one,
// and see the notification arrive; press Ctrl-C and see the stream end with its
// result.
//
// The official Go SDK's MCP server answers all requests but subscriptions/listen,
// which mcplisten answers in front of it.
//
// Resources are the regular files of the directory and of its sub-directories, up
// to 10,000 files in 1,000 directories. Hidden files and directories and symbolic
// links are left out; see package dirwatch. There is no authentication: whoever
// reaches the address can read the files.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/internal/dirwatch"
)

func main() {
	dir := flag.String("dir", ".", "`directory` whose files are served")
	addr := flag.String("addr", "127.0.0.1:8080", "`address` to listen on")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "quickstart: unexpected argument %q; a directory is given with -dir\n", flag.Arg(0))
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for anything
	if err := run(ctx, *dir, *addr, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, dir, addr string, out io.Writer) error {
	files, err := dirwatch.New(dir, slog.Default())
	if err != nil {
		return err
	}
	defer files.Close()

	// The hub owns all subscriptions. It tells files which URIs are listened to.
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ResourcesListChanged: true, ResourceSubscriptions: true},
		ServerInfo:   &core.Implementation{Name: "quickstart", Version: "1.0.0"},
		Watcher:      files,
		Logger:       slog.Default(),
	})
	if err != nil {
		return err
	}

	// Whatever changes on disk is published, once the server knows of it.
	server := newServer(files)
	go files.Run(ctx, func(changes ...core.Change) {
		server.Update()
		if err := hub.Publish(ctx, changes...); err != nil {
			slog.Error("publish", "err", err)
		}
	})

	// The handler takes subscriptions/listen and passes everything else on.
	listen, err := mcphttp.New(hub)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", listen.Middleware(server.handler()))

	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	mcphttp.RegisterShutdown(srv, hub)
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	printUsage(out, files, "http://"+clientAddr(ln.Addr())+"/mcp")
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}

	// Shutdown ends every stream with its result and waits for them.
	grace, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return srv.Shutdown(grace)
}
