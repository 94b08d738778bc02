// Hooks: every call into the application goes through here, so that its panic
// ends one subscription and nothing else, and so that it may call the hub.

package core

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

var errHookPanicked = errors.New("core: a hook panicked")

// hook calls f, a call into the application on behalf of a live subscription, and returns its error. A panic is logged and returned as an
// error. The hub's locks must not be held.
func (h *Hub) hook(name string, f func() error) error {
	h.countHook(1)
	defer h.countHook(-1)
	return h.guard(name, f)
}

// guard is hook for all other calls.
func (h *Hub) guard(name string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("mcplisten: a hook panicked", "hook", name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %s", errHookPanicked, name)
		}
	}()
	return f()
}

func (h *Hub) countHook(n int64) {
	h.hooks.Add(n)
	if h.closing.Load() {
		h.mu.Lock()
		h.changed.Broadcast()
		h.mu.Unlock()
	}
}

// insideHook reports whether the calling goroutine is inside a hook that is called
// on behalf of a live subscription. Its stack is what tells where no context of the hook's is at
// hand.
func insideHook() bool {
	pcs := make([]uintptr, 64)
	for skip := 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for {
			frame, more := frames.Next()
			if frame.Function == hookFunction {
				return true
			}
			if !more {
				break
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

const hookFunction = "github.com/mcplisten/mcplisten/core.(*Hub).hook"
