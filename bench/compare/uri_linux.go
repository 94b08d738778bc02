package main

// This file is the scenario of a resource that one stream has subscribed to: alone, and with many streams open that have each
// subscribed to a resource of their own.

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/mcplisten/mcplisten/bench/loadgen"
	"github.com/mcplisten/mcplisten/bench/server"
)

const (
	theURI    = "bench:///one"
	otherURIs = `{"resourceSubscriptions":["bench:///{n}"]}`
	// patience is how long the subscriber waits in vain before the row counts as one that never delivers.
	patience = "3s"
)

func uriRows() []string {
	return []string{server.Mcplisten, server.McplistenLean, server.GoSDK, server.MCPGo}
}

func (e *experiment) uris(ctx context.Context, rows []string) ([]oneURI, error) {
	ls := e.lanes("one URI", rows, "", e.beside)
	figures := map[*lane]*oneURI{}
	err := ls.each(ctx, 0, func(l *lane) error {
		figures[l] = &oneURI{row: l.row}
		if err := l.start(ctx, 0, "-filter", otherURIs); err != nil {
			return err
		}
		one, err := startLoad(ctx, l.server, 1, "-trigger", l.server.publishURL("resource", theURI), "-patience", patience,
			"-filter", fmt.Sprintf(`{"resourceSubscriptions":[%q]}`, theURI))
		if err != nil {
			return err
		}
		l.more = append(l.more, one)
		opened, err := ask[loadgen.Opened](one, "open")
		if err == nil && opened.Streams != 1 {
			err = errors.New(opened.Error)
		}
		return err
	})
	for n := 0; n < e.uriRounds && err == nil; n++ {
		err = ls.each(ctx, n, func(l *lane) error {
			f := figures[l]
			if f.never != "" {
				return nil
			}
			alone, err := l.repeat(f, e.uriPublishes)
			if err != nil || f.never != "" {
				return err
			}
			if _, _, err := l.open(ctx); err != nil {
				return err
			}
			among, err := l.repeat(f, e.uriPublishes)
			if err != nil {
				return err
			}
			if f.never == "" {
				f.alone, f.among = append(f.alone, median(alone.LastMS)), append(f.among, median(among.LastMS))
				f.caller = append(f.caller, median(among.CallerMS))
			}
			return l.hangup(ctx, l.load, 1)
		})
	}
	var all []oneURI
	for _, l := range ls.all {
		if l.fault == nil && err == nil {
			all = append(all, *figures[l])
		}
	}
	e.faults = append(e.faults, ls.stop()...)
	return all, err
}

// repeat publishes changes of the one resource, and notes where one does not arrive.
func (l *lane) repeat(f *oneURI, publishes int) (loadgen.Repeated, error) {
	r, err := ask[loadgen.Repeated](l.more[0], "repeat "+strconv.Itoa(publishes))
	if err != nil {
		return r, err
	}
	switch {
	case r.Error != "":
		return r, errors.New(r.Error)
	case r.Lost > 0 && ours(l.row):
		return r, errors.New("the change did not arrive")
	case r.Lost > 0 && len(r.LastMS) == 0:
		f.never = "never delivered: acknowledged, and nothing came within " + patience
	case r.Lost > 0:
		f.never = fmt.Sprintf("delivered %d times, then not within %s", len(r.LastMS), patience)
	}
	return r, nil
}
