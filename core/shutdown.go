// Shutting down, and shedding load: many subscriptions end, and their clients
// should not all come back in the same second.

package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Shutdown ends the hub: it refuses newcomers, ends every subscription with its
// result, one after another over the configured DrainSpread, and waits until each
// has been released. The spread is shortened to fit a deadline of ctx. Where ctx
// ends all the same, the rest is asked to end at once, and Shutdown returns an
// error that wraps ctx's and says how many are left; those go on ending. It may
// be called several times, and every call waits.
//
// It may be called from inside a hook. Since that hook holds up its own
// subscription, the call then does not wait for subscriptions inside a hook.
func (h *Hub) Shutdown(ctx context.Context) error {
	err := h.endAll(ctx)
	if h.link != nil {
		err = errors.Join(err, h.link.close(ctx))
	}
	return err
}

// endAll ends every subscription and waits for it.
func (h *Hub) endAll(ctx context.Context) error {
	h.startClosing(ctx)
	inside := insideHook()
	left := func() int {
		if inside {
			return h.unreleased() - int(h.hooks.Load())
		}
		return h.unreleased()
	}
	stop := context.AfterFunc(ctx, func() {
		h.rush()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.changed.Broadcast()
	})
	defer stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	waiting := left() // once for each decision: hooks come and go without the lock
	for waiting > 0 && ctx.Err() == nil {
		h.changed.Wait()
		waiting = left()
	}
	if h.unreleased() == 0 || ctx.Err() != nil {
		h.rush() // whoever was to end the next one can go, or has to hurry
	}
	if waiting > 0 {
		return fmt.Errorf("core: shutdown: %d subscriptions are still ending: %w", h.unreleased(), ctx.Err())
	}
	return nil
}

// unreleased returns how many subscriptions hold something of the hub, those being
// opened included. The hub's lock must be held.
func (h *Hub) unreleased() int { return h.opening + h.live + h.releasing }

// drainMargin is the part of the time until a deadline that is left for the last
// subscriptions to end in.
const drainMargin = 5 // a fifth

// startClosing refuses newcomers and starts to end the subscriptions, once.
func (h *Hub) startClosing(ctx context.Context) {
	spread := h.config.DrainSpread
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		spread = max(0, min(spread, left-left/drainMargin))
	}
	h.mu.Lock()
	first := !h.closing.Load()
	if first {
		h.drainEnd = time.Now().Add(spread)
		h.closing.Store(true)
	}
	h.mu.Unlock()
	if !first {
		return
	}
	h.close()
	if all := h.all(); spread > 0 && len(all) > 0 {
		go spreadEnds(h.hurry, all, Shutdown, spread)
	} else {
		spreadEnds(h.hurry, all, Shutdown, 0)
	}
}

// Drain ends a share, between 0 and 1, of the open subscriptions with their
// result, evenly over spread, and goes on serving: after a scale-out, their
// clients come back to whatever the load balancer then chooses. Which ones is
// left to chance. It returns how many were ended, once all were asked to; it does
// not wait for them. The reason is completed. Where ctx ends, the rest stays
// open; where the hub is shut down meanwhile, that ends the rest.
func (h *Hub) Drain(ctx context.Context, share float64, spread time.Duration) (int, error) {
	if !(share >= 0 && share <= 1) || spread < 0 {
		return 0, fmt.Errorf("core: drain: the share is not between 0 and 1, or the spread is negative")
	}
	all := h.all()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	until, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(h.closed, cancel)
	defer stop()
	return spreadEnds(until, all[:int(share*float64(len(all))+0.5)], Completed, spread), ctx.Err()
}

// spreadEnds asks the subscriptions to end, the first at once and the last after
// spread, and returns how many were not ending already. When ctx ends, it does
// not wait any more: a shutdown ends the rest at once, anything else spares it.
func spreadEnds(ctx context.Context, all []*Subscription, reason Reason, spread time.Duration) int {
	ended := 0
	paced(ctx, len(all), spread, func(i int) {
		if (ctx.Err() == nil || reason == Shutdown) && all[i].end(reason) {
			ended++
		}
	})
	return ended
}
