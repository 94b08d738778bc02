package server

// This file makes a row a process: two listeners, the admin requests, and an orderly end.

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcplisten/mcplisten/bench/internal/openfiles"
)

// row is one server under test.
type row interface {
	serve(l net.Listener) error        // until close
	publish(ctx context.Context) error // one tools change to all streams
	streams() int
	close(ctx context.Context) error
}

func newRow(name string, streams int) (row, error) {
	switch name {
	case Mcplisten:
		return newMcplisten(streams)
	case BareNetHTTP:
		return newBareNetHTTP(), nil
	case BareWrite:
		return newBareWrite()
	}
	return nil, fmt.Errorf("server: no row %q: want one of %q", name, Rows())
}

// Main serves one row until a signal, or with -until-eof the end of its input. Its first two lines of output say where it
// listens: "listening on URL" and "admin on URL".
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	name := flags.String("row", Mcplisten, "what to serve: mcplisten, bare-nethttp or bare-write")
	streams := flags.Int("n", 10000, "streams to expect")
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
	admin := &http.Server{Handler: adminHandler(r), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 2)
	go func() { ended <- r.serve(listener) }()
	go func() { ended <- admin.Serve(adminListener) }()
	_, err = fmt.Fprintf(out, "listening on http://%s/mcp\nadmin on http://%s\n", listener.Addr(), adminListener.Addr())
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

func adminHandler(r row) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /publish", func(w http.ResponseWriter, req *http.Request) {
		if kind := req.URL.Query().Get("kind"); kind != "tools" {
			http.Error(w, "the kind must be tools", http.StatusBadRequest)
			return
		}
		if err := r.publish(req.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, req *http.Request) {
		query := req.URL.Query()
		var streams func() int
		if query.Get("streams") == "1" {
			streams = r.streams
		}
		s, err := measure(streams, query.Get("gc") == "1")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s) // a client that went needs no answer
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	return mux
}
