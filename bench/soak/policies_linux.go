package main

// This file is the application around the hubs: who may listen and for how long, what is watched, whose hooks fail, and the
// operator who ends streams. Each policy's name is the first part of the principals that it is for, so that the client knows
// what may become of its streams. All times are short, so that each comes to its end often.

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// The times of the servers under test.
const (
	keepAlive    = 500 * time.Millisecond
	writeTimeout = time.Second
	maxLifetime  = 6 * time.Second // on node a; node b has none
	grantLife    = 2 * time.Second
	deadlineLife = 1500 * time.Millisecond
	drainSpread  = 500 * time.Millisecond
	gapSpread    = 500 * time.Millisecond
	perPrincipal = 6        // streams
	maxBody      = 64 << 10 // bytes
	maxURIs      = 64       // in one filter
)

// The policies.
const (
	policyUser      = "user/"      // may do as it likes
	policyVeteran   = "veteran/"   // likewise, and no operator ends its streams
	policyExpiring  = "expiring/"  // its grants end after grantLife
	policyRechecked = "rechecked/" // its grants are asked for again, and now and then denied
	policyDelivery  = "delivery/"  // likewise, before each delivery as well
	policyRevocable = "revocable/" // the operator takes its grants away
	policyTripping  = "tripping/"  // the observer of its streams panics
	policyDenied    = "denied/"    // may not listen
	policyGreedy    = "greedy/"    // opens more streams than one principal may have
)

// unwatchable is a resource whose watch never starts.
const unwatchable = "soak:///unwatchable"

// application is what one hub is configured with.
type application struct {
	chance    *chance
	watching  atomic.Int64
	delivered atomic.Uint64 // notifications, on streams that have ended
}

// chance is a source of random numbers for many goroutines, so that a seed gives the same decisions in the same order.
type chance struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newChance(seed, stream uint64) *chance { return &chance{rng: rand.New(rand.NewPCG(seed, stream))} }

func (c *chance) n(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

// between returns a duration of at least low and less than high.
func (c *chance) between(low, high time.Duration) time.Duration {
	return low + time.Duration(c.n(int(high-low)))
}

var errWithdrawn = errors.New("soak: the grant was withdrawn")

// Authorize is a [core.Authorizer].
func (a *application) Authorize(ctx context.Context, principal string, _ core.Filter) (core.Grant, error) {
	pause(ctx, a.chance.between(0, 3*time.Millisecond))
	recheck := func(context.Context) error {
		if a.chance.n(10) == 0 {
			return errWithdrawn
		}
		return nil
	}
	policy, _, _ := strings.Cut(principal, "/")
	switch policy + "/" {
	case policyDenied:
		return core.Grant{}, mcphttp.Deny(http.StatusForbidden, "")
	case policyExpiring:
		return core.Grant{Until: time.Now().Add(grantLife)}, nil
	case policyRechecked:
		return core.Grant{Recheck: recheck}, nil
	case policyDelivery:
		return core.Grant{Recheck: recheck, RecheckDelivery: true}, nil
	default:
		return core.Grant{}, nil
	}
}

var errUnwatchable = errors.New("soak: it cannot be watched")

// Start is part of a [core.Watcher].
func (a *application) Start(ctx context.Context, uri string) error {
	if a.chance.n(20) == 0 {
		pause(ctx, 5*time.Millisecond)
	}
	if uri == unwatchable {
		return errUnwatchable
	}
	a.watching.Add(1)
	return nil
}

// Stop is part of a [core.Watcher].
func (a *application) Stop(string) { a.watching.Add(-1) }

// ended counts what a stream was told.
func (a *application) ended(e core.End) { a.delivered.Add(e.Stream.Delivered) }

// observer is a [core.Observer] whose streams panic where their policy says so.
type observer struct{}

func (observer) Accepted(_ context.Context, a core.Accepted) core.StreamObserver {
	if !strings.HasPrefix(a.Stream.Principal, policyTripping) {
		return nil
	}
	return new(tripping)
}

func (observer) Refused(context.Context, core.Refused) {}

func (observer) Publishing(context.Context, []core.Change) (any, func()) { return nil, nil }

type tripping struct{ batches int }

func (*tripping) Acknowledged(error) {}
func (*tripping) KeptAlive(error)    {}
func (*tripping) Closed(core.End)    {}

func (t *tripping) Delivered(*core.Delivery) {
	if t.batches++; t.batches == 2 {
		panic("soak: an observer that panics")
	}
}

// operate does what an operator does to a hub, until ctx ends. lifelong says that the hub has streams that are to stay.
func operate(ctx context.Context, hub *core.Hub, c *chance, lifelong bool) {
	some := func(share int, policies ...string) func(core.StreamInfo) bool {
		return func(s core.StreamInfo) bool {
			ours := len(policies) == 0 && !strings.HasPrefix(s.Principal, policyVeteran)
			for _, p := range policies {
				ours = ours || strings.HasPrefix(s.Principal, p)
			}
			return ours && c.n(share) == 0
		}
	}
	for pause(ctx, c.between(300*time.Millisecond, 1500*time.Millisecond)) {
		switch c.n(4) {
		case 0:
			hub.EndWhere(some(20))
		case 1:
			if all := hub.Streams(); len(all) > 0 {
				if s := all[c.n(len(all))]; !strings.HasPrefix(s.Principal, policyVeteran) {
					hub.End(s.Serial)
				}
			}
		case 2:
			hub.Revoke(some(2, policyRevocable))
		default:
			if !lifelong {
				_, _ = hub.Drain(ctx, 0.2, drainSpread) // it fails with the context alone
			}
		}
	}
}

// pause waits for a while, and reports whether ctx is still alive then.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
