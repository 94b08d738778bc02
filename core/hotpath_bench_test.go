// Benchmarks of the hot paths that one stream alone does not show: many streams at
// a time, and one beside many that must not matter. bench/micro compares them with
// the accepted figures.

package core_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// crowd is a Conn of many streams that tells when all of them have flushed.
type crowd struct{ awaited *sync.WaitGroup }

func (crowd) WriteMessage([]byte) error { return nil }
func (crowd) WriteKeepAlive() error     { return nil }
func (c crowd) Flush() error            { c.awaited.Done(); return nil }

// openCrowd opens n streams, whose acknowledgments are then flushed. The function
// that it returns ends them.
func openCrowd(tb testing.TB, hub *core.Hub, n int, filter, principal func(i int) string) (awaited *sync.WaitGroup, end func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	awaited = new(sync.WaitGroup)
	awaited.Add(n)
	var serving sync.WaitGroup
	for i := range n {
		sub, err := hub.Open(ctx, core.Opening{
			Request: request(tb, hub, strconv.Itoa(i), filter(i)), Principal: principal(i),
			Connect: func() (core.Conn, error) { return crowd{awaited}, nil },
		})
		if err != nil {
			tb.Fatal(err)
		}
		serving.Go(func() { sub.Serve() })
	}
	awaited.Wait()
	return awaited, func() { cancel(); serving.Wait() }
}

func nobody(int) string { return "" }

// BenchmarkDeliverToAll is one change until n streams have flushed it: nothing is
// allocated however many they are.
func BenchmarkDeliverToAll(b *testing.B) {
	for _, test := range []struct {
		name   string
		filter string
		change []core.Change
	}{
		{"list", allLists, []core.Change{core.ToolsListChanged()}},
		{"URI", uriFilter("file:///a"), []core.Change{core.ResourceUpdated("file:///a")}},
	} {
		for _, n := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/streams=%d", test.name, n), func(b *testing.B) {
				hub := newHub(b, core.Config{KeepAlive: -1})
				awaited, end := openCrowd(b, hub, n, func(int) string { return test.filter }, nobody)
				defer end()
				ctx := context.Background()
				deliver := func() {
					awaited.Add(n)
					_ = hub.Publish(ctx, test.change...)
					awaited.Wait()
				}
				deliver() // the pools are filled
				b.ReportAllocs()
				for b.Loop() {
					deliver()
				}
			})
		}
	}
}

// BenchmarkPublishToNobody is a change that nobody wants.
func BenchmarkPublishToNobody(b *testing.B) {
	for name, matcher := range map[string]core.Matcher{"exact": nil, "sub-resources": core.SubResources{}} {
		b.Run(name, func(b *testing.B) {
			hub := newHub(b, core.Config{KeepAlive: -1, Matcher: matcher})
			_, end := openCrowd(b, hub, 100, ownURI, nobody)
			defer end()
			ctx, changes := context.Background(), []core.Change{core.ResourceUpdated("file:///one/and/only")}
			b.ReportAllocs()
			for b.Loop() {
				_ = hub.Publish(ctx, changes...)
			}
		})
	}
}

func ownURI(i int) string { return uriFilter("file:///" + strconv.Itoa(i)) }
func lists(int) string    { return allLists }

// others is how many streams BenchmarkBeside has beside the one that it is about.
const others = 10_000

// BenchmarkBeside is what is done with others open, compared with the same on a hub
// that has nothing else open. The two take turns, so that whatever else the machine
// does meets both; the ratio is that of their medians.
func BenchmarkBeside(b *testing.B) {
	ctx := context.Background()
	await := func(b *testing.B, hub *core.Hub, filter func(int) string, principal string, publish func()) (do, end func()) {
		awaited, end := openCrowd(b, hub, 1, filter, func(int) string { return principal })
		return func() {
			awaited.Add(1)
			publish()
			awaited.Wait()
		}, end
	}
	for _, test := range []struct {
		name    string
		matcher core.Matcher
		filter  func(i int) string // of the others
		what    func(b *testing.B, hub *core.Hub) (do, end func())
	}{
		{"one listener", nil, ownURI, func(b *testing.B, hub *core.Hub) (do, end func()) {
			changes := []core.Change{core.ResourceUpdated("file:///one")}
			return await(b, hub, func(int) string { return uriFilter("file:///one") }, "", func() { _ = hub.Publish(ctx, changes...) })
		}},
		{"one listener with sub-resources", core.SubResources{}, ownURI, func(b *testing.B, hub *core.Hub) (do, end func()) {
			changes := []core.Change{core.ResourceUpdated("file:///one/of/them")}
			return await(b, hub, func(int) string { return uriFilter("file:///one") }, "", func() { _ = hub.Publish(ctx, changes...) })
		}},
		{"one of an audience", nil, lists, func(b *testing.B, hub *core.Hub) (do, end func()) {
			alice, changes := core.Principals("alice"), []core.Change{core.ToolsListChanged()}
			return await(b, hub, lists, "alice", func() { _ = hub.PublishTo(ctx, alice, changes...) })
		}},
		{"nobody", nil, ownURI, func(_ *testing.B, hub *core.Hub) (do, end func()) {
			changes := []core.Change{core.ResourceUpdated("file:///one")}
			return func() { _ = hub.Publish(ctx, changes...) }, func() {}
		}},
		{"opening", nil, func(int) string { return listAndURI }, func(b *testing.B, hub *core.Hub) (do, end func()) {
			req := request(b, hub, "1", listAndURI)
			return func() {
				ctx, cancel := context.WithCancel(ctx)
				sub, err := hub.Open(ctx, core.Opening{Request: req, Connect: func() (core.Conn, error) { return silent{}, nil }})
				if err != nil {
					b.Fatal(err)
				}
				cancel()
				sub.Serve()
			}, func() {}
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			var do [2]func()
			var ends []func()
			defer func() {
				for _, end := range ends {
					end()
				}
			}()
			for i, n := range []int{0, others} {
				hub := newHub(b, core.Config{MaxStreams: n + 1, KeepAlive: -1, Matcher: test.matcher})
				_, end := openCrowd(b, hub, n, test.filter, func(i int) string { return "other/" + strconv.Itoa(i) })
				one, endOne := test.what(b, hub)
				ends = append(ends, end, endOne)
				do[i] = one
			}
			b.ReportMetric(compareTurns(b, do), "beside/alone")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// turn is how often the one of the two is done before it is the other one's turn.
const turn = 20

// compareTurns returns the ratio of the medians of the second's turns and the first's.
func compareTurns(b *testing.B, do [2]func()) float64 {
	b.Helper()
	took := [2][]time.Duration{make([]time.Duration, 0, 1<<16), make([]time.Duration, 0, 1<<16)}
	b.ReportAllocs()
	for b.Loop() {
		for i := range do {
			start := time.Now()
			for range turn {
				do[i]()
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2])
	}
	return median(took[1]) / median(took[0])
}

// silent is a Conn that tells nobody.
type silent struct{}

func (silent) WriteMessage([]byte) error { return nil }
func (silent) WriteKeepAlive() error     { return nil }
func (silent) Flush() error              { return nil }

// stuck is a Conn whose flushes after the first wait for its gate.
type stuck struct {
	flushes int
	inside  chan struct{}
	gate    chan struct{}
}

func (*stuck) WriteMessage([]byte) error { return nil }
func (*stuck) WriteKeepAlive() error     { return nil }
func (s *stuck) Flush() error {
	if s.flushes++; s.flushes == 2 {
		close(s.inside)
		<-s.gate
	}
	return nil
}

// BenchmarkCoalesce is a change that is pending already, for a client that does not
// read.
func BenchmarkCoalesce(b *testing.B) {
	for _, test := range deliveries {
		b.Run(test.name, func(b *testing.B) {
			hub := newHub(b, core.Config{KeepAlive: -1, Matcher: test.matcher})
			ctx, cancel := context.WithCancel(context.Background())
			conn := &stuck{inside: make(chan struct{}), gate: make(chan struct{})}
			sub, err := hub.Open(ctx, core.Opening{
				Request: request(b, hub, "1", test.filter), Connect: func() (core.Conn, error) { return conn, nil },
			})
			if err != nil {
				b.Fatal(err)
			}
			var serving sync.WaitGroup
			serving.Go(func() { sub.Serve() })
			_ = hub.Publish(ctx, test.changes...)
			<-conn.inside
			b.ReportAllocs()
			for b.Loop() {
				_ = hub.Publish(ctx, test.changes...)
			}
			cancel()
			close(conn.gate)
			serving.Wait()
		})
	}
}

// ticking is a Conn that tells of each flush while anybody listens.
type ticking struct {
	each chan struct{}
	over <-chan struct{}
}

func (ticking) WriteMessage([]byte) error { return nil }
func (ticking) WriteKeepAlive() error     { return nil }
func (t ticking) Flush() error {
	select {
	case t.each <- struct{}{}:
	case <-t.over:
	}
	return nil
}

// BenchmarkKeepAlive is a sign of life. Its time is that of the waiting.
func BenchmarkKeepAlive(b *testing.B) {
	hub := newHub(b, core.Config{KeepAlive: 100 * time.Microsecond})
	ctx, cancel := context.WithCancel(context.Background())
	conn := ticking{make(chan struct{}, 1), ctx.Done()}
	sub, err := hub.Open(ctx, core.Opening{
		Request: request(b, hub, "1", allLists), Connect: func() (core.Conn, error) { return conn, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { sub.Serve() })
	b.ReportAllocs()
	for b.Loop() {
		<-conn.each
	}
	cancel()
	serving.Wait()
}

// takenBroker takes what it is sent, and tells.
type takenBroker struct{ sent chan struct{} }

func (t takenBroker) Send(context.Context, []byte) error { t.sent <- struct{}{}; return nil }
func (takenBroker) Receive(ctx context.Context, to core.BrokerReceiver) error {
	to.Connected()
	<-ctx.Done()
	return ctx.Err()
}

// BenchmarkTellOthers is a change until the broker has it.
func BenchmarkTellOthers(b *testing.B) {
	broker := takenBroker{make(chan struct{}, 1)}
	hub := newHub(b, core.Config{Broker: broker})
	defer stopNow(hub)
	ctx, changes := context.Background(), []core.Change{core.ResourceUpdated("https://example.com/orders/4711")}
	<-broker.sent // the greeting
	b.ReportAllocs()
	for b.Loop() {
		_ = hub.Publish(ctx, changes...)
		<-broker.sent
	}
}
