package main

// This file is the scenario of one client that reads nothing, among others that do, while the publisher goes on and on. Socket
// buffers are small, so that the client that does not read is felt after a few notifications.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mcplisten/mcplisten/bench/loadgen"
	"github.com/mcplisten/mcplisten/bench/server"
)

const (
	stalledStreams = 100
	stalledBuffer  = 4096
	// Changes come in lots with a pause in between that is longer than the 10 ms for which go-sdk waits for more: without it, it
	// would send nothing before the end.
	stalledLot   = 100
	stalledPause = 15 * time.Millisecond
)

func stalledRows() []string {
	return []string{server.BareNetHTTP, server.Mcplisten, server.McplistenLean, server.GoSDK, server.MCPGo}
}

func (e *experiment) stalledReaders(ctx context.Context, rows []string) ([]stalledReader, error) {
	ls := e.lanes("stalled reader", rows, "", stalledStreams)
	var all []stalledReader
	err := ls.each(ctx, 0, func(l *lane) error {
		f, err := l.stalledReader(ctx, e.stalledPublishes, e.stalledQuiet)
		if err != nil {
			return err
		}
		all = append(all, f)
		return l.stop()
	})
	e.faults = append(e.faults, ls.stop()...)
	return all, err
}

func (l *lane) stalledReader(ctx context.Context, publishes int, quiet time.Duration) (f stalledReader, err error) {
	f.row = l.row
	if err := l.start(ctx, stalledBuffer, "-stall", "1", "-quiet", quiet.String()); err != nil {
		return f, err
	}
	if _, _, err = l.open(ctx); err != nil {
		return f, err
	}
	// The first write to a stream may take memory for good.
	if d, err := ask[loadgen.Delivered](l.load, "publish"); err != nil || d.Error != "" {
		return f, errors.Join(err, errors.New(d.Error))
	}
	before, err := l.server.stats(ctx, memory)
	if err != nil {
		return f, err
	}
	type answer struct {
		loadgen.Burst
		err error
	}
	done := make(chan answer, 1)
	load := l.load
	go func() {
		b, err := ask[loadgen.Burst](load, "burst count="+strconv.Itoa(publishes)+"&each="+strconv.Itoa(stalledLot)+"&pause="+stalledPause.String())
		done <- answer{b, err}
	}()
	var b answer
	for running := true; running; {
		select {
		case b = <-done:
			running = false
		case <-time.After(100 * time.Millisecond):
			now, err := l.server.stats(ctx, times)
			if err != nil {
				kill := load.cmd.Process.Kill() // the answer that is awaited ends with it
				<-done
				return f, errors.Join(err, kill)
			}
			f.peak = max(f.peak, float64(now.RSSBytes-before.RSSBytes))
		}
	}
	if b.err != nil {
		return f, b.err
	}
	after, err := l.server.stats(ctx, memory)
	if err != nil {
		return f, err
	}
	f.afterwards = float64(after.RSSBytes - before.RSSBytes)
	f.longest, f.calls, f.last = b.LongestMS, b.CallsMS, b.LastMS
	f.healthy, f.stale, f.fewest, f.most = b.Streams, b.Stale, b.Fewest, b.Most
	if ours(l.row) && (b.Error != "" || f.healthy != stalledStreams-1) {
		return f, fmt.Errorf("%d streams that read are left, of %d: %s", f.healthy, stalledStreams-1, b.Error)
	}
	return f, nil
}
