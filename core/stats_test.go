// Statistics: what a status page shows adds up, also in the middle of things.

package core_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// TestOpenAndOpening: a request is opening while it is in Authorizer or Watcher,
// and open from then on; it is never both.
func TestOpenAndOpening(t *testing.T) {
	bubble(t, func(t *testing.T) {
		step := make(chan struct{})
		hub := newHub(t, core.Config{
			Authorizer: authorizerFunc(func(string, core.Filter) (core.Grant, error) { <-step; return core.Grant{}, nil }),
			Watcher:    watcherFunc(func(context.Context, string) error { <-step; return nil }),
		})
		want := func(when string, open, opening int) {
			t.Helper()
			synctest.Wait()
			if got := hub.Stats(); got.Open != open || got.Opening != opening {
				t.Errorf("%s: %d open and %d opening, want %d and %d", when, got.Open, got.Opening, open, opening)
			}
		}
		want("nobody", 0, 0)
		opened := make(chan *stream)
		go func() { opened <- listen(t, hub, "1", uriFilter("a:")) }()
		want("in the authorizer", 0, 1)
		step <- struct{}{}
		want("in the watcher", 0, 1)
		step <- struct{}{}
		s := <-opened
		want("acknowledged", 1, 0)
		s.close()
		want("ended", 0, 0)
	})
}

// TestHeld: what is kept for subscriptions shows in the statistics entry by entry,
// and goes with them.
func TestHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{MaxStreamsPerPrincipal: 5, Watcher: newWatcher(t)})
		want := func(when string, held core.Held) {
			t.Helper()
			synctest.Wait()
			if got := hub.Stats().Held; got != held {
				t.Errorf("%s: held is\n%+v, want\n%+v", when, got, held)
			}
		}
		want("nobody", core.Held{})
		alice := listen(t, hub, "1", uriFilter("a:", "b:"), principal("alice"))
		want("one", core.Held{Registered: 1, URIs: 2, Watches: 2, Principals: 1, LimitKeys: 1, Deadlines: 1})
		bob := listen(t, hub, "1", uriFilter("b:"), principal("bob"))
		nobody := listen(t, hub, "1", allLists)
		want("three", core.Held{Registered: 3, URIs: 2, Watches: 2, Principals: 2, LimitKeys: 2, Deadlines: 3})
		bob.close()
		want("bob has gone", core.Held{Registered: 2, URIs: 2, Watches: 2, Principals: 1, LimitKeys: 1, Deadlines: 2})
		alice.close()
		nobody.close()
		want("all have gone", core.Held{})

		step := make(chan struct{})
		hub = newHub(t, core.Config{OnEnd: func(core.End) { <-step }})
		s := listen(t, hub, "1", allLists)
		s.cancel()
		want("one is held up by OnEnd", core.Held{Releasing: 1})
		close(step)
		s.wait()
		want("released", core.Held{})
	})
}

// TestLastWriteBeforeTheFirst is when the request was opened, so that nobody is
// shown as silent since before it came.
func TestLastWriteBeforeTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		step := make(chan struct{})
		hub := newHub(t, core.Config{Watcher: watcherFunc(func(context.Context, string) error { <-step; return nil })})
		advance(time.Hour)
		came := time.Now()
		opened := make(chan *stream)
		go func() { opened <- listen(t, hub, "1", uriFilter("a:")) }()
		advance(time.Minute)
		for _, info := range hub.Streams() {
			if !info.LastWrite.Equal(came) {
				t.Errorf("the last write of a stream without any was %v after the request, want 0", info.LastWrite.Sub(came))
			}
		}
		close(step)
		<-opened
		if got := hub.Streams()[0].LastWrite; !got.Equal(time.Now()) {
			t.Errorf("the last write was %v ago, want just now", time.Since(got))
		}
	})
}

// TestOneLineForEachBurst: of each limit, however many are refused at once; a
// burst is over after ten quiet seconds.
func TestOneLineForEachBurst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		hub := newHub(t, core.Config{
			MaxStreams: 2, MaxStreamsPerPrincipal: 1, KeepAlive: -1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		listen(t, hub, "1", allLists, principal("a"))
		lines := func() (all, principals int) {
			text := log.String()
			log.Reset()
			if strings.Contains(text, "level=ERROR") {
				t.Errorf("a limit is no error: %s", text)
			}
			return strings.Count(text, "limit=limit"), strings.Count(text, "limit=principal_limit")
		}
		burst := func() {
			var many sync.WaitGroup
			for range 50 {
				many.Go(func() {
					_, err := tryListen(t, hub, "2", allLists, principal("a"))
					wantRefusal(t, err, core.CodeInternalError, core.RefusedPrincipalLimit)
				})
			}
			many.Wait()
		}
		for range 10 { // one burst, though it goes on for 45 s
			burst()
			advance(5 * time.Second)
		}
		if all, principals := lines(); all != 0 || principals != 1 {
			t.Errorf("a burst at one principal's limit wrote %d and %d lines, want 0 and 1", all, principals)
		}
		other := listen(t, hub, "1", allLists, principal("b"))
		for range 50 {
			_, err := tryListen(t, hub, "2", allLists, principal("c"))
			wantRefusal(t, err, core.CodeInternalError, core.RefusedLimit)
		}
		if all, principals := lines(); all != 1 || principals != 0 {
			t.Errorf("a burst at the limit of all wrote %d and %d lines, want 1 and 0", all, principals)
		}
		other.close()
		burst()
		if all, principals := lines(); all+principals != 0 {
			t.Errorf("the first burst went on and wrote %d and %d lines, want none", all, principals)
		}
		advance(10 * time.Second)
		burst()
		if _, principals := lines(); principals != 1 {
			t.Errorf("a second burst wrote %d lines, want 1", principals)
		}
		// What is no limit is counted, and makes no line.
		for range 50 {
			hub.Refuse(context.Background(), core.Refused{Err: &core.Error{Refusal: core.RefusedAuth}})
		}
		if all, principals := lines(); all+principals != 0 {
			t.Error("a refusal that is no limit was logged as one")
		}
		if got := hub.Stats().Refused; got[core.RefusedPrincipalLimit] != 600 || got[core.RefusedLimit] != 50 || got[core.RefusedAuth] != 50 {
			t.Errorf("refused: %v, want 600, 50 and 50", got)
		}
	})
}
