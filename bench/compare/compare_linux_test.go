package main

// The whole comparison with few streams: it asserts that every message arrives and that the figures make sense, not what they are.

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/bench/server"
)

// TestMain lets the test binary be the processes that the comparison starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "server" || os.Args[1] == "loadgen") {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestEverything(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	const n = 20
	o := quick()
	o.sizes = []int{n}
	o.secureStreams, o.burstStreams, o.beside = n, n, n
	o.rounds, o.stalledPublishes, o.stalledQuiet = 2, 300, 500*time.Millisecond
	r, err := run(ctx, o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ourFaults(); err != nil {
		t.Fatal(err)
	}
	// A row of others that failed is left out of its scenario, and said to be.
	complete := func(got, want int) {
		t.Helper()
		if got > want || got+len(r.faults) < want {
			t.Errorf("%d rows of %d, with these faults: %+v", got, want, r.faults)
		}
	}
	if len(r.sizes) != 1 || len(r.secure) != 2 {
		t.Fatalf("sizes are missing: %+v %+v", r.sizes, r.secure)
	}
	complete(len(r.sizes[0].rows), len(server.Rows()))
	complete(len(r.secure[0].rows), len(secureRows()))
	complete(len(r.secure[1].rows), len(secureRows()))
	complete(len(r.burst), len(burstRows()))
	complete(len(r.beside), len(besideRows()))
	complete(len(r.uri), len(uriRows()))
	complete(len(r.stalled), len(stalledRows()))
	for _, s := range slices.Concat(r.sizes, r.secure) {
		for _, m := range s.rows {
			checkMeasured(t, o, s.streams, m)
		}
	}
	for _, b := range r.burst {
		if ours(b.row) && b.fewest < 1 || b.fewest > b.middle || b.middle > b.most || b.most > burstChanges || len(b.last) != o.burstRounds || b.calls[0] <= 0 {
			t.Errorf("burst: %+v", b)
		}
	}
	for _, b := range r.beside {
		if len(b.alone) != o.besideRounds || len(b.among) != o.besideRounds || b.alone[0] <= 0 || b.among[0] <= 0 || b.p99[0] <= 0 {
			t.Errorf("other requests: %+v", b)
		}
	}
	for _, u := range r.uri {
		if ours(u.row) && (u.never != "" || len(u.alone) != o.uriRounds || u.alone[0] <= 0 || u.among[0] <= 0) {
			t.Errorf("one URI: %+v", u)
		}
		if u.never == "" && len(u.among) == 0 {
			t.Errorf("one URI: neither figures nor a word: %+v", u)
		}
	}
	for _, s := range r.stalled {
		if ours(s.row) && s.healthy != stalledStreams-1 || s.longest <= 0 || s.calls < s.longest || s.most < 1 {
			t.Errorf("stalled reader: %+v", s)
		}
	}

	// All of it gets into the report.
	file := filepath.Join(t.TempDir(), "r.md")
	if err := write(nil, file, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| mcplisten / bare-write | ", "| mcplisten-gin / bare-nethttp | ", "| mcplisten+h2 / bare-nethttp+h2 | ",
		"## 20 streams", "over TLS", "over HTTP/2", "A burst", "One URI", "Other requests", "reads nothing",
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	if svg, err := os.ReadFile(strings.TrimSuffix(file, "md") + "svg"); err != nil || !bytes.Contains(svg, []byte("mcplisten")) {
		t.Errorf("the plot: %v, %s", err, svg)
	}
}

func checkMeasured(t *testing.T, o options, streams int, m measured) {
	t.Helper()
	if len(m.last) != o.rounds || len(m.cpu) != o.rounds || len(m.rates) != o.opens || len(m.openCPU) != o.opens {
		t.Errorf("%s: %d publishes, %d openings", m.row, len(m.last), len(m.rates))
		return
	}
	for i := range m.last {
		if m.median[i] <= 0 || m.p99[i] < m.median[i] || m.last[i] < m.p99[i] || m.caller[i] <= 0 {
			t.Errorf("%s: times out of order: %+v", m.row, m)
		}
	}
	if slices.Min(m.rates) <= 0 || m.loadRSS <= 0 {
		t.Errorf("%s: no figures for the opening: %+v", m.row, m)
	}
	n := float64(streams)
	if m.row == server.BareWrite {
		if m.idle.Goroutines*n > shared {
			t.Errorf("%s: %.2f goroutines per stream, want none", m.row, m.idle.Goroutines)
		}
		return // its memory is less than the noise of so few streams
	}
	if all := m.idle.Goroutines * n; all < n {
		t.Errorf("%s: %.2f goroutines per stream", m.row, m.idle.Goroutines)
	}
}

func TestFaultOfOneRow(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := quick()
	e := &experiment{options: o, log: t.Logf}
	ls := e.lanes("a test", []string{server.BareNetHTTP, "no such row", server.BareWrite}, "", 5)
	started := 0
	err := ls.each(ctx, 1, func(l *lane) error {
		err := l.start(ctx, 0)
		if err == nil {
			started++
		}
		return err
	})
	if err != nil || started != 2 {
		t.Errorf("%d rows started, %v: want the other two", started, err)
	}
	faults := ls.stop()
	if len(faults) != 1 || faults[0].Row != "no such row" {
		t.Errorf("got %+v, want one fault", faults)
	}
	if err := (&results{faults: faults}).ourFaults(); err == nil {
		t.Error("the fault of a row that is not another's: no error")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"too many streams":  {[]string{"-n", "9000000", "-o", "-"}, "open files"},
		"no streams":        {[]string{"-n", "0"}, "number of streams"},
		"unknown row":       {[]string{"-rows", "mcplisten,abc"}, "no row"},
		"unknown scenario":  {[]string{"-scenarios", "abc"}, "no scenario"},
		"unknown gate":      {[]string{"-check", "abc"}, "no gate"},
		"no rounds":         {[]string{"-publishes", "0"}, "below one"},
		"an argument":       {[]string{"abc"}, "unknown arguments"},
		"no folder":         {[]string{"-o", filepath.Join("no", "such", "folder.md")}, "no folder"},
		"not at the root":   {nil, "no folder"},
		"no such a command": {[]string{"server", "-row", "abc"}, "no row"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := command(t.Context(), c.args, strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a word on %q", err, c.want)
			}
		})
	}
	c, err := parse([]string{"-quick", "-check", "all", "-n", "7,max,5"})
	if err != nil || c.out != "-" || c.opens != quick().opens || len(c.check) != len(gateKeys()) {
		t.Errorf("got %+v, %v", c, err)
	}
	if len(c.sizes) != 3 || c.sizes[0] != 5 || c.sizes[1] != 7 || c.sizes[2] < 100 || c.limit == "" {
		t.Errorf("sizes %v, limited by %q", c.sizes, c.limit)
	}
}
