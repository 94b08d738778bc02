// What is on the spans of a stream, of a refusal, of a publish and its deliveries.

package observer_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

const (
	toolsChanged    = "notifications/tools/list_changed"
	resourceUpdated = "notifications/resources/updated"
)

func newHub(t *testing.T, config core.Config, o core.Observer) *core.Hub {
	t.Helper()
	if config.Capabilities == (core.Capabilities{}) {
		config.Capabilities = telemetry.All
	}
	config.Observer = o
	hub, err := core.NewHub(config)
	if err != nil {
		t.Fatalf("hub: %v", err)
	}
	return hub
}

var overHTTP = core.Arrival{NetworkTransport: "tcp", NetworkProtocol: "http", NetworkVersion: "2"}

func TestStreamSpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := telemetry.New()
		hub := newHub(t, core.Config{Capabilities: core.Capabilities{ToolsListChanged: true, ResourceSubscriptions: true}}, r.Observer(t))
		slow := make(chan struct{})
		arrival := overHTTP
		arrival.Received = time.Now()
		<-time.After(time.Second)
		accepted := time.Now()
		s := telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{
			ID:      `"a\u00e9"`,
			Filter:  `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:","b:"],"x":1}`,
			Arrival: arrival,
			Conn: &telemetry.Conn{Fault: on("flush", 1, func() error {
				<-slow
				return nil
			})},
		})
		synctest.Wait()
		publish(t, hub, core.ToolsListChanged()) // is being written
		synctest.Wait()
		publish(t, hub, core.ResourceUpdated("a:"), core.ToolsListChanged())
		publish(t, hub, core.ResourceUpdated("a:"), core.ToolsListChanged()) // coalesced
		close(slow)
		<-time.After(core.DefaultKeepAlive)
		synctest.Wait()

		ack := r.One(t, "notifications/subscriptions/acknowledged")
		if names := r.Open(); !reflect.DeepEqual(names, []string{"subscriptions/listen"}) {
			t.Errorf("while the stream is open, %q are open spans, want its own", names)
		}
		endAll(t, hub, nil)
		s.Wait(t)
		span := r.One(t, "subscriptions/listen")
		want := map[string]any{
			"mcp.method.name": "subscriptions/listen", "mcp.protocol.version": "2026-07-28", "jsonrpc.request.id": "aé",
			"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "2",
			"mcplisten.requested":              []string{"toolsListChanged", "promptsListChanged", "resourceSubscriptions"},
			"mcplisten.honored":                []string{"toolsListChanged", "resourceSubscriptions"},
			"mcplisten.resource_subscriptions": int64(2),
			"mcplisten.close_reason":           "completed", "mcplisten.graceful": true,
			"mcplisten.notifications.delivered": int64(3), "mcplisten.notifications.coalesced": int64(2),
			"mcplisten.keepalives": int64(1), "mcplisten.bytes_written": int64(s.Conn.Bytes()),
		}
		if got := telemetry.Attributes(span); !reflect.DeepEqual(got, want) {
			t.Errorf("the span says %v,\nwant %v", got, want)
		}
		if !span.StartTime().Equal(accepted) || span.EndTime().Sub(accepted) != core.DefaultKeepAlive {
			t.Errorf("the span lasts from %v to %v, want from the acknowledgment at %v to the end", span.StartTime(), span.EndTime(), accepted)
		}
		if len(span.Events()) != 0 {
			t.Errorf("the span has events: %v", span.Events())
		}
		if ack.Parent().SpanID() != span.SpanContext().SpanID() || ack.SpanKind() != trace.SpanKindClient {
			t.Errorf("the acknowledgment is a %v span below %v, want a client's below the stream's", ack.SpanKind(), ack.Parent())
		}
		if got := r.Metrics(t)["mcp.server.operation.duration"][0]; got.Value != 1 || !got.Is("mcp.method.name", "subscriptions/listen",
			"mcp.protocol.version", "2026-07-28", "network.transport", "tcp", "network.protocol.name", "http", "network.protocol.version", "2") {
			t.Errorf("the operation was recorded as %+v, want 1 s from receipt to acknowledgment", got)
		}
		if got := r.Metrics(t).Sum("mcplisten.coalesced.notifications"); got != 2 {
			t.Errorf("%v changes were coalesced, want 2", got)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	header := func(string) string { return core.MethodListen }
	tests := []struct {
		name      string
		refused   core.Refused
		span      bool
		errorType string
		counted   string // if not the refusal itself
	}{
		{name: "parse error", refused: core.Refused{Err: &core.Error{Code: -32700, Refusal: core.RefusedParse}}},
		{
			name: "unread listen", span: true,
			refused: core.Refused{Err: &core.Error{Code: -32600, Refusal: core.RefusedOrigin}, Arrival: core.Arrival{Header: header}},
		},
		{name: "invalid request", span: true, refused: core.Refused{Method: core.MethodListen, Err: &core.Error{Code: -32600, Refusal: core.RefusedRequest}}},
		{name: "no such method", span: true, refused: core.Refused{Method: core.MethodListen, Err: &core.Error{Code: -32601, Refusal: core.RefusedMethod}}},
		{name: "another method", refused: core.Refused{Method: "tools/list", Err: &core.Error{Code: -32601, Refusal: core.RefusedMethod}}},
		{
			name: "another method than the header's", refused: core.Refused{
				Method: "tools/list", Err: &core.Error{Code: -32020, Refusal: core.RefusedHeader}, Arrival: core.Arrival{Header: header},
			},
		},
		{name: "invalid params", span: true, refused: core.Refused{Method: core.MethodListen, Err: &core.Error{Code: -32602, Refusal: core.RefusedParams}}},
		{name: "unknown resource", span: true, refused: core.Refused{Method: core.MethodListen, Err: &core.Error{Code: -32002, Refusal: core.RefusedAuth}}},
		{name: "left", span: true, refused: core.Refused{Method: core.MethodListen, Err: &core.Error{Code: -32603, Refusal: core.RefusedCanceled}}},
		{name: "at a limit", span: true, errorType: "-32603", refused: core.Refused{Method: core.MethodListen, Err: &core.Error{Code: -32603, Refusal: core.RefusedLimit}}},
		{name: "header", span: true, errorType: "-32020", refused: core.Refused{Method: core.MethodListen, Err: &core.Error{Code: -32020, Refusal: core.RefusedHeader}}},
		{name: "version", span: true, errorType: "-32022", refused: core.Refused{Method: core.MethodListen, Err: &core.Error{Code: -32022, Refusal: core.RefusedVersion}}},
		{
			name: "the application's own", span: true, errorType: "-1", counted: "_OTHER",
			refused: core.Refused{Method: core.MethodListen, Err: &core.Error{Code: -1, Refusal: "payment"}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := telemetry.New()
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // what is told of a client that has gone counts too
			test.refused.Arrival.Received = time.Now().Add(-time.Second)
			test.refused.Err.Message = "the application's text, file:///a"
			r.Observer(t).Refused(ctx, test.refused)
			counted := test.counted
			if counted == "" {
				counted = string(test.refused.Err.Refusal)
			}
			m := r.Metrics(t)
			if got := m["mcplisten.refused.requests"]; len(got) != 1 || got[0].Value != 1 || !got[0].Is("mcplisten.refusal", counted) {
				t.Errorf("the refusal was counted as %v, want %s", got, counted)
			}
			if !test.span {
				if n := len(r.Spans.Started()) + len(m["mcp.server.operation.duration"]); n != 0 {
					t.Errorf("a request of another method has %d spans and operations, want none", n)
				}
				return
			}
			span := r.One(t, "subscriptions/listen")
			a := telemetry.Attributes(span)
			checkStatus(t, "the refusal", span.Status().Code, a, test.errorType)
			if a["mcplisten.refusal"] != counted || a["rpc.response.status_code"] == nil || a["mcp.method.name"] != core.MethodListen {
				t.Errorf("the span says %v, want refusal, code and method", a)
			}
			if want := "refused: " + counted; span.Status().Code == codes.Error && span.Status().Description != want {
				t.Errorf("the status says %q, want %q", span.Status().Description, want)
			}
			if got := span.EndTime().Sub(span.StartTime()); got < time.Second || got > time.Minute {
				t.Errorf("the span lasts %v, want from the receipt to now", got)
			}
			if got := m["mcp.server.operation.duration"]; len(got) != 1 || got[0].Value < 1 || got[0].Attributes["error.type"] != test.errorType {
				t.Errorf("the operation was recorded as %v, want a second with error.type %q", got, test.errorType)
			}
		})
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		`9007199254740993`: "9007199254740993", `"request-7"`: "request-7", `""`: "", `"7"`: "7",
		`"` + strings.Repeat("a", 127) + `é"`: strings.Repeat("a", 127), `"` + strings.Repeat("b", 500) + `"`: strings.Repeat("b", 128),
	} {
		r := telemetry.New()
		hub := newHub(t, core.Config{}, r.Observer(t))
		s := telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{ID: sent})
		endAll(t, hub, nil)
		s.Wait(t)
		if got := telemetry.Attributes(r.One(t, "subscriptions/listen"))["jsonrpc.request.id"]; got != want {
			t.Errorf("the id %s is %q on the span, want %q", sent, got, want)
		}
	}
}

func TestPublishSpan(t *testing.T) {
	t.Parallel()
	r := telemetry.New()
	hub := newHub(t, core.Config{}, r.Observer(t))
	var streams []*telemetry.Stream
	for range 5 {
		streams = append(streams, telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{}))
	}
	ctx, caller := r.Tracer.Tracer("app").Start(t.Context(), "write")
	ctx, cancel := context.WithCancel(ctx)
	cancel() // the end of the caller's request stops neither the publish nor its record
	if err := hub.Publish(ctx, core.ToolsListChanged()); err != nil {
		t.Fatalf("publish: %v", err)
	}
	caller.End()
	publish(t, hub, core.ResourceUpdated("a:"), core.ResourceUpdated("b:"))
	publish(t, hub, core.ResourceUpdated("a:"), core.PromptsListChanged(), core.ResourceUpdated("c:"))
	publish(t, hub)
	endAll(t, hub, nil)
	for _, s := range streams {
		s.Wait(t)
	}
	span := r.One(t, "publish "+toolsChanged)
	if span.SpanKind() != trace.SpanKindProducer || span.Parent().SpanID() != caller.SpanContext().SpanID() {
		t.Errorf("the publish is a %v span below %v, want a producer's below the caller's", span.SpanKind(), span.Parent())
	}
	want := map[string]any{"mcp.method.name": toolsChanged, "mcplisten.changes": int64(1)}
	if got := telemetry.Attributes(span); !reflect.DeepEqual(got, want) {
		t.Errorf("the publish says %v, want %v", got, want)
	}
	if got := telemetry.Attributes(r.One(t, "publish "+resourceUpdated))["mcplisten.changes"]; got != int64(2) {
		t.Errorf("a publish of two changes tells of %v", got)
	}
	want = map[string]any{"mcplisten.changes": int64(3)}
	if got := telemetry.Attributes(r.One(t, "publish")); !reflect.DeepEqual(got, want) {
		t.Errorf("a publish of several kinds says %v, want %v", got, want)
	}
	if got := len(r.Spans.Ended()); got != 1+3+2*5 {
		t.Errorf("there are %d spans, want one of the caller, three of publishes and two of each stream", got)
	}
	m := r.Metrics(t)
	for method, want := range map[string]float64{toolsChanged: 1, resourceUpdated: 4, "notifications/prompts/list_changed": 1} {
		if got := m.Sum("mcplisten.published.notifications", "mcp.method.name", method); got != want {
			t.Errorf("%v changes of %s were counted, want %v", got, method, want)
		}
	}
}

// stalled opens a stream that has taken a first notification and does not read
// on until resume is called, so that what is published meanwhile is one batch.
// From then on each flush takes a time.
func stalled(t *testing.T, hub *core.Hub, l telemetry.Listen, writing time.Duration) (s *telemetry.Stream, resume func()) {
	t.Helper()
	gate := make(chan struct{})
	l.Conn = &telemetry.Conn{Fault: on("flush", 1, func() error {
		<-gate
		<-time.After(writing)
		return nil
	})}
	s = telemetry.MustOpen(t.Context(), t, hub, l)
	publish(t, hub, core.PromptsListChanged())
	synctest.Wait()
	return s, func() {
		close(gate)
		synctest.Wait()
	}
}

const everything = `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:","b:"]}`

func TestDeliverySpans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := telemetry.New()
		hub := newHub(t, core.Config{}, r.Observer(t, mcpotel.WithDeliverySpans(100, 100),
			mcpotel.WithURIRedaction(func(uri string) string { return strings.TrimSuffix(uri, "a:") })))
		s, resume := stalled(t, hub, telemetry.Listen{Filter: everything}, time.Second)
		for range 12 {
			publish(t, hub, core.ToolsListChanged())
		}
		publish(t, hub, core.ResourceUpdated("a:"), core.ResourceUpdated("b:"), core.ResourceUpdated("nobody:"))
		<-time.After(time.Second)
		taken := time.Now().Add(time.Second) // when the flush before it is over
		resume()
		<-time.After(3 * time.Second)
		endAll(t, hub, nil)
		s.Wait(t)

		stream := r.One(t, "subscriptions/listen").SpanContext()
		publishes := r.Ended("publish " + toolsChanged)
		span := r.One(t, toolsChanged)
		if span.Parent().SpanID() != publishes[0].SpanContext().SpanID() || span.SpanKind() != trace.SpanKindClient {
			t.Errorf("the delivery is a %v span below %v, want a client's below the first publish", span.SpanKind(), span.Parent())
		}
		links := span.Links()
		if len(links) != 1+7 || links[0].SpanContext.SpanID() != stream.SpanID() {
			t.Fatalf("the delivery has %d links, want the stream and seven more publishes: %v", len(links), links)
		}
		for i, link := range links[1:] {
			if link.SpanContext.SpanID() != publishes[i+1].SpanContext().SpanID() {
				t.Errorf("link %d is not to publish %d", i+1, i+1)
			}
		}
		if !span.StartTime().Equal(taken) || span.EndTime().Sub(taken) != time.Second {
			t.Errorf("the delivery lasts from %v to %v, want from %v, when it was taken, until it was flushed", span.StartTime(), span.EndTime(), taken)
		}
		updated := r.Ended(resourceUpdated)
		if len(updated) != 2 {
			t.Fatalf("%d updates have spans, want 2", len(updated))
		}
		publication := r.One(t, "publish "+resourceUpdated).SpanContext()
		for i, want := range []any{nil, "b:"} { // what is redacted to nothing is left out
			if got := telemetry.Attributes(updated[i])["mcp.resource.uri"]; got != want || updated[i].Parent().SpanID() != publication.SpanID() {
				t.Errorf("update %d has the URI %v and the parent %v, want %v and its publish", i, got, updated[i].Parent(), want)
			}
		}
	})
}

func TestDeliverySpansAreCapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := telemetry.New()
		hub := newHub(t, core.Config{KeepAlive: -1}, r.Observer(t, mcpotel.WithDeliverySpans(3, 4)))
		var streams []*telemetry.Stream
		for range 5 {
			streams = append(streams, telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{Filter: everything}))
		}
		check := func(what, method string, want int) {
			t.Helper()
			synctest.Wait()
			if got := len(r.Ended(method)); got != want {
				t.Errorf("%s: %d deliveries have spans, want %d", what, got, want)
			}
		}
		publish(t, hub, core.ToolsListChanged())
		check("one publish to five streams", toolsChanged, 3)
		for range 10 {
			publish(t, hub, core.PromptsListChanged())
			synctest.Wait()
		}
		check("ten publishes to five streams", "notifications/prompts/list_changed", 5*4-3)
		publish(t, hub, core.ToolsListChanged())
		check("in the same minute", toolsChanged, 3)
		<-time.After(time.Minute)
		publish(t, hub, core.ToolsListChanged())
		check("in the next minute", toolsChanged, 6)
		endAll(t, hub, nil)
		for _, s := range streams {
			s.Wait(t)
		}
	})
}

func TestDeliverySpansFollowTheSampler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := telemetry.New(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
		hub := newHub(t, core.Config{}, r.Observer(t, mcpotel.WithDeliverySpans(100, 100)))
		s := telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{})
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		endAll(t, hub, nil)
		s.Wait(t)
		if names := r.Spans.Started(); len(names) != 0 {
			t.Errorf("%d spans were made, want none", len(names))
		}
		if got := r.Metrics(t).Sum("mcplisten.delivery.duration"); got != 1 {
			t.Errorf("%v deliveries were timed, want 1: metrics do not depend on sampling", got)
		}
	})
}

func TestNoDeliverySpansByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := telemetry.New()
		hub := newHub(t, core.Config{}, r.Observer(t))
		s := telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{})
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		endAll(t, hub, nil)
		s.Wait(t)
		if n := len(r.Ended(toolsChanged)); n != 0 {
			t.Errorf("%d deliveries have spans, want none", n)
		}
	})
}

// TestFailedDeliverySpan: a delivery that was not flushed says why.
func TestFailedDeliverySpan(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{"slow_client": core.ErrSlowClient, "write_error": errors.New("broken")} {
		r := telemetry.New()
		hub := newHub(t, core.Config{}, r.Observer(t, mcpotel.WithDeliverySpans(100, 100)))
		s := telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{Conn: &telemetry.Conn{Fault: on("flush", 1, failing(err))}})
		publish(t, hub, core.ToolsListChanged())
		s.Wait(t)
		span := r.One(t, toolsChanged)
		checkStatus(t, "the delivery", span.Status().Code, telemetry.Attributes(span), want)
	}
}

// TestUntracedPublishesAreCheap: an observer that nobody listens to notices within a
// second that somebody does.
func TestUntracedPublishesAreCheap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var later switching
		o, err := mcpotel.New(mcpotel.WithTracerProvider(&later))
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		hub := newHub(t, core.Config{}, o)
		for range 10 {
			publish(t, hub, core.ToolsListChanged())
		}
		if later.started != 1 {
			t.Errorf("nobody traces, and %d spans were started, want 1", later.started)
		}
		r := telemetry.New()
		later.to = r.Tracer.Tracer("later")
		<-time.After(time.Second)
		publish(t, hub, core.ToolsListChanged())
		publish(t, hub, core.ToolsListChanged())
		if n := len(r.Ended("publish " + toolsChanged)); n != 2 {
			t.Errorf("%d publishes were traced once somebody did, want 2", n)
		}
	})
}
