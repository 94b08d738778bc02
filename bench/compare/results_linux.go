package main

// This file is what is measured, as numbers.

import (
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/bench/server"
)

// results are one run of the comparison.
type results struct {
	command  string
	machine  machine
	began    time.Time
	took     time.Duration
	limit    string  // what bounds the largest size, in words
	sizes    []sized // ascending, over plain HTTP/1.1
	secure   []sized // over TLS and over HTTP/2
	burst    []bursted
	uri      []oneURI
	beside   []besides
	stalled  []stalledReader
	faults   []fault
	settings options
}

// fault is why a row has no figures, or not all.
type fault struct{ Row, Scenario, Text string }

// footprint is what one stream costs, in bytes but for the goroutines.
type footprint struct{ RSS, Heap, Stack, Goroutines float64 }

// sized has all rows with so many streams each.
type sized struct {
	transport string // as in a row's name
	streams   int
	rows      []measured
}

// measured is one row with so many streams. Slices have one figure for each round.
type measured struct {
	row         string
	idle, after footprint // before anything was published, and after all publishes
	loadRSS     float64   // the load generator's own memory

	rates   []float64 // streams opened per second
	openCPU []float64 // µs of the server per open

	cpu, allocs            []float64 // of the server, µs and number, per delivery
	caller                 []float64 // ms
	median, p99, last      []float64 // ms
	lost, deliveries, more int       // over all rounds; more than one for a stream
}

// bursted is one row with a burst of changes.
type bursted struct {
	row                  string
	fewest, middle, most int       // notifications on a stream
	stale                int       // streams that were not told after the last change
	calls, last          []float64 // ms: all publishes together; from the last publish to the last notification
	cpu                  []float64 // µs of the server per stream
}

// oneURI is one row with a change of a resource that one stream has subscribed to.
type oneURI struct {
	row          string
	never        string    // why there are no figures
	alone, among []float64 // ms to the subscriber, medians of each round: with no other stream open, and with all
	caller       []float64 // ms, among the others
}

// besides is one row's other requests.
type besides struct {
	row          string
	alone, among []float64 // requests per second: with no stream open, and with all
	p99          []float64 // ms, among them
}

// stalledReader is one row with a reader that reads nothing.
type stalledReader struct {
	row              string
	longest, calls   float64 // ms: the slowest publish, and all together
	healthy, stale   int     // streams that read, and those of them that were not told after the last change
	fewest, most     int     // notifications on one of them
	last             float64 // ms from the last publish to the last notification
	peak, afterwards float64 // bytes of memory more than before: at the most, and after a collection at the end
}

// ours reports whether a row is the library or a yardstick: where one of these fails, so does the comparison.
func ours(row string) bool {
	base, _, _ := strings.Cut(row, "+")
	return base != server.GoSDK && base != server.MCPGo
}

// gateSize is the number of streams that the gates are about.
const gateSize = 10_000

// at returns the size that the gates are checked at: the one nearest to theirs.
func (r *results) at() *sized {
	var best *sized
	for i := range r.sizes {
		s := &r.sizes[i]
		if best == nil || abs(s.streams-gateSize) < abs(best.streams-gateSize) {
			best = s
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// row returns a row of a size, or nil.
func (s *sized) row(name string) *measured {
	if s == nil {
		return nil
	}
	for i := range s.rows {
		if s.rows[i].row == name {
			return &s.rows[i]
		}
	}
	return nil
}
