// Parents and links: whose child the span of a listen request is.

package observer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

// remote returns a traceparent and what it stands for.
func remote(n byte) (string, trace.SpanContext) {
	sc := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: n}, SpanID: trace.SpanID{7: n}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	return fmt.Sprintf("00-%s-%s-01", sc.TraceID(), sc.SpanID()), sc
}

const (
	root    = "root"
	meta    = "meta"
	ambient = "ambient"
	header  = "header"
)

type lineage struct {
	name   string
	meta   map[string]any // nil: the valid one, if wanted
	has    []string       // what there is of meta, ambient, header
	far    bool           // the ambient span is another process's
	public bool
	parent string
	links  []string
}

func lineages() []lineage {
	bad := func(traceparent any) map[string]any { return map[string]any{"traceparent": traceparent} }
	rows := []lineage{
		{name: "nothing", parent: root},
		{name: "meta", has: []string{meta}, parent: meta},
		{name: "ambient", has: []string{ambient}, parent: ambient},
		{name: "header", has: []string{header}, parent: header},
		{name: "meta and ambient", has: []string{meta, ambient}, parent: meta, links: []string{ambient}},
		{name: "meta and header", has: []string{meta, header}, parent: meta},
		{name: "ambient and header", has: []string{ambient, header}, parent: ambient},
		{name: "all", has: []string{meta, ambient, header}, parent: meta, links: []string{ambient}},
		{name: "public, nothing", public: true, parent: root},
		{name: "public, meta", public: true, has: []string{meta}, parent: root, links: []string{meta}},
		{name: "public, ambient", public: true, has: []string{ambient}, parent: ambient},
		{name: "public, ambient of another process", public: true, far: true, has: []string{ambient}, parent: root, links: []string{ambient}},
		{name: "public, header", public: true, has: []string{header}, parent: root, links: []string{header}},
		{name: "public, all", public: true, has: []string{meta, ambient, header}, parent: root, links: []string{meta, ambient}},
	}
	for what, malformed := range map[string]any{
		"empty": "", "no hex": "00-zz-zz-01", "zeros": "00-00000000000000000000000000000000-0000000000000000-01",
		"short": "00-01-01-01", "upper case": "00-0123456789ABCDEF0123456789ABCDEF-0123456789ABCDEF-01",
		"a number": 7, "null": nil, "an object": map[string]any{}, "a list": []string{"00"}, "version ff": "ff-" + valid()[3:],
	} {
		rows = append(rows,
			lineage{name: what + ", nothing", meta: bad(malformed), parent: root},
			lineage{name: what + ", ambient", meta: bad(malformed), has: []string{ambient}, parent: ambient},
			lineage{name: what + ", header", meta: bad(malformed), has: []string{header}, parent: header},
		)
	}
	return rows
}

func valid() string {
	v, _ := remote(1)
	return v
}

func TestParentsAndLinks(t *testing.T) {
	t.Parallel()
	for _, l := range lineages() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			t.Run("accepted", func(t *testing.T) {
				t.Parallel()
				l.check(t, core.Config{})
			})
			t.Run("refused", func(t *testing.T) {
				t.Parallel()
				l.check(t, core.Config{Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
					return core.Grant{}, errors.New("no")
				})})
			})
		})
	}
}

func (l lineage) check(t *testing.T, config core.Config) {
	t.Helper()
	r := telemetry.New()
	var options []mcpotel.Option
	if l.public {
		options = append(options, mcpotel.WithPublicEndpoint())
	}
	config.Capabilities, config.Observer = telemetry.All, r.Observer(t, options...)
	hub, err := core.NewHub(config)
	if err != nil {
		t.Fatalf("hub: %v", err)
	}
	ctx, request := t.Context(), telemetry.Listen{Meta: l.meta}
	known := make(map[string]trace.SpanContext)
	if slices.Contains(l.has, meta) {
		text, sc := remote(1)
		request.Meta = map[string]any{"traceparent": text, "tracestate": "vendor=1"}
		known[meta] = sc
	}
	if slices.Contains(l.has, header) {
		text, sc := remote(2)
		request.Arrival.Header = func(name string) string {
			if name == "traceparent" {
				return text
			}
			return ""
		}
		known[header] = sc
	}
	if slices.Contains(l.has, ambient) {
		if _, sc := remote(3); l.far {
			ctx = trace.ContextWithRemoteSpanContext(ctx, sc)
		} else {
			var span trace.Span
			ctx, span = r.Tracer.Tracer("http").Start(ctx, "POST")
			defer span.End()
		}
		known[ambient] = trace.SpanContextFromContext(ctx)
	}
	s, refused := telemetry.Open(ctx, t, hub, request)
	if refused == nil {
		endAll(t, hub, nil)
		s.Wait(t)
	}
	if (refused != nil) != (config.Authorizer != nil) {
		t.Fatalf("trace context changed the answer: %v", refused)
	}
	l.checkSpan(t, r.One(t, "subscriptions/listen"), known)
}

func (l lineage) checkSpan(t *testing.T, span sdktrace.ReadOnlySpan, known map[string]trace.SpanContext) {
	t.Helper()
	name := func(sc trace.SpanContext) string {
		for source, k := range known {
			if k.SpanID() == sc.SpanID() && k.TraceID() == sc.TraceID() {
				return source
			}
		}
		return root
	}
	parent := name(span.Parent())
	var links []string
	for _, link := range span.Links() {
		links = append(links, name(link.SpanContext))
	}
	if parent != l.parent || !slices.Equal(links, l.links) {
		t.Errorf("the parent is %s and the links are %q, want %s and %q", parent, links, l.parent, l.links)
	}
	if parent == root && (span.Parent().IsValid() || slices.ContainsFunc(span.Links(), func(link sdktrace.Link) bool {
		return link.SpanContext.TraceID() == span.SpanContext().TraceID()
	})) {
		t.Errorf("a root has the parent %v and the trace of a link", span.Parent())
	}
	if parent != root && span.Parent().TraceID() != span.SpanContext().TraceID() {
		t.Error("a child is in another trace than its parent")
	}
	if parent == meta && span.SpanContext().TraceState().Get("vendor") != "1" {
		t.Errorf("the tracestate is %q, want the one of _meta", span.SpanContext().TraceState())
	}
	if got := span.SpanKind(); got != trace.SpanKindServer {
		t.Errorf("the span's kind is %v, want server", got)
	}
}

// TestBaggageOfMeta: processors and samplers see the baggage that came in _meta.
func TestBaggageOfMeta(t *testing.T) {
	t.Parallel()
	for sent, want := range map[any]string{"tenant=blue": "blue", "%%%": "", 3: ""} {
		seen := &baggageSeen{}
		r := telemetry.New(sdktrace.WithSampler(seen))
		o := r.Observer(t)
		hub, err := core.NewHub(core.Config{Capabilities: telemetry.All, Observer: o})
		if err != nil {
			t.Fatalf("hub: %v", err)
		}
		s := telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{Meta: map[string]any{"baggage": sent}})
		endAll(t, hub, nil)
		s.Wait(t)
		if seen.tenant != want {
			t.Errorf("baggage %v: the sampler saw the tenant %q, want %q", sent, seen.tenant, want)
		}
	}
}

type baggageSeen struct{ tenant string }

func (b *baggageSeen) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	b.tenant = baggage.FromContext(p.ParentContext).Member("tenant").Value()
	return sdktrace.AlwaysSample().ShouldSample(p)
}

func (b *baggageSeen) Description() string { return "baggage seen" }

// TestPropagator: another propagator reads its own keys.
func TestPropagator(t *testing.T) {
	t.Parallel()
	r := telemetry.New()
	hub, err := core.NewHub(core.Config{
		Capabilities: telemetry.All, Observer: r.Observer(t, mcpotel.WithPropagator(propagation.NewCompositeTextMapPropagator())),
	})
	if err != nil {
		t.Fatalf("hub: %v", err)
	}
	s := telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{Meta: map[string]any{"traceparent": valid()}})
	endAll(t, hub, nil)
	s.Wait(t)
	if parent := r.One(t, "subscriptions/listen").Parent(); parent.IsValid() {
		t.Errorf("a propagator that reads nothing found the parent %v", parent)
	}
}
