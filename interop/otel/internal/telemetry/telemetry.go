// What a test recorded: spans and metrics of the real SDK, in plain form.

// Package telemetry records spans and metrics with the OpenTelemetry SDK, for
// tests to look at.
package telemetry

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	mcpotel "github.com/mcplisten/mcplisten/otel"
)

// Recorder records everything that is made with its providers.
type Recorder struct {
	Spans  *tracetest.SpanRecorder
	Tracer *trace.TracerProvider
	Meter  *metric.MeterProvider

	reader *metric.ManualReader
}

// New returns a recorder.
func New(options ...trace.TracerProviderOption) *Recorder {
	r := &Recorder{Spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	r.Tracer = trace.NewTracerProvider(append(options, trace.WithSpanProcessor(r.Spans))...)
	r.Meter = metric.NewMeterProvider(metric.WithReader(r.reader))
	return r
}

// Observer returns an observer that uses the recorder's providers.
func (r *Recorder) Observer(tb testing.TB, options ...mcpotel.Option) *mcpotel.Observer {
	tb.Helper()
	options = append([]mcpotel.Option{mcpotel.WithTracerProvider(r.Tracer), mcpotel.WithMeterProvider(r.Meter)}, options...)
	o, err := mcpotel.New(options...)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return o
}

// Ended returns the ended spans with the given name.
func (r *Recorder) Ended(name string) (spans []trace.ReadOnlySpan) {
	for _, s := range r.Spans.Ended() {
		if s.Name() == name {
			spans = append(spans, s)
		}
	}
	return spans
}

// One returns the one ended span with the given name.
func (r *Recorder) One(tb testing.TB, name string) trace.ReadOnlySpan {
	tb.Helper()
	spans := r.Ended(name)
	if len(spans) != 1 {
		var names []string
		for _, s := range r.Spans.Ended() {
			names = append(names, s.Name())
		}
		tb.Fatalf("%d spans named %q have ended, want 1; there are %q", len(spans), name, names)
	}
	return spans[0]
}

// Open returns the names of the spans that were started and have not ended.
func (r *Recorder) Open() (names []string) {
	left := make(map[string]int)
	for _, s := range r.Spans.Started() {
		left[s.Name()]++
	}
	for _, s := range r.Spans.Ended() {
		left[s.Name()]--
	}
	for name, n := range left {
		for range n {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Attributes returns the attributes of a span: bool, int64, string, []string.
func Attributes(s trace.ReadOnlySpan) map[string]any { return plain(s.Attributes()) }

func plain(attributes []attribute.KeyValue) map[string]any {
	m := make(map[string]any, len(attributes))
	for _, a := range attributes {
		m[string(a.Key)] = a.Value.AsInterface()
	}
	return m
}

// Point is a data point of a metric.
type Point struct {
	Attributes map[string]string
	Value      float64 // a counter's value, a histogram's sum
	Count      uint64  // of a histogram
	Bounds     []float64
}

// Is reports whether the point has exactly these attributes, given as key, value.
func (p Point) Is(attributes ...string) bool {
	want := make(map[string]string)
	for i := 0; i+1 < len(attributes); i += 2 {
		want[attributes[i]] = attributes[i+1]
	}
	return maps.Equal(p.Attributes, want)
}

// Metrics are data points by the name of their metric.
type Metrics map[string][]Point

// Metrics collects what was recorded so far.
func (r *Recorder) Metrics(tb testing.TB) Metrics {
	tb.Helper()
	var data metricdata.ResourceMetrics
	if err := r.reader.Collect(context.Background(), &data); err != nil {
		tb.Fatalf("collect: %v", err)
	}
	all := make(Metrics)
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = points(tb, m)
		}
	}
	return all
}

func points(tb testing.TB, m metricdata.Metrics) (all []Point) {
	tb.Helper()
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all = append(all, Point{Attributes: words(p.Attributes), Value: float64(p.Value)})
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, Point{Attributes: words(p.Attributes), Value: p.Sum, Count: p.Count, Bounds: p.Bounds})
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			all = append(all, Point{Attributes: words(p.Attributes), Value: float64(p.Sum), Count: p.Count, Bounds: p.Bounds})
		}
	default:
		tb.Fatalf("%s has data of type %T", m.Name, m.Data)
	}
	return all
}

func words(set attribute.Set) map[string]string {
	m := make(map[string]string, set.Len())
	for _, a := range set.ToSlice() {
		m[string(a.Key)] = a.Value.String()
	}
	return m
}

// Sum returns the sum of the points that have at least these attributes, given as
// key, value: of values, or of counts where it is a histogram.
func (m Metrics) Sum(name string, attributes ...string) float64 {
	sum := 0.0
	for _, p := range m[name] {
		match := true
		for i := 0; i+1 < len(attributes); i += 2 {
			match = match && p.Attributes[attributes[i]] == attributes[i+1]
		}
		switch {
		case !match:
		case p.Bounds != nil:
			sum += float64(p.Count)
		default:
			sum += p.Value
		}
	}
	return sum
}

// Holds returns where a text occurs in the name of a span, or in anything of a
// metric. Empty is nowhere.
func (r *Recorder) Holds(tb testing.TB, text string) string {
	tb.Helper()
	for _, s := range r.Spans.Started() {
		if strings.Contains(s.Name(), text) {
			return "the span " + s.Name()
		}
	}
	for name, points := range r.Metrics(tb) {
		for _, p := range points {
			for key, value := range p.Attributes {
				if strings.Contains(name+" "+key+" "+value, text) {
					return "the metric " + name + ", attribute " + key
				}
			}
		}
	}
	return ""
}
