// Cluster: three replicas of a service behind a round-robin proxy, and a broker
// between them. Streams are spread over the replicas; a change that one of them
// publishes reaches them all.
//
//	go run ./examples/cluster
//	go run ./examples/cluster -broker redis://127.0.0.1:6379
//
// Without -broker it embeds a NATS server. It opens streams, publishes on each
// replica in turn, prints who heard what, and ends; with -stay it goes on serving.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	broker := f.String("broker", "", "`URL` of a broker, nats://… or redis://…; none: a NATS server of its own")
	addr := f.String("addr", "127.0.0.1:0", "`address` of the proxy")
	count := f.Int("replicas", 3, "how many replicas")
	streams := f.Int("streams", 6, "how many streams to open")
	stay := f.Bool("stay", false, "go on serving until Ctrl-C")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *count < 1 {
		return errors.New("there must be a replica")
	}

	url := *broker
	if url == "" {
		embedded, err := embeddedNATS()
		if err != nil {
			return err
		}
		defer embedded.Shutdown()
		url = embedded.ClientURL()
	}
	fmt.Fprintf(out, "broker   %s\n", withoutPassword(url))

	var replicas []*replica
	defer func() {
		for _, r := range replicas {
			err = errors.Join(err, r.stop())
		}
	}()
	for i := range *count {
		r, err := startReplica(string(rune('A'+i)), url)
		if err != nil {
			return err
		}
		replicas = append(replicas, r)
		fmt.Fprintf(out, "replica  %s at %s\n", r.name, r.url)
	}

	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	front := &http.Server{Handler: &roundRobin{replicas: replicas}, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = front.Serve(ln) }()
	defer front.Close()
	endpoint := "http://" + ln.Addr().String() + "/mcp"
	fmt.Fprintf(out, "proxy    %s\n\n", endpoint)

	if err := show(ctx, out, endpoint, replicas, *streams); err != nil {
		return err
	}
	if *stay {
		fmt.Fprintln(out, "serving until Ctrl-C")
		<-ctx.Done()
	}
	return nil
}

// embeddedNATS starts a NATS server within this process.
func embeddedNATS() (*server.Server, error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the embedded NATS server does not start")
	}
	return s, nil
}

// withoutPassword is a URL to be printed.
func withoutPassword(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	if _, host, found := strings.Cut(rest, "@"); found {
		rest = host
	}
	return scheme + "://" + rest
}
