// Stdio serves the files of a directory as MCP resources on its standard streams,
// as programs do that a desktop client starts, and tells the client when they change.
//
//	go run ./examples/stdio -dir .
//
// It is quickstart's directory over another transport. The official Go SDK's MCP
// server answers all requests but subscriptions/listen, which mcplisten answers in
// front of it, in the same process. To put it in front of a program instead, see
// mcpstdio.Command.
//
// What it has to say, it says on standard error: the standard output is the
// protocol's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	mcpstdio "github.com/mcplisten/mcplisten/adapters/stdio"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/internal/dirwatch"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	dir := flag.String("dir", ".", "`directory` whose files are served")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for anything
	if err := run(ctx, *dir, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stdio:", err)
		os.Exit(1)
	}
}

// run serves one client until its input ends, or ctx.
func run(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	files, err := dirwatch.New(dir, slog.Default())
	if err != nil {
		return err
	}
	defer files.Close()

	// The hub owns all subscriptions. It tells files which URIs are listened to.
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ResourcesListChanged: true, ResourceSubscriptions: true},
		ServerInfo:   &core.Implementation{Name: "stdio", Version: "1.0.0"},
		Watcher:      files,
		KeepAlive:    -1, // there is no sign of life on standard streams
		Logger:       slog.Default(),
	})
	if err != nil {
		return err
	}

	// The SDK's server is the upstream. What it says of its capabilities in
	// server/discover is made to agree with what the hub delivers.
	server := newServer(files)
	stdio, err := mcpstdio.New(hub,
		mcpstdio.WithUpstream(mcpstdio.InProcess(func(ctx context.Context, conn io.ReadWriteCloser) error {
			return server.mcp.Run(ctx, &mcp.IOTransport{Reader: conn, Writer: conn})
		})),
	)
	if err != nil {
		return err
	}

	// Whatever changes on disk is published, once the server knows of it.
	watching, stopWatching := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		files.Run(watching, func(changes ...core.Change) {
			server.Update()
			if err := hub.Publish(watching, changes...); err != nil {
				slog.Error("publish", "err", err)
			}
		})
	})
	defer watch.Wait()
	defer stopWatching()

	// When ctx ends, every subscription gets its result before the connection ends.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	defer context.AfterFunc(ctx, func() {
		defer stopServing()
		grace, cancel := context.WithTimeout(serving, 5*time.Second)
		defer cancel()
		if err := hub.Shutdown(grace); err != nil {
			slog.Error("shutdown", "err", err)
		}
	})()
	err = stdio.Serve(serving, in, out)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
