// Command footprint measures what an open stream costs: memory while it is idle, processor time for each delivery, time to the
// last client, and how many are opened per second, for mcplisten beside two yardsticks on the same machine in the same minute.
//
//	go run ./bench/footprint -n 10000
//
// Each row is a server process with a load generator process of its own. All are this program again, with "server" or "loadgen"
// as the first argument; both can be run by hand, the load generator against any server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mcplisten/mcplisten/bench/loadgen"
	"github.com/mcplisten/mcplisten/bench/server"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the whole program: a sub-command, or the comparison.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "server":
			return server.Main(ctx, args[1:], in, out)
		case "loadgen":
			return loadgen.Main(ctx, args[1:], in, out)
		}
	}
	var o options
	var timeout time.Duration
	var check bool
	flags := flag.NewFlagSet("footprint", flag.ContinueOnError)
	flags.IntVar(&o.streams, "n", 10000, "streams per row")
	flags.IntVar(&o.publishes, "publishes", 10, "changes published to each row")
	flags.IntVar(&o.opens, "opens", 3, "times that all streams of each row are opened")
	flags.DurationVar(&o.idle, "idle", 2*time.Second, "wait before the memory is measured")
	rows := flags.String("rows", strings.Join(server.Rows(), ","), "rows to measure")
	flags.BoolVar(&check, "check", false, fmt.Sprintf("fail if an idle stream of the mcplisten row takes more than %.1f KB of memory or %d goroutines",
		maxRSSKB, maxGoroutines))
	flags.DurationVar(&timeout, "timeout", 10*time.Minute, "limit for the whole run")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "usage: footprint [flags]\n       footprint server [flags]\n       footprint loadgen [flags]\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.rows = strings.Split(*rows, ",")
	for _, name := range o.rows {
		if !slices.Contains(server.Rows(), name) {
			return fmt.Errorf("footprint: no row %q: want some of %q", name, server.Rows())
		}
	}
	if flags.NArg() > 0 || o.streams < 1 || o.publishes < 1 || o.opens < 1 {
		return errors.New("footprint: unknown arguments, or a count below one")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	results, err := compare(ctx, o)
	if err != nil {
		return err
	}
	if err := report(out, o, results); err != nil {
		return err
	}
	if check {
		return checkLimits(o, results)
	}
	return nil
}
