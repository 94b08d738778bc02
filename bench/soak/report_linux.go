package main

// This file judges a run and writes it down.

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// minute is what one stretch of the run looked like.
type minute struct {
	until   time.Duration // since the load began
	client  window
	servers []figures // at its end
}

// run is all that is known of a soak.
type soak struct {
	seed     uint64
	wanted   time.Duration
	streams  int // of each node
	mounts   []string
	began    time.Time
	loaded   time.Time // when the load began, after the warm-up
	start    []figures // before the load, after the warm-up
	end      []figures // after all clients left
	minutes  []minute
	last     []figures // after the shutdown
	held     int       // streams that were open at the shutdown
	found    findings
	problems []string
}

// What may differ at the end. Goroutines and files may not.
const (
	heapSlackShare = 0.10
	heapSlackBytes = 1 << 20
)

// compare says what a server has kept over the load.
func compare(name string, start, end figures) (problems []string) {
	note := func(what string, before, after any) {
		problems = append(problems, fmt.Sprintf("%s: %s: %v before the load, %v after it", name, what, before, after))
	}
	if end.Goroutines > start.Goroutines {
		note("goroutines", start.Goroutines, end.Goroutines)
	}
	if end.OpenFiles > start.OpenFiles {
		note("open files", start.OpenFiles, end.OpenFiles)
	}
	if float64(end.HeapBytes) > float64(start.HeapBytes)*(1+heapSlackShare)+heapSlackBytes {
		note("heap bytes", start.HeapBytes, end.HeapBytes)
	}
	if end.Held != (core.Held{}) {
		note("held for subscriptions", start.Held, end.Held)
	}
	if end.Streams != 0 {
		note("streams", start.Streams, end.Streams)
	}
	if end.Watching != 0 {
		note("watches of the application", start.Watching, end.Watching)
	}
	if end.Unsent != 0 {
		note("changes unsent", start.Unsent, end.Unsent)
	}
	if end.Gaps != start.Gaps {
		note("gaps of the broker", start.Gaps, end.Gaps)
	}
	return problems
}

// mustHappen are the ends and refusals that a run has to contain, or it tests less than it says.
var mustHappen = struct {
	closed  []core.Reason
	refused []core.Refusal
}{
	[]core.Reason{
		core.ClientClosed, core.Completed, core.MaxLifetime, core.GrantExpired, core.Revoked, core.Deadline, core.SlowClient, core.Panicked,
	},
	[]core.Refusal{core.RefusedAuth, core.RefusedLimit, core.RefusedPrincipalLimit, core.RefusedWatch, core.RefusedParse, core.RefusedOrigin},
}

// judge finds what is wrong with the run.
func (s *soak) judge() {
	for i, name := range s.mounts {
		s.problems = append(s.problems, compare(name, s.start[i], s.end[i])...)
		for _, reason := range mustHappen.closed {
			if s.end[i].Closed[string(reason)] == s.start[i].Closed[string(reason)] {
				s.problems = append(s.problems, fmt.Sprintf("%s: no stream ended with %s: the load is not what it should be", name, reason))
			}
		}
		for _, refusal := range mustHappen.refused {
			if s.end[i].Refused[string(refusal)] == s.start[i].Refused[string(refusal)] {
				s.problems = append(s.problems, fmt.Sprintf("%s: nothing was refused with %s: the load is not what it should be", name, refusal))
			}
		}
		if n := s.last[i].Unflushed; n > s.end[i].Unflushed {
			s.problems = append(s.problems, fmt.Sprintf("%s: the shutdown cut %d streams without a result", name, n-s.end[i].Unflushed))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(s.found.Count)) {
		s.problems = append(s.problems, fmt.Sprintf("%d findings of kind %s", s.found.Count[kind], kind))
	}
	s.problems = append(s.problems, s.found.Told...)
}

// all merges the latencies of all mounts.
func (w *window) all() (h histogram) {
	for _, one := range w.Latency {
		h.merge(one)
	}
	return h
}

func (s *soak) report(w io.Writer, machine string) {
	f := func(format string, args ...any) { fmt.Fprintf(w, format, args...) }
	f("# Soak\n\n")
	f("`go run ./bench/soak -for %s -seed %d`, %s, on %s.\n\n", s.wanted, s.seed, s.began.UTC().Format("2006-01-02"), machine)
	f("Each framework is a process with two nodes of one endpoint, a broker between them, and %d streams at most on each node. One\n", s.streams)
	f("client process opens, stalls, resets, half-closes and cancels streams and sends requests that are wrong; it publishes at\n")
	f("changing rates and checks every message that comes. The servers end streams by every policy. \"Before\" is after a short run\n")
	f("of the same load, when all clients had left; \"after\" is when all clients of the long run had left.\n\n")
	if slices.Contains(s.mounts, leanMount) {
		f("`%s` is net/http with `mcphttp.WithLeanStreams`.\n\n", leanMount)
	}
	if len(s.problems) == 0 {
		f("**Nothing was lost, early, out of place or kept.** Of %d changes that streams were owed, %d were delivered in time and %d were\n",
			s.found.Owed, s.found.Seen, s.found.Ended)
		f("of streams that ended first.\n\n")
	} else {
		f("**Findings:**\n\n")
		for _, p := range s.problems {
			f("- %s\n", p)
		}
		f("\n")
	}
	s.reportBeforeAndAfter(f)
	s.reportMinutes(f)
	s.reportLatency(f)
	s.reportEnds(f)
}

func (s *soak) reportBeforeAndAfter(f func(string, ...any)) {
	f("## Before and after\n\n")
	f("| | goroutines | heap, KB | open files | streams | index: entries, URIs, principals | limit keys | deadlines | watches |\n")
	f("|---|---|---|---|---|---|---|---|---|\n")
	pair := func(before, after any) string { return fmt.Sprintf("%v → %v", before, after) }
	for i, name := range s.mounts {
		a, b := s.start[i], s.end[i]
		index := func(h core.Held) string { return fmt.Sprintf("%d, %d, %d", h.Registered, h.URIs, h.Principals) }
		f("| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, pair(a.Goroutines, b.Goroutines), pair(a.HeapBytes/1000, b.HeapBytes/1000),
			pair(a.OpenFiles, b.OpenFiles), pair(a.Streams, b.Streams), pair(index(a.Held), index(b.Held)), pair(a.Held.LimitKeys, b.Held.LimitKeys),
			pair(a.Held.Deadlines, b.Held.Deadlines), pair(a.Held.Watches, b.Held.Watches))
	}
	f("\n")
}

func (s *soak) reportMinutes(f func(string, ...any)) {
	f("## Minute by minute\n\n")
	f("All together. Latency is from just before the publish is asked for to the client having read the notification, on streams\n")
	f("that read at once. Heap is what is in use after a collection, with the streams open.\n\n")
	f("| until | streams | opened | refused | wrong | published | delivered | p50, ms | p99, ms | heap, KB | goroutines | open files |\n")
	f("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, m := range s.minutes {
		var now figures
		for _, g := range m.servers {
			now.Streams += g.Streams
			now.HeapBytes += g.HeapBytes
			now.Goroutines += g.Goroutines
			now.OpenFiles += g.OpenFiles
		}
		h := m.client.all()
		f("| %s | %d | %d | %d | %d | %d | %d | %s | %s | %d | %d | %d |\n", m.until.Round(time.Second), now.Streams, m.client.Opens,
			m.client.Refusals, m.client.Invalid, m.client.Published, m.client.Delivered, ms(h.percentile(0.5)), ms(h.percentile(0.99)),
			now.HeapBytes/1000, now.Goroutines, now.OpenFiles)
	}
	f("\n")
	reasons := core.Reasons()
	f("Streams that ended, by reason:\n\n| until |")
	for _, r := range reasons {
		f(" %s |", r)
	}
	f("\n|---|%s\n", strings.Repeat("---|", len(reasons)))
	before := s.start
	for _, m := range s.minutes {
		f("| %s |", m.until.Round(time.Second))
		for _, r := range reasons {
			var ended uint64
			for i := range m.servers {
				ended += m.servers[i].Closed[string(r)] - before[i].Closed[string(r)]
			}
			f(" %d |", ended)
		}
		f("\n")
		before = m.servers
	}
	f("\n")
}

func (s *soak) reportLatency(f func(string, ...any)) {
	if len(s.minutes) == 0 {
		return
	}
	first, last := s.minutes[0].client, s.minutes[len(s.minutes)-1].client
	if len(s.minutes) > 2 { // whole minutes; one of them is a small sample of this load
		first, last = window{Latency: merged(s.minutes[:len(s.minutes)/2])}, window{Latency: merged(s.minutes[len(s.minutes)/2:])}
	}
	f("Second half of the run against the first:\n\n| | p50, ms | | p99, ms | |\n|---|---|---|---|---|\n")
	row := func(name string, a, b histogram) {
		line := []string{name}
		for _, p := range []float64{0.5, 0.99} {
			x, y := a.percentile(p), b.percentile(p)
			ratio := "–"
			if x > 0 {
				ratio = fmt.Sprintf("× %.2f", float64(y)/float64(x))
			}
			line = append(line, ms(x)+" → "+ms(y), ratio)
		}
		f("| %s |\n", strings.Join(line, " | "))
	}
	for _, name := range s.mounts {
		row(name, first.Latency[name], last.Latency[name])
	}
	row("all", first.all(), last.all())
	f("\n")
}

func merged(minutes []minute) map[string]histogram {
	all := make(map[string]histogram)
	for _, m := range minutes {
		for name, h := range m.client.Latency {
			sum := all[name]
			sum.merge(h)
			all[name] = sum
		}
	}
	return all
}

func (s *soak) reportEnds(f func(string, ...any)) {
	table := func(title, first string, names []string, count func(i int, name string) uint64) {
		f("## %s\n\n| %s | %s |\n|---|%s\n", title, first, strings.Join(s.mounts, " | "), strings.Repeat("---|", len(s.mounts)))
		for _, name := range names {
			line := []string{name}
			for i := range s.mounts {
				line = append(line, fmt.Sprint(count(i, name)))
			}
			f("| %s |\n", strings.Join(line, " | "))
		}
		f("\n")
	}
	var reasons, refusals []string
	for _, r := range core.Reasons() {
		reasons = append(reasons, string(r))
	}
	for _, r := range core.Refusals() {
		refusals = append(refusals, string(r))
	}
	table("Ends by reason", "", reasons, func(i int, name string) uint64 { return s.last[i].Closed[name] - s.start[i].Closed[name] })
	f("`shutdown` is the %d streams that were open when the servers were shut down at the end: each got its result.\n\n", s.held)
	table("Refusals by cause", "", refusals, func(i int, name string) uint64 { return s.last[i].Refused[name] - s.start[i].Refused[name] })
	table("Notifications delivered", "", []string{"by the servers' own count"}, func(i int, _ string) uint64 { return s.last[i].Delivered - s.start[i].Delivered })
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

// machine describes where and with what this runs.
func machine() string {
	line := fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			switch d.Path {
			case "github.com/go-chi/chi/v5", "github.com/labstack/echo/v4", "github.com/gin-gonic/gin":
				name := strings.TrimSuffix(strings.TrimSuffix(d.Path, "/v5"), "/v4")
				line += fmt.Sprintf(", %s %s", name[strings.LastIndexByte(name, '/')+1:], d.Version)
			}
		}
	}
	return line
}
