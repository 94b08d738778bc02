package main

// This file is the scenario of the service's other requests, on the same endpoint, with no stream open and with many.

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcplisten/mcplisten/bench/loadgen"
	"github.com/mcplisten/mcplisten/bench/server"
)

// besideConnections is how many clients send other requests, each one after the other.
const besideConnections = 4

func besideRows() []string {
	return []string{server.BareNetHTTP, server.Mcplisten, server.McplistenChi, server.McplistenEcho, server.McplistenGin, server.McplistenLean, server.GoSDK, server.MCPGo}
}

func (e *experiment) besides(ctx context.Context, rows []string) ([]besides, error) {
	ls := e.lanes("other requests", rows, "", e.beside)
	figures := map[*lane]*besides{}
	err := ls.each(ctx, 0, func(l *lane) error {
		figures[l] = &besides{row: l.row}
		if err := l.start(ctx, 0); err != nil {
			return err
		}
		_, err := l.requests(e) // a fresh process is slow for a moment
		return err
	})
	for n := 0; n < e.besideRounds && err == nil; n++ {
		err = ls.each(ctx, n, func(l *lane) error {
			alone, err := l.requests(e)
			if err != nil {
				return err
			}
			if _, _, err := l.open(ctx); err != nil {
				return err
			}
			among, err := l.requests(e)
			if err != nil {
				return err
			}
			f := figures[l]
			f.alone, f.among = append(f.alone, alone.PerSecond), append(f.among, among.PerSecond)
			f.p99 = append(f.p99, among.P99MS)
			return l.hangup(ctx, l.load, 0)
		})
	}
	var all []besides
	for _, l := range ls.all {
		if l.fault == nil && err == nil {
			all = append(all, *figures[l])
		}
	}
	e.faults = append(e.faults, ls.stop()...)
	return all, err
}

func (l *lane) requests(e *experiment) (loadgen.Answered, error) {
	a, err := ask[loadgen.Answered](l.load, fmt.Sprintf("requests %d %s", besideConnections, e.besideTime))
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}
