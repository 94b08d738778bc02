package main

// This file is the experiment. Memory is taken once per row, on the first streams of a fresh process. What is timed is repeated
// with the rows in turn, all of them alive, so that whatever else the machine does meets them alike.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcplisten/mcplisten/bench/internal/openfiles"
	"github.com/mcplisten/mcplisten/bench/loadgen"
	"github.com/mcplisten/mcplisten/bench/server"
)

type options struct {
	streams   int
	publishes int
	opens     int
	idle      time.Duration
	rows      []string
}

// footprint is what one stream costs, in bytes but for the goroutines.
type footprint struct {
	rss, heap, stack, goroutines float64
}

// result is what was measured of one row.
type result struct {
	row       string
	goVersion string
	idle      footprint // before anything was published
	after     footprint // after all publishes
	loadRSS   int64     // the load generator's own memory, in bytes

	opens     []loadgen.Opened
	openCPU   []float64 // server µs per open
	published []loadgen.Delivered
	cpu       []float64 // server µs per delivery
}

// lane is one row under way.
type lane struct {
	result
	server *subject
	load   *load
	base   server.Stats
}

func compare(ctx context.Context, o options) (results []result, err error) {
	if err := openfiles.Raise(o.streams); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lanes []*lane
	defer func() {
		for _, l := range lanes { // all are asked to end before one is waited for
			l.each((*process).end)
		}
		for _, l := range lanes {
			l.each(func(p *process) { err = errors.Join(err, p.wait()) })
		}
		if err != nil {
			results = nil
		}
	}()
	for _, row := range o.rows {
		l := &lane{result: result{row: row}}
		lanes = append(lanes, l)
		if err := l.begin(ctx, o); err != nil {
			return nil, fmt.Errorf("footprint: row %s: %w", row, err)
		}
	}
	round := func(n int, do func(l *lane) error) error {
		for i := range lanes {
			l := lanes[(i+n)%len(lanes)] // no row is always the first
			if err := do(l); err != nil {
				return fmt.Errorf("footprint: row %s: %w", l.row, err)
			}
		}
		return nil
	}
	for n := range o.publishes {
		if err := round(n, func(l *lane) error { return l.publish(ctx, o) }); err != nil {
			return nil, err
		}
	}
	err = round(0, func(l *lane) error {
		l.after, err = l.footprint(ctx, o)
		return errors.Join(err, l.hangup(ctx))
	})
	if err != nil {
		return nil, err
	}
	for n := range o.opens - 1 {
		err := round(n, func(l *lane) error { return errors.Join(l.open(ctx, o), l.hangup(ctx)) })
		if err != nil {
			return nil, err
		}
	}
	for _, l := range lanes {
		results = append(results, l.result)
	}
	return results, nil
}

// begin starts the row's processes, opens the streams and takes the idle memory.
func (l *lane) begin(ctx context.Context, o options) (err error) {
	if l.server, err = startServer(ctx, l.row, o.streams); err != nil {
		return err
	}
	for range 2 { // the first call brings in the memory that answering it takes
		if l.base, err = l.server.stats(ctx, memory); err != nil {
			return err
		}
	}
	l.goVersion = l.base.GoVersion
	if l.load, err = startLoad(ctx, l.server, o.streams); err != nil {
		return err
	}
	if err := l.open(ctx, o); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(o.idle):
	}
	l.idle, err = l.footprint(ctx, o)
	return err
}

func (l *lane) open(ctx context.Context, o options) error {
	before, err := l.server.stats(ctx, times)
	if err != nil {
		return err
	}
	opened, err := l.load.open()
	if err != nil {
		return err
	}
	if opened.Error != "" || opened.Streams != o.streams {
		return fmt.Errorf("%d of %d streams opened, %d of them with something before the acknowledgment: %s",
			opened.Streams, o.streams, opened.Early, opened.Error)
	}
	after, err := l.server.stats(ctx, times)
	if err != nil {
		return err
	}
	l.opens, l.loadRSS = append(l.opens, opened), opened.RSSBytes
	l.openCPU = append(l.openCPU, float64(after.CPUMicros-before.CPUMicros)/float64(o.streams))
	return nil
}

func (l *lane) footprint(ctx context.Context, o options) (footprint, error) {
	now, err := l.server.stats(ctx, memory)
	if err != nil {
		return footprint{}, err
	}
	if now.Streams != o.streams {
		return footprint{}, fmt.Errorf("the server holds %d streams, not %d", now.Streams, o.streams)
	}
	n := float64(o.streams)
	return footprint{
		rss:        float64(now.RSSBytes-l.base.RSSBytes) / n,
		heap:       float64(now.HeapBytes-l.base.HeapBytes) / n,
		stack:      float64(now.StackBytes-l.base.StackBytes) / n,
		goroutines: float64(now.Goroutines-l.base.Goroutines) / n,
	}, nil
}

func (l *lane) publish(ctx context.Context, o options) error {
	before, err := l.server.stats(ctx, times)
	if err != nil {
		return err
	}
	d, err := l.load.publish()
	if err != nil {
		return err
	}
	if d.Error != "" || d.Got != o.streams || d.Extra != 0 {
		return fmt.Errorf("%d of %d streams got the change, %d of them more than once: %s", d.Got, o.streams, d.Extra, d.Error)
	}
	after, err := l.server.stats(ctx, times)
	if err != nil {
		return err
	}
	l.published = append(l.published, d)
	l.cpu = append(l.cpu, float64(after.CPUMicros-before.CPUMicros)/float64(o.streams))
	return nil
}

// hangup closes the streams and waits until the server has noticed.
func (l *lane) hangup(ctx context.Context) error {
	if err := l.load.hangup(); err != nil {
		return err
	}
	const tries = 300
	var now server.Stats
	for range tries {
		var err error
		if now, err = l.server.stats(ctx, counts); err != nil || now.Streams == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("the server still holds %d streams half a minute after they were closed", now.Streams)
}

// each does something to those of the row's processes that run.
func (l *lane) each(do func(p *process)) {
	if l.load != nil {
		do(l.load.process)
	}
	if l.server != nil {
		do(l.server.process)
	}
}
