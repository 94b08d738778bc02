// The tests' transport: an in-memory Conn that records what is written, can be
// stalled and made to fail, and reports every breach of I8; and the streams that
// run on it.

package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// conn records the calls that the hub makes, as steps in short form: "ack
// {FILTER}", "tools", "prompts", "resources", "updated URI", "job KEY STATE", "result",
// "keep-alive" and "flush". Every message is checked as it comes: it is valid
// JSON, of the expected shape, with exactly the request's id.
type conn struct {
	tb   testing.TB
	id   string // the request's id, byte for byte
	busy atomic.Bool
	over atomic.Bool // Serve has returned

	mu     sync.Mutex
	change *sync.Cond
	steps  []string
	bytes  int                     // of the messages
	gate   chan struct{}           // where not nil, calls wait for it to be closed
	fault  func(step string) error // may fail or panic

	panicAt string // the call at which the test's observer panics
}

func newConn(tb testing.TB, id string) *conn {
	c := &conn{tb: tb, id: id}
	c.change = sync.NewCond(&c.mu)
	return c
}

func (c *conn) WriteMessage(msg []byte) error {
	return c.call(brief(c.tb, c.id, msg), len(msg))
}
func (c *conn) WriteKeepAlive() error { return c.call("keep-alive", 0) }
func (c *conn) Flush() error          { return c.call("flush", 0) }

func (c *conn) call(step string, size int) error {
	if !c.busy.CompareAndSwap(false, true) {
		c.tb.Errorf("I8: two goroutines inside the Conn at once, the second with %q", step)
	}
	defer c.busy.Store(false)
	if c.over.Load() {
		c.tb.Errorf("I8: the Conn was used after Serve returned: %q", step)
	}
	runtime.Gosched() // a second writer shall have its chance
	c.mu.Lock()
	defer c.mu.Unlock()
	if gate := c.gate; gate != nil {
		c.mu.Unlock()
		<-gate
		c.mu.Lock()
	}
	if c.fault != nil {
		if err := c.fault(step); err != nil {
			return err
		}
	}
	c.steps = append(c.steps, step)
	c.bytes += size
	c.change.Broadcast()
	return nil
}

// stall lets no further call through until resume.
func (c *conn) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate == nil {
		c.gate = make(chan struct{})
	}
}

func (c *conn) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate != nil {
		close(c.gate)
		c.gate = nil
	}
}

// fail makes every later call of the given step fail with err; "" means any.
func (c *conn) fail(step string, err error) {
	c.onCall(func(s string) error {
		if step == "" || s == step {
			return err
		}
		return nil
	})
}

func (c *conn) onCall(f func(step string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// await waits until done says so of the steps.
func (c *conn) await(done func(steps []string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !done(c.steps) {
		c.change.Wait()
	}
}

// awaitSteps waits until there are n steps.
func (c *conn) awaitSteps(n int) {
	c.await(func(steps []string) bool { return len(steps) >= n })
}

// take returns the steps so far and forgets them.
func (c *conn) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps := c.steps
	c.steps = nil
	return steps
}

// all returns the steps so far.
func (c *conn) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.steps)
}

func (c *conn) written() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(c.bytes)
}

// wireMessage is any message that a subscription may write.
type wireMessage struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  *struct {
		Meta          map[string]json.RawMessage `json:"_meta"`
		Notifications json.RawMessage            `json:"notifications"`
		URI           *string                    `json:"uri"`
		Job           string                     `json:"job"`   // of the family jobs
		State         int                        `json:"state"` // of the family jobs
	} `json:"params"`
	Result *struct {
		ResultType string                     `json:"resultType"`
		Meta       map[string]json.RawMessage `json:"_meta"`
	} `json:"result"`
}

// brief checks a message against I4 and the schema, and returns its short form.
func brief(tb testing.TB, id string, msg []byte) string {
	tb.Helper()
	var m wireMessage
	if err := json.Unmarshal(msg, &m); err != nil {
		tb.Errorf("a message is no JSON: %v\n%s", err, msg)
		return "broken"
	}
	if strings.ContainsAny(string(msg), "\n\r") {
		tb.Errorf("a message holds a line break, which no transport can frame: %q", msg)
	}
	if m.Version != "2.0" {
		tb.Errorf("jsonrpc is %q, want 2.0: %s", m.Version, msg)
	}
	meta := func(meta map[string]json.RawMessage) {
		if got := string(meta[core.MetaSubscriptionID]); got != id {
			tb.Errorf("I4: the subscription id is %s, want exactly %s: %s", got, id, msg)
		}
	}
	switch {
	case m.Result != nil && m.Method == "":
		meta(m.Result.Meta)
		if string(m.ID) != id || m.Result.ResultType != "complete" {
			tb.Errorf("I4: a result with id %s and type %q, want id %s and type complete: %s", m.ID, m.Result.ResultType, id, msg)
		}
		return "result"
	case m.Result != nil || m.ID != nil || m.Params == nil:
		tb.Errorf("neither a notification nor a result: %s", msg)
		return "broken"
	}
	meta(m.Params.Meta)
	switch m.Method {
	case core.MethodAcknowledged:
		return "ack " + string(m.Params.Notifications)
	case core.MethodToolsListChanged:
		return "tools"
	case core.MethodPromptsListChanged:
		return "prompts"
	case core.MethodResourcesListChanged:
		return "resources"
	case core.MethodResourceUpdated:
		if m.Params.URI == nil {
			tb.Errorf("an update without a URI: %s", msg)
			return "broken"
		}
		return "updated " + *m.Params.URI
	case jobs.Method:
		return fmt.Sprintf("job %s %d", m.Params.Job, m.Params.State)
	default:
		tb.Errorf("unknown method %q: %s", m.Method, msg)
		return "broken"
	}
}

// everything is what a hub of the tests delivers unless the test says otherwise.
var everything = core.Capabilities{
	ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true,
}

// newHub returns a hub that is checked to be empty when the test ends (I9).
func newHub(tb testing.TB, config core.Config) *core.Hub {
	tb.Helper()
	if config.Capabilities == (core.Capabilities{}) {
		config.Capabilities = everything
	}
	hub, err := core.NewHub(config)
	if err != nil {
		tb.Fatalf("NewHub: %v", err)
	}
	tb.Cleanup(func() { checkEmpty(tb, hub) })
	return hub
}

// checkEmpty reports what is left of subscriptions that have ended.
func checkEmpty(tb testing.TB, hub *core.Hub) {
	tb.Helper()
	if left := hub.Leftovers(); left != "" {
		tb.Errorf("I9: after every stream has ended, the hub still holds: %s", left)
	}
	if streams := hub.Streams(); len(streams) != 0 {
		tb.Errorf("I9: after every stream has ended, Streams lists %v", streams)
	}
}

const (
	validMeta = `{"` + core.MetaProtocolVersion + `":"` + core.ProtocolVersion + `","` + core.MetaClientCapabilities + `":{}}`
	allLists  = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`
)

// listenText is a listen request as a client sends it.
func listenText(id, meta, notifications string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + core.MethodListen + `","params":{"_meta":` + meta +
		`,"notifications":` + notifications + `}}`
}

// parse takes a request all the way that a transport does.
func parse(hub *core.Hub, text string) (*core.Message, *core.Request, error) {
	msg, err := core.ParseMessage([]byte(text), hub.Limits())
	if err != nil {
		return msg, nil, err
	}
	meta, err := msg.Meta()
	if err != nil {
		return msg, nil, err
	}
	req, err := hub.ParseListen(msg, meta)
	return msg, req, err
}

// request returns a valid request with the given id and filter, both JSON.
func request(tb testing.TB, hub *core.Hub, id, filter string) *core.Request {
	tb.Helper()
	return requestAs(tb, hub, id, validMeta, filter)
}

// requestAs is request with another _meta.
func requestAs(tb testing.TB, hub *core.Hub, id, meta, filter string) *core.Request {
	tb.Helper()
	_, req, err := parse(hub, listenText(id, meta, filter))
	if err != nil {
		tb.Fatalf("a request with id %s and filter %s was refused: %v", id, filter, err)
	}
	return req
}

// uriFilter is the filter for the given URIs.
func uriFilter(uris ...string) string {
	list, err := json.Marshal(uris)
	if err != nil {
		panic(err)
	}
	return `{"resourceSubscriptions":` + string(list) + `}`
}

// stream is one subscription and its client.
type stream struct {
	*conn
	hub    *core.Hub
	sub    *core.Subscription
	cancel context.CancelFunc
	done   chan struct{}
	end    core.End // once done is closed
	passed any      // the panic that passed through Serve

	started bool // with Start, not Serve
	leave   atomic.Pointer[core.Subscription]
}

// opening changes how a stream is opened.
type opening func(*stream, *core.Opening, *context.Context)

func principal(name string) opening {
	return func(_ *stream, o *core.Opening, _ *context.Context) { o.Principal = name }
}

// stalled opens the stream with nobody reading.
func stalled() opening {
	return func(s *stream, _ *core.Opening, _ *context.Context) { s.stall() }
}

// withoutGoroutine serves the stream with Start.
func withoutGoroutine() opening {
	return func(s *stream, _ *core.Opening, _ *context.Context) { s.started = true }
}

// faulty opens the stream on a Conn whose step fails.
func faulty(step string, err error) opening {
	return func(s *stream, _ *core.Opening, _ *context.Context) { s.fail(step, err) }
}

// inContext opens the stream with a context made of the one that it would have.
func inContext(f func(context.Context) context.Context) opening {
	return func(_ *stream, _ *core.Opening, ctx *context.Context) {
		*ctx = f(*ctx) //nolint:fatcontext // changed once, for one opening
	}
}

// tryListen opens a stream and serves it on a goroutine of its own. The stream
// is ended when the test does.
func tryListen(tb testing.TB, hub *core.Hub, id, filter string, openings ...opening) (*stream, error) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{conn: newConn(tb, id), hub: hub, done: make(chan struct{})}
	s.cancel = func() {
		cancel()
		if sub := s.leave.Load(); sub != nil {
			sub.Leave()
		}
	}
	connected := 0
	o := core.Opening{
		Request: request(tb, hub, id, filter),
		Connect: func() (core.Conn, error) { connected++; return s.conn, nil },
	}
	for _, change := range openings {
		change(s, &o, &ctx)
	}
	sub, err := hub.Open(ctx, o)
	if err != nil {
		cancel()
		if connected != 0 {
			tb.Errorf("Open failed with %v after Connect", err)
		}
		return nil, err
	}
	if connected != 1 {
		tb.Errorf("Connect was called %d times, want once", connected)
	}
	s.sub = sub
	tb.Cleanup(func() { s.close() })
	if s.started {
		sub.Start(func(e core.End) {
			s.over.Store(true)
			s.end = e
			close(s.done)
		})
		s.leave.Store(sub)
		if ctx.Err() != nil { // meanwhile
			sub.Leave()
		}
		return s, nil
	}
	go func() {
		defer close(s.done)
		defer func() { s.passed = recover() }()
		defer s.over.Store(true)
		s.end = sub.Serve()
	}()
	return s, nil
}

// listen is tryListen for a stream that must open.
func listen(tb testing.TB, hub *core.Hub, id, filter string, openings ...opening) *stream {
	tb.Helper()
	s, err := tryListen(tb, hub, id, filter, openings...)
	if err != nil {
		tb.Fatalf("a listen with id %s and filter %s was refused: %v", id, filter, err)
	}
	return s
}

// close ends the stream as a client does, and waits for its end.
func (s *stream) close() core.End {
	s.cancel()
	s.resume()
	return s.wait()
}

// wait waits for the stream's end.
func (s *stream) wait() core.End {
	<-s.done
	return s.end
}

// finish ends the stream from the server side. Its id must be unique.
func (s *stream) finish(hub *core.Hub) {
	s.tb.Helper()
	if n := hub.EndWhere(func(info core.StreamInfo) bool { return info.ID.String() == s.id }); n != 1 {
		s.tb.Errorf("EndWhere ended %d streams with id %s, want 1", n, s.id)
	}
}

// errBroken is a failure of the way to a client that is none of the usual ones.
var errBroken = errors.New("broken")

func publish(tb testing.TB, hub *core.Hub, changes ...core.Change) {
	tb.Helper()
	if err := hub.Publish(context.Background(), changes...); err != nil {
		tb.Errorf("Publish(%v): %v", changes, err)
	}
}

func shutdown(tb testing.TB, hub *core.Hub) {
	tb.Helper()
	if err := hub.Shutdown(context.Background()); err != nil {
		tb.Errorf("Shutdown: %v", err)
	}
}

// settle waits, under fake time, until nothing more happens by itself. While some
// streams stall, others may wait a little for a writer.
func settle() {
	synctest.Wait()
	<-time.After(20 * time.Millisecond)
	synctest.Wait()
}

// bubble runs f under fake time, in parallel with other tests.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// advance lets fake time pass and everything happen that is due by then.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wantSteps compares recorded steps with those expected.
func wantSteps(tb testing.TB, got []string, want ...string) {
	tb.Helper()
	if slices.Equal(got, want) {
		return
	}
	same := 0
	for same < len(got) && same < len(want) && got[same] == want[same] {
		same++
	}
	around := func(steps []string) []string { return steps[max(0, min(same-2, len(steps))):min(same+8, len(steps))] }
	tb.Errorf("step %d is another one: got %d steps\n\t%q\nwant %d\n\t%q", same, len(got), around(got), len(want), around(want))
}

// sameEnd reports whether two ends are the same.
func sameEnd(a, b core.End) bool {
	return a.Reason == b.Reason && a.Graceful == b.Graceful && errors.Is(a.Err, b.Err) && reflect.DeepEqual(a.Stream, b.Stream)
}

// wantEnd compares an end with what it should be.
func wantEnd(tb testing.TB, got core.End, reason core.Reason, graceful bool) {
	tb.Helper()
	if got.Reason != reason || got.Graceful != graceful {
		tb.Errorf("ended as %q, graceful %v (error %v), want %q, %v", got.Reason, got.Graceful, got.Err, reason, graceful)
	}
}

// wantRefusal checks that err is a refusal with the given code and word.
func wantRefusal(tb testing.TB, err error, code int, refusal core.Refusal) {
	tb.Helper()
	if e := refusalOf(tb, err, code, refusal); e.Message == "" {
		tb.Error("refused without a message")
	}
}

// refusalOf is wantRefusal, and returns the refusal.
func refusalOf(tb testing.TB, err error, code int, refusal core.Refusal) *core.Error {
	tb.Helper()
	var e *core.Error
	if !errors.As(err, &e) {
		tb.Fatalf("got %v, want a refusal %q with code %d", err, refusal, code)
	}
	if e.Code != code || e.Refusal != refusal {
		tb.Errorf("refused with code %d, %q (%q), want %d, %q", e.Code, e.Refusal, e.Message, code, refusal)
	}
	return e
}

// names returns n URIs.
func names(n int) []string {
	uris := make([]string, n)
	for i := range uris {
		uris[i] = fmt.Sprintf("file:///%04d", i)
	}
	return uris
}
