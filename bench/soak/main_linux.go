// Command soak runs the library for a long time under a load that is never quiet, on every framework, and says what it kept.
//
//	go run ./bench/soak -for 20m -out bench/SOAK.md
//
// Each framework is a server process of its own: two nodes of one endpoint with a broker between them. One client process opens
// streams and leaves them in every way, reads slowly or not at all, sends requests that are wrong, publishes, and checks every
// message that comes: the acknowledgment first, the right id, and each change that was published after the acknowledgment was read,
// unless the stream ended. The servers end streams by every policy that there is. Afterwards their goroutines, heap, open files and
// indices must be back where they were, and a last set of streams must get its results at the shutdown.
//
// It exits with status 1 where anything is wrong, and says what.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are those of the whole run.
type options struct {
	last    time.Duration
	warmUp  time.Duration
	window  time.Duration
	bound   time.Duration
	seed    uint64
	streams int
	mounts  []string
	out     string
}

// run is the whole program: one of its processes, or the soak.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "server":
			return runServer(ctx, args[1:], in, out)
		case "load":
			return runLoad(ctx, args[1:], in, out)
		}
	}
	var names []string
	for _, m := range mounts() {
		names = append(names, m.name)
	}
	var o options
	var chosen string
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.DurationVar(&o.last, "for", 20*time.Minute, "how long the load lasts")
	flags.DurationVar(&o.warmUp, "warm-up", 0, "how long the load before that lasts; 0 for a tenth, 30 s at most")
	flags.DurationVar(&o.window, "window", 0, "how long a row of the report is; 0 for a minute, or a quarter of a short run")
	flags.DurationVar(&o.bound, "bound", 10*time.Second, "time within which a change must arrive and an end must come")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of all decisions; 0 for a new one")
	flags.IntVar(&o.streams, "streams", 60, "streams of each node")
	flags.StringVar(&chosen, "mounts", strings.Join(names, ","), "frameworks")
	flags.StringVar(&o.out, "out", "", "file for the report; by default it is printed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.mounts = strings.Split(chosen, ",")
	for _, name := range o.mounts {
		if !slices.Contains(names, name) {
			return fmt.Errorf("soak: no mount %q: want some of %q", name, names)
		}
	}
	if flags.NArg() > 0 || o.last < time.Second || o.streams < 2*veterans || o.bound < 2*writeTimeout {
		return errors.New("soak: unknown arguments, or a value that is too small")
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()>>40 | 1
	}
	if o.warmUp == 0 {
		o.warmUp = min(max(o.last/10, 4*time.Second), 30*time.Second)
	}
	if o.window == 0 {
		o.window = min(time.Minute, o.last/4)
	}
	return o.soak(ctx, out)
}

// soak runs the soak and reports it. It fails where something was found.
func (o *options) soak(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, o.last+o.warmUp+10*o.bound+time.Minute)
	defer cancel()
	fmt.Fprintf(out, "soak: seed %d, %v of load after %v of warm-up\n", o.seed, o.last, o.warmUp)
	s := &soak{seed: o.seed, wanted: o.last, streams: o.streams, mounts: o.mounts, began: time.Now()}
	if err := o.measure(ctx, out, s); err != nil {
		return err
	}
	s.judge()
	to := out
	if o.out != "" {
		file, err := os.Create(o.out)
		if err != nil {
			return fmt.Errorf("soak: %w", err)
		}
		defer file.Close()
		to = file
	}
	s.report(to, machine())
	if len(s.problems) > 0 {
		return fmt.Errorf("soak: seed %d: %s", o.seed, strings.Join(s.problems, "\n\t"))
	}
	fmt.Fprintln(out, "soak: nothing was lost, early, out of place or kept")
	return nil
}

// measure runs the processes through the parts of a soak: a warm-up, the load, and the shutdown.
func (o *options) measure(ctx context.Context, out io.Writer, s *soak) (err error) {
	servers := make([]*process, len(o.mounts))
	targets := make([]target, len(o.mounts))
	defer func() {
		for _, p := range servers {
			if p != nil {
				err = errors.Join(err, p.end())
			}
		}
	}()
	for i, name := range o.mounts {
		targets[i].Name = name
		// The veterans have places of their own; the others are too many now and then.
		places := o.streams*9/10 + veterans
		servers[i], err = start(ctx, &targets[i].addresses, "server", "-mount", name, "-seed", o.seedFor(i), "-streams", strconv.Itoa(places))
		if err != nil {
			return err
		}
	}
	if err := o.load(ctx, targets, o.warmUp, func(*process) error { return nil }, nil); err != nil {
		return err
	}
	if s.start, err = quiesce(ctx, servers, o.bound); err != nil {
		return err
	}
	s.loaded = time.Now()
	if err := o.load(ctx, targets, o.last, func(load *process) error { return s.record(out, servers, load) }, &s.found); err != nil {
		return err
	}
	if s.end, err = quiesce(ctx, servers, o.bound); err != nil {
		return err
	}
	return o.shutdown(ctx, servers, targets, s)
}

func (o *options) seedFor(i int) string { return strconv.FormatUint(o.seed+uint64(i), 10) }

// startLoad starts a client process.
func (o *options) startLoad(ctx context.Context, targets []target, streams int, more ...string) (*process, error) {
	encoded, err := json.Marshal(targets)
	if err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	args := append([]string{
		"load", "-targets", string(encoded), "-seed", o.seedFor(len(targets)), "-streams", strconv.Itoa(streams), "-bound", o.bound.String(),
	}, more...)
	return start(ctx, nil, args...)
}

// load has a client process load the servers for a while, and calls each after each window.
func (o *options) load(ctx context.Context, targets []target, last time.Duration, each func(*process) error, found *findings) (err error) {
	p, err := o.startLoad(ctx, targets, o.streams)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	for left := last; left > 0; left -= o.window {
		if !pause(ctx, min(left, o.window)) {
			return ctx.Err()
		}
		if err := each(p); err != nil {
			return err
		}
	}
	var f findings
	if err := p.ask("stop", &f); err != nil {
		return err
	}
	if found != nil {
		found.merge(f)
	} else if len(f.Count) > 0 {
		return fmt.Errorf("soak: in the warm-up: %s", strings.Join(f.Told, "\n\t"))
	}
	return nil
}

// record takes down a window.
func (s *soak) record(out io.Writer, servers []*process, load *process) error {
	var m minute
	if err := load.ask("window", &m.client); err != nil {
		return err
	}
	var err error
	if m.servers, err = all(servers); err != nil {
		return err
	}
	m.until = time.Since(s.loaded)
	s.minutes = append(s.minutes, m)
	h := m.client.all()
	fmt.Fprintf(out, "soak: %v: %d opened, %d delivered, p50 %s ms, p99 %s ms\n",
		m.until.Round(time.Second), m.client.Opens, m.client.Delivered, ms(h.percentile(0.5)), ms(h.percentile(0.99)))
	return nil
}

// all asks all servers for their figures.
func all(servers []*process) ([]figures, error) {
	every := make([]figures, len(servers))
	for i, p := range servers {
		if err := p.ask("figures", &every[i]); err != nil {
			return nil, err
		}
	}
	return every, nil
}

// quiesce waits until the servers hold nothing of clients that have left and do not change any more, and returns their figures then.
// Where that does not come, it returns what they hold: the comparison says what is wrong.
func quiesce(ctx context.Context, servers []*process, bound time.Duration) ([]figures, error) {
	var before []figures
	for deadline := time.Now().Add(2 * bound); ; {
		now, err := all(servers)
		if err != nil {
			return nil, err
		}
		if quiet(before, now) || time.Now().After(deadline) {
			return now, nil
		}
		before = now
		if !pause(ctx, 500*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

func quiet(before, now []figures) bool {
	if before == nil {
		return false
	}
	for i, f := range now {
		if f.Held != (core.Held{}) || f.Streams != 0 || f.Watching != 0 || f.Unsent != 0 ||
			f.Goroutines != before[i].Goroutines || f.OpenFiles != before[i].OpenFiles {
			return false
		}
	}
	return true
}

// shutdown opens a last set of streams, shuts the servers down, and sees that each stream gets its result.
func (o *options) shutdown(ctx context.Context, servers []*process, targets []target, s *soak) (err error) {
	each := o.streams / 2
	p, err := o.startLoad(ctx, targets, each, "-hold")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	if err := p.ask("held", nil); err != nil {
		return err
	}
	s.held = each * nodes * len(servers)
	for _, server := range servers {
		if err := server.ask("shutdown", nil); err != nil {
			return err
		}
	}
	var w window
	var f findings
	if err := p.ask("stop", &f); err != nil {
		return err
	}
	if err := p.ask("window", &w); err != nil {
		return err
	}
	s.found.merge(f)
	if int(w.Results) != s.held {
		s.problems = append(s.problems, fmt.Sprintf("%d of %d streams got their result at the shutdown", w.Results, s.held))
	}
	s.last, err = all(servers)
	return err
}
