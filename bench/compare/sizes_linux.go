package main

// This file is the main scenario: with so many streams to each row, the memory of an idle one, one change to all, and how fast they
// open. Memory is taken of the first streams of a fresh process.

import (
	"context"
	"errors"

	"github.com/mcplisten/mcplisten/bench/server"
)

func (e *experiment) size(ctx context.Context, transport string, rows []string, streams, opens int) (sized, error) {
	ls := e.lanes(scenarioName(transport, streams), rows, transport, streams)
	figures := map[*lane]*measured{}
	for _, l := range ls.all {
		figures[l] = &measured{row: l.row}
	}
	s := sized{transport: transport, streams: streams}
	err := e.sizeRounds(ctx, ls, figures, opens)
	for _, l := range ls.all {
		if l.fault == nil {
			s.rows = append(s.rows, *figures[l])
		}
	}
	e.faults = append(e.faults, ls.stop()...)
	return s, err
}

func (e *experiment) sizeRounds(ctx context.Context, ls *lanes, figures map[*lane]*measured, opens int) error {
	open := func(l *lane) error {
		opened, cpu, err := l.open(ctx)
		if err != nil {
			return err
		}
		m := figures[l]
		m.rates, m.openCPU = append(m.rates, opened.PerSecond), append(m.openCPU, cpu)
		m.loadRSS = float64(opened.RSSBytes)
		return nil
	}
	err := ls.each(ctx, 0, func(l *lane) (err error) {
		if err := l.start(ctx, 0); err != nil {
			return err
		}
		if err := open(l); err != nil {
			return err
		}
		if err := pause(ctx, e.idle); err != nil {
			return err
		}
		figures[l].idle, err = l.footprint(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for n := range e.rounds {
		err := ls.each(ctx, n, func(l *lane) error {
			p, err := l.publish(ctx)
			if err != nil {
				return err
			}
			m := figures[l]
			m.cpu, m.allocs = append(m.cpu, p.cpu), append(m.allocs, p.allocs)
			m.caller = append(m.caller, p.CallerMS)
			m.median, m.p99, m.last = append(m.median, p.MedianMS), append(m.p99, p.P99MS), append(m.last, p.LastMS)
			m.lost, m.deliveries, m.more = m.lost+p.Streams-p.Got, m.deliveries+p.Streams, m.more+p.Extra
			return nil
		})
		if err != nil {
			return err
		}
	}
	err = ls.each(ctx, 0, func(l *lane) (err error) {
		figures[l].after, err = l.footprint(ctx)
		return errors.Join(err, l.hangup(ctx, l.load, 0))
	})
	if err != nil {
		return err
	}
	for n := range opens - 1 {
		err := ls.each(ctx, n, func(l *lane) error { return errors.Join(open(l), l.hangup(ctx, l.load, 0)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// secureRows are those that are also measured over TLS and HTTP/2.
func secureRows() []string {
	return []string{server.BareNetHTTP, server.Mcplisten, server.GoSDK, server.MCPGo}
}
