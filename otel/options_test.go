// Options that contradict themselves, and providers that refuse.

package mcpotel_test

import (
	"errors"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/mcplisten/mcplisten/core"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]mcpotel.Option{
		"no deliveries of a publish": mcpotel.WithDeliverySpans(0, 1),
		"no deliveries of a stream":  mcpotel.WithDeliverySpans(1, 0),
		"a negative cap":             mcpotel.WithDeliverySpans(-1, 1),
	} {
		if o, err := mcpotel.New(option); err == nil || o != nil {
			t.Errorf("%s: New returned %v, %v, want an error", name, o, err)
		}
	}
}

func TestNilOptionsAreDefaults(t *testing.T) {
	t.Parallel()
	o := newObserver(t, mcpotel.WithTracerProvider(nil), mcpotel.WithMeterProvider(nil), mcpotel.WithPropagator(nil),
		mcpotel.WithErrorClassifier(nil, nil), mcpotel.WithURIRedaction(nil))
	stream := o.Accepted(t.Context(), core.Accepted{Request: &core.Request{}})
	stream.Acknowledged(nil)
	stream.Closed(core.End{Reason: core.SlowClient})
	o.Refused(t.Context(), core.Refused{Method: core.MethodListen, Err: &core.Error{}})
}

var errRefused = errors.New("no such instrument")

// refusing makes every instrument but one kind.
type refusing struct {
	noop.MeterProvider
	counter, upDown, histogram error
}

func (r refusing) Meter(string, ...metric.MeterOption) metric.Meter { return meter{refusing: r} }

type meter struct {
	noop.Meter
	refusing refusing
}

func (m meter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, m.refusing.counter
}

func (m meter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return noop.Int64UpDownCounter{}, m.refusing.upDown
}

func (m meter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, m.refusing.histogram
}

func TestInstrumentsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]refusing{
		"counter": {counter: errRefused}, "up-down counter": {upDown: errRefused}, "histogram": {histogram: errRefused},
	} {
		if _, err := mcpotel.New(mcpotel.WithMeterProvider(p)); !errors.Is(err, errRefused) {
			t.Errorf("%s: New returned %v, want the provider's error", name, err)
		}
	}
}
