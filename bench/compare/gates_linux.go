package main

// This file is what the figures must be. A time is only ever held against another one of the same run.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mcplisten/mcplisten/bench/server"
)

const (
	maxRSSKB      = 24.5
	maxLeanKB     = 4.5
	maxGoroutines = 2
	// shared is how many goroutines may come with the first stream for all of them.
	shared      = 4
	maxCPU      = 1.3 // times the floor
	maxAllocs   = 0.1 // per delivery; taking the figures allocates a few hundred objects
	maxLast     = 1.3 // times the floor
	minOpens    = 0.8 // of bare net/http
	maxBeside   = 1.1
	maxCallerMS = 10
	maxOthers   = 0.5 // of go-sdk and of mcp-go
	maxURI      = 1.5
	maxGrowth   = 1 << 20 // bytes
)

// gate is one of them, with what was measured.
type gate struct {
	key, what, target string
	figure            string // empty if it was not measured
	met               bool
}

func gateKeys() []string {
	return []string{"idle", "lean", "cpu", "last", "opens", "beside", "caller", "go-sdk", "mcp-go", "uri", "stalled"}
}

// gates judges the figures.
func gates(r *results) []gate {
	s := r.at()
	streams := ""
	if s != nil {
		streams = fmt.Sprintf(" with %d streams", s.streams)
	}
	m := s.row(server.Mcplisten)
	all := []gate{
		idleGate("idle", s, maxRSSKB, maxGoroutines, server.Mcplisten, server.McplistenChi, server.McplistenEcho, server.McplistenGin),
		idleGate("lean", s, maxLeanKB, 1, server.McplistenLean),
		{key: "cpu", what: "CPU per delivery" + streams, target: fmt.Sprintf("≤ %.1f × %s; 0 allocations", maxCPU, server.BareWrite)},
		{key: "last", what: "one change, last client" + streams, target: fmt.Sprintf("≤ %.1f × %s", maxLast, server.BareWrite)},
		{key: "opens", what: "opens per second" + streams, target: fmt.Sprintf("≥ %.1f × %s", minOpens, server.BareNetHTTP)},
		besideGate(r),
		{key: "caller", what: "`Publish` to all, the caller's time" + streams, target: fmt.Sprintf("≤ %d ms", maxCallerMS)},
		sdkGate(s, server.GoSDK),
		sdkGate(s, server.MCPGo),
		uriGate(r),
		stalledGate(r),
	}
	judge := func(key string, met bool, figure string, args ...any) {
		i := slices.IndexFunc(all, func(g gate) bool { return g.key == key })
		all[i].judge(met, figure, args...)
	}
	if m == nil {
		return all
	}
	if floor := s.row(server.BareWrite); floor != nil {
		cpu, allocs := median(over(m.cpu, floor.cpu)), median(m.allocs)
		judge("cpu", cpu <= maxCPU && allocs <= maxAllocs, "%.2f ×; %.3f allocations", cpu, allocs)
		last := median(over(m.last, floor.last))
		judge("last", last <= maxLast, "%.2f ×", last)
	}
	if bare := s.row(server.BareNetHTTP); bare != nil {
		opens := median(over(m.rates, bare.rates))
		judge("opens", opens >= minOpens, "%.2f ×", opens)
	}
	judge("caller", median(m.caller) <= maxCallerMS, "%.1f ms; %.1f ms at the most", median(m.caller), slices.Max(append([]float64{0}, m.caller...)))
	return all
}

func (g *gate) judge(met bool, figure string, args ...any) {
	g.met, g.figure = met, fmt.Sprintf(figure, args...)
}

// idleGate is about streams that are idle, both since they were opened and after they have had changes written to them: writing
// may grow a stack that nothing shrinks again. Memory repeats within a percent, so it can be checked anywhere.
func idleGate(key string, s *sized, limit float64, goroutines int, rows ...string) gate {
	g := gate{key: key, what: map[string]string{"idle": "idle stream", "lean": "idle lean stream"}[key], met: true,
		target: fmt.Sprintf("≤ %.1f KB of resident memory, ≤ %d goroutines", limit, goroutines)}
	var figures []string
	for _, name := range rows {
		m := s.row(name)
		if m == nil {
			continue
		}
		rss := max(m.idle.RSS, m.after.RSS) / 1024
		held := max(m.idle.Goroutines, m.after.Goroutines)
		figures = append(figures, fmt.Sprintf("%s %.1f KB, %.2f", name, rss, held))
		n := float64(s.streams)
		g.met = g.met && rss <= limit && held*n <= float64(goroutines)*n+shared
	}
	if g.figure = strings.Join(figures, "; "); g.figure == "" {
		g.met = false
	}
	return g
}

func besideGate(r *results) gate {
	g := gate{key: "beside", what: fmt.Sprintf("other requests beside %d streams", r.settings.beside),
		target: fmt.Sprintf("within %.1f × of none open", maxBeside), met: true}
	var figures []string
	for _, b := range r.beside {
		if !strings.HasPrefix(b.row, server.Mcplisten) {
			continue
		}
		ratio := median(over(b.alone, b.among))
		figures = append(figures, fmt.Sprintf("%s %.2f ×", b.row, ratio))
		g.met = g.met && ratio <= maxBeside
	}
	if g.figure = strings.Join(figures, "; "); g.figure == "" {
		g.met = false
	}
	return g
}

func sdkGate(s *sized, other string) gate {
	g := gate{key: other, what: "against " + other, target: "≤ half the memory, ≤ half the time to the last client"}
	m, o := s.row(server.Mcplisten), s.row(other)
	if m == nil || o == nil {
		return g
	}
	memory, last := m.idle.RSS/o.idle.RSS, median(over(m.last, o.last))
	g.judge(memory <= maxOthers && last <= maxOthers, "%.2f × the memory, %.2f × the time", memory, last)
	return g
}

func uriGate(r *results) gate {
	g := gate{key: "uri", what: fmt.Sprintf("one URI with one subscriber, %d other streams open", r.settings.beside),
		target: fmt.Sprintf("within %.1f × of none open", maxURI)}
	for _, u := range r.uri {
		if u.row == server.Mcplisten && u.never == "" {
			ratio := median(over(u.among, u.alone))
			g.judge(ratio <= maxURI, "%.2f ×", ratio)
		}
	}
	return g
}

func stalledGate(r *results) gate {
	g := gate{key: "stalled", what: fmt.Sprintf("%d publishes, one reader of %d stalled", r.settings.stalledPublishes, 100),
		target: fmt.Sprintf("no publish over %d ms; the other 99 told after the last one; memory within 1 MB", maxCallerMS)}
	for _, s := range r.stalled {
		if s.row == server.Mcplisten {
			g.judge(s.longest <= maxCallerMS && s.stale == 0 && s.healthy == 99 && math.Abs(s.afterwards) <= maxGrowth,
				"%.2f ms at the most; %d of %d; %+.2f MB", s.longest, s.healthy-s.stale, s.healthy, s.afterwards/(1<<20))
		}
	}
	return g
}

// checkGates fails if one of the gates with these keys is not met, or was not measured.
func checkGates(r *results, keys []string) error {
	var err error
	for _, g := range gates(r) {
		switch {
		case !slices.Contains(keys, g.key) || g.met:
		case g.figure == "":
			err = errors.Join(err, fmt.Errorf("compare: %s: not measured, want %s", g.what, g.target))
		default:
			err = errors.Join(err, fmt.Errorf("compare: %s: %s, want %s", g.what, g.figure, g.target))
		}
	}
	return err
}
