// Command micro runs the benchmarks of the hot paths and compares them with the accepted figures, by allocations and by ratios
// within the run. Times are shown and judge nothing: they are the machine's as much as the code's.
//
//	go run ./bench/micro            # compare
//	go run ./bench/micro -accept    # accept the figures of this run
//
// It exits with status 1 where a benchmark allocates more than is accepted, a ratio is over its limit, or the benchmarks and the
// accepted figures are not about the same things.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// packages are those with benchmarks of hot paths.
var packages = []string{
	"github.com/mcplisten/mcplisten/core",
	"github.com/mcplisten/mcplisten/adapters/nethttp",
	"github.com/mcplisten/mcplisten/adapters/stdio",
	"github.com/mcplisten/mcplisten/otel",
}

// skipped are benchmarks that are for reading: their figures depend on how far deliveries lag behind, on times alone, or they open
// 10,000 streams for what BenchmarkBeside shows more steadily.
const skipped = `^BenchmarkLocalDeliveryWithABroker$|^Benchmark(Publish|PublishUninteresting|Open)$/(interested|others)=10000`

// processors is what the benchmarks run on, so that their names and figures do not follow the machine's number.
const processors = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are those of a run.
type options struct {
	accepted  string
	from      string
	accept    bool
	stat      bool
	count     int
	benchtime string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("micro", flag.ContinueOnError)
	flags.StringVar(&o.accepted, "accepted", filepath.Join("bench", "micro", "accepted.txt"), "file of the accepted figures")
	flags.StringVar(&o.from, "from", "", "file of figures to compare instead of running the benchmarks")
	flags.BoolVar(&o.accept, "accept", false, "accept the figures: write them to the file")
	flags.BoolVar(&o.stat, "benchstat", true, "show benchstat's table")
	flags.IntVar(&o.count, "count", 6, "times that each benchmark runs")
	// So many times and not so long: on a busy machine a time would be few iterations, and what is done once would show in each.
	flags.StringVar(&o.benchtime, "benchtime", "200x", "how often it does what it measures, each time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.count < 1 {
		return errors.New("micro: unknown arguments, or a count below one")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	text, err := o.measure(ctx)
	if err != nil {
		return err
	}
	now, err := read("this run", bytes.NewReader(text))
	if err != nil {
		return err
	}
	if o.accept {
		return o.write(out, text, now)
	}
	before, err := readFile(o.accepted)
	if err != nil {
		return err
	}
	if o.stat {
		if err := o.table(ctx, out, text); err != nil {
			return err
		}
	}
	problems := compare(before, now)
	if len(problems) > 0 {
		return fmt.Errorf("micro: compared with %s:\n\t%s\naccept what is meant to be so with: go run ./bench/micro -accept",
			o.accepted, strings.Join(problems, "\n\t"))
	}
	fmt.Fprintf(out, "micro: %s\n", now.summary())
	return nil
}

// measure returns the figures as text in Go's benchmark format.
func (o *options) measure(ctx context.Context) ([]byte, error) {
	if o.from != "" {
		text, err := os.ReadFile(o.from)
		if err != nil {
			return nil, fmt.Errorf("micro: %w", err)
		}
		return text, nil
	}
	args := append([]string{
		"test", "-p", "1", "-run", "^$", "-bench", ".", "-skip", skipped, "-benchmem", "-benchtime", o.benchtime,
		"-count", strconv.Itoa(o.count), "-cpu", strconv.Itoa(processors), "-timeout", "10m",
	}, packages...)
	text, err := command(ctx, "", args...)
	if err != nil {
		return nil, fmt.Errorf("micro: the benchmarks: %w\n%s", err, text)
	}
	return text, nil
}

// command runs the go command, and asks it to end when ctx does.
func command(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Output()
}

// write writes the accepted figures.
func (o *options) write(out io.Writer, text []byte, now figures) error {
	if problems := now.overLimit(); len(problems) > 0 {
		return fmt.Errorf("micro: not accepted, since limits are not a matter of acceptance:\n\t%s", strings.Join(problems, "\n\t"))
	}
	if err := os.WriteFile(o.accepted, text, 0o644); err != nil {
		return fmt.Errorf("micro: %w", err)
	}
	fmt.Fprintf(out, "micro: accepted: %s\n", now.summary())
	return nil
}

// table shows benchstat's comparison. The tool is the one that this module's go.mod names.
func (o *options) table(ctx context.Context, out io.Writer, text []byte) error {
	dir, err := os.MkdirTemp("", "micro")
	if err != nil {
		return fmt.Errorf("micro: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a folder of temporary files that stays is not worth an error
	now := filepath.Join(dir, "now")
	if err := os.WriteFile(now, text, 0o600); err != nil {
		return fmt.Errorf("micro: %w", err)
	}
	accepted, err := filepath.Abs(o.accepted)
	if err != nil {
		return fmt.Errorf("micro: %w", err)
	}
	module, err := command(ctx, "", "list", "-m", "-f", "{{.Dir}}", "github.com/mcplisten/mcplisten/bench")
	if err != nil {
		return fmt.Errorf("micro: finding the module with benchstat: %w", err)
	}
	shown, err := command(ctx, strings.TrimSpace(string(module)), "tool", "benchstat",
		"-ignore", "cpu,goos,goarch", "-filter", ".unit:(allocs/op OR sec/op OR "+unitRatio+")", "accepted="+accepted, "now="+now)
	if err != nil {
		return fmt.Errorf("micro: benchstat: %w", err)
	}
	_, err = out.Write(shown)
	return err
}
