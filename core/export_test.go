// What the tests of I9 look at: everything that the hub holds of subscriptions.

package core

import (
	"fmt"
	"math"
	"strings"
)

// MaxBelow is the cap that tests of sub-resources go to.
const MaxBelow = maxBelow

// UnlimitWriters has every subscription that is roused run at once, also where all
// others stall.
func (h *Hub) UnlimitWriters() {
	h.writers.mu.Lock()
	defer h.writers.mu.Unlock()
	h.writers.limit = math.MaxInt
}

// Leftovers names what the hub still holds of subscriptions; empty is nothing.
func (h *Hub) Leftovers() string {
	var left []string
	note := func(what string, n int) {
		if n != 0 {
			left = append(left, fmt.Sprintf("%s: %d", what, n))
		}
	}
	h.mu.RLock()
	note("live", h.live)
	note("registered", len(h.index.all))
	for k := range h.index.kind {
		note("registered for "+Kind(k).String(), len(h.index.kind[k]))
	}
	note("URIs", len(h.index.uris))
	note("keys", len(h.index.keys))
	note("hooks", int(h.hooks.Load()))
	h.mu.RUnlock()
	h.deadlines.mu.Lock()
	note("deadlines", len(h.deadlines.queue))
	if h.deadlines.armed != never {
		note("armed timers", 1)
	}
	h.deadlines.mu.Unlock()
	h.writers.mu.Lock()
	for s := h.writers.first; s != nil; s = s.next {
		note("in line", 1)
	}
	h.writers.mu.Unlock()
	h.watches.mu.Lock()
	note("watches", len(h.watches.byURI))
	h.watches.mu.Unlock()
	return strings.Join(left, ", ")
}
