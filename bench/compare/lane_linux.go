package main

// This file is one row under way: its processes, and the steps that the scenarios are made of. All rows of a scenario are alive at
// the same time and take turns, so that whatever else the machine does meets them alike. A row that fails is out for the rest of
// the scenario, and the report says why; the others go on.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/bench/loadgen"
	"github.com/mcplisten/mcplisten/bench/server"
)

type lane struct {
	row     string
	streams int
	server  *subject
	load    *load
	more    []*load // others than the first
	base    server.Stats
	fault   error
}

// lanes are the rows of one scenario.
type lanes struct {
	scenario string
	all      []*lane
	log      func(format string, args ...any)
}

// start starts the row's server and its load generator, and takes the server's figures without a stream.
func (l *lane) start(ctx context.Context, sendBuffer int, args ...string) (err error) {
	if l.server, err = startServer(ctx, l.row, l.streams, sendBuffer); err != nil {
		return err
	}
	for range 2 { // the first call brings in the memory that answering it takes
		if l.base, err = l.server.stats(ctx, memory); err != nil {
			return err
		}
	}
	if strings.HasSuffix(l.row, server.OverHTTP2) {
		args = append(args, "-http2")
	}
	args = append([]string{"-trigger", l.server.publishURL("tools", "")}, args...)
	l.load, err = startLoad(ctx, l.server, l.streams, args...)
	return err
}

// stop ends the row's processes.
func (l *lane) stop() error {
	var all []*process
	for _, one := range append(l.more, l.load) {
		if one != nil {
			all = append(all, one.process)
		}
	}
	if l.server != nil {
		all = append(all, l.server.process)
	}
	l.load, l.more, l.server = nil, nil, nil
	var err error
	for _, p := range all {
		p.end()
	}
	for _, p := range all {
		err = errors.Join(err, p.wait())
	}
	return err
}

// each does a step with every row that has not failed; round n begins with another row than the one before it.
func (ls *lanes) each(ctx context.Context, n int, step func(l *lane) error) error {
	for i := range ls.all {
		l := ls.all[(i+n)%len(ls.all)]
		if l.fault != nil {
			continue
		}
		err := step(l)
		if ctx.Err() != nil { // not the row's fault
			return fmt.Errorf("compare: %s, row %s: %w", ls.scenario, l.row, ctx.Err())
		}
		if err != nil {
			l.fault = errors.Join(err, l.stop())
			ls.log("%s: row %s is out: %v", ls.scenario, l.row, l.fault)
		}
	}
	return nil
}

// stop ends all rows, and returns what any of them did wrong.
func (ls *lanes) stop() (faults []fault) {
	for _, l := range ls.all {
		if err := l.stop(); err != nil && l.fault == nil {
			l.fault = err
		}
		if l.fault != nil {
			faults = append(faults, fault{Row: l.row, Scenario: ls.scenario, Text: l.fault.Error()})
		}
	}
	return faults
}

func (l *lane) open(ctx context.Context) (opened loadgen.Opened, cpu float64, err error) {
	before, err := l.server.stats(ctx, times)
	if err != nil {
		return opened, 0, err
	}
	if opened, err = ask[loadgen.Opened](l.load, "open"); err != nil {
		return opened, 0, err
	}
	if opened.Error != "" || opened.Streams != l.streams {
		return opened, 0, fmt.Errorf("%d of %d streams opened, %d of them with something before the acknowledgment: %s",
			opened.Streams, l.streams, opened.Early, opened.Error)
	}
	after, err := l.server.stats(ctx, times)
	return opened, float64(after.CPUMicros-before.CPUMicros) / float64(l.streams), err
}

func (l *lane) footprint(ctx context.Context) (footprint, error) {
	now, err := l.server.stats(ctx, memory)
	if err != nil {
		return footprint{}, err
	}
	if now.Streams != l.streams && !strings.HasSuffix(l.row, server.OverHTTP2) { // which shares connections
		return footprint{}, fmt.Errorf("the server holds %d streams, not %d", now.Streams, l.streams)
	}
	n := float64(l.streams)
	return footprint{
		RSS:        float64(now.RSSBytes-l.base.RSSBytes) / n,
		Heap:       float64(now.HeapBytes-l.base.HeapBytes) / n,
		Stack:      float64(now.StackBytes-l.base.StackBytes) / n,
		Goroutines: float64(now.Goroutines-l.base.Goroutines) / n,
	}, nil
}

// published is what one change to all cost.
type published struct {
	loadgen.Delivered
	cpu    float64 // µs of the server per delivery
	allocs float64 // per delivery
}

func (l *lane) publish(ctx context.Context) (p published, err error) {
	before, err := l.server.stats(ctx, times)
	if err != nil {
		return p, err
	}
	if p.Delivered, err = ask[loadgen.Delivered](l.load, "publish"); err != nil {
		return p, err
	}
	if p.Error != "" {
		return p, fmt.Errorf("%d of %d streams got the change: %s", p.Got, l.streams, p.Error)
	}
	if ours(l.row) && (p.Got != l.streams || p.Extra != 0) {
		return p, fmt.Errorf("%d of %d streams got the change, %d of them more than once", p.Got, l.streams, p.Extra)
	}
	after, err := l.server.stats(ctx, times)
	if err != nil || p.Got == 0 {
		return p, err
	}
	p.cpu = float64(after.CPUMicros-before.CPUMicros) / float64(p.Got)
	p.allocs = float64(after.Allocs-before.Allocs) / float64(p.Got)
	return p, nil
}

// hangup closes the streams of a load generator and waits until the server has noticed that only so many are left.
func (l *lane) hangup(ctx context.Context, which *load, left int) error {
	if _, err := ask[any](which, "hangup"); err != nil {
		return err
	}
	var now server.Stats
	for began, step := time.Now(), 5*time.Millisecond; time.Since(began) < time.Minute; step = min(2*step, 100*time.Millisecond) {
		var err error
		if now, err = l.server.stats(ctx, counts); err != nil || now.Streams <= left {
			return err
		}
		if err := pause(ctx, step); err != nil {
			return err
		}
	}
	return fmt.Errorf("the server still holds %d streams a minute after they were closed", now.Streams)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
