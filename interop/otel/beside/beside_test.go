// mcplisten beside each framework's own instrumentation: whose child the stream
// is, that it works, and that its life is not among the durations of requests.

package beside_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/riandyrn/otelchi"
	otelchimetric "github.com/riandyrn/otelchi/metric"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/contrib/instrumentation/github.com/labstack/echo/otelecho"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/beside"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

// framework is one way to mount and to instrument.
type framework struct {
	name     string
	mount    func(mcp *mcphttp.Handler, server http.Handler, r *telemetry.Recorder) http.Handler
	filtered bool   // streams have no HTTP span
	duration string // the metric
	labelled bool   // streams are in it, with a label
}

const seconds, millis = "http.server.request.duration", "request_duration_millis"

func frameworks() []framework {
	w3c := propagation.TraceContext{}
	ofHTTP := func(r *telemetry.Recorder) []otelhttp.Option {
		return []otelhttp.Option{otelhttp.WithTracerProvider(r.Tracer), otelhttp.WithMeterProvider(r.Meter), otelhttp.WithPropagators(w3c)}
	}
	ofGin := func(r *telemetry.Recorder) []otelgin.Option {
		return []otelgin.Option{otelgin.WithTracerProvider(r.Tracer), otelgin.WithMeterProvider(r.Meter), otelgin.WithPropagators(w3c)}
	}
	ofEcho := func(r *telemetry.Recorder) []otelecho.Option {
		return []otelecho.Option{otelecho.WithTracerProvider(r.Tracer), otelecho.WithPropagators(w3c)}
	}
	ofChi := func(r *telemetry.Recorder) []otelchi.Option {
		return []otelchi.Option{otelchi.WithTracerProvider(r.Tracer), otelchi.WithPropagators(w3c)}
	}
	measureChi := func(r *telemetry.Recorder) otelchimetric.BaseConfig {
		return otelchimetric.NewBaseConfig("server", otelchimetric.WithMeterProvider(r.Meter))
	}
	measure := func(r *telemetry.Recorder) func(http.Handler) http.Handler {
		return otelhttp.NewMiddleware("measure", otelhttp.WithMeterProvider(r.Meter), otelhttp.WithTracerProvider(telemetry.New().Tracer))
	}
	return []framework{
		{name: "otelhttp", duration: seconds, labelled: true, mount: func(mcp *mcphttp.Handler, server http.Handler, r *telemetry.Recorder) http.Handler {
			return beside.OnNetHTTP(mcp, server, ofHTTP(r)...)
		}},
		{name: "otelhttp filtered", duration: seconds, filtered: true, mount: func(mcp *mcphttp.Handler, server http.Handler, r *telemetry.Recorder) http.Handler {
			return beside.OnNetHTTPFiltered(mcp, server, ofHTTP(r)...)
		}},
		{name: "otelgin", duration: seconds, labelled: true, mount: func(mcp *mcphttp.Handler, server http.Handler, r *telemetry.Recorder) http.Handler {
			return beside.OnGin(mcp, server, ofGin(r)...)
		}},
		{name: "otelgin filtered", duration: seconds, filtered: true, mount: func(mcp *mcphttp.Handler, server http.Handler, r *telemetry.Recorder) http.Handler {
			return beside.OnGinFiltered(mcp, server, ofGin(r)...)
		}},
		{name: "otelecho", duration: seconds, mount: func(mcp *mcphttp.Handler, server http.Handler, r *telemetry.Recorder) http.Handler {
			return beside.OnEcho(mcp, server, measure(r), ofEcho(r)...)
		}},
		{name: "otelecho filtered", duration: seconds, filtered: true, mount: func(mcp *mcphttp.Handler, server http.Handler, r *telemetry.Recorder) http.Handler {
			return beside.OnEchoFiltered(mcp, server, measure(r), ofEcho(r)...)
		}},
		{name: "otelchi", duration: millis, mount: func(mcp *mcphttp.Handler, server http.Handler, r *telemetry.Recorder) http.Handler {
			return beside.OnChi(mcp, server, measureChi(r), ofChi(r)...)
		}},
		{name: "otelchi filtered", duration: millis, filtered: true, mount: func(mcp *mcphttp.Handler, server http.Handler, r *telemetry.Recorder) http.Handler {
			return beside.OnChiFiltered(mcp, server, measureChi(r), ofChi(r)...)
		}},
	}
}

// service is a running server with the recorder of all that it makes.
type service struct {
	*telemetry.Recorder
	hub  *core.Hub
	ends chan core.End
	url  string
}

func (f framework) start(t *testing.T) *service {
	t.Helper()
	s := &service{Recorder: telemetry.New(), ends: make(chan core.End, 1)}
	var err error
	s.hub, err = core.NewHub(core.Config{
		Capabilities: telemetry.All, Observer: s.Observer(t), OnEnd: func(e core.End) { s.ends <- e },
	})
	if err != nil {
		t.Fatalf("hub: %v", err)
	}
	mcp, err := mcphttp.New(s.hub)
	if err != nil {
		t.Fatalf("handler: %v", err)
	}
	other := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the MCP server") })
	server := httptest.NewServer(f.mount(mcp, other, s.Recorder))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s.url = server.URL + "/mcp"
	return s
}

// stream opens a stream, has one notification delivered, and leaves.
func (s *service) stream(ctx context.Context, t *testing.T, meta map[string]any, header http.Header) {
	t.Helper()
	c := telemetry.Dial(ctx, t, s.url, telemetry.Listen{Meta: meta}, header)
	defer c.Close()
	if err := s.hub.Publish(ctx, core.ToolsListChanged()); err != nil {
		t.Fatalf("publish: %v", err)
	}
	c.Expect(t, "notifications/tools/list_changed")
	c.Close()
	select {
	case e := <-s.ends:
		if e.Reason != core.ClientClosed {
			t.Errorf("the stream ended as %s (%v), want client_closed", e.Reason, e.Err)
		}
	case <-ctx.Done():
		t.Fatal("the stream did not end with its client")
	}
}

// call calls another method, which the MCP server answers.
func (s *service) call(ctx context.Context, t *testing.T) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(`{}`))
	if err != nil {
		t.Fatalf("request: %v", err)
	}
	request.Header.Set("Mcp-Method", "tools/list")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); string(body) != "the MCP server" {
		t.Errorf("another method was answered with %q, %v", body, err)
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func remote(n byte) (string, trace.SpanContext) {
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: n}, SpanID: trace.SpanID{7: n}})
	return fmt.Sprintf("00-%s-%s-01", sc.TraceID(), sc.SpanID()), sc
}

// httpSpan returns the server span of the instrumentation. It ends after the
// stream's.
func (s *service) httpSpan(ctx context.Context, t *testing.T) sdktrace.ReadOnlySpan {
	t.Helper()
	for ctx.Err() == nil {
		for _, span := range s.Spans.Ended() {
			if span.SpanKind() == trace.SpanKindServer && span.Name() != core.MethodListen {
				return span
			}
		}
		wait(ctx)
	}
	t.Fatal("the instrumentation has made no span")
	return nil
}

func wait(ctx context.Context) {
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func TestBeside(t *testing.T) {
	t.Parallel()
	inMeta, meta := remote(1)
	inHeader, header := remote(2)
	for _, f := range frameworks() {
		for _, sent := range []struct {
			name         string
			meta, header bool
		}{{name: "no context"}, {name: "in the header", header: true}, {name: "in _meta", meta: true}, {name: "in both", meta: true, header: true}} {
			t.Run(f.name+", "+sent.name, func(t *testing.T) {
				t.Parallel()
				ctx := bounded(t)
				s := f.start(t)
				members, headers := map[string]any{}, http.Header{}
				if sent.meta {
					members["traceparent"] = inMeta
				}
				if sent.header {
					headers.Set("Traceparent", inHeader)
				}
				s.stream(ctx, t, members, headers)
				span := s.One(t, core.MethodListen)
				var wantParent, wantLink trace.SpanContext
				switch {
				case !f.filtered:
					ambient := s.httpSpan(ctx, t)
					if wantParent = ambient.SpanContext(); sent.meta {
						wantParent, wantLink = meta, ambient.SpanContext()
					}
					if sent.header && ambient.Parent().SpanID() != header.SpanID() {
						t.Errorf("the HTTP span is a child of %v, want the header's", ambient.Parent())
					}
				case sent.meta:
					wantParent = meta
				case sent.header:
					wantParent = header
				}
				if got := span.Parent(); got.SpanID() != wantParent.SpanID() || got.IsValid() && got.TraceID() != wantParent.TraceID() {
					t.Errorf("the stream is a child of %v, want %v", got, wantParent)
				}
				var link trace.SpanContext
				if links := span.Links(); len(links) > 0 {
					link = links[0].SpanContext
				}
				if link.SpanID() != wantLink.SpanID() || len(span.Links()) > 1 {
					t.Errorf("the stream has the links %v, want %v", span.Links(), wantLink)
				}
			})
		}
	}
}

// TestDurations: an ordinary request is measured as ever, and a stream is not
// among what it is measured with.
func TestDurations(t *testing.T) {
	t.Parallel()
	for _, f := range frameworks() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t)
			s := f.start(t)
			s.call(ctx, t)
			s.stream(ctx, t, nil, nil)
			want := 1.0 // of streams
			if !f.labelled {
				want = 0
			}
			// Instrumentation measures after the handler has returned.
			for s.Metrics(t).Sum(f.duration) < 1+want && ctx.Err() == nil {
				wait(ctx)
			}
			m := s.Metrics(t)
			if got := m.Sum(f.duration, "mcp.method.name", core.MethodListen); got != want {
				t.Errorf("%v streams are in %s with a label, want %v", got, f.duration, want)
			}
			if got := m.Sum(f.duration, "mcp.method.name", ""); got != 1 {
				t.Errorf("%v requests are in %s without a label, want 1: %v", got, f.duration, m[f.duration])
			}
		})
	}
}

// TestDocsShowThisCode: what docs/observability.md shows is what is tested here.
func TestDocsShowThisCode(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatalf("glob: %v", err)
	}
	var tested strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		tested.Write(text)
	}
	docs, err := os.ReadFile("../../../docs/observability.md")
	if err != nil {
		t.Fatalf("docs: %v", err)
	}
	_, framework, found := strings.Cut(string(docs), "## Beside HTTP instrumentation")
	if !found {
		t.Fatal("the docs have no such section")
	}
	blocks := strings.Split(framework, "```go\n")[1:]
	if len(blocks) < 4 {
		t.Errorf("the docs show %d pieces of code, want one for each framework", len(blocks))
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(tested.String(), code) {
			t.Errorf("the docs show code that is not in this package:\n%s", code)
		}
	}
}
