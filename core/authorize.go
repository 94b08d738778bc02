// Authorization: who may listen, until when, and whether still.

package core

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Authorizer decides whether a principal may open a subscription. It is called
// before anything is answered, from many goroutines.
//
// A refusal is whole: there is no narrowing by permission, since a narrowed
// acknowledgment would tell which URIs exist. To choose code and message,
// return an [*Error]; any other error is answered with a fixed text. Use one
// error for "forbidden" and "unknown".
type Authorizer interface {
	// Authorize sees the filter as it was asked for, members of extensions
	// included. ctx is the request's, and ends early when the hub closes.
	Authorize(ctx context.Context, principal string, filter Filter) (Grant, error)
}

// AuthorizerFunc is an [Authorizer] that is a function.
type AuthorizerFunc func(ctx context.Context, principal string, filter Filter) (Grant, error)

// Authorize calls f.
func (f AuthorizerFunc) Authorize(ctx context.Context, principal string, filter Filter) (Grant, error) {
	return f(ctx, principal, filter)
}

// Grant is what an [Authorizer] allows: the whole filter, to one principal, for
// as long as it holds. The zero Grant is for whom the transport named and never
// ends.
type Grant struct {
	// Principal is whom the grant is for, which is what limits and audiences go by.
	// Empty means the principal that the transport named.
	Principal string

	// Until is when the grant ends: the subscription is then ended with its
	// result and the reason grant_expired. The zero time means never.
	Until time.Time

	// Recheck, if not nil, is asked again and again whether the grant still holds:
	// each time that the keep-alive time has passed since the last answer (15 s
	// where keep-alives are off), and before each keep-alive is written. An error,
	// whatever it says, ends the subscription with its result and the reason
	// revoked, and nothing that is pending is delivered. So does a panic. Its context ends after 10 s, or when the
	// subscription is to end anyway. A Recheck that does not heed its context holds
	// up the end of its subscription, and nothing else.
	Recheck func(ctx context.Context) error

	// RecheckDelivery asks before each delivery as well, and nothing is delivered
	// that was published after the question. It costs one call for each batch of
	// each stream: for rights that end without notice.
	RecheckDelivery bool
}

// recheckTimeout bounds one re-check.
const recheckTimeout = 10 * time.Second

// recheck is what a subscription keeps of a grant that is re-checked.
type recheck struct {
	check    func(ctx context.Context) error
	delivery bool
	last     atomic.Int64 // when it was last asked
	stop     func()       // ends the subscription's context, where that has no other end
}

func (h *Hub) authorize(ctx context.Context, o Opening) (grant Grant, err error) {
	if h.config.Authorizer == nil {
		return Grant{}, nil
	}
	err = h.hook("Authorizer.Authorize", func() error {
		var err error
		grant, err = h.config.Authorizer.Authorize(ctx, o.Principal, o.Request.Filter)
		return err
	})
	if err == nil && !grant.Until.IsZero() && !time.Now().Before(grant.Until) {
		err = errors.New("core: the grant has already expired")
	}
	return grant, h.refusedBy(err, CodeInvalidRequest, RefusedAuth, "not allowed")
}

// granted takes over what a grant says of the subscription.
func (s *Subscription) granted(g Grant) {
	if g.Principal != "" && g.Principal != s.principal {
		s.principal, s.renamed = g.Principal, true
	}
	s.grantEnd = never
	if !g.Until.IsZero() {
		s.grantEnd = later(s.hub.deadlines.now(), max(0, time.Until(g.Until)))
	}
	if g.Recheck != nil {
		s.recheck = &recheck{check: g.Recheck, delivery: g.RecheckDelivery}
		s.recheck.last.Store(s.hub.deadlines.now())
	}
}

// A lapse is the end of a grant, as an error: nothing more may be delivered, and
// the subscription ends with its result.
type lapse struct {
	reason Reason
	err    error // of the re-check; nil where it was not that
}

func (l *lapse) Error() string { return "core: the grant has ended: " + string(l.reason) }

func isLapse(err error) bool {
	var l *lapse
	return errors.As(err, &l)
}

// lapsed returns a [lapse] where the grant has ended or was revoked.
func (s *Subscription) lapsed() error {
	s.mu.Lock()
	revoked := s.ending == Revoked
	s.mu.Unlock()
	switch {
	case revoked:
		return &lapse{Revoked, nil}
	case s.grantEnd != never && s.hub.deadlines.now() >= s.grantEnd:
		return &lapse{GrantExpired, nil}
	default:
		return nil
	}
}

// permit asks, where it is time to, whether what is pending may be delivered. It
// fails with a [lapse]. What is asked for each delivery is set apart before, so
// that the answer is not about what was published after the question.
//
//go:noinline
func (s *Subscription) permit(b *batch) error {
	switch r := s.recheck; {
	case r.delivery && b.setApart(), !r.delivery && s.hub.deadlines.now() >= s.recheckAt():
		return s.ask()
	default:
		return nil
	}
}

// ask asks whether the grant still holds. It fails with a [lapse], or with the
// context's error where the client has gone meanwhile.
//
//go:noinline
func (s *Subscription) ask() error {
	wait := recheckTimeout
	left := time.Duration(s.endAt - s.hub.deadlines.now())
	if left > 0 { // else this is about the last delivery
		wait = min(wait, left)
	}
	err := s.hub.hook("Grant.Recheck", func() error {
		ctx, cancel := context.WithTimeout(s.ctx, wait)
		defer cancel()
		return s.recheck.check(ctx)
	})
	now := s.hub.deadlines.now()
	s.recheck.last.Store(now)
	s.mu.Lock()
	revoked := s.ending == Revoked
	s.mu.Unlock()
	gone := s.contextErr()
	switch {
	case gone != nil && !errors.Is(gone, context.DeadlineExceeded):
		return gone
	case revoked:
		return &lapse{Revoked, nil}
	case now >= s.grantEnd:
		return &lapse{GrantExpired, nil}
	case err != nil && left > 0 && now >= s.endAt: // it was not given its time
		return &lapse{s.endWith, nil}
	case err != nil:
		return &lapse{Revoked, err}
	}
	return nil
}
