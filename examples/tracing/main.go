// Tracing is a service, three agents that listen to it, and a sensor that changes
// its data, in one command, with all their spans:
//
//	go run ./examples/tracing                               # spans on the terminal
//	go run ./examples/tracing -otlp http://127.0.0.1:4318   # to Jaeger, Tempo, a Collector …
//
// While it runs, http://127.0.0.1:8080/debug/tracez shows the spans that are still
// open: a stream is in no backend before it has ended. Ctrl-C ends the streams,
// and their spans are exported. README.md has pictures.
//
// Where to look: service.go makes the hub with its observer; telemetry.go sets up
// the SDK; agent.go sends its trace context along with the listen request; and
// run, below, shuts down in the order that loses no span.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

type settings struct {
	addr     string
	otlp     string
	every    time.Duration
	runFor   time.Duration
	pictures string
}

func main() {
	var s settings
	flag.StringVar(&s.addr, "addr", "127.0.0.1:8080", "`address` to listen on")
	flag.StringVar(&s.otlp, "otlp", "", "`URL` of a backend that takes OTLP over HTTP; without one, spans are printed")
	flag.DurationVar(&s.every, "every", time.Second, "time between two measurements of the sensor")
	flag.DurationVar(&s.runFor, "for", 0, "how long to run; 0 is until Ctrl-C")
	flag.StringVar(&s.pictures, "pictures", "", "`directory` for pictures of the trace of a stream and of a publish")
	flag.Parse()

	if err := untilStopped(s); err != nil {
		fmt.Fprintln(os.Stderr, "tracing:", err)
		os.Exit(1)
	}
}

// untilStopped runs until Ctrl-C, or for as long as was asked for.
func untilStopped(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if s.runFor > 0 {
		ctx, stop = context.WithTimeout(ctx, s.runFor)
		defer stop()
	}
	return run(ctx, s, os.Stdout)
}

// run runs all of it until ctx ends.
func run(ctx context.Context, s settings, out io.Writer) (err error) {
	spans, err := newTelemetry(ctx, s, out)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	weather, err := newService(spans)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	served := make(chan error, 1)
	go func() { served <- weather.server.Serve(listener) }()
	fmt.Fprintf(out, "running spans: %s/debug/tracez\n", url)

	var others sync.WaitGroup
	for _, name := range []string{"agent-1", "agent-2", "agent-3"} {
		agent, err := listen(ctx, spans.of(name), name, url)
		if err != nil {
			return errors.Join(err, weather.server.Close())
		}
		others.Go(func() { agent.work(out) })
	}
	others.Go(func() { measure(ctx, spans.of("sensor"), url, s.every) })
	<-ctx.Done()

	// Streams first, whose spans end with them; then requests, and theirs; then
	// what is exported. The context has ended: what follows needs one of its own.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(weather.hub.Shutdown(last), weather.server.Shutdown(last))
	others.Wait()
	<-served
	return errors.Join(err, spans.shutdown(last), spans.draw(s.pictures))
}
