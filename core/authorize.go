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
	// Principal is whom the grant is for. Empty means the principal that the
	// transport named.
	Principal string

	// Until is when the grant ends: the subscription is then ended with its
	// result and the reason grant_expired. The zero time means never.
	Until time.Time

	// Recheck, if not nil, is asked again and again whether the grant still holds:
	// each time that the keep-alive time has passed since the last answer (15 s
	// where keep-alives are off), and before the keep-alive is written. An error,
	// whatever it says, ends the subscription with its result and the reason
	// revoked, and nothing that is pending is delivered. It runs on the
	// subscription's goroutine; its context ends after 10 s.
	Recheck func(ctx context.Context) error

	// RecheckDelivery asks before each delivery as well. It costs one call for
	// each batch of each stream: for rights that end without notice.
	RecheckDelivery bool
}

// recheckTimeout bounds one re-check.
const recheckTimeout = 10 * time.Second

// recheck is what a subscription keeps of a grant that is re-checked.
type recheck struct {
	check    func(ctx context.Context) error
	delivery bool
	last     atomic.Int64 // when it was last asked
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
	if g.Principal != "" {
		s.principal = g.Principal
	}
	s.grantEnd = never
	if !g.Until.IsZero() {
		s.grantEnd = s.hub.deadlines.now() + max(0, int64(time.Until(g.Until)))
	}
	if g.Recheck != nil {
		s.recheck = &recheck{check: g.Recheck, delivery: g.RecheckDelivery}
		s.recheck.last.Store(s.hub.deadlines.now())
	}
}

// holds reports whether the grant still holds. It asks where it is time to.
//
//go:noinline
func (s *Subscription) holds(now int64, delivering bool) bool {
	r := s.recheck
	if r == nil || now < s.recheckAt() && !(delivering && r.delivery) {
		return true
	}
	err := s.hub.hook("Grant.Recheck", func() error {
		ctx, cancel := context.WithTimeout(s.ctx, recheckTimeout)
		defer cancel()
		return r.check(ctx)
	})
	r.last.Store(s.hub.deadlines.now())
	return err == nil
}
