// Command compare measures the library as its users run it, beside what they would use instead and beside bare net/http and a bare
// socket, on one machine in one run, and writes the figures as Markdown with a plot.
//
//	go run ./bench/compare              everything, some twenty minutes, into bench/RESULTS.md and bench/RESULTS.svg
//	go run ./bench/compare -quick       a minute, to see that it works; the times say nothing
//	go run ./bench/compare -rows mcplisten,bare-write -scenarios sizes -n 10000 -o -
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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcplisten/mcplisten/bench/loadgen"
	"github.com/mcplisten/mcplisten/bench/server"
)

func main() {
	if err := command(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// command is the whole program: a sub-command, or the comparison.
func command(ctx context.Context, args []string, in io.Reader, out, progress io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "server":
			return server.Main(ctx, args[1:], in, out)
		case "loadgen":
			return loadgen.Main(ctx, args[1:], in, out)
		}
	}
	c, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	r, err := run(ctx, c.options, func(format string, args ...any) {
		fmt.Fprintf(progress, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	})
	if err != nil {
		if r != nil { // what was measured before is not to be lost, nor to replace a whole report
			r.command = "a run that was not finished"
			err = errors.Join(err, write(out, "-", r))
		}
		return err
	}
	r.command, r.limit = strings.Join(append([]string{"go run ./bench/compare"}, args...), " "), c.limit
	if err := write(out, c.out, r); err != nil {
		return err
	}
	return errors.Join(r.ourFaults(), checkGates(r, c.check))
}

// commandLine is what the flags say.
type commandLine struct {
	options
	out     string
	check   []string // keys of gates that must be met
	limit   string
	timeout time.Duration
}

func parse(args []string) (c commandLine, err error) {
	c.options = full()
	if slices.Contains(args, "-quick") || slices.Contains(args, "--quick") {
		c.options = quick()
	}
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	short := flags.Bool("quick", false, "few streams and few rounds; other flags change what it stands for")
	rows := flags.String("rows", strings.Join(c.rows, ","), "rows to measure")
	chosen := flags.String("scenarios", strings.Join(c.scenarios, ","), "what to measure")
	sizes := "1000,5000,10000,max"
	if len(c.sizes) > 0 {
		sizes = strconv.Itoa(c.sizes[0])
	}
	n := flags.String("n", sizes, "streams per row, for the scenario sizes; max is what the machine takes")
	flags.IntVar(&c.rounds, "publishes", c.rounds, "changes published to all streams, for each size")
	flags.IntVar(&c.opens, "opens", c.opens, "times that all streams are opened, for each size")
	flags.DurationVar(&c.idle, "idle", c.idle, "wait before the memory is measured")
	flags.IntVar(&c.secureStreams, "secure", c.secureStreams, "streams per row over TLS and HTTP/2")
	flags.IntVar(&c.beside, "beside", c.beside, "streams that are open beside other requests, and beside one with a resource of its own")
	flags.IntVar(&c.burstStreams, "burst", c.burstStreams, "streams per row that get a burst")
	flags.IntVar(&c.stalledPublishes, "stalled", c.stalledPublishes, "changes published beside a reader that does not read")
	flags.StringVar(&c.out, "o", "", "file to write, with a plot beside it; - writes to standard output, without a plot (default bench/RESULTS.md, with -quick -)")
	check := flags.String("check", "", "gates that must be met, separated by commas, or all: "+strings.Join(gateKeys(), ", "))
	flags.DurationVar(&c.timeout, "timeout", 40*time.Minute, "limit for the whole run")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "usage: compare [flags]\n       compare server [flags]\n       compare loadgen [flags]\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("compare: unknown arguments %q", flags.Args())
	}
	if c.rows, err = list(*rows, server.Rows(), "row"); err != nil {
		return c, err
	}
	if c.scenarios, err = list(*chosen, scenarios(), "scenario"); err != nil {
		return c, err
	}
	if *check == "all" {
		c.check = gateKeys()
	} else if *check != "" {
		if c.check, err = list(*check, gateKeys(), "gate"); err != nil {
			return c, err
		}
	}
	if err := c.parseSizes(*n); err != nil {
		return c, err
	}
	for _, count := range []int{c.rounds, c.opens, c.secureStreams, c.beside, c.burstStreams, c.stalledPublishes} {
		if count < 1 {
			return c, errors.New("compare: a count is below one")
		}
	}
	if c.out == "" {
		c.out = "bench/RESULTS.md"
		if *short {
			c.out = "-"
		}
	}
	if c.out != "-" { // now, and not after twenty minutes
		if dir, err := os.Stat(filepath.Dir(c.out)); err != nil || !dir.IsDir() {
			return c, fmt.Errorf("compare: there is no folder for %s here: run it at the root of the repository, or say -o", c.out)
		}
	}
	return c, nil
}

func list(names string, known []string, what string) ([]string, error) {
	all := strings.Split(names, ",")
	for _, name := range all {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("compare: no %s %q: want some of %q", what, name, known)
		}
	}
	return all, nil
}

func (c *commandLine) parseSizes(s string) error {
	c.sizes = nil
	largest, why, err := most(len(c.rows))
	if err != nil {
		return err
	}
	for word := range strings.SplitSeq(s, ",") {
		n := largest
		if word == "max" {
			c.limit = why
		} else if n, err = strconv.Atoi(word); err != nil || n < 1 || n > loadgen.MaxStreams {
			return fmt.Errorf("compare: %q is no number of streams", word)
		}
		c.sizes = append(c.sizes, n)
	}
	slices.Sort(c.sizes)
	c.sizes = slices.Compact(c.sizes)
	return nil
}

// write writes the report, and the plot beside it.
func write(out io.Writer, name string, r *results) error {
	if name == "-" {
		if _, err := io.WriteString(out, report(r, "")); err != nil {
			return fmt.Errorf("compare: writing the report: %w", err)
		}
		return nil
	}
	plotName := strings.TrimSuffix(name, filepath.Ext(name)) + ".svg"
	if err := os.WriteFile(plotName, []byte(plot(r)), 0o644); err != nil {
		return fmt.Errorf("compare: writing the plot: %w", err)
	}
	if err := os.WriteFile(name, []byte(report(r, filepath.Base(plotName))), 0o644); err != nil {
		return fmt.Errorf("compare: writing the report: %w", err)
	}
	return nil
}
