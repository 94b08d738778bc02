// A model of the engine: what a subscription does, written down one step after
// the other, and random runs in which the engine must do the same.

package core_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

var (
	modelSeed = flag.Uint64("model.seed", 0, "run the model test with this seed alone")
	modelRuns = flag.Int("model.runs", 200, "how many random runs the model test makes")
)

// TestModel_I1_to_I9 compares the engine with the model in random runs of opens,
// publishes, stalls, failures, cancellations, ends, expiring grants, passing time
// and a shutdown. Under fake time everything comes to rest after each operation,
// so what each client has been written is determined to the last flush.
func TestModel_I1_to_I9(t *testing.T) {
	t.Parallel()
	seeds := make([]uint64, *modelRuns)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	if *modelSeed != 0 {
		seeds = []uint64{*modelSeed}
	}
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, seed)
			defer func() {
				if p := recover(); p != nil {
					t.Logf("seed %d, after:\n\t%s", seed, strings.Join(m.ops, "\n\t"))
					panic(p)
				}
			}()
			m.run()
		})
		if t.Failed() {
			t.Fatalf("repeat with -run TestModel -model.seed %d", seed)
		}
	}
}

const modelKeepAlive = 10 * time.Second

// model is a run: the hub under test, and what is expected of it.
type model struct {
	t       *testing.T
	random  *rand.Rand
	hub     *core.Hub
	watcher *watcher
	matcher bool
	stalls  bool // clients may stop reading
	limit   int
	ops     []string

	streams  []*modelStream // all that were ever opened
	closing  bool
	shutdown chan struct{}
	nextID   int
	states   int           // of jobs, so far
	grantFor time.Duration // of the next open; 0: for ever
	watchErr error         // of the next watch
}

// modelStream is a subscription, and what it has done.
type modelStream struct {
	*stream
	opened  chan struct{} // Open has returned
	lists   [3]bool
	uris    []string
	jobs    []string
	honored string

	// The model's state.
	steps     []string
	inFlight  []string // being written; the first call stalls if the gate is shut
	pending   map[string]bool
	newest    map[string]int // pending values of jobs
	order     []string       // in which these became pending
	gateShut  bool
	fault     error // of every call
	cancelled bool
	ending    core.Reason
	grantEnd  time.Time
	lastWrite time.Time
	terminal  bool // the result is in flight
	over      bool
	reason    core.Reason
	graceful  bool
}

// aJob stands in what is in flight for a value that is taken when it is written.
const aJob = "job"

var modelJobs = []string{"x", "y", "z"}

var modelURIs = []string{"/a", "/a/b", "/a/b/c", "/ab", "/d", "file:///x", "file:///x/y"}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, seed)), watcher: newWatcher(t), shutdown: make(chan struct{})}
	m.matcher = m.random.IntN(2) == 0
	m.limit = 3 + m.random.IntN(6)
	m.watcher.onStart = func(context.Context, string) error { return m.watchErr }
	config := core.Config{
		Extensions: []core.Extension{publicJobs()},
		MaxStreams: m.limit, KeepAlive: modelKeepAlive, Watcher: m.watcher,
		Capabilities: core.Capabilities{
			ToolsListChanged: true, PromptsListChanged: m.random.IntN(4) > 0,
			ResourcesListChanged: true, ResourceSubscriptions: m.random.IntN(8) > 0,
		},
		Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
			if m.grantFor == 0 {
				return core.Grant{}, nil
			}
			return core.Grant{Until: time.Now().Add(m.grantFor)}, nil
		}),
	}
	if m.matcher {
		config.Matcher = core.SubResources{}
	}
	m.hub = newHub(t, config)
	if m.stalls = m.random.IntN(3) > 0; m.stalls {
		m.hub.UnlimitWriters() // streams would wait for each other, for a time that the model does not know
	}
	return m
}

func (m *model) log(format string, args ...any) { m.ops = append(m.ops, fmt.Sprintf(format, args...)) }

func (m *model) run() {
	for range 30 + m.random.IntN(30) {
		m.step()
		synctest.Wait()
		m.compare()
		if m.t.Failed() {
			break
		}
	}
	if !m.closing {
		m.shutDown()
		synctest.Wait()
		m.compare()
	}
	for _, s := range m.streams {
		m.setGate(s, false)
	}
	synctest.Wait()
	m.compare()
	<-m.shutdown
	for _, uri := range modelURIs {
		if m.watcher.watches(uri) {
			m.t.Errorf("I9: %s is still watched at the end", uri)
		}
	}
	if m.t.Failed() {
		m.t.Logf("after:\n\t%s", strings.Join(m.ops, "\n\t"))
	}
}

// step does one random operation to the hub and to the model.
func (m *model) step() {
	live := slices.DeleteFunc(slices.Clone(m.streams), func(s *modelStream) bool { return s.over })
	var s *modelStream
	if len(live) > 0 {
		s = live[m.random.IntN(len(live))]
	}
	switch n := m.random.IntN(100); {
	case n < 18 || s == nil:
		m.open()
	case n < 55:
		m.publish(live)
	case n < 65 && m.stalls:
		m.log("stall %s", s.id)
		m.setGate(s, true)
	case n < 78:
		m.log("resume %s", s.id)
		m.setGate(s, false)
	case n < 83:
		m.log("cancel %s", s.id)
		s.cancel()
		s.cancelled = true
		m.settle(s)
	case n < 87:
		m.log("end %s", s.id)
		ended := m.hub.EndWhere(func(info core.StreamInfo) bool { return info.ID.String() == s.id })
		if want := s.ending == ""; (ended == 1) != want {
			m.t.Errorf("EndWhere ended %d, want it to end the stream: %v", ended, want)
		}
		m.end(s, core.Completed)
	case n < 89:
		m.log("revoke %s", s.id)
		m.hub.Revoke(func(info core.StreamInfo) bool { return info.ID.String() == s.id })
		m.end(s, core.Revoked)
	case n < 92:
		err := []error{errBroken, core.ErrSlowClient}[m.random.IntN(2)]
		m.log("calls of %s fail: %v", s.id, err)
		s.conn.fail("", err)
		s.fault = err
	case n < 99:
		m.advance(time.Duration(1+m.random.IntN(15)) * time.Second)
	case !m.closing && m.random.IntN(2) == 0:
		m.shutDown()
	}
}

func (m *model) shutDown() {
	m.log("shutdown")
	m.closing = true
	go func() {
		defer close(m.shutdown)
		if err := m.hub.Shutdown(context.Background()); err != nil {
			m.t.Errorf("Shutdown: %v", err)
		}
	}()
	for _, s := range m.streams {
		m.end(s, core.Shutdown)
	}
}

// open opens a stream with a random filter.
func (m *model) open() {
	m.nextID++
	s := &modelStream{opened: make(chan struct{}), pending: make(map[string]bool), newest: make(map[string]int), honored: "{", lastWrite: time.Now()}
	id := strconv.Itoa(m.nextID)
	can := m.hub.Capabilities()
	requested := "{"
	add := func(to *string, member string) { *to += strings.Repeat(",", min(1, len(*to)-1)) + member }
	for k, name := range []string{"tools", "prompts", "resources"} {
		if m.random.IntN(2) == 0 {
			continue
		}
		add(&requested, `"`+name+`ListChanged":true`)
		if s.lists[k] = []bool{can.ToolsListChanged, can.PromptsListChanged, can.ResourcesListChanged}[k]; s.lists[k] {
			add(&s.honored, `"`+name+`ListChanged":true`)
		}
	}
	uris := slices.Clone(modelURIs)
	m.random.Shuffle(len(uris), func(i, j int) { uris[i], uris[j] = uris[j], uris[i] })
	if uris = uris[:m.random.IntN(4)]; len(uris) > 0 {
		member := `"resourceSubscriptions":["` + strings.Join(uris, `","`) + `"]`
		add(&requested, member)
		if can.ResourceSubscriptions {
			s.uris = uris
			add(&s.honored, member)
		}
	}
	for _, key := range modelJobs {
		if m.random.IntN(3) == 0 {
			s.jobs = append(s.jobs, key)
		}
	}
	if len(s.jobs) > 0 {
		member := `"jobIds":["` + strings.Join(s.jobs, `","`) + `"]`
		add(&requested, member)
		add(&s.honored, member)
	}
	requested, s.honored = requested+"}", s.honored+"}"
	m.grantFor, m.watchErr = 0, nil
	if m.random.IntN(4) == 0 {
		m.grantFor = time.Duration(1+m.random.IntN(60)) * time.Second
		s.grantEnd = time.Now().Add(m.grantFor)
	}
	if m.random.IntN(8) == 0 {
		m.watchErr = errBroken
	}
	var openings []opening
	if m.stalls && m.random.IntN(4) == 0 {
		s.gateShut = true
		openings = append(openings, stalled())
	}
	if m.random.IntN(2) == 0 {
		openings = append(openings, withoutGoroutine())
	}
	m.log("open %s %s, stalled %v, grant for %v, watch %v", id, requested, s.gateShut, m.grantFor, m.watchErr)

	live, watched := 0, make(map[string]bool)
	for _, other := range m.streams {
		if !other.over {
			if !other.vacated() {
				live++
			}
			for _, uri := range other.uris {
				watched[uri] = true
			}
		}
	}
	var want error
	switch {
	case m.closing:
		want = core.ErrShutdown
	case live >= m.limit:
		want = core.ErrLimit
	case m.watchErr != nil && slices.ContainsFunc(s.uris, func(uri string) bool { return !watched[uri] }):
		want = errBroken
	}
	var err error
	openings = append(openings, func(opened *stream, _ *core.Opening, _ *context.Context) { s.stream = opened })
	go func() {
		defer close(s.opened)
		_, err = tryJobs(m.t, m.hub, id, requested, openings...)
	}()
	synctest.Wait()
	m.watchErr = nil
	if want != nil {
		<-s.opened
		if !errors.Is(err, want) {
			m.t.Errorf("Open: %v, want %v", err, want)
		}
		return
	}
	m.streams = append(m.streams, s)
	s.inFlight = []string{"ack " + s.honored, "flush"}
	m.settle(s)
}

// publish publishes one change; or several, where no stream is at rest: what it
// would be told together is a matter of chance.
func (m *model) publish(live []*modelStream) {
	several := !slices.ContainsFunc(live, func(s *modelStream) bool { return len(s.inFlight) == 0 })
	n := 1
	if several {
		n += m.random.IntN(12)
	}
	changes, states := make([]core.Change, n), make([]int, n)
	for i := range changes {
		switch k := m.random.IntN(11); k {
		case 0, 1, 2:
			changes[i] = core.Change{Kind: core.Kind(k)}
		case 8, 9, 10:
			m.states++
			changes[i], states[i] = job(modelJobs[k-8], m.states), m.states
		default:
			uri := modelURIs[m.random.IntN(len(modelURIs))]
			changes[i] = core.ResourceUpdated(uri + []string{"", "", "/z", "z"}[m.random.IntN(4)])
		}
	}
	m.log("publish %v, state %d", changes, m.states)
	if err := m.hub.Publish(context.Background(), changes...); err != nil {
		m.t.Errorf("Publish: %v", err)
	}
	for _, s := range live {
		for i, c := range changes {
			switch {
			case c.Kind == core.KindExtension:
				if slices.Contains(s.jobs, c.Key) {
					if s.newest[c.Key] == 0 {
						s.order = append(s.order, c.Key)
					}
					s.newest[c.Key] = states[i]
				}
			case c.Kind != core.KindResourceUpdated:
				if s.lists[c.Kind] {
					s.pending[[]string{"tools", "prompts", "resources"}[c.Kind]] = true
				}
			case m.covers(s.uris, c.URI):
				s.pending["updated "+c.URI] = true
			}
		}
		m.settle(s)
	}
}

// covers is the model's idea of which URIs concern a subscriber of uris.
func (m *model) covers(uris []string, changed string) bool {
	return slices.ContainsFunc(uris, func(uri string) bool {
		return changed == uri || m.matcher && strings.HasPrefix(changed, uri+"/")
	})
}

func (m *model) setGate(s *modelStream, shut bool) {
	s.gateShut = shut
	if shut {
		s.stall()
	} else {
		s.resume()
	}
	m.settle(s)
}

func (m *model) end(s *modelStream, reason core.Reason) {
	if s.over || s.terminal {
		return
	}
	// A revocation goes before an end that would still deliver something.
	if s.ending == "" || reason == core.Revoked && (s.ending == core.Completed || s.ending == core.Shutdown) {
		s.ending = reason
	}
	m.settle(s)
}

// advance lets time pass, second by second: all that is due is due at one.
func (m *model) advance(d time.Duration) {
	m.log("advance %v", d)
	for ; d > 0; d -= time.Second {
		advance(time.Second)
		for _, s := range m.streams {
			if acknowledged := len(s.steps) > 0; acknowledged && s.ending == "" && s.expired() {
				s.ending = core.GrantExpired
			}
			m.settle(s)
		}
	}
}

func (s *modelStream) expired() bool { return !s.grantEnd.IsZero() && !time.Now().Before(s.grantEnd) }

// vacated reports whether the result is being written: the stream does not count
// against the limit any more.
func (s *modelStream) vacated() bool { return s.terminal && s.inFlight[0] == "result" }

// notifications returns how many changes are in flight.
func (s *modelStream) notifications() int {
	n := 0
	for _, step := range s.inFlight {
		if step != "flush" && step != "result" && step != "keep-alive" && !strings.HasPrefix(step, "ack ") {
			n++
		}
	}
	return n
}

// settle does what the stream does until it rests: the whole model.
func (m *model) settle(s *modelStream) {
	for !s.over {
		expired := s.expired()
		switch {
		case len(s.inFlight) > 0:
			if s.gateShut {
				return
			}
			m.write(s)
		case s.cancelled:
			s.over, s.reason = true, core.ClientClosed
		case s.ending != "" || expired || s.honored == "{}":
			if s.ending == "" {
				s.ending = core.Completed
			}
			if expired && s.ending != core.Revoked {
				s.ending = core.GrantExpired
			}
			if s.ending != core.GrantExpired && s.ending != core.Revoked {
				s.inFlight = s.batch()
			}
			s.inFlight = append(s.inFlight, "result", "flush")
			s.terminal = true
		case len(s.pending)+len(s.order) > 0:
			s.inFlight = append(s.batch(), "flush")
		case !time.Now().Before(s.lastWrite.Add(modelKeepAlive)):
			s.inFlight = []string{"keep-alive", "flush"}
		default:
			return
		}
	}
}

// batch is what is pending, in the order in which it is told.
func (s *modelStream) batch() []string {
	var batch []string
	take := func(step string) {
		if s.pending[step] {
			batch = append(batch, step)
			delete(s.pending, step)
		}
	}
	take("tools")
	take("prompts")
	take("resources")
	for _, uri := range s.uris {
		take("updated " + uri)
	}
	var below []string
	for step := range s.pending {
		below = append(below, step)
	}
	slices.Sort(below)
	for _, step := range below {
		take(step)
	}
	for i := range len(s.order) {
		if len(batch) == 0 && i == 0 {
			batch = append(batch, s.takeJob()) // it is taken, and may then stall
		} else {
			batch = append(batch, aJob)
		}
	}
	return batch
}

// takeJob takes the newest value of the job that has been pending longest.
func (s *modelStream) takeJob() string {
	key := s.order[0]
	s.order = s.order[1:]
	step := fmt.Sprintf("job %s %d", key, s.newest[key])
	delete(s.newest, key)
	return step
}

// write writes what is in flight to a client that reads, or fails.
func (m *model) write(s *modelStream) {
	if s.fault != nil {
		s.over = true
		acknowledging := len(s.steps) == 0
		switch {
		case acknowledging && s.ending != "" && s.cancelled:
			s.reason = core.ClientClosed
		case (s.terminal || acknowledging) && s.ending == core.Shutdown && !(acknowledging && s.expired()) &&
			!(s.cancelled && !errors.Is(s.fault, core.ErrSlowClient)):
			s.reason = core.Shutdown
		case errors.Is(s.fault, core.ErrSlowClient):
			s.reason = core.SlowClient
		case s.cancelled:
			s.reason = core.ClientClosed
		default:
			s.reason = core.WriteError
		}
		return
	}
	s.lastWrite = time.Now()
	if s.notifications() > 1 && (s.ending == core.Revoked || s.expired()) {
		// The right to the rest has ended while the first was being written.
		s.steps = append(s.steps, s.inFlight[0], "flush")
		s.inFlight, s.terminal = nil, false
		if s.ending != core.Revoked {
			s.ending = core.GrantExpired
		}
		return
	}
	for _, step := range s.inFlight {
		if step == aJob {
			step = s.takeJob()
		}
		s.steps = append(s.steps, step)
	}
	s.inFlight = nil
	if s.terminal {
		s.over, s.graceful, s.reason = true, true, s.ending
	}
}

// compare compares all streams with the model.
func (m *model) compare() {
	open := 0
	for _, s := range m.streams {
		if got := s.all(); !slices.Equal(got, s.steps) {
			m.t.Errorf("stream %s got\n\t%q\nwant\n\t%q", s.id, got, s.steps)
		}
		done := false
		select {
		case <-s.done:
			done = true
		default:
		}
		if done != s.over {
			m.t.Errorf("stream %s is over: %v, want %v", s.id, done, s.over)
			continue
		}
		if !done {
			open++
			continue
		}
		if s.end.Reason != s.reason || s.end.Graceful != s.graceful {
			m.t.Errorf("stream %s ended as %q, graceful %v, want %q, %v", s.id, s.end.Reason, s.end.Graceful, s.reason, s.graceful)
		}
	}
	if got := len(m.hub.Streams()); got != open {
		m.t.Errorf("%d streams are listed, want %d", got, open)
	}
	for _, s := range m.streams {
		for _, uri := range s.uris {
			if !s.over && !m.watcher.watches(uri) {
				m.t.Errorf("I10: stream %s is open and %s is not watched", s.id, uri)
			}
		}
	}
	select {
	case <-m.shutdown:
		if open > 0 {
			m.t.Errorf("Shutdown returned with %d streams open", open)
		}
	default:
		if m.closing && open == 0 {
			m.t.Error("Shutdown waits with no stream open")
		}
	}
}
