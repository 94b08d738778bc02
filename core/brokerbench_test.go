// What a broker costs those who publish and listen on one node: nothing that shows,
// however it fares.

package core_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// hangingBroker takes nothing and refuses nothing, until its context ends.
type hangingBroker struct{}

func (hangingBroker) Send(ctx context.Context, _ []byte) error { <-ctx.Done(); return ctx.Err() }
func (hangingBroker) Receive(ctx context.Context, to core.BrokerReceiver) error {
	to.Connected()
	<-ctx.Done()
	return ctx.Err()
}

// absentBroker is never there.
type absentBroker struct{}

func (absentBroker) Send(context.Context, []byte) error { return errAway }
func (absentBroker) Receive(ctx context.Context, _ core.BrokerReceiver) error {
	<-ctx.Done()
	return ctx.Err()
}

// arrival is a Conn that tells when a batch was flushed.
type arrival struct{ flushed chan time.Time }

func (a *arrival) WriteMessage([]byte) error { return nil }
func (a *arrival) WriteKeepAlive() error     { return nil }
func (a *arrival) Flush() error {
	a.flushed <- time.Now()
	return nil
}

// BenchmarkLocalDeliveryWithABroker measures from Publish to the flush of a stream
// of the same node, in turns with no broker, with one that works, one that hangs and
// one that is away. It reports the medians' ratios to none.
func BenchmarkLocalDeliveryWithABroker(b *testing.B) {
	names := []string{"none", "working", "hanging", "absent"}
	brokers := []core.Broker{nil, new(core.LocalBroker), hangingBroker{}, absentBroker{}}
	hubs, conns := make([]*core.Hub, len(brokers)), make([]*arrival, len(brokers))
	ctx, cancel := context.WithCancel(context.Background())
	for i, broker := range brokers {
		hub, err := core.NewHub(core.Config{Capabilities: everything, Broker: broker, KeepAlive: -1})
		if err != nil {
			b.Fatal(err)
		}
		conn := &arrival{make(chan time.Time, 1)}
		sub, err := hub.Open(ctx, core.Opening{
			Request: request(b, hub, "1", allLists), Connect: func() (core.Conn, error) { return conn, nil },
		})
		if err != nil {
			b.Fatal(err)
		}
		<-conn.flushed // the acknowledgment
		served := make(chan struct{})
		go func() { defer close(served); sub.Serve() }()
		b.Cleanup(func() { <-served; stopNow(hub) })
		hubs[i], conns[i] = hub, conn
	}
	took := make([][]time.Duration, len(brokers))
	for b.Loop() {
		for i, hub := range hubs {
			start := time.Now()
			if err := hub.Publish(ctx, core.ToolsListChanged()); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], (<-conns[i].flushed).Sub(start))
		}
	}
	cancel()
	b.ReportMetric(0, "ns/op")
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2])
	}
	none := median(took[0])
	b.ReportMetric(none, "ns/none")
	for i := 1; i < len(names); i++ {
		b.ReportMetric(median(took[i])/none, names[i]+"/none")
	}
}

// stopNow shuts a hub down whose broker takes nothing.
func stopNow(hub *core.Hub) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = hub.Shutdown(ctx)
}
