// Watches: reference counts over the application's Watcher, so that a URI is
// watched from its first subscriber to its last.

package core

import (
	"context"
	"sync"
)

// watches counts the subscribers of each URI. Start and Stop of one URI take
// turns; different URIs do not wait for each other.
type watches struct {
	hub     *Hub
	watcher Watcher // nil: nothing to do

	mu    sync.Mutex
	byURI map[string]*watch
}

type watch struct {
	users int // guarded by watches.mu

	// turn is a lock that can be given up waiting for; what follows is guarded
	// by it.
	turn    chan struct{}
	started bool
}

// startAll starts watching all the URIs, or none: after a failure it undoes what
// it did.
func (ws *watches) startAll(ctx context.Context, uris []string) error {
	started := 0
	defer func() { // also where a hook ends the goroutine
		if started < len(uris) {
			ws.stopAll(0, started, func(i int) string { return uris[i] })
		}
	}()
	for _, uri := range uris {
		if err := ws.start(ctx, uri); err != nil {
			return err
		}
		started++
	}
	return nil
}

// start counts one more use of uri, and starts the watch unless it runs.
func (ws *watches) start(ctx context.Context, uri string) error {
	if ws.watcher == nil {
		return nil
	}
	ws.mu.Lock()
	w := ws.byURI[uri]
	if w == nil {
		w = &watch{turn: make(chan struct{}, 1)}
		ws.byURI[uri] = w
	}
	w.users++
	ws.mu.Unlock()

	err := errHookPanicked // unless it returns
	defer func() {
		if err != nil {
			ws.leave(uri, w)
		}
	}()
	ws.hub.countHook(1) // waiting for another's hook is like being in it
	select {
	case w.turn <- struct{}{}:
		ws.hub.countHook(-1)
		err = ws.startOnce(ctx, uri, w)
	case <-ctx.Done():
		ws.hub.countHook(-1)
		err = ctx.Err()
	}
	return err
}

// startOnce starts a watch, whose turn the caller has, unless it runs; and gives up
// the turn.
func (ws *watches) startOnce(ctx context.Context, uri string, w *watch) (err error) {
	defer func() { <-w.turn }()
	if !w.started {
		err = ws.hub.hook("Watcher.Start", func() error { return ws.watcher.Start(ctx, uri) })
		w.started = err == nil
	}
	return err
}

// stopAll stops the watches from next to end, exclusive, one after another.
func (ws *watches) stopAll(next, end int, uri func(i int) string) {
	if ws.watcher == nil {
		return
	}
	defer func() { // where a hook ends the goroutine
		if next < end {
			ws.stopAll(next, end, uri)
		}
	}()
	for next < end {
		next++
		ws.stop(uri(next - 1))
	}
}

// stop counts one use of uri less, and stops the watch after the last.
func (ws *watches) stop(uri string) {
	ws.mu.Lock()
	w := ws.byURI[uri]
	ws.mu.Unlock()
	ws.leave(uri, w)
}

func (ws *watches) leave(uri string, w *watch) {
	ws.mu.Lock()
	w.users--
	last := w.users == 0
	ws.mu.Unlock()
	if !last {
		return
	}
	ws.hub.countHook(1)
	w.turn <- struct{}{}
	ws.hub.countHook(-1)
	defer func() { <-w.turn }()
	if ws.usersOf(w) > 0 {
		return // somebody came meanwhile, and leaves later
	}
	defer ws.forget(uri, w) // also where a hook ends the goroutine
	if w.started {
		w.started = false
		_ = ws.hub.hook("Watcher.Stop", func() error { ws.watcher.Stop(uri); return nil })
	}
}

// forget removes a watch, whose turn the caller has, unless somebody has come.
func (ws *watches) forget(uri string, w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.users == 0 && ws.byURI[uri] == w {
		delete(ws.byURI, uri)
	}
}

func (ws *watches) usersOf(w *watch) int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.users
}

// count returns how many URIs are watched, or about to be.
func (ws *watches) count() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.byURI)
}
