// The server's side of open subscriptions: listing them, ending some, and
// shutting down.

package core

import (
	"context"
	"fmt"
	"time"
)

// StreamInfo describes an open subscription.
type StreamInfo struct {
	Serial    uint64    // the hub's own name for it, unique in this process
	ID        ID        // the client's name for it, which others may use too
	Principal string    // empty for nobody
	Opened    time.Time // when the request was received
	Filter    Filter    // the honored filter
	Counts
}

// Streams returns the open subscriptions, in no particular order.
func (h *Hub) Streams() []StreamInfo {
	h.mu.RLock()
	defer h.mu.RUnlock()
	infos := make([]StreamInfo, len(h.index.all))
	for i, s := range h.index.all {
		infos[i] = s.info()
	}
	return infos
}

// End ends the subscription with the given serial: it delivers what is pending,
// writes the result and closes for the reason completed. It does not wait. It
// reports whether there was such a subscription that nothing else was ending.
func (h *Hub) End(serial uint64) bool {
	return h.EndWhere(func(s StreamInfo) bool { return s.Serial == serial }) == 1
}

// EndWhere ends every subscription that pick returns true for, as End does, and
// returns how many. pick is called without the hub's lock held.
func (h *Hub) EndWhere(pick func(StreamInfo) bool) int {
	ended := 0
	for _, s := range h.all() {
		if pick(s.info()) && s.end(Completed) {
			ended++
		}
	}
	return ended
}

// all returns the open subscriptions.
func (h *Hub) all() []*Subscription {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return append([]*Subscription(nil), h.index.all...)
}

// Shutdown ends the hub: it refuses newcomers, ends every subscription with its
// result and waits until each has been released. Where ctx ends before that, it
// returns an error that wraps ctx's and says how many are left; those go on
// ending. It may be called several times, and every call waits.
//
// It may be called from inside a hook. Since that hook holds up its own
// subscription, the call then does not wait for subscriptions inside a hook.
func (h *Hub) Shutdown(ctx context.Context) error {
	h.mu.Lock()
	h.closing.Store(true)
	h.mu.Unlock()
	h.close()
	for _, s := range h.all() {
		s.end(Shutdown)
	}
	var waitFor func() int
	if insideHook() {
		waitFor = func() int { return h.live - int(h.hooks.Load()) }
	} else {
		waitFor = func() int { return h.live }
	}
	stop := context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.changed.Broadcast()
	})
	defer stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for waitFor() > 0 && ctx.Err() == nil {
		h.changed.Wait()
	}
	if waitFor() > 0 {
		return fmt.Errorf("core: shutdown: %d subscriptions are still ending: %w", h.live, ctx.Err())
	}
	return nil
}
