package main

// That the gate passes what is as accepted, and fails what is not.

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// accepted returns the accepted figures, as text.
func accepted(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("accepted.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// compareText runs the command with figures of this text.
func compareText(t *testing.T, text string, args ...string) (out string, err error) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "now")
	if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err = run(context.Background(), append([]string{"-accepted", "accepted.txt", "-from", from}, args...), &b)
	return b.String(), err
}

// change returns the figures with a benchmark's value replaced, each time that it ran.
func change(t *testing.T, text, benchmark, unit, value string) string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^(Benchmark` + regexp.QuoteMeta(benchmark) + `-2\s.*?)[0-9.]+( ` + regexp.QuoteMeta(unit) + `)`)
	if !lines.MatchString(text) {
		t.Fatalf("no benchmark %s with %s", benchmark, unit)
	}
	return lines.ReplaceAllString(text, "${1}"+value+"${2}")
}

// more returns an accepted number of allocations times a factor, and some.
func more(t *testing.T, key string, factor, plus float64) string {
	t.Helper()
	f, err := readFile("accepted.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatFloat(f.median(key, unitAllocs)*factor+plus, 'f', -1, 64)
}

// without returns the figures without a benchmark.
func without(text, benchmark string) string {
	return regexp.MustCompile(`(?m)^Benchmark`+regexp.QuoteMeta(benchmark)+`-2\s.*\n`).ReplaceAllString(text, "")
}

func TestGate(t *testing.T) {
	t.Parallel()
	once := func(text string) string { // the first time only: an outlier
		i := strings.Index(text, "BenchmarkDelivery/list-2")
		line, rest, _ := strings.Cut(text[i:], "\n")
		return text[:i] + strings.Replace(line, " 0 allocs/op", " 7 allocs/op", 1) + "\n" + rest
	}
	for _, test := range []struct {
		name   string
		change func(t *testing.T, text string) string
		want   string // in the error; empty: none
	}{
		{"as accepted", func(_ *testing.T, text string) string { return text }, ""},
		{"any time", func(t *testing.T, text string) string { return change(t, text, "Parse/lists", "ns/op", "123456789") }, ""},
		{"any size", func(t *testing.T, text string) string { return change(t, text, "Parse/lists", "B/op", "123456789") }, ""},
		{"fewer allocations", func(t *testing.T, text string) string { return change(t, text, "Parse/lists", "allocs/op", "1") }, ""},
		{"an outlier", func(_ *testing.T, text string) string { return once(text) }, ""},
		{"another number of processors", func(_ *testing.T, text string) string { return strings.ReplaceAll(text, "-2 ", "-16 ") }, ""},

		{"an allocation where there was none", func(t *testing.T, text string) string {
			return change(t, text, "Delivery/list", "allocs/op", "1")
		}, "core.Delivery/list: 1 allocations, accepted are 0"},
		{"one allocation more", func(t *testing.T, text string) string {
			return change(t, text, "TellOthers", "allocs/op", more(t, "core.TellOthers", 1, 1))
		}, "core.TellOthers: " + more(t, "core.TellOthers", 1, 1) + " allocations, accepted are " + more(t, "core.TellOthers", 1, 0)},
		{"a little more of many", func(t *testing.T, text string) string {
			return change(t, text, "Beside/opening", "allocs/op", more(t, "core.Beside/opening", 1.01, 0))
		}, ""},
		{"many allocations more", func(t *testing.T, text string) string {
			return change(t, text, "Beside/opening", "allocs/op", more(t, "core.Beside/opening", 1.1, 0))
		}, "core.Beside/opening: "},
		{"a publish that follows the open streams", func(t *testing.T, text string) string {
			return change(t, text, "Beside/one_listener", "beside/alone", "1.51")
		}, "core.Beside/one_listener: 1.51 times what it is alone, the limit is 1.5"},
		{"a benchmark that has gone", func(_ *testing.T, text string) string { return without(text, "Parse/lists") }, "core.Parse/lists is accepted and was not run"},
		{"a ratio that has gone", func(_ *testing.T, text string) string { return without(text, "Beside/nobody") }, "core.Beside/nobody has a limit and was not run"},
		{"a new benchmark", func(_ *testing.T, text string) string {
			return strings.Replace(text, "BenchmarkParse/lists-2", "BenchmarkParse/new-2", 1)
		}, "core.Parse/new is new"},
		{"no figures", func(*testing.T, string) string { return "PASS\n" }, "no figures"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			out, err := compareText(t, test.change(t, accepted(t)), "-benchstat=false")
			switch {
			case test.want == "" && err != nil:
				t.Errorf("it failed: %v", err)
			case test.want == "" && !strings.Contains(out, "no allocation in"):
				t.Errorf("it says %q, want a summary", out)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("the error is %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestWhatIsNotAMatterOfAcceptance: limits hold for accepted figures, too.
func TestWhatIsNotAMatterOfAcceptance(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "accepted")
	for _, text := range []string{
		change(t, accepted(t), "Delivery/list", "allocs/op", "1"),
		change(t, accepted(t), "Beside/nobody", "beside/alone", "3"),
	} {
		if _, err := compareText(t, text, "-accept", "-accepted", file); err == nil {
			t.Error("figures over a limit were accepted")
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("figures over a limit were written")
		}
	}
}

// TestAccept: what is accepted passes afterwards, and did not before.
func TestAccept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "accepted")
	worse := change(t, accepted(t), "Parse/lists", "allocs/op", more(t, "core.Parse/lists", 1, 1))
	if err := os.WriteFile(file, []byte(accepted(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := compareText(t, worse, "-benchstat=false", "-accepted", file); err == nil {
		t.Error("more allocations than accepted have passed")
	}
	if _, err := compareText(t, worse, "-accept", "-accepted", file); err != nil {
		t.Errorf("they could not be accepted: %v", err)
	}
	if _, err := compareText(t, worse, "-benchstat=false", "-accepted", file); err != nil {
		t.Errorf("they were accepted, and do not pass: %v", err)
	}
}

// TestTable: benchstat's table shows the change, for the reader.
func TestTable(t *testing.T) {
	t.Parallel()
	out, err := compareText(t, change(t, accepted(t), "Parse/lists", "allocs/op", more(t, "core.Parse/lists", 0.5, 0)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"vs base", "beside/alone", "-50.00%"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table has no %q:\n%s", want, out)
		}
	}
}
