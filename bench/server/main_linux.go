package server

// This file makes a row a process: two listeners and an orderly end.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/bench/internal/openfiles"
	"github.com/mcplisten/mcplisten/core"
)

// row is one server under test.
type row interface {
	serve(l net.Listener) error // until close
	publish(ctx context.Context, c change) error
	streams() int
	close(ctx context.Context) error
}

func newRow(name string, streams int) (row, error) {
	base, transport, err := Split(name)
	if err != nil {
		return nil, err
	}
	if base == BareWrite {
		return newBareWrite()
	}
	var e endpoint
	config := core.Config{MaxStreams: streams + 1} // one more for a client of another kind
	switch base {
	case BareNetHTTP:
		e = newBareNetHTTP()
	case Mcplisten:
		e, err = newMcplisten(onNetHTTP, config)
	case McplistenChi:
		e, err = newMcplisten(onChi, config)
	case McplistenEcho:
		e, err = newMcplisten(onEcho, config)
	case McplistenGin:
		e, err = newMcplisten(onGin, config)
	case McplistenLean:
		e, err = newMcplisten(onNetHTTP, config, mcphttp.WithLeanStreams())
	case McplistenOTel:
		e, err = newMcplistenOTel(config)
	case GoSDK:
		e = newGoSDK()
	case MCPGo:
		e = newMCPGo()
	}
	if err != nil {
		return nil, err
	}
	return newHTTPRow(e, transport)
}

// Main serves one row until a signal, or with -until-eof the end of its input. Its first two lines of output say where it
// listens: "listening on URL" and "admin on URL".
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	name := flags.String("row", Mcplisten, "what to serve: "+strings.Join(Rows(), ", ")+"; with "+OverTLS+" or "+OverHTTP2+" appended, over that")
	streams := flags.Int("n", 10000, "streams to expect")
	sendBuffer := flags.Int("sndbuf", 0, "send buffer of each connection in bytes, if not the kernel's own choice")
	untilEOF := flags.Bool("until-eof", false, "end when standard input does")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := openfiles.Raise(*streams); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if *untilEOF {
		go func() {
			defer stop()
			_, _ = io.Copy(io.Discard, in) // an error is an end as well
		}()
	}
	r, err := newRow(*name, *streams)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	adminListener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return errors.Join(fmt.Errorf("server: %w", err), listener.Close())
	}
	scheme := "http"
	if strings.Contains(*name, "+") {
		scheme = "https"
	}
	where := fmt.Sprintf("listening on %s://%s%s\nadmin on http://%s\n", scheme, listener.Addr(), path, adminListener.Addr())
	if *sendBuffer > 0 {
		listener = smallBuffers{listener, *sendBuffer}
	}
	admin := &http.Server{Handler: adminHandler(r), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 2)
	go func() { ended <- r.serve(listener) }()
	go func() { ended <- admin.Serve(adminListener) }()
	_, err = io.WriteString(out, where)
	running := 2
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
			running--
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, r.close(closing), admin.Close())
	_ = listener.Close() // the row has closed it already, or holds a copy of it
	for range running {
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}
