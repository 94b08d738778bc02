package main

// This file turns the figures into Markdown. A time says little by itself on a shared machine, so each is also given as a ratio to
// the yardstick rows, round by round.

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/mcplisten/mcplisten/bench/loadgen"
	"github.com/mcplisten/mcplisten/bench/server"
)

// The limits of -check, for an idle stream of the mcplisten row, both since it was opened and after it has had changes written to
// it: writing may grow a stack that nothing shrinks again. Memory repeats within a percent, so it can be checked anywhere.
const (
	maxRSSKB      = 24.5
	maxGoroutines = 2
	// shared is how many goroutines may come with the first stream for all of them.
	shared = 4
)

func checkLimits(o options, results []result) error {
	for _, r := range results {
		if r.row != server.Mcplisten {
			continue
		}
		for when, f := range map[string]footprint{"since it was opened": r.idle, "after the publishes": r.after} {
			if kb := f.rss / 1024; kb > maxRSSKB {
				return fmt.Errorf("footprint: a stream that is idle %s takes %.1f KB, more than %.1f", when, kb, maxRSSKB)
			}
			if all := f.goroutines * float64(o.streams); all > float64(maxGoroutines*o.streams+shared) {
				return fmt.Errorf("footprint: a stream that is idle %s takes %.2f goroutines, more than %d", when, f.goroutines, maxGoroutines)
			}
		}
		return nil
	}
	return fmt.Errorf("footprint: nothing to check: the %s row was not measured", server.Mcplisten)
}

func report(out io.Writer, o options, results []result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d streams per row, %d publishes, %d openings; the server and the load generator are processes of their own on this machine.\n\n",
		o.streams, o.publishes, o.opens)
	fmt.Fprintf(&b, "%s, %d CPUs (%s), %s %s/%s\n\n", machine(), runtime.NumCPU(), cpuModel(), results[0].goVersion, runtime.GOOS, runtime.GOARCH)

	b.WriteString("| memory per stream | RSS KB | heap B | stack B | goroutines |\n|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s, idle since it was opened %s", r.row, r.idle)
		fmt.Fprintf(&b, "| %s, idle after the publishes %s", r.row, r.after)
	}

	b.WriteString("\n| one change to all | CPU µs per delivery (min / median) | caller ms | median client ms | p99 ms | last client ms (min / median) |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		last := r.each(func(d loadgen.Delivered) float64 { return d.LastMS })
		fmt.Fprintf(&b, "| %s | %.1f / %.1f | %.1f | %.1f | %.1f | %.1f / %.1f |\n", r.row,
			slices.Min(r.cpu), median(r.cpu),
			median(r.each(func(d loadgen.Delivered) float64 { return d.CallerMS })),
			median(r.each(func(d loadgen.Delivered) float64 { return d.MedianMS })),
			median(r.each(func(d loadgen.Delivered) float64 { return d.P99MS })),
			slices.Min(last), median(last))
	}

	b.WriteString("\n| opening | streams per second (median / max) | server CPU µs per open |\n|---|---|---|\n")
	for _, r := range results {
		rates := r.rates()
		fmt.Fprintf(&b, "| %s | %.0f / %.0f | %.1f |\n", r.row, median(rates), slices.Max(rates), median(r.openCPU))
	}

	if ratios := ratioRows(results); len(ratios) > 0 {
		b.WriteString("\n| ratio | RSS | CPU per delivery | last client | opens per second |\n|---|---|---|---|---|\n")
		for _, line := range ratios {
			b.WriteString(line)
		}
	}
	fmt.Fprintf(&b, "\nKB is 1,024 bytes. Caller is the publish request, which for %s contains the writing. Times are medians over the rounds"+
		" unless said otherwise; a time ratio is the median over rounds of the ratio within the round. The load generator takes %.0f MB for one row.\n",
		server.BareWrite, float64(results[0].loadRSS)/(1<<20))
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("footprint: writing the report: %w", err)
	}
	return nil
}

func (f footprint) String() string {
	return fmt.Sprintf("| %.1f | %.0f | %.0f | %.2f |\n", f.rss/1024, f.heap, f.stack, f.goroutines)
}

func (r result) each(pick func(loadgen.Delivered) float64) []float64 {
	all := make([]float64, len(r.published))
	for i, d := range r.published {
		all[i] = pick(d)
	}
	return all
}

func (r result) rates() []float64 {
	all := make([]float64, len(r.opens))
	for i, o := range r.opens {
		all[i] = o.PerSecond
	}
	return all
}

// ratioRows compares each row with each yardstick that was measured beside it.
func ratioRows(results []result) (lines []string) {
	last := func(d loadgen.Delivered) float64 { return d.LastMS }
	for _, r := range results {
		for _, bare := range results {
			if bare.row == r.row || bare.row == server.Mcplisten || r.row == server.BareWrite {
				continue
			}
			lines = append(lines, fmt.Sprintf("| %s / %s | %.2f | %.2f | %.2f | %.2f |\n", r.row, bare.row, r.idle.rss/bare.idle.rss,
				median(over(r.cpu, bare.cpu)), median(over(r.each(last), bare.each(last))), median(over(r.rates(), bare.rates()))))
		}
	}
	return lines
}

// over divides round by round.
func over(a, b []float64) []float64 {
	all := make([]float64, min(len(a), len(b)))
	for i := range all {
		all[i] = a[i] / b[i]
	}
	return all
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func machine() string {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "memory unknown"
	}
	var kb int64
	if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kb); err != nil {
		return "memory unknown"
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return fmt.Sprintf("%d MB", kb>>10)
	}
	return fmt.Sprintf("%d MB, Linux %s", kb>>10, strings.TrimSpace(string(release)))
}
