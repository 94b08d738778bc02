package main

// What is written of given figures: no measuring here.

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/bench/server"
)

// made returns figures that meet every target.
func made() *results {
	row := func(name string, kb, goroutines, cpu, last, rate float64) measured {
		f := footprint{RSS: kb * 1024, Heap: kb * 500, Stack: kb * 300, Goroutines: goroutines}
		return measured{
			row: name, idle: f, after: f, rates: []float64{rate, rate}, openCPU: []float64{50}, cpu: []float64{cpu, cpu * 3, cpu},
			allocs: []float64{0.01}, caller: []float64{5}, median: []float64{last / 2}, p99: []float64{last - 1}, last: []float64{last, last * 5, last + 2},
			deliveries: 30_000,
		}
	}
	rows := []measured{
		row(server.BareWrite, 0.5, 0, 8, 60, 20_000), row(server.BareNetHTTP, 27, 2, 10, 70, 15_000), row(server.Mcplisten, 23.5, 2, 9, 66, 14_000),
		row(server.McplistenChi, 24, 2, 9, 66, 14_000), row(server.McplistenEcho, 24, 2, 9, 66, 14_000), row(server.McplistenGin, 24, 2, 9, 66, 14_000),
		row(server.McplistenLean, 4, 1, 9, 66, 14_000),
		row(server.GoSDK, 55, 4, 17, 180, 4500), row(server.MCPGo, 56, 3, 15, 200, 8200),
	}
	return &results{
		command: "a command", limit: "the time", settings: full(),
		machine: machine{cpu: "a CPU", versions: []string{"a module v1.2.3"}},
		sizes:   []sized{{streams: 1000, rows: rows}, {streams: 10_000, rows: rows}},
		beside:  []besides{{row: server.Mcplisten, alone: []float64{1000}, among: []float64{990}, p99: []float64{3}}},
		uri: []oneURI{
			{row: server.Mcplisten, alone: []float64{0.1}, among: []float64{0.11}, caller: []float64{0.01}},
			{row: server.MCPGo, never: "never delivered"},
		},
		stalled: []stalledReader{{row: server.Mcplisten, longest: 1, calls: 9, healthy: 99, fewest: 50, most: 60}},
		burst:   []bursted{{row: server.Mcplisten, fewest: 1, middle: 2, most: 3, calls: []float64{1}, last: []float64{2}, cpu: []float64{3}}},
		faults:  []fault{{Row: server.GoSDK, Scenario: "burst", Text: "a cause\nand another"}},
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	text := report(made(), "plot.svg")
	for _, want := range []string{
		"Written by `a command`", "a CPU", "a module v1.2.3", "](plot.svg)",
		"| CPU per delivery with 10000 streams | ≤ 1.3 × bare-write; 0 allocations | 1.12 ×; 0.010 allocations | yes |",
		"| against go-sdk | ≤ half the memory, ≤ half the time to the last client | 0.43 × the memory, 0.37 × the time | yes |",
		"| mcplisten | 23.5 | 11.5 | 6.88 | 2.00 | 23.5 | 14,000 (14,000 to 14,000) | 50.0 |",
		"| mcplisten | 9.00 (9.00 to 27.0) | 0.01 | 5.00 | 33.0 | 65.0 | 68.0 (66.0 to 330) | 0 |",
		"| mcplisten / mcp-go | 0.42 | 0.60 | 0.33 | 0.33 | 1.71 |",
		"what bounds it is the time",
		"| mcplisten | 1 / 2 / 3 | 0 | 1.00 | 2.00 | 3.00 |",
		"| mcp-go | never delivered | – | – | – |",
		"| mcplisten | 1.00 | 9.00 | 99 of 99 | 50 to 60 | 0 | +0.0 | +0.0 |",
		"- burst, go-sdk: a cause; and another",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "NaN") || strings.Contains(line, "Inf") || strings.Contains(line, "%!") {
			t.Errorf("no figure: %s", line)
		}
	}
	// The columns of each table agree.
	columns := 0
	for line := range strings.Lines(text) {
		n := strings.Count(line, "|")
		if n > 0 && columns > 0 && n != columns {
			t.Errorf("%d columns under %d: %s", n-1, columns-1, line)
		}
		columns = n
	}
	if empty := report(&results{}, ""); !strings.Contains(empty, "not measured") {
		t.Errorf("nothing was measured, and the report does not say so:\n%s", empty)
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	if err := checkGates(made(), gateKeys()); err != nil {
		t.Fatalf("all should be met: %v", err)
	}
	at := func(r *results, row string) *measured { return r.at().row(row) }
	for key, spoil := range map[string]func(r *results){
		"idle":    func(r *results) { at(r, server.McplistenGin).after.RSS = 25 << 10 },
		"lean":    func(r *results) { at(r, server.McplistenLean).idle.RSS = 5 << 10 },
		"cpu":     func(r *results) { at(r, server.Mcplisten).cpu = []float64{11, 40, 11} },
		"last":    func(r *results) { at(r, server.Mcplisten).last = []float64{90, 600, 90} },
		"opens":   func(r *results) { at(r, server.Mcplisten).rates = []float64{11_000, 11_000} },
		"beside":  func(r *results) { r.beside[0].among[0] = 800 },
		"caller":  func(r *results) { at(r, server.Mcplisten).caller = []float64{11} },
		"go-sdk":  func(r *results) { at(r, server.GoSDK).idle.RSS = 40 << 10 },
		"mcp-go":  func(r *results) { at(r, server.MCPGo).last = []float64{100, 400, 100} },
		"uri":     func(r *results) { r.uri[0].among[0] = 0.2 },
		"stalled": func(r *results) { r.stalled[0].stale = 1 },
	} {
		r := made()
		spoil(r)
		for _, one := range gateKeys() {
			if err := checkGates(r, []string{one}); (err != nil) != (one == key) {
				t.Errorf("%s is not met: checking %s says %v", key, one, err)
			}
		}
	}
	for name, spoil := range map[string]func(r *results){
		"of a lean one": func(r *results) { at(r, server.McplistenLean).after.Goroutines = 2 },
		"goroutines":    func(r *results) { at(r, server.Mcplisten).idle.Goroutines = 2.1 },
		"allocations":   func(r *results) { at(r, server.Mcplisten).allocs = []float64{1} },
		"memory":        func(r *results) { r.stalled[0].afterwards = 2 << 20 },
		"blocked":       func(r *results) { r.stalled[0].longest = 11 },
	} {
		r := made()
		spoil(r)
		if err := checkGates(r, gateKeys()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, key := range gateKeys() {
		if err := checkGates(&results{}, []string{key}); err == nil || !strings.Contains(err.Error(), "not measured") {
			t.Errorf("%s was not measured, and the check says %v", key, err)
		}
	}
}

func TestPlot(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*results{"two sizes": made(), "nothing": {}, "one size": {sizes: made().sizes[:1]}} {
		svg := plot(r)
		lines, texts := 0, ""
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v:\n%s", name, err, svg)
			}
			switch token := token.(type) {
			case xml.CharData:
				texts += string(token) + "\n"
			case xml.StartElement:
				if token.Name.Local != "polyline" {
					continue
				}
				lines++
				for _, a := range token.Attr {
					if a.Name.Local == "points" {
						checkPoints(t, a.Value)
					}
				}
			}
		}
		if name == "nothing" {
			continue
		}
		if lines != 2*len(plotted()) {
			t.Errorf("%s: %d lines, want %d in each of two panels", name, lines, len(plotted()))
		}
		for _, want := range append(plotted(), "open streams", "resident KB per stream", "ms to the last client") {
			if !strings.Contains(texts, want) {
				t.Errorf("%s: no text %q in:\n%s", name, want, texts)
			}
		}
	}
}

func checkPoints(t *testing.T, points string) {
	t.Helper()
	for point := range strings.FieldsSeq(points) {
		x, y, _ := strings.Cut(point, ",")
		for text, most := range map[string]float64{x: 960, y: 400} {
			if f, err := strconv.ParseFloat(text, 64); err != nil || math.IsNaN(f) || f < 0 || f > most {
				t.Errorf("the point %s is not in the picture", point)
			}
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0: "0", 0.00412: "0.0041", 0.095: "0.095", 0.5: "0.50", 9.876: "9.88", 23.456: "23.5", 123.4: "123", 9999: "9999", 12345.6: "12,346",
		math.Inf(1): none,
	} {
		if got := number(f); got != want {
			t.Errorf("%v: got %q, want %q", f, got, want)
		}
	}
	if got := spread([]float64{3, 1, 2, 10}); got != "2.50 (1.00 to 10.0)" {
		t.Errorf("got %q", got)
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
	labels := []float64{100, 101, 99, 200}
	apart(labels)
	for i, a := range labels {
		for _, b := range labels[i+1:] {
			if math.Abs(a-b) < 13 {
				t.Errorf("labels overlap: %v", labels)
			}
		}
	}
}
