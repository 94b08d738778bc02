// Everything is the library's shop window and its test bench: one program with
// every switch, in front of the official Go SDK's MCP server.
//
//	go run ./examples/everything -addr 127.0.0.1:8080 -admin 127.0.0.1:8081
//
// Open http://127.0.0.1:8080/ in a browser, start a stream, and change something:
// with the buttons of the page, or from outside:
//
//	curl -X POST 'http://127.0.0.1:8081/publish?kind=updated&uri=everything://notes'
//	curl http://127.0.0.1:8081/stats
//
// http://127.0.0.1:8081/status shows the open streams.
//
// The same application runs on net/http, chi, echo and gin (-framework); behind
// middleware that is known to break streams (-middleware); with bearer tokens
// whose streams end with them (-tokens) and resources that are somebody's alone
// (-private). SIGTERM ends every stream with its result, spread over -drain, and
// the program exits with 0. -help lists the switches.
//
// Where to look: onchi.go, onecho.go, ongin.go and onnethttp.go mount the listen
// handler; app.go makes the hub; auth.go says who may listen; this file serves and
// shuts down. For something short to copy, see examples/chi, echo, gin and nethttp.
package main

import (
	"context"
	"errors"
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
)

func main() {
	s, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "everything:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and then drains.
func run(ctx context.Context, s settings, out io.Writer) error {
	a, err := newApp(s)
	if err != nil {
		return err
	}
	defer a.leave()
	handler, err := frameworks[s.framework](a)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	adminLn, err := net.Listen("tcp", s.admin)
	if err != nil {
		return err
	}
	defer adminLn.Close()

	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       s.serverReadTimeout,
		WriteTimeout:      s.serverWriteTimeout,
		Protocols:         new(http.Protocols),
		// Else a client that reads nothing at all would keep its HTTP/2 streams.
		HTTP2: &http.HTTP2Config{WriteByteTimeout: s.writeTimeout},
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(s.tlsCert != "")
	srv.Protocols.SetUnencryptedHTTP2(s.h2c)
	adminMux, err := adminHandler(a.hub, &a.closed)
	if err != nil {
		return err
	}
	admin := &http.Server{Handler: adminMux, ReadHeaderTimeout: 10 * time.Second}

	served := make(chan error, 2)
	scheme := "http"
	if s.tlsCert != "" {
		scheme = "https"
		go func() { served <- srv.ServeTLS(ln, s.tlsCert, s.tlsKey) }()
	} else {
		go func() { served <- srv.Serve(ln) }()
	}
	go func() { served <- admin.Serve(adminLn) }()
	fmt.Fprintf(out, "listening on %s://%s%s\nadmin on http://%s\n", scheme, ln.Addr(), endpoint, adminLn.Addr())

	select {
	case err = <-served: // one of them could not go on
	case <-ctx.Done():
		a.drainStreams()
		shut(srv)
		a.export()
	}
	_ = srv.Close()
	_ = admin.Close()
	return err
}

// drainStreams ends every stream with its result. The server goes on meanwhile:
// newcomers get 503, other requests their answers.
func (a *app) drainStreams() {
	// Whoever does not read has been given up after the write timeout. The hub keeps
	// a fifth of the time for the last ones.
	ctx, cancel := context.WithTimeout(context.Background(), a.drain*5/4+a.writeTimeout+time.Second)
	defer cancel()
	if err := a.hub.Shutdown(ctx); err != nil {
		slog.Warn("streams are left", "err", err)
	}
}

// export exports what is left of spans and metrics: last, since streams and
// requests have theirs when they end.
func (a *app) export() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := a.shutdown(ctx); err != nil {
		slog.Warn("spans or metrics are lost", "err", err)
	}
}

// shut stops the server, and lets requests in progress finish.
func shut(srv *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		slog.Warn("requests are left", "err", err)
	}
}
