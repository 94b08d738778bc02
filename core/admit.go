// Admission: how many subscriptions there may be, in all and for each principal.
// At a limit the newcomer is refused; nobody is ever thrown out for one.

package core

import (
	"math"
	"time"
)

// shutdownRetry is the advice to newcomers of a hub that is closing, after its
// drain: by then another node, or this one again, should serve.
const shutdownRetry = 5 * time.Second

// limitRetry is the advice to newcomers at a limit.
const limitRetry = 10 * time.Second

// begin takes a place among the requests that are opening. From there on the
// caller owes a call of leave.
func (h *Hub) begin() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch limit := h.config.MaxOpening; {
	case h.closing.Load():
		return h.shuttingDown()
	case limit > 0 && h.opening+h.starting >= limit:
		return atLimit(RefusedOpening, "too many subscriptions are being opened")
	}
	h.opening++
	return nil
}

// admit moves a subscription whose principal is known from those that are
// opening to the live ones.
func (h *Hub) admit(s *Subscription) error {
	key, err := h.limitKey(s.principal)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	perKey := h.maxPerKey()
	switch {
	case h.closing.Load():
		return h.shuttingDown()
	case h.live >= h.config.MaxStreams:
		return atLimit(RefusedLimit, "too many subscriptions")
	case key != "" && h.byKey[key] >= perKey:
		return atLimit(RefusedPrincipalLimit, "too many subscriptions of this principal")
	}
	h.opening--
	h.starting++
	h.live++
	if key != "" && perKey != math.MaxInt {
		h.byKey[key]++
		s.limitKey = key
	}
	s.admitted, s.starting = true, true
	return nil
}

// started says that the watches of a subscription run: it is not on its way
// through the hooks any more.
func (h *Hub) started(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starting--
	s.starting = false
}

// vacate gives back the place that counts against the limits, if the subscription
// still has it: before its client can read the result and come back, and before
// any hook that takes its time.
func (h *Hub) vacate(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !s.admitted || s.vacated {
		return
	}
	s.vacated = true
	h.live--
	h.releasing++
	if s.limitKey != "" {
		if h.byKey[s.limitKey]--; h.byKey[s.limitKey] == 0 {
			delete(h.byKey, s.limitKey)
		}
	}
}

// leave says that nothing of a subscription is left.
func (h *Hub) leave(s *Subscription) {
	h.vacate(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.admitted {
		h.releasing--
	} else {
		h.opening--
	}
	if s.starting {
		h.starting--
	}
	h.changed.Broadcast()
}

// limitKey returns who shares the limits of a principal.
func (h *Hub) limitKey(principal string) (key string, err error) {
	if h.config.LimitKey == nil {
		return principal, nil
	}
	err = h.hook("LimitKey", func() error {
		key = h.config.LimitKey(principal)
		return nil
	})
	return key, h.refusedBy(err, CodeInternalError, RefusedPanic, "internal error")
}

// maxPerKey returns the limit of one key.
func (h *Hub) maxPerKey() int {
	limit := math.MaxInt
	if h.config.MaxStreamsPerPrincipal > 0 {
		limit = h.config.MaxStreamsPerPrincipal
	}
	if h.config.MaxShare > 0 {
		const exact = 1e-9 // of 100 streams, 0.29 is 29 and not 28.999…
		limit = min(limit, max(1, int(h.config.MaxShare*float64(h.config.MaxStreams)+exact)))
	}
	return limit
}

func atLimit(refusal Refusal, message string) *Error {
	return &Error{Code: CodeInternalError, Message: message, Refusal: refusal, RetryAfter: limitRetry, Err: ErrLimit}
}

// shuttingDown refuses a newcomer of a closing hub, with the advice to come back
// when its drain is over. The hub's lock must be held.
func (h *Hub) shuttingDown() *Error {
	return &Error{
		Code: CodeInternalError, Message: "the server is shutting down", Refusal: RefusedShutdown,
		RetryAfter: shutdownRetry + max(0, time.Until(h.drainEnd)), Err: ErrShutdown,
	}
}
