package main

// What counts as kept, and what the report says of it.

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// atRest are the figures of a server that nobody uses.
func atRest() figures {
	f := figures{Goroutines: 16, HeapBytes: 5 << 20, OpenFiles: 12, Closed: make(map[string]uint64), Refused: make(map[string]uint64)}
	for _, r := range mustHappen.closed {
		f.Closed[string(r)] = 1
	}
	for _, r := range mustHappen.refused {
		f.Refused[string(r)] = 1
	}
	return f
}

// busy are the figures after a load with everything in it.
func busy() figures {
	f := atRest()
	f.Closed, f.Refused = maps.Clone(f.Closed), maps.Clone(f.Refused)
	for r := range f.Closed {
		f.Closed[r] += 5
	}
	for r := range f.Refused {
		f.Refused[r] += 5
	}
	return f
}

func TestLeaks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(f *figures)
		want   string // empty: none
	}{
		{"nothing", func(*figures) {}, ""},
		{"fewer goroutines", func(f *figures) { f.Goroutines-- }, ""},
		{"a little heap", func(f *figures) { f.HeapBytes += heapSlackBytes }, ""},
		{"a goroutine", func(f *figures) { f.Goroutines++ }, "goroutines: 16 before the load, 17 after it"},
		{"an open file", func(f *figures) { f.OpenFiles++ }, "open files: 12 before the load, 13 after it"},
		{"heap", func(f *figures) { f.HeapBytes += 2 << 20 }, "heap bytes"},
		{"a stream", func(f *figures) { f.Streams = 1 }, "streams"},
		{"an entry of the index", func(f *figures) { f.Held.Registered = 1 }, "held for subscriptions"},
		{"a URI", func(f *figures) { f.Held.URIs = 1 }, "held for subscriptions"},
		{"a principal", func(f *figures) { f.Held.Principals = 1 }, "held for subscriptions"},
		{"a place of a limit", func(f *figures) { f.Held.LimitKeys = 1 }, "held for subscriptions"},
		{"a deadline", func(f *figures) { f.Held.Deadlines = 1 }, "held for subscriptions"},
		{"a watch of the hub", func(f *figures) { f.Held.Watches = 1 }, "held for subscriptions"},
		{"a watch of the application", func(f *figures) { f.Watching = 1 }, "watches of the application"},
		{"a change in the outbox", func(f *figures) { f.Unsent = 1 }, "changes unsent"},
		{"a gap", func(f *figures) { f.Gaps = 1 }, "gaps of the broker"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			end := busy()
			test.change(&end)
			got := compare("chi", atRest(), end)
			switch {
			case test.want == "" && len(got) != 0:
				t.Errorf("problems are %q, want none", got)
			case test.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], "chi: "+test.want)):
				t.Errorf("problems are %q, want one with %q", got, test.want)
			}
		})
	}
}

func newSoak() *soak {
	quick, slow := histogram{}, histogram{}
	for range 100 {
		quick.add(time.Millisecond)
		slow.add(4 * time.Millisecond)
	}
	ms := []minute{
		{time.Minute, window{Opens: 11, Latency: map[string]histogram{"chi": quick}}, []figures{busy()}},
		{2 * time.Minute, window{Opens: 12, Latency: map[string]histogram{"chi": quick}}, []figures{busy()}},
		{3 * time.Minute, window{Opens: 13, Latency: map[string]histogram{"chi": slow}}, []figures{busy()}},
		{4 * time.Minute, window{Opens: 14, Latency: map[string]histogram{"chi": slow}}, []figures{busy()}},
	}
	return &soak{
		seed: 42, wanted: 4 * time.Minute, streams: 60, mounts: []string{"chi"}, began: time.Now(),
		start: []figures{atRest()}, end: []figures{busy()}, last: []figures{busy()}, minutes: ms,
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(s *soak)
		want   string
	}{
		{"a good run", func(*soak) {}, ""},
		{"a leak", func(s *soak) { s.end[0].Goroutines++ }, "goroutines"},
		{"a finding", func(s *soak) { s.found.add(faultLost, "x") }, "1 findings of kind lost"},
		{"an end that did not happen", func(s *soak) {
			s.end[0].Closed[string(core.SlowClient)] = s.start[0].Closed[string(core.SlowClient)]
		}, "no stream ended with slow_client"},
		{"a refusal that did not happen", func(s *soak) {
			s.end[0].Refused[string(core.RefusedLimit)] = s.start[0].Refused[string(core.RefusedLimit)]
		}, "nothing was refused with limit"},
		{"a result that was not flushed", func(s *soak) { s.last[0].Unflushed++ }, "cut 1 streams"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSoak()
			test.change(s)
			s.judge()
			said := strings.Join(s.problems, "\n")
			if (test.want == "") != (said == "") || !strings.Contains(said, test.want) {
				t.Errorf("problems are %q, want %q", said, test.want)
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	s := newSoak()
	s.found.Owed, s.found.Seen, s.found.Ended = 300, 290, 10
	s.judge()
	var b strings.Builder
	s.report(&b, "a machine")
	for _, want := range []string{
		"-seed 42", "a machine", "**Nothing was lost", "Of 300 changes", "| chi | 16 → 16 | 5242 → 5242 | 12 → 12 |", "| 2m0s | 0 | 12 |",
		"| slow_client | 5 |", "| limit | 5 |", "× 3.", // the second half against the first
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, b.String())
		}
	}
	s.found.add(faultLost, "gin/b: something")
	s.judge()
	b.Reset()
	s.report(&b, "a machine")
	if !strings.Contains(b.String(), "**Findings:**") || !strings.Contains(b.String(), "gin/b: something") {
		t.Errorf("the report does not tell of a finding:\n%s", b.String())
	}
}

// TestDeck: each round deals every card as often as its weight says, in another order.
func TestDeck(t *testing.T) {
	t.Parallel()
	d := newDeck(newChance(7, 7))
	var rounds [2][]string
	for i := range rounds {
		count := make(map[string]int)
		for range d.cards {
			switch card := d.deal().(type) {
			case life:
				count[card.name]++
				rounds[i] = append(rounds[i], card.name)
			case misuse:
				count["misuse: "+card.name]++
				rounds[i] = append(rounds[i], card.name)
			}
		}
		for _, k := range lives() {
			if count[k.name] != k.weight {
				t.Errorf("%q was dealt %d times, want %d", k.name, count[k.name], k.weight)
			}
		}
		for _, m := range misuses {
			if count["misuse: "+m.name] != 1 {
				t.Errorf("the misuse %q was dealt %d times, want once", m.name, count["misuse: "+m.name])
			}
		}
	}
	if slices.Equal(rounds[0], rounds[1]) {
		t.Error("two rounds have the same order")
	}
}
