// Every way for a stream to end: what its span and the metrics say, and that
// nothing stays behind.

package observer_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

var errBroken = errors.New("broken")

// on returns a fault of the given call after so many flushes.
func on(call string, flushes int, fail func() error) func(string, int) error {
	return func(c string, n int) error {
		if c == call && n >= flushes {
			return fail()
		}
		return nil
	}
}

func failing(err error) func() error { return func() error { return err } }

// life is one stream from acknowledgment to close.
type life struct {
	name      string
	config    core.Config
	filter    string
	timeout   time.Duration // of the request's context
	fault     func(call string, flushes int) error
	redact    func(string) string
	end       func(t *testing.T, hub *core.Hub, leave context.CancelFunc)
	reason    core.Reason
	graceful  bool
	errorType string

	// What the metrics say. Each life delivers one notification and coalesces one
	// change, where it comes to that.
	sent       float64
	unsent     string // error.type of what was not sent
	keepAlives float64
	unalive    string // error.type of the keep-alive that was not sent
}

func publish(t *testing.T, hub *core.Hub, changes ...core.Change) {
	t.Helper()
	if err := hub.Publish(t.Context(), changes...); err != nil {
		t.Errorf("publish: %v", err)
	}
}

func endAll(_ *testing.T, hub *core.Hub, _ context.CancelFunc) {
	hub.EndWhere(func(core.StreamInfo) bool { return true })
}

func leave(_ *testing.T, _ *core.Hub, leave context.CancelFunc) { leave() }

func wait(d time.Duration) func(*testing.T, *core.Hub, context.CancelFunc) {
	return func(*testing.T, *core.Hub, context.CancelFunc) {
		<-time.After(d)
	}
}

func deliverOne(t *testing.T, hub *core.Hub, _ context.CancelFunc) {
	t.Helper()
	publish(t, hub, core.ToolsListChanged())
}

func shutdown(t *testing.T, hub *core.Hub, _ context.CancelFunc) {
	t.Helper()
	if err := hub.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func lives() []life {
	const after = 2 // flushes: acknowledgment and first delivery
	return []life{
		{name: "client leaves", end: leave, reason: core.ClientClosed, sent: 1},
		{
			name: "broken pipe", fault: on("flush", after, failing(syscall.EPIPE)), end: deliverOne,
			reason: core.ClientClosed, sent: 1, unsent: "client_closed",
		},
		{name: "application ends it", end: endAll, reason: core.Completed, graceful: true, sent: 1},
		{name: "nothing honored", filter: `{}`, reason: core.Completed, graceful: true},
		{
			name: "maximum lifetime", config: core.Config{MaxLifetime: time.Minute, KeepAlive: time.Hour}, end: wait(2 * time.Minute),
			reason: core.MaxLifetime, graceful: true, sent: 1,
		},
		{
			name: "grant expires", config: core.Config{KeepAlive: -1, Authorizer: core.AuthorizerFunc(
				func(context.Context, string, core.Filter) (core.Grant, error) {
					return core.Grant{Until: time.Now().Add(time.Minute)}, nil
				})},
			end: wait(time.Minute), reason: core.GrantExpired, graceful: true, sent: 1,
		},
		{
			name: "revoked", end: func(_ *testing.T, hub *core.Hub, _ context.CancelFunc) {
				hub.Revoke(func(core.StreamInfo) bool { return true })
			},
			reason: core.Revoked, graceful: true, sent: 1,
		},
		{
			name: "deadline of the request", config: core.Config{KeepAlive: -1}, timeout: time.Minute, end: wait(time.Minute),
			reason: core.Deadline, graceful: true, sent: 1,
		},
		{name: "shutdown", end: shutdown, reason: core.Shutdown, graceful: true, sent: 1},
		{
			name: "shutdown, result not flushed", fault: on("flush", after, failing(core.ErrSlowClient)), end: shutdown,
			reason: core.Shutdown, errorType: "drain_timeout", sent: 1,
		},
		{
			name: "slow client", fault: on("flush", after, failing(core.ErrSlowClient)), end: deliverOne,
			reason: core.SlowClient, errorType: "slow_client", sent: 1, unsent: "slow_client",
		},
		{
			name: "slow client at a keep-alive", fault: on("keep-alive", after, failing(core.ErrSlowClient)), end: wait(core.DefaultKeepAlive),
			reason: core.SlowClient, errorType: "slow_client", sent: 1, unalive: "slow_client",
		},
		{
			name: "after keep-alives", end: func(t *testing.T, hub *core.Hub, leave context.CancelFunc) {
				t.Helper()
				wait(3*core.DefaultKeepAlive)(t, hub, leave)
				synctest.Wait()
				endAll(t, hub, leave)
			},
			reason: core.Completed, graceful: true, sent: 1, keepAlives: 3,
		},
		{
			name: "write error", fault: on("message", after, failing(errBroken)), end: deliverOne,
			reason: core.WriteError, errorType: "write_error", sent: 1, unsent: "write_error",
		},
		{
			name: "result not written", fault: on("message", after, failing(errBroken)), end: endAll,
			reason: core.WriteError, errorType: "write_error", sent: 1,
		},
		{
			name: "acknowledgment not flushed", fault: on("flush", 0, failing(errBroken)),
			reason: core.WriteError, errorType: "write_error",
		},
		{
			name: "client gone before the acknowledgment", fault: on("flush", 0, failing(syscall.ECONNRESET)),
			reason: core.ClientClosed,
		},
		{
			name: "panic of a hook", filter: `{"toolsListChanged":true,"resourceSubscriptions":["a:"]}`,
			redact: func(string) string { panic("redact") },
			end: func(t *testing.T, hub *core.Hub, _ context.CancelFunc) {
				t.Helper()
				publish(t, hub, core.ResourceUpdated("a:"))
			},
			reason: core.Panicked, errorType: "panic", sent: 2,
		},
		{
			name: "panic of the transport", fault: on("message", after, func() error { panic("transport") }), end: deliverOne,
			reason: core.Panicked, errorType: "panic", sent: 1,
		},
	}
}

// TestCloseReasons is the table of docs/observability.md, row by row.
func TestCloseReasons(t *testing.T) {
	t.Parallel()
	seen := make(map[core.Reason]bool)
	for _, l := range lives() {
		seen[l.reason] = true
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, l.run)
		})
	}
	for _, reason := range core.Reasons() {
		if !seen[reason] {
			t.Errorf("no row ends with %q", reason)
		}
	}
}

func (l life) run(t *testing.T) {
	r := telemetry.New()
	options := []mcpotel.Option{mcpotel.WithDeliverySpans(10, 10)}
	if l.redact != nil {
		options = append(options, mcpotel.WithURIRedaction(l.redact))
	}
	config := l.config
	config.Capabilities, config.Observer = telemetry.All, r.Observer(t, options...)
	hub, err := core.NewHub(config)
	if err != nil {
		t.Fatalf("hub: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if l.timeout > 0 {
		ctx, cancel = context.WithTimeout(t.Context(), l.timeout)
	}
	defer cancel()
	s := telemetry.MustOpen(ctx, t, hub, telemetry.Listen{Filter: l.filter, Conn: &telemetry.Conn{Fault: l.fault}})
	synctest.Wait()
	if l.sent > 0 {
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
	}
	if l.end != nil {
		if got := r.Metrics(t).Sum("mcplisten.stream.active"); got != 1 {
			t.Errorf("%v streams are active while one is open", got)
		}
		if got := r.Ended("subscriptions/listen"); len(got) != 0 {
			t.Error("the span of the stream has ended before the stream")
		}
		l.end(t, hub, cancel)
	}
	end := s.Wait(t)
	l.checkSpans(t, r, end, s.Conn)
	l.checkMetrics(t, r)
}

func (l life) checkSpans(t *testing.T, r *telemetry.Recorder, end core.End, conn *telemetry.Conn) {
	t.Helper()
	if open := r.Open(); open != nil {
		t.Errorf("these spans have not ended: %q", open)
	}
	span := r.One(t, "subscriptions/listen")
	got := telemetry.Attributes(span)
	for key, want := range map[string]any{
		"mcplisten.close_reason": string(l.reason), "mcplisten.graceful": l.graceful,
		"mcplisten.keepalives": int64(l.keepAlives), "mcplisten.notifications.coalesced": int64(0),
		"mcplisten.notifications.delivered": int64(l.sent),
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if got := got["mcplisten.bytes_written"].(int64); l.errorType == "" && got != int64(conn.Bytes()) {
		t.Errorf("the span tells of %d bytes, and %d were written", got, conn.Bytes())
	}
	checkStatus(t, "the stream", span.Status().Code, got, l.errorType)
	if end.Reason != l.reason {
		t.Errorf("the stream ended as %s, want %s", end.Reason, l.reason)
	}
	ack := r.One(t, "notifications/subscriptions/acknowledged")
	failed := ""
	if l.sent == 0 {
		failed = l.errorType
	}
	checkStatus(t, "the acknowledgment", ack.Status().Code, telemetry.Attributes(ack), failed)
}

func checkStatus(t *testing.T, of string, status codes.Code, attributes map[string]any, errorType string) {
	t.Helper()
	want, has := codes.Unset, attributes["error.type"]
	if errorType != "" {
		want = codes.Error
	} else {
		errorType = "none"
	}
	if has == nil {
		has = "none"
	}
	if status != want || has != errorType {
		t.Errorf("%s has the status %v and error.type %v, want %v and %v", of, status, has, want, errorType)
	}
}

func (l life) checkMetrics(t *testing.T, r *telemetry.Recorder) {
	t.Helper()
	m := r.Metrics(t)
	if got := m.Sum("mcplisten.stream.active"); got != 0 || len(m["mcplisten.stream.active"]) != 1 {
		t.Errorf("after the end %v streams are active: %v", got, m["mcplisten.stream.active"])
	}
	attributes := []string{"mcplisten.close_reason", string(l.reason)}
	if l.errorType != "" {
		attributes = append(attributes, "error.type", l.errorType)
	}
	if got := m["mcplisten.stream.duration"]; len(got) != 1 || got[0].Count != 1 || !got[0].Is(attributes...) {
		t.Errorf("mcplisten.stream.duration is %v, want one stream with %q", got, attributes)
	}
	if got := m["mcp.server.operation.duration"]; len(got) != 1 || got[0].Count != 1 {
		t.Errorf("mcp.server.operation.duration is %v, want one operation", got)
	}
	failed := func(name string) (words []string) {
		for _, p := range m[name] {
			if word := p.Attributes["error.type"]; word != "" {
				words = append(words, word)
			}
		}
		return words
	}
	sent := m.Sum("mcplisten.sent.notifications", "mcp.method.name", "notifications/tools/list_changed", "error.type", "") +
		m.Sum("mcplisten.sent.notifications", "mcp.method.name", "notifications/resources/updated", "error.type", "")
	if sent != l.sent {
		t.Errorf("%v notifications were sent, want %v", sent, l.sent)
	}
	if got := failed("mcplisten.sent.notifications"); !equalWord(got, l.unsent) {
		t.Errorf("notifications failed with %q, want %q", got, l.unsent)
	}
	if got := m.Sum("mcplisten.sent.keepalives", "error.type", ""); got != l.keepAlives {
		t.Errorf("%v keep-alives were sent, want %v", got, l.keepAlives)
	}
	if got := failed("mcplisten.sent.keepalives"); !equalWord(got, l.unalive) {
		t.Errorf("keep-alives failed with %q, want %q", got, l.unalive)
	}
	if got := m.Sum("mcplisten.delivery.duration"); got != l.sent {
		t.Errorf("%v deliveries were timed, want %v", got, l.sent)
	}
}

func equalWord(got []string, want string) bool {
	return want == "" && len(got) == 0 || len(got) == 1 && got[0] == want
}

// TestErrorClassifier: the application may see ends and refusals differently.
func TestErrorClassifier(t *testing.T) {
	t.Parallel()
	r := telemetry.New()
	o := r.Observer(t, mcpotel.WithErrorClassifier(
		func(e *core.Error) bool { return e.Refusal == core.RefusedAuth },
		func(e core.End) bool { return e.Reason == core.ClientClosed },
	))
	for _, reason := range []core.Reason{core.ClientClosed, core.SlowClient} {
		stream := o.Accepted(t.Context(), core.Accepted{Request: &core.Request{}})
		stream.Acknowledged(nil)
		stream.Closed(core.End{Reason: reason})
	}
	for _, refusal := range []core.Refusal{core.RefusedAuth, core.RefusedLimit} {
		o.Refused(t.Context(), core.Refused{Method: core.MethodListen, Err: &core.Error{Code: -32000, Message: "no", Refusal: refusal}})
	}
	want := map[any]any{
		"client_closed": "client_closed", "slow_client": nil, "unauthorized": "-32000", "limit": nil,
	}
	for _, span := range r.Ended("subscriptions/listen") {
		a := telemetry.Attributes(span)
		cause := a["mcplisten.close_reason"]
		if cause == nil {
			cause = a["mcplisten.refusal"]
		}
		if a["error.type"] != want[cause] || (span.Status().Code == codes.Error) != (want[cause] != nil) {
			t.Errorf("%v has error.type %v and status %v, want %v", cause, a["error.type"], span.Status().Code, want[cause])
		}
		delete(want, cause)
	}
	if len(want) != 0 {
		t.Errorf("no span tells of %v", want)
	}
}
