// Close reasons: how each is reached, what the client gets, and that nothing is
// left behind whatever it was.

package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// endingCase is a way to end a stream, with what must come of it.
type endingCase struct {
	name     string
	reason   core.Reason
	graceful bool
	config   core.Config
	openings []opening
	filter   string // listAndURI by default
	do       func(*testing.T, *core.Hub, *stream)
	err      error // in the chain of End.Err
}

var endings = []endingCase{
	{
		name: "the client leaves", reason: core.ClientClosed,
		do: func(_ *testing.T, _ *core.Hub, s *stream) { s.cancel() },
	},
	{
		name: "broken pipe", reason: core.ClientClosed, err: syscall.EPIPE,
		do: failing("tools", fmt.Errorf("write: %w", os.NewSyscallError("write", syscall.EPIPE))),
	},
	{name: "connection reset", reason: core.ClientClosed, err: syscall.ECONNRESET, do: failing("flush", syscall.ECONNRESET)},
	{name: "closed connection", reason: core.ClientClosed, err: net.ErrClosed, do: failing("flush", net.ErrClosed)},
	{name: "closed pipe", reason: core.ClientClosed, err: io.ErrClosedPipe, do: failing("tools", io.ErrClosedPipe)},
	{
		name: "a write fails since the client leaves", reason: core.ClientClosed, err: errBroken,
		do: func(t *testing.T, hub *core.Hub, s *stream) {
			s.onCall(func(string) error { s.cancel(); return errBroken })
			publish(t, hub, core.ToolsListChanged())
		},
	},
	{
		name: "the client leaves before the result", reason: core.ClientClosed, err: syscall.EPIPE,
		do: func(_ *testing.T, hub *core.Hub, s *stream) { s.fail("result", syscall.EPIPE); s.finish(hub) },
	},
	{
		name: "cancelled by name", reason: core.ClientClosed, openings: []opening{principal("alice")},
		do: func(t *testing.T, hub *core.Hub, s *stream) {
			if !hub.Cancel("alice", hub.Streams()[0].ID) {
				t.Error("alice's stream was not cancelled")
			}
		},
	},
	{
		name: "the application ends it", reason: core.Completed, graceful: true,
		do: func(_ *testing.T, hub *core.Hub, s *stream) { s.finish(hub) },
	},
	{name: "nothing honored", reason: core.Completed, graceful: true, filter: "{}"},
	{
		name: "listening is switched off", reason: core.Completed, graceful: true,
		do: func(_ *testing.T, hub *core.Hub, _ *stream) { hub.SetMode(core.ModeComplete) },
	},
	{
		name: "drained", reason: core.Completed, graceful: true,
		do: func(_ *testing.T, hub *core.Hub, _ *stream) { _, _ = hub.Drain(context.Background(), 1, 0) },
	},
	{
		name: "lifetime", reason: core.MaxLifetime, graceful: true, config: core.Config{MaxLifetime: time.Minute},
		do: func(*testing.T, *core.Hub, *stream) { advance(2 * time.Minute) },
	},
	{
		name: "grant", reason: core.GrantExpired, graceful: true,
		config: core.Config{Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
			return core.Grant{Until: time.Now().Add(time.Minute)}, nil
		})},
		do: func(*testing.T, *core.Hub, *stream) { advance(time.Minute) },
	},
	{
		name: "revoked", reason: core.Revoked, graceful: true,
		do: func(_ *testing.T, hub *core.Hub, _ *stream) { hub.Revoke(func(core.StreamInfo) bool { return true }) },
	},
	{
		name: "revoked at a re-check", reason: core.Revoked, graceful: true,
		config: core.Config{Authorizer: grants(core.Grant{Recheck: func(context.Context) error { return errBroken }})},
		do:     func(*testing.T, *core.Hub, *stream) { advance(core.DefaultKeepAlive) },
	},
	{
		name: "deadline of the transport", reason: core.Deadline, graceful: true, openings: []opening{transportDeadline(time.Minute)},
		do: func(*testing.T, *core.Hub, *stream) { advance(time.Minute) },
	},
	{
		name: "shutdown", reason: core.Shutdown, graceful: true,
		do: func(t *testing.T, hub *core.Hub, _ *stream) { shutdown(t, hub) },
	},
	{
		name: "shutdown, and the result does not get out", reason: core.Shutdown, err: core.ErrNotFlushed,
		do: func(t *testing.T, hub *core.Hub, s *stream) { s.fail("result", core.ErrSlowClient); shutdown(t, hub) },
	},
	{
		name: "shutdown, and the client is too slow even for what is pending", reason: core.Shutdown, err: core.ErrSlowClient,
		do: func(t *testing.T, hub *core.Hub, s *stream) {
			s.fail("tools", core.ErrSlowClient)
			go shutdown(t, hub)
			publish(t, hub, core.ToolsListChanged())
			s.fail("result", core.ErrSlowClient)
			synctest.Wait()
		},
	},
	{name: "slow client", reason: core.SlowClient, err: core.ErrSlowClient, do: failing("flush", fmt.Errorf("flush: %w", core.ErrSlowClient))},
	{name: "write deadline", reason: core.SlowClient, err: os.ErrDeadlineExceeded, do: failing("tools", os.ErrDeadlineExceeded)},
	{
		name: "slow client at the result", reason: core.SlowClient, err: core.ErrSlowClient,
		do: func(_ *testing.T, hub *core.Hub, s *stream) { s.fail("flush", core.ErrSlowClient); s.finish(hub) },
	},
	{name: "slow client at the acknowledgment", reason: core.SlowClient, err: core.ErrSlowClient, openings: []opening{faulty("flush", core.ErrSlowClient)}},
	{
		name: "slow client at a keep-alive", reason: core.SlowClient, err: core.ErrSlowClient,
		do: func(_ *testing.T, _ *core.Hub, s *stream) {
			s.fail("keep-alive", core.ErrSlowClient)
			advance(core.DefaultKeepAlive)
		},
	},
	{name: "write error", reason: core.WriteError, err: errBroken, do: failing("tools", errBroken)},
	{name: "write error at the acknowledgment", reason: core.WriteError, err: errBroken, openings: []opening{faulty("", errBroken)}},
	{
		name: "write error at the result", reason: core.WriteError, err: errBroken,
		do: func(_ *testing.T, hub *core.Hub, s *stream) { s.fail("flush", errBroken); s.finish(hub) },
	},
	{name: "panic of a hook", reason: core.Panicked, do: panicAt("delivered", publishTools)},
	{name: "panic at a keep-alive", reason: core.Panicked, do: panicAt("kept", func(*testing.T, *core.Hub, *stream) { advance(core.DefaultKeepAlive) })},
	{name: "panic at the acknowledgment", reason: core.Panicked, openings: []opening{panicOpening("acknowledged")}},
	{name: "panic when accepted", reason: core.Panicked, openings: []opening{panicOpening("accepted")}},
}

func failing(step string, err error) func(*testing.T, *core.Hub, *stream) {
	return func(t *testing.T, hub *core.Hub, s *stream) {
		s.fail(step, err)
		publish(t, hub, core.ToolsListChanged())
	}
}

func panicAt(word string, do func(*testing.T, *core.Hub, *stream)) func(*testing.T, *core.Hub, *stream) {
	return func(t *testing.T, hub *core.Hub, s *stream) {
		s.mu.Lock()
		s.panicAt = word
		s.mu.Unlock()
		do(t, hub, s)
	}
}

func panicOpening(word string) opening {
	return func(s *stream, _ *core.Opening, _ *context.Context) { s.panicAt = word }
}

// TestI9_EveryEndReleasesEverything reaches every close reason in every way.
func TestI9_EveryEndReleasesEverything(t *testing.T) {
	t.Parallel()
	reached := make(map[core.Reason]bool)
	for _, ending := range endings {
		reached[ending.reason] = true
		started := ending
		started.name += ", with Start"
		started.openings = append([]opening{withoutGoroutine()}, ending.openings...)
		for _, ending := range []endingCase{ending, started} {
			t.Run(ending.name, func(t *testing.T) { bubble(t, func(t *testing.T) { everyEnd(t, ending) }) })
		}
	}
	for _, reason := range core.Reasons() {
		if !reached[reason] {
			t.Errorf("no test reaches the close reason %q", reason)
		}
	}
}

func everyEnd(t *testing.T, ending endingCase) {
	t.Helper()
	w := newWatcher(t)
	var ends []core.End
	var s *stream
	r := &recorder{onCall: func(step string) {
		if s == nil {
			return
		}
		s.mu.Lock()
		word := s.panicAt
		s.mu.Unlock()
		if word != "" && strings.HasPrefix(step, word+" ") {
			panic(word)
		}
	}}
	config := ending.config
	config.Watcher, config.Observer, config.MaxStreams = w, r, 1
	config.OnEnd = func(e core.End) { ends = append(ends, e) }
	hub := newHub(t, config)
	filter := ending.filter
	if filter == "" {
		filter = listAndURI
	}
	openings := append([]opening{func(opened *stream, _ *core.Opening, _ *context.Context) { s = opened }}, ending.openings...)
	listen(t, hub, "1", filter, openings...)
	synctest.Wait()
	if ending.do != nil {
		ending.do(t, hub, s)
	}
	end := s.wait()
	wantEnd(t, end, ending.reason, ending.graceful)
	if wantErr := ending.err; wantErr != nil && !errors.Is(end.Err, wantErr) || wantErr == nil && end.Err != nil && end.Reason != core.Panicked && end.Reason != core.Revoked {
		t.Errorf("ended with the error %v, want %v", end.Err, wantErr)
	}
	steps := s.all()
	switch results := count(steps, "result"); {
	case ending.graceful && (results != 1 || !slices.Equal(steps[len(steps)-2:], []string{"result", "flush"})):
		t.Errorf("I5: the client got %q, want one result as its last message", steps)
	case !ending.graceful && end.Reason == core.ClientClosed && results != 0:
		t.Errorf("I5: the client got %q, want no result", steps)
	}
	// Everybody was told, once and alike.
	if len(ends) != 1 || !sameEnd(ends[0], end) {
		t.Errorf("OnEnd was told %+v, want once what Serve returned, %+v", ends, end)
	}
	if told := countPrefix(r.take(), "closed "); told != len(r.ends) || told > 1 || told == 0 && s.panicAt != "accepted" {
		t.Errorf("the observer was told %d times of the close, want once", told)
	}
	// Everything was released: the watch, the place, and what the hub holds.
	if ending.filter == "" {
		wantSteps(t, w.take(), "start a:", "stop a:")
	}
	checkEmpty(t, hub)
	if got, want := hub.Stats().Closed, map[core.Reason]uint64{ending.reason: 1}; !maps.Equal(got, want) {
		t.Errorf("the statistics are %v, want %v", got, want)
	}
	before := s.all()
	publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("a:"))
	advance(time.Hour)
	wantSteps(t, s.all(), before...)
	s = nil
	hub.SetMode(core.ModeServe)
	next, err := tryListen(t, hub, "2", listAndURI)
	switch {
	case ending.reason == core.Shutdown:
		wantRefusal(t, err, core.CodeInternalError, core.RefusedShutdown)
	case err != nil:
		t.Errorf("the place was not given back: %v", err)
	default:
		next.close()
	}
}
