// Metrics: the instruments, and the attribute sets that they are used with. Their
// words are known beforehand, so the sets are built once.

package mcpotel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcplisten/mcplisten/core"
)

// metrics are the instruments.
type metrics struct {
	operation  metric.Float64Histogram
	active     metric.Int64UpDownCounter
	duration   metric.Float64Histogram
	published  metric.Int64Counter
	sent       metric.Int64Counter
	coalesced  metric.Int64Counter
	delivery   metric.Float64Histogram
	keepAlives metric.Int64Counter
	refused    metric.Int64Counter
	connected  metric.Int64UpDownCounter
	gaps       metric.Int64Counter
	ignored    metric.Int64Counter

	kinds      [core.KindExtension]labels             // of the protocol's own notifications
	unsent     map[string]*[core.KindExtension]labels // by failure
	extensions sync.Map                               // method → labels, for those that hubs have
	notSent    sync.Map                               // methodFailure → labels
	keptAlive  labels
	notAlive   map[string]labels // by failure
	ends       map[ending]labels
	refusals   map[core.Refusal]labels
	operations sync.Map // operation → labels
}

// labels is one attribute set, as the instruments take it: slices, since an
// argument list would be allocated for each call.
type labels struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newLabels(attributes ...attribute.KeyValue) labels {
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	return labels{[]metric.AddOption{set}, []metric.RecordOption{set}}
}

// withError adds error.type, if there is one.
func withError(errorType string, attributes ...attribute.KeyValue) []attribute.KeyValue {
	if errorType == "" {
		return attributes
	}
	return append(attributes, keyErrorType.String(errorType))
}

// ending is what the duration of a stream is recorded under.
type ending struct {
	reason    core.Reason
	errorType string
}

// The buckets of histograms, in seconds. Those of operations are the convention's.
var (
	operationBuckets = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
	durationBuckets  = []float64{1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 14400, 43200, 86400}
	deliveryBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
)

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	b := builder{meter: provider.Meter(scope)}
	m := &metrics{
		operation: b.histogram(metricOperation, operationBuckets,
			"From the receipt of a listen request until its acknowledgment was flushed or its error answered."),
		duration:   b.histogram(metricDuration, durationBuckets, "How long streams lived, from acknowledgment to close."),
		delivery:   b.histogram(metricDelivery, deliveryBuckets, "From a publish until its notification was flushed; of several, the oldest."),
		published:  b.counter(metricPublished, "{notification}", "Changes that the application published."),
		sent:       b.counter(metricSent, "{notification}", "Notifications written to streams."),
		coalesced:  b.counter(metricCoalesced, "{notification}", "Changes that an unsent notification already stood for."),
		keepAlives: b.counter(metricKeepAlives, "{keepalive}", "Keep-alives written to streams."),
		refused:    b.counter(metricRefused, "{request}", "Requests that were refused."),
		gaps:       b.counter(metricGaps, "{gap}", "Times that open streams may have missed changes of other nodes, and were told that everything changed."),
		ignored:    b.counter(metricIgnored, "{message}", "Messages from the broker that were malformed or too large."),
		unsent:     make(map[string]*[core.KindExtension]labels),
		keptAlive:  newLabels(),
		notAlive:   make(map[string]labels),
		ends:       make(map[ending]labels),
		refusals:   make(map[core.Refusal]labels),
	}
	var err error
	m.active, err = b.meter.Int64UpDownCounter(metricActive, metric.WithUnit("{stream}"),
		metric.WithDescription("Streams that are open."))
	b.note(err)
	m.connected, err = b.meter.Int64UpDownCounter(metricConnected, metric.WithUnit("{hub}"),
		metric.WithDescription("Hubs of this process that are connected to their broker."))
	b.note(err)
	m.label()
	return m, b.err
}

// label builds the attribute sets.
func (m *metrics) label() {
	for k := range core.KindExtension {
		m.kinds[k] = newLabels(keyMethod.String(k.Method()))
	}
	for _, failure := range failures() {
		var kinds [core.KindExtension]labels
		for k := range kinds {
			kinds[k] = newLabels(withError(failure, keyMethod.String(core.Kind(k).Method()))...)
		}
		m.unsent[failure] = &kinds
		m.notAlive[failure] = newLabels(withError(failure)...)
	}
	for _, reason := range core.Reasons() {
		for _, errorType := range []string{"", errorDrainTimeout, string(reason)} {
			m.ends[ending{reason, errorType}] = newLabels(withError(errorType, keyCloseReason.String(string(reason)))...)
		}
	}
	for _, refusal := range append(core.Refusals(), otherRefusal) {
		m.refusals[refusal] = newLabels(keyRefusal.String(string(refusal)))
	}
}

// extension returns the set of an extension's notifications. Methods are what
// applications register, so there are few.
func (m *metrics) extension(method string) labels {
	l, ok := m.extensions.Load(method)
	if !ok {
		l, _ = m.extensions.LoadOrStore(method, newLabels(keyMethod.String(method)))
	}
	return l.(labels)
}

// methodFailure is what an extension's notifications are counted under that could
// not be sent.
type methodFailure struct{ method, failure string }

func (m *metrics) notSentExtension(method, failure string) labels {
	of := methodFailure{method, failure}
	l, ok := m.notSent.Load(of)
	if !ok {
		l, _ = m.notSent.LoadOrStore(of, newLabels(withError(failure, keyMethod.String(method))...))
	}
	return l.(labels)
}

// otherRefusal stands for refusals that an application made up.
const otherRefusal core.Refusal = "_OTHER"

// refusal returns the set of a refusal that is known.
func (m *metrics) refusal(r core.Refusal) labels { return m.refusals[r] }

// known returns r, or otherRefusal.
func (m *metrics) known(r core.Refusal) core.Refusal {
	if _, ok := m.refusals[r]; ok {
		return r
	}
	return otherRefusal
}

// operation is what the duration of an operation is recorded under.
type operation struct {
	errorType, statusCode    string
	transport, name, version string
	protocolVersion          string // one that is supported, or empty
}

func (m *metrics) recordOperation(ctx context.Context, op operation, seconds float64) {
	l, ok := m.operations.Load(op)
	if !ok {
		l, _ = m.operations.LoadOrStore(op, newLabels(op.attributes()...))
	}
	m.operation.Record(ctx, seconds, l.(labels).record...)
}

// attributes are those that the conventions recommend for the metric, and for
// spans as well.
func (op operation) attributes() []attribute.KeyValue {
	attributes := append(make([]attribute.KeyValue, 0, 12), keyMethod.String(core.MethodListen))
	for _, a := range []struct {
		key   attribute.Key
		value string
	}{
		{keyProtocolVersion, op.protocolVersion},
		{keyTransport, op.transport},
		{keyNetworkProtocol, op.name},
		{keyNetworkVersion, op.version},
		{keyStatusCode, op.statusCode},
		{keyErrorType, op.errorType},
	} {
		if a.value != "" {
			attributes = append(attributes, a.key.String(a.value))
		}
	}
	return attributes
}

// newOperation returns the operation of a request without its outcome.
func newOperation(a core.Arrival, meta core.Meta) operation {
	op := operation{transport: a.NetworkTransport, name: a.NetworkProtocol, version: a.NetworkVersion}
	// What a client calls the version can be anything.
	if meta.CheckVersion() == nil {
		op.protocolVersion = meta.ProtocolVersion
	}
	return op
}

// builder makes instruments and keeps the first error.
type builder struct {
	meter metric.Meter
	err   error
}

func (b *builder) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) counter(name, unit, description string) metric.Int64Counter {
	c, err := b.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	b.note(err)
	return c
}

func (b *builder) histogram(name string, buckets []float64, description string) metric.Float64Histogram {
	h, err := b.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(buckets...))
	b.note(err)
	return h
}
