package main

// This file is the whole comparison: one scenario after the other.

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcplisten/mcplisten/bench/internal/openfiles"
	"github.com/mcplisten/mcplisten/bench/server"
)

// The scenarios.
const (
	scenarioSizes   = "sizes"
	scenarioTLS     = "tls"
	scenarioHTTP2   = "h2"
	scenarioBurst   = "burst"
	scenarioURI     = "uri"
	scenarioBeside  = "beside"
	scenarioStalled = "stalled"
)

func scenarios() []string {
	return []string{scenarioSizes, scenarioTLS, scenarioHTTP2, scenarioBurst, scenarioURI, scenarioBeside, scenarioStalled}
}

// options say what to measure.
type options struct {
	rows      []string
	scenarios []string
	sizes     []int // ascending
	rounds    int   // changes published to all, at each size
	opens     int   // times that all streams are opened, at each size
	idle      time.Duration

	secureStreams int // over TLS and HTTP/2

	burstStreams, burstRounds int
	beside                    int // streams that are open beside other things
	uriRounds, uriPublishes   int
	besideRounds              int
	besideTime                time.Duration
	stalledPublishes          int
	stalledQuiet              time.Duration // silence after which nothing more is expected
}

// full are the defaults, but for the sizes.
func full() options {
	return options{
		rows: server.Rows(), scenarios: scenarios(),
		rounds: 11, opens: 5, idle: 2 * time.Second,
		secureStreams: 5000,
		burstStreams:  1000, burstRounds: 3,
		beside: 10_000, uriRounds: 5, uriPublishes: 100,
		besideRounds: 5, besideTime: 1500 * time.Millisecond,
		stalledPublishes: 60_000, stalledQuiet: 3 * time.Second,
	}
}

// quick are the defaults of a run that is to show that everything works, and whose times say nothing.
func quick() options {
	o := full()
	o.sizes = []int{200}
	o.rounds, o.opens, o.idle = 3, 2, 100*time.Millisecond
	o.secureStreams = 100
	o.burstStreams, o.burstRounds = 100, 1
	o.beside, o.uriRounds, o.uriPublishes = 100, 1, 10
	o.besideRounds, o.besideTime = 1, 100*time.Millisecond
	o.stalledPublishes, o.stalledQuiet = 2000, time.Second
	return o
}

// experiment is one run.
type experiment struct {
	options
	faults []fault
	log    func(format string, args ...any)
}

func (e *experiment) lanes(scenario string, rows []string, transport string, streams int) *lanes {
	ls := &lanes{scenario: scenario, log: e.log}
	for _, row := range rows {
		ls.all = append(ls.all, &lane{row: row + transport, streams: streams})
	}
	e.log("%s: %d rows with %d streams each", scenario, len(rows), streams)
	return ls
}

func scenarioName(transport string, streams int) string {
	return strconv.Itoa(streams) + " streams" + transport
}

// run measures everything. What it returns with an error is what was measured before.
func run(ctx context.Context, o options, log func(format string, args ...any)) (*results, error) {
	e := &experiment{options: o, log: log}
	r := &results{settings: o, began: time.Now(), machine: thisMachine(ctx)}
	largest := slices.Max(append([]int{o.secureStreams, o.beside, o.burstStreams}, o.sizes...))
	if err := openfiles.Raise(largest); err != nil {
		return nil, err
	}
	chosen := func(scenario string, rows []string) []string {
		if !slices.Contains(o.scenarios, scenario) {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return !slices.Contains(o.rows, row) })
	}
	err := e.scenarios(ctx, r, chosen)
	r.faults, r.took = e.faults, time.Since(r.began)
	return r, err
}

func (e *experiment) scenarios(ctx context.Context, r *results, chosen func(scenario string, rows []string) []string) (err error) {
	if rows := chosen(scenarioSizes, e.rows); len(rows) > 0 {
		for _, n := range e.sizes {
			opens := e.opens
			if n > gateSize {
				opens = min(opens, 2) // they take long, and the gates are about fewer
			}
			s, err := e.size(ctx, "", rows, n, opens)
			if err != nil {
				return err
			}
			r.sizes = append(r.sizes, s)
		}
	}
	for _, over := range [][2]string{{scenarioTLS, server.OverTLS}, {scenarioHTTP2, server.OverHTTP2}} {
		if rows := chosen(over[0], secureRows()); len(rows) > 0 {
			s, err := e.size(ctx, over[1], rows, e.secureStreams, min(e.opens, 3))
			if err != nil {
				return err
			}
			r.secure = append(r.secure, s)
		}
	}
	if rows := chosen(scenarioBurst, burstRows()); len(rows) > 0 {
		if r.burst, err = e.bursts(ctx, rows); err != nil {
			return err
		}
	}
	if rows := chosen(scenarioURI, uriRows()); len(rows) > 0 {
		if r.uri, err = e.uris(ctx, rows); err != nil {
			return err
		}
	}
	if rows := chosen(scenarioBeside, besideRows()); len(rows) > 0 {
		if r.beside, err = e.besides(ctx, rows); err != nil {
			return err
		}
	}
	if rows := chosen(scenarioStalled, stalledRows()); len(rows) > 0 {
		if r.stalled, err = e.stalledReaders(ctx, rows); err != nil {
			return err
		}
	}
	return nil
}

// ourFaults returns what the library or a yardstick did wrong.
func (r *results) ourFaults() error {
	for _, f := range r.faults {
		if ours(f.Row) {
			return fmt.Errorf("compare: %s, row %s: %s", f.Scenario, f.Row, f.Text)
		}
	}
	return nil
}
