// Modes: what is claimed and what is done agree at every moment, however often
// they change.

package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcplisten/mcplisten/core"
)

// TestDiscoverSaysWhatTheModeDoes, and says it again after every change.
func TestDiscoverSaysWhatTheModeDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{})
		const all = `{"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`
		for _, test := range []struct {
			mode core.Mode
			want string
		}{
			{core.ModeServe, all}, {core.ModeComplete, "{}"}, {core.ModeServe, all}, {core.ModeNotFound, "{}"}, {core.ModeServe, all},
		} {
			hub.SetMode(test.mode)
			var result struct {
				Capabilities json.RawMessage `json:"capabilities"`
			}
			if err := json.Unmarshal(hub.Discover(), &result); err != nil {
				t.Fatal(err)
			}
			if got := string(result.Capabilities); got != test.want {
				t.Errorf("in mode %d, server/discover claims %s, want %s", test.mode, got, test.want)
			}
		}
	})
}

// openParsed opens a stream for a request that was parsed before.
func openParsed(tb testing.TB, hub *core.Hub, req *core.Request) *stream {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{conn: newConn(tb, req.ID.String()), cancel: cancel, done: make(chan struct{})}
	sub, err := hub.Open(ctx, core.Opening{Request: req, Connect: func() (core.Conn, error) { return s.conn, nil }})
	if err != nil {
		cancel()
		tb.Fatalf("a request was refused after it was parsed: %v", err)
	}
	s.sub = sub
	go func() {
		defer close(s.done)
		s.end = sub.Serve()
	}()
	tb.Cleanup(func() { s.close() })
	return s
}

// TestSetModeRacesOpens: a stream that is acknowledged with something in it while
// the mode changes is ended by that change; nothing is left that the mode does
// not allow.
func TestSetModeRacesOpens(t *testing.T) {
	t.Parallel()
	for _, off := range []core.Mode{core.ModeComplete, core.ModeNotFound} {
		hub := newHub(t, core.Config{KeepAlive: -1})
		var (
			opening sync.WaitGroup
			mu      sync.Mutex
			streams []*stream
		)
		var opened, empty, notFound atomic.Int64
		for client := range 8 {
			opening.Go(func() {
				for i := range 50 {
					_, req, err := parse(hub, listenText(strconv.Itoa(client*1000+i), validMeta, allLists))
					var e *core.Error
					if errors.As(err, &e) && e.Refusal == core.RefusedMethod {
						notFound.Add(1)
						continue
					}
					if err != nil {
						t.Errorf("refused with %v", err)
						continue
					}
					// From here on the mode may have changed once more.
					s := openParsed(t, hub, req)
					mu.Lock()
					streams = append(streams, s)
					mu.Unlock()
					s.awaitSteps(2)
					if strings.HasPrefix(s.all()[0], "ack {}") {
						empty.Add(1)
					} else {
						opened.Add(1)
					}
				}
			})
		}
		over := make(chan struct{})
		go func() { opening.Wait(); close(over) }()
		for i, going := 0, true; going; i++ {
			hub.SetMode([]core.Mode{off, core.ModeServe}[i%2])
			select {
			case <-over:
				going = false
			default:
				runtime.Gosched()
			}
		}
		hub.SetMode(off)
		for _, s := range streams {
			wantEnd(t, s.wait(), core.Completed, true)
		}
		if n := len(hub.Streams()); n != 0 {
			t.Errorf("%d streams are open in mode %d, want none", n, off)
		}
		t.Logf("mode %d: %d opened, %d were completed at once, %d not found", off, opened.Load(), empty.Load(), notFound.Load())
	}
}
