// A model of who may hear of what: random principals, grants, audiences,
// revocations, expiries and publishes, and every notification that comes out of
// the engine must be one that the model can justify.

package core_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

var (
	policySeed = flag.Uint64("policy.seed", 0, "run the policy test with this seed alone")
	policyRuns = flag.Int("policy.runs", 100, "how many random runs the policy test makes")
)

// TestPolicies_NoChangeBeyondItsGrant: no change is let through that the
// stream's grant does not cover. Unlike in TestModel, nothing has to come to
// rest between two operations, and re-checks take their time.
func TestPolicies_NoChangeBeyondItsGrant(t *testing.T) {
	seeds := make([]uint64, *policyRuns)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	if *policySeed != 0 {
		seeds = []uint64{*policySeed}
	}
	var total policyTally
	for _, seed := range seeds {
		ok := t.Run("seed", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newPolicyWorld(t, seed, &total).run() })
		})
		if !ok {
			t.Fatalf("repeat with -run TestPolicies -policy.seed %d", seed)
		}
	}
	t.Logf("seeds %d…: %+v", seeds[0], total)
	if *policySeed == 0 && (total.Delivered == 0 || total.Withheld == 0 || total.Revoked == 0 || total.Expired == 0 || total.Refused == 0) {
		t.Errorf("%+v: the test tests nothing", total)
	}
}

// policyTally says what the runs came across.
type policyTally struct{ Opened, Refused, Published, Delivered, Withheld, Revoked, Expired int }

// policyWorld is one run. Its operations are numbered; a number stands for the
// time at which the operation started.
type policyWorld struct {
	t      *testing.T
	tally  *policyTally
	random *rand.Rand
	hub    *core.Hub
	sub    bool // with sub-resources

	now       atomic.Int64 // the operation under way
	ops       []string
	published []policyPublish
	streams   []*policyStream
	rights    map[string]*policyRight
}

// policyPublish is one change with its audience.
type policyPublish struct {
	op     int64
	at     time.Time
	change core.Change
	to     core.Audience
}

// policyRight is what a principal may do, over time.
type policyRight struct {
	mu      sync.Mutex
	changes []policyChange // the first is from the start
	slow    time.Duration  // how long a re-check takes
}

type policyChange struct {
	op   int64
	held bool
}

func (r *policyRight) set(op int64, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, policyChange{op, held})
}

func (r *policyRight) held() (bool, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes[len(r.changes)-1].held, r.slow
}

// heldWithin reports whether the right held at some time from one operation to
// the end of another.
func (r *policyRight) heldWithin(from, to int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, c := range r.changes {
		until := to
		if i+1 < len(r.changes) {
			until = r.changes[i+1].op
		}
		if c.held && c.op <= to && until >= from {
			return true
		}
	}
	return false
}

// policyStream is a stream and what the model knows of it.
type policyStream struct {
	*stream
	world   *policyWorld
	who     string // of the grant
	filter  core.Filter
	opened  int64
	until   time.Time // zero: never
	checked bool      // before every delivery
	failed  atomic.Int64
	revoked int64  // the operation that revoked it; 0: none
	left    bool   // the client, or the application, ended it
	used    []bool // by publish: a notification of it was justified

	mu  sync.Mutex
	got []policyGot
}

type policyGot struct {
	op   int64
	at   time.Time
	step string
}

var policyPrincipals = []string{"t/a", "t/b", "u/c", "d"}

func newPolicyWorld(t *testing.T, seed uint64, tally *policyTally) *policyWorld {
	w := &policyWorld{
		t: t, tally: tally, random: rand.New(rand.NewPCG(seed, 1)), rights: make(map[string]*policyRight),
	}
	w.sub = w.random.IntN(2) == 0
	for _, name := range policyPrincipals {
		w.rights[name] = &policyRight{changes: []policyChange{{held: true}}}
	}
	config := core.Config{KeepAlive: 5 * time.Second, Authorizer: core.AuthorizerFunc(w.authorize)}
	if w.sub {
		config.Matcher = core.SubResources{}
	}
	w.hub = newHub(t, config)
	return w
}

// policyURIs: the private ones are their principals' alone.
func policyURIs() []string {
	uris := []string{"/shared/1", "/shared/2"}
	for _, name := range policyPrincipals {
		uris = append(uris, "/private/"+name+"/1", "/private/"+name+"/2")
	}
	return uris
}

func mayListen(who, uri string) bool {
	return !strings.HasPrefix(uri, "/private/") || strings.HasPrefix(uri, "/private/"+who+"/")
}

type policyKey struct{}

// authorize reads what the grant is to be from the context of the request.
func (w *policyWorld) authorize(ctx context.Context, principal string, f core.Filter) (core.Grant, error) {
	held, _ := w.rights[principal].held()
	if !held || slices.ContainsFunc(f.ResourceSubscriptions, func(uri string) bool { return !mayListen(principal, uri) }) {
		return core.Grant{}, errWithdrawn
	}
	s := ctx.Value(policyKey{}).(*policyStream)
	grant := core.Grant{Until: s.until}
	if s.checked || w.random.IntN(2) == 0 {
		grant.Recheck, grant.RecheckDelivery = s.check, s.checked
	}
	return grant, nil
}

func (s *policyStream) check(ctx context.Context) error {
	held, slow := s.world.rights[s.who].held()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			held = false
		}
	}
	if !held {
		s.failed.CompareAndSwap(0, s.world.now.Load())
		return errWithdrawn
	}
	return nil
}

// record notes a notification as it is written.
func (s *policyStream) record(step string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step == "tools" || strings.HasPrefix(step, "updated ") {
		s.got = append(s.got, policyGot{s.world.now.Load(), time.Now(), step})
		if s.failed.Load() != 0 {
			s.tb.Errorf("%q was written after the re-check had failed", step)
		}
	}
	return nil
}

func (w *policyWorld) run() {
	for range 300 {
		w.now.Add(1)
		w.operate()
		if w.random.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	for _, r := range w.rights {
		r.mu.Lock()
		r.slow = 0
		r.mu.Unlock()
	}
	for _, s := range w.streams {
		s.resume()
	}
	w.now.Add(1)
	advance(time.Minute)
	for _, s := range w.streams {
		s.verify()
	}
	if w.t.Failed() {
		w.t.Logf("after:\n\t%s", strings.Join(w.ops, "\n\t"))
	}
	w.tally.Published += len(w.published)
}

func (w *policyWorld) note(format string, args ...any) {
	w.ops = append(w.ops, fmt.Sprintf("%d, %v: ", w.now.Load(), time.Now().Format("05.000"))+fmt.Sprintf(format, args...))
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func (w *policyWorld) operate() {
	who := pick(w.random, policyPrincipals)
	switch n := w.random.IntN(100); {
	case n < 15:
		w.open(who)
	case n < 65:
		w.publish()
	case n < 70: // the right ends without notice
		w.note("withdraw the right of %s", who)
		w.rights[who].set(w.now.Load(), false)
	case n < 76:
		w.note("restore the right of %s", who)
		w.rights[who].set(w.now.Load(), true)
	case n < 79: // and with notice
		w.revoke(who)
	case n < 84:
		if s := w.any(); s != nil {
			w.note("stall %s", s.id)
			s.stall()
		}
	case n < 90:
		if s := w.any(); s != nil {
			w.note("resume %s", s.id)
			s.resume()
		}
	case n < 92:
		if s := w.any(); s != nil {
			w.note("end %s", s.id)
			s.left = true
			w.hub.EndWhere(func(info core.StreamInfo) bool { return info.ID.String() == s.id })
		}
	case n < 95:
		slow := time.Duration(w.random.IntN(3)) * time.Second
		w.note("re-checks of %s take %v", who, slow)
		r := w.rights[who]
		r.mu.Lock()
		r.slow = slow
		r.mu.Unlock()
	default:
		d := time.Duration(w.random.IntN(4000)) * time.Millisecond
		w.note("advance %v", d)
		<-time.After(d)
	}
}

func (w *policyWorld) any() *policyStream {
	if len(w.streams) == 0 {
		return nil
	}
	return pick(w.random, w.streams[max(0, len(w.streams)-12):])
}

func (w *policyWorld) open(who string) {
	s := &policyStream{world: w, who: who, opened: w.now.Load(), checked: w.random.IntN(2) == 0}
	if w.random.IntN(3) == 0 {
		s.until = time.Now().Add(time.Duration(1+w.random.IntN(9000)) * time.Millisecond)
	}
	s.filter.ToolsListChanged = w.random.IntN(2) == 0
	allowed := w.holds(who)
	for range 1 + w.random.IntN(3) {
		uri := pick(w.random, policyURIs())
		if !mayListen(who, uri) {
			if w.random.IntN(10) > 0 {
				continue
			}
			allowed = false
		}
		s.filter.ResourceSubscriptions = append(s.filter.ResourceSubscriptions, uri)
	}
	filter := strings.Replace(uriFilter(s.filter.ResourceSubscriptions...), "{", fmt.Sprintf(`{"toolsListChanged":%v,`, s.filter.ToolsListChanged), 1)
	filter = strings.Replace(filter, "null", "[]", 1)
	id := fmt.Sprint(s.opened)
	opened, err := tryListen(w.t, w.hub, id, filter, principal(who),
		func(c *stream, _ *core.Opening, _ *context.Context) { s.stream = c; c.onCall(s.record) },
		inContext(func(ctx context.Context) context.Context { return context.WithValue(ctx, policyKey{}, s) }))
	w.note("%s opens %s: %s, until %v, checked %v: %v", who, id, filter, s.until.Format("05.000"), s.checked, err)
	if (err == nil) != allowed {
		w.t.Errorf("%s's request was answered with %v, want it allowed: %v", who, err, allowed)
	}
	if err != nil {
		w.tally.Refused++
		return
	}
	w.tally.Opened++
	s.stream = opened
	w.streams = append(w.streams, s)
}

func (w *policyWorld) holds(who string) bool { held, _ := w.rights[who].held(); return held }

func (w *policyWorld) publish() {
	p := policyPublish{op: w.now.Load(), at: time.Now(), change: core.ToolsListChanged()}
	if w.random.IntN(4) > 0 {
		uri := pick(w.random, policyURIs())
		if w.sub && w.random.IntN(3) > 0 {
			uri += fmt.Sprintf("/%d", p.op) // one that tells which publish it was
		}
		p.change = core.ResourceUpdated(uri)
	}
	switch w.random.IntN(4) {
	case 0:
		p.to = core.Principals(pick(w.random, policyPrincipals), pick(w.random, policyPrincipals))
	case 1:
		p.to = core.PrincipalPrefix(pick(w.random, []string{"t/", "u/", "", "d"}))
	}
	w.note("publish %v to %+v", p.change, p.to)
	w.published = append(w.published, p)
	if err := w.hub.PublishTo(context.Background(), p.to, p.change); err != nil {
		w.t.Errorf("PublishTo: %v", err)
	}
}

func (w *policyWorld) revoke(who string) {
	w.note("revoke the streams of %s", who)
	for _, s := range w.streams {
		if s.who == who && s.revoked == 0 {
			s.revoked = w.now.Load()
		}
	}
	w.hub.Revoke(func(info core.StreamInfo) bool { return info.Principal == who })
}

// verify checks each notification that the stream got, and that none is missing
// that it should have got.
func (s *policyStream) verify() {
	w := s.world
	s.used = make([]bool, len(w.published))
	for _, got := range s.got {
		w.tally.Delivered++
		if !s.justified(got) {
			w.t.Errorf("stream %s of %s got %q at %d, %v, and nothing that was published justifies it",
				s.id, s.who, got.step, got.op, got.at.Format("05.000"))
		}
	}
	alive := s.revoked == 0 && s.failed.Load() == 0 && s.until.IsZero() && !s.left
	for _, p := range w.published {
		if p.op <= s.opened || !s.concerns(p) {
			continue
		}
		told := slices.ContainsFunc(s.got, func(got policyGot) bool { return got.op >= p.op && s.means(got.step, p) })
		if !told {
			w.tally.Withheld++
			if alive {
				w.t.Errorf("stream %s of %s was not told of %v of %d, which it may hear of", s.id, s.who, p.change, p.op)
			}
		}
	}
	select {
	case <-s.done:
		switch s.end.Reason {
		case core.Revoked:
			w.tally.Revoked++
		case core.GrantExpired:
			w.tally.Expired++
		}
	default:
		if s.revoked != 0 || s.failed.Load() != 0 || !s.until.IsZero() || s.left {
			w.t.Errorf("stream %s of %s is still open: I11", s.id, s.who)
		}
	}
}

// concerns reports whether a publish is for the stream, as far as its audience
// and the filter go.
func (s *policyStream) concerns(p policyPublish) bool {
	if !p.to.Includes(s.who) {
		return false
	}
	if p.change.Kind == core.KindTools {
		return s.filter.ToolsListChanged
	}
	return slices.ContainsFunc(s.filter.ResourceSubscriptions, func(uri string) bool {
		return p.change.URI == uri || s.world.sub && strings.HasPrefix(p.change.URI, uri+"/")
	})
}

// means reports whether a notification can be that of a publish.
func (s *policyStream) means(step string, p policyPublish) bool {
	if p.change.Kind == core.KindTools {
		return step == "tools"
	}
	uri := strings.TrimPrefix(step, "updated ")
	return p.change.URI == uri || s.world.sub && strings.HasPrefix(p.change.URI, uri+"/")
}

// justified looks for a publish that the notification is of, and that the grant
// covered. One of the very resource justifies one notification.
func (s *policyStream) justified(got policyGot) bool {
	below := false
	for i, p := range s.world.published {
		switch {
		case p.op > got.op, !s.means(got.step, p), !s.covered(p, got.op):
		case p.change.Kind == core.KindResourceUpdated && got.step != "updated "+p.change.URI:
			below = true // the subscribed resource stands for those below it
		case !s.used[i]:
			s.used[i] = true
			return true
		}
	}
	return below
}

// covered reports whether the stream may hear of a publish: it was for this
// principal, made before the grant ended and before the stream was revoked, and,
// where each delivery is asked for, at a time from which on, until it was
// delivered, the right was there to be found.
func (s *policyStream) covered(p policyPublish, delivered int64) bool {
	switch {
	case p.op <= s.opened, !s.concerns(p):
		return false
	case !s.until.IsZero() && !p.at.Before(s.until):
		return false
	case s.revoked != 0 && p.op > s.revoked:
		return false
	}
	return !s.checked || s.world.rights[s.who].heldWithin(p.op, delivered)
}
