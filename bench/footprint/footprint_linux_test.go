package main

// The whole comparison with few streams: it asserts that every message arrives and that the figures make sense, not what they are.

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/bench/server"
)

// TestMain lets the test binary be the processes that the comparison starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "server" || os.Args[1] == "loadgen") {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestSmoke(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := options{streams: 200, publishes: 3, opens: 2, idle: 50 * time.Millisecond, rows: server.Rows()}
	// compare fails if an acknowledgment or a change is missing, doubled or early.
	results, err := compare(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(o.rows) {
		t.Fatalf("got %d rows, want %d", len(results), len(o.rows))
	}
	for _, r := range results {
		if len(r.published) != o.publishes || len(r.cpu) != o.publishes || len(r.opens) != o.opens {
			t.Errorf("%s: %d publishes, %d openings", r.row, len(r.published), len(r.opens))
		}
		for _, d := range r.published {
			if d.MedianMS <= 0 || d.P99MS < d.MedianMS || d.LastMS < d.P99MS || d.CallerMS <= 0 {
				t.Errorf("%s: times out of order: %+v", r.row, d)
			}
		}
		for _, opened := range r.opens {
			if opened.PerSecond <= 0 || opened.RSSBytes <= 0 {
				t.Errorf("%s: no figures for the opening: %+v", r.row, opened)
			}
		}
		if r.row == server.BareWrite {
			if r.idle.goroutines*float64(o.streams) > shared {
				t.Errorf("%s: %.2f goroutines per stream, want none", r.row, r.idle.goroutines)
			}
			continue // its memory is less than the noise of so few streams
		}
		if r.idle.rss <= 0 || r.idle.heap <= 0 || r.idle.stack <= 0 || median(r.cpu) <= 0 || median(r.openCPU) <= 0 {
			t.Errorf("%s: a figure is not positive: %+v", r.row, r.idle)
		}
		if all := r.idle.goroutines * float64(o.streams); all < float64(o.streams) || all > float64(maxGoroutines*o.streams+shared) {
			t.Errorf("%s: %.2f goroutines per stream, want 1 to %d", r.row, r.idle.goroutines, maxGoroutines)
		}
	}
	var out bytes.Buffer
	if err := report(&out, o, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| mcplisten | ", "| mcplisten, idle after the publishes | ", "| mcplisten / bare-write | ", "| mcplisten / bare-nethttp | ", "go1."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, out.String())
		}
	}
}

func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), []string{"-n", "1000000000"}, nil, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "open files") {
		t.Errorf("got %v, want a word on open files", err)
	}
}

func TestCheckLimits(t *testing.T) {
	t.Parallel()
	o := options{streams: 1000}
	within := footprint{rss: 24 << 10, goroutines: 2.001}
	for name, c := range map[string]struct {
		idle, after footprint
		want        string
	}{
		"within":            {within, within, ""},
		"memory":            {footprint{rss: 25 << 10, goroutines: 2}, within, "KB"},
		"memory afterwards": {within, footprint{rss: 25 << 10, goroutines: 2}, "KB"},
		"goroutines":        {footprint{rss: 20 << 10, goroutines: 2.1}, within, "goroutines"},
	} {
		err := checkLimits(o, []result{{row: server.BareWrite}, {row: server.Mcplisten, idle: c.idle, after: c.after}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if err := checkLimits(o, nil); err == nil {
		t.Error("no rows: nothing was checked, and no error")
	}
}
