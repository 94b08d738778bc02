package main

// This file has the figures of a run, and what may not become of them.

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// The units that judge, as the benchmarks print them.
const (
	unitAllocs = "allocs/op"
	unitRatio  = "beside/alone"
)

// limits are those of what a benchmark itself measures as a ratio, by package and name.
var limits = map[string]float64{
	"core.Beside/one_listener":                    1.5,
	"core.Beside/one_listener_with_sub-resources": 1.5,
	"core.Beside/one_of_an_audience":              1.5,
	"core.Beside/nobody":                          1.5,
	"core.Beside/opening":                         2,
}

// nothing names those that may not allocate at all, whatever was accepted: each delivery, whatever it passes through, and each change
// that is pending already.
var nothing = []string{
	"core.Delivery/list", "core.Delivery/URI", "core.Delivery/URI_of_1000",
	"core.DeliverToAll/list/streams=100", "core.DeliverToAll/list/streams=1000",
	"core.DeliverToAll/URI/streams=100", "core.DeliverToAll/URI/streams=1000",
	"core.PublishToNobody/exact", "core.PublishUninteresting/others=100",
	"core.Beside/one_listener", "core.Beside/one_of_an_audience", "core.Beside/nobody",
	"core.Coalesce/list", "core.Coalesce/URI", "core.Coalesce/URI_of_1000", "core.KeepAlive",
	"nethttp.Delivery", "nethttp.DeliveryOverTCP",
	"otel.Delivery/no_provider", "otel.Delivery/no-op_provider", "otel.Publish/no_provider", "otel.Publish/no-op_provider",
}

// figures are the values of each benchmark, by package and name, one for each time that it ran.
type figures map[string]map[string][]float64 // by unit

// read reads figures in Go's benchmark format.
func read(name string, r io.Reader) (figures, error) {
	all := make(figures)
	from := benchfmt.NewReader(r, name)
	for from.Scan() {
		switch rec := from.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, fmt.Errorf("micro: %w", rec)
		case *benchfmt.Result:
			pkg := rec.GetConfig("pkg")
			base, _ := rec.Name.Parts()
			_, parts := rec.Name.Parts()
			key := pkg[strings.LastIndexByte(pkg, '/')+1:] + "." + string(base)
			for _, part := range parts {
				if part[0] == '/' { // the other one is the number of processors
					key += string(part)
				}
			}
			if all[key] == nil {
				all[key] = make(map[string][]float64)
			}
			for _, v := range rec.Values {
				unit, value := v.Unit, v.Value
				if v.OrigUnit != "" {
					unit, value = v.OrigUnit, v.OrigValue
				}
				all[key][unit] = append(all[key][unit], value)
			}
		}
	}
	if err := from.Err(); err != nil {
		return nil, fmt.Errorf("micro: %w", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("micro: no figures in %s", name)
	}
	return all, nil
}

func readFile(name string) (figures, error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("micro: there is no %s: run this in the repository's root", name)
	} else if err != nil {
		return nil, fmt.Errorf("micro: %w", err)
	}
	defer file.Close()
	return read(name, file)
}

// least returns the smallest value of a benchmark, and whether it has any. What else the machine does only ever adds: a pool that
// was emptied, a cache that was cold.
func (f figures) least(key, unit string) (float64, bool) {
	values := f[key][unit]
	if len(values) == 0 {
		return 0, false
	}
	return slices.Min(values), true
}

// median returns the value in the middle.
func (f figures) median(key, unit string) float64 {
	values := slices.Sorted(slices.Values(f[key][unit]))
	return values[len(values)/2]
}

// allowed is how many allocations are no more than were accepted: exactly those where they are few, and a fiftieth more where one
// figure stands for many streams.
func allowed(accepted float64) float64 {
	const few = 50
	if accepted < few {
		return accepted
	}
	return math.Ceil(accepted * 1.02)
}

// compare says what is worse than accepted, or than ever allowed.
func compare(accepted, now figures) (problems []string) {
	note := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, key := range slices.Sorted(maps.Keys(accepted)) {
		got, ran := now.least(key, unitAllocs)
		if !ran {
			note("%s is accepted and was not run", key)
			continue
		}
		if _, ok := accepted.least(key, unitAllocs); !ok {
			note("%s has no accepted allocations", key)
			continue
		}
		if most := allowed(accepted.median(key, unitAllocs)); got > most {
			note("%s: %v allocations, accepted are %v", key, got, most)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if accepted[key] == nil {
			note("%s is new: there are no accepted figures", key)
		}
	}
	return append(problems, now.overLimit()...)
}

// overLimit says what is over the limits that hold whatever was accepted.
func (f figures) overLimit() (problems []string) {
	note := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, key := range nothing {
		switch got, ran := f.least(key, unitAllocs); {
		case !ran:
			note("%s must allocate nothing and was not run", key)
		case got != 0:
			note("%s: %v allocations, must be none", key, got)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		if _, ran := f.least(key, unitRatio); !ran {
			note("%s has a limit and was not run", key)
		} else if got := f.median(key, unitRatio); got > limits[key] {
			note("%s: %.2f times what it is alone, the limit is %v", key, got, limits[key])
		}
	}
	return problems
}

// summary is the run in one line.
func (f figures) summary() string {
	ratios := make([]string, 0, len(limits))
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		got := f.median(key, unitRatio) // overLimit has seen that there is one
		_, name, _ := strings.Cut(key, "/")
		ratios = append(ratios, fmt.Sprintf("%s %.2f", strings.ReplaceAll(name, "_", " "), got))
	}
	return fmt.Sprintf("%d benchmarks, no allocation in %d; beside 10,000 streams: %s", len(f), len(nothing), strings.Join(ratios, ", "))
}
