package main

// This file is the scenario of many changes at once, as fast as the publisher can.

import (
	"context"
	"fmt"

	"github.com/mcplisten/mcplisten/bench/loadgen"
	"github.com/mcplisten/mcplisten/bench/server"
)

// burstChanges is how many changes are a burst.
const burstChanges = 100

func burstRows() []string {
	return []string{server.BareWrite, server.BareNetHTTP, server.Mcplisten, server.McplistenLean, server.McplistenOTel, server.GoSDK, server.MCPGo}
}

func (e *experiment) bursts(ctx context.Context, rows []string) ([]bursted, error) {
	ls := e.lanes("burst", rows, "", e.burstStreams)
	figures := map[*lane]*bursted{}
	err := ls.each(ctx, 0, func(l *lane) error {
		figures[l] = &bursted{row: l.row}
		if err := l.start(ctx, 0); err != nil {
			return err
		}
		_, _, err := l.open(ctx)
		return err
	})
	for n := 0; n < e.burstRounds && err == nil; n++ {
		err = ls.each(ctx, n, func(l *lane) error {
			before, err := l.server.stats(ctx, times)
			if err != nil {
				return err
			}
			b, err := ask[loadgen.Burst](l.load, fmt.Sprintf("burst count=%d", burstChanges))
			if err != nil {
				return err
			}
			after, err := l.server.stats(ctx, times)
			if err != nil {
				return err
			}
			if b.Error != "" || b.Streams != l.streams || ours(l.row) && b.Stale > 0 {
				return fmt.Errorf("%d of %d streams are left after the burst, %d of them stale: %s", b.Streams, l.streams, b.Stale, b.Error)
			}
			f := figures[l]
			if n == 0 {
				f.fewest = b.Fewest
			}
			f.fewest, f.most, f.middle = min(f.fewest, b.Fewest), max(f.most, b.Most), b.Median
			f.stale += b.Stale
			f.calls, f.last = append(f.calls, b.CallsMS), append(f.last, b.LastMS)
			f.cpu = append(f.cpu, float64(after.CPUMicros-before.CPUMicros)/float64(b.Streams))
			return nil
		})
	}
	var all []bursted
	for _, l := range ls.all {
		if l.fault == nil && err == nil {
			all = append(all, *figures[l])
		}
	}
	e.faults = append(e.faults, ls.stop()...)
	return all, err
}
