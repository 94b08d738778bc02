// Benchmarks: what a publish and a delivery cost in the engine alone.

package core_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/mcplisten/mcplisten/core"
)

// sink is a Conn that counts flushes and keeps nothing.
type sink struct {
	flushed *atomic.Int64
	each    chan struct{} // where not nil, gets one value for each flush
}

func (sink) WriteMessage([]byte) error { return nil }
func (sink) WriteKeepAlive() error     { return nil }
func (s sink) Flush() error {
	s.flushed.Add(1)
	if s.each != nil {
		s.each <- struct{}{}
	}
	return nil
}

// openSinks opens n streams on sinks. The function that it returns ends them.
func openSinks(tb testing.TB, hub *core.Hub, n int, filter func(i int) string) (flushed *atomic.Int64, end func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	flushed = new(atomic.Int64)
	done := make(chan struct{}, n)
	for i := range n {
		sub, err := hub.Open(ctx, core.Opening{
			Request: requestAs(tb, hub, strconv.Itoa(i), jobsMeta, filter(i)),
			Connect: func() (core.Conn, error) { return sink{flushed: flushed}, nil },
		})
		if err != nil {
			tb.Fatal(err)
		}
		go func() { sub.Serve(); done <- struct{}{} }()
	}
	return flushed, func() {
		cancel()
		for range n {
			<-done
		}
	}
}

// openSink opens one stream whose flushes come over the channel.
func openSink(tb testing.TB, hub *core.Hub, filter string) (each chan struct{}, end func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	each = make(chan struct{}, 1)
	sub, err := hub.Open(ctx, core.Opening{
		Request: requestAs(tb, hub, `"bench"`, jobsMeta, filter),
		Connect: func() (core.Conn, error) { return sink{new(atomic.Int64), each}, nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	<-each
	done := make(chan struct{})
	go func() { sub.Serve(); close(done) }()
	return each, func() { cancel(); <-done }
}

// deliveries are the kinds of batch whose cost is measured.
var deliveries = []struct {
	name, filter string
	matcher      core.Matcher
	changes      []core.Change
	publish      float64 // allocations of a publish, whoever is told: a Matcher has its functions
}{
	{"list", allLists, nil, []core.Change{core.ToolsListChanged()}, 0},
	{"URI", uriFilter("file:///a", "file:///b"), nil, []core.Change{core.ResourceUpdated("file:///b")}, 0},
	{"URI of 1000", uriFilter(names(1000)...), nil, []core.Change{core.ResourceUpdated("file:///0999")}, 0},
	{"value", jobFilter("a", "b"), nil, []core.Change{job("b", 1)}, publishedValue},
	{"value of 1000", jobFilter(names(1000)...), nil, []core.Change{job("file:///0999", 1)}, publishedValue},
	{"URI with sub-resources", uriFilter("file:///a"), core.SubResources{}, []core.Change{core.ResourceUpdated("file:///a")}, 3},
}

// publishedValue is what encoding a value takes: it is encoded once, for all. Its
// delivery adds nothing.
const publishedValue = 12

// TestADeliveryAllocatesNothing: a publish and what one stream does about it,
// without an observer.
func TestADeliveryAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget, which allocates")
	}
	for _, test := range deliveries {
		t.Run(test.name, func(t *testing.T) {
			hub := withJobs(t, core.Config{Matcher: test.matcher})
			each, end := openSink(t, hub, test.filter)
			defer end()
			ctx := context.Background()
			deliver := func() {
				if err := hub.Publish(ctx, test.changes...); err != nil {
					t.Error(err)
				}
				<-each
			}
			for range 100 {
				deliver()
			}
			if got := testing.AllocsPerRun(1000, deliver); got > test.publish {
				t.Errorf("%v allocations for each publish and delivery, want %v", got, test.publish)
			}
		})
	}
}

func BenchmarkDelivery(b *testing.B) {
	for _, test := range deliveries {
		b.Run(test.name, func(b *testing.B) {
			hub := withJobs(b, core.Config{Matcher: test.matcher})
			each, end := openSink(b, hub, test.filter)
			defer end()
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_ = hub.Publish(ctx, test.changes...)
				<-each
			}
		})
	}
}

// BenchmarkPublish is the caller's time for one change that n streams want.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("interested=%d", n), func(b *testing.B) {
			hub := newHub(b, core.Config{MaxStreams: n, KeepAlive: -1})
			flushed, end := openSinks(b, hub, n, func(int) string { return allLists })
			defer end()
			ctx, changes := context.Background(), []core.Change{core.ToolsListChanged()}
			b.ReportAllocs()
			for b.Loop() {
				_ = hub.Publish(ctx, changes...)
			}
			b.ReportMetric(float64(flushed.Load())/float64(b.N), "flushes/op")
		})
	}
}

// BenchmarkPublishUninteresting is a change that one stream wants, beside n that
// do not: its cost must not follow n.
func BenchmarkPublishUninteresting(b *testing.B) {
	for _, n := range []int{0, 100, 10_000} {
		b.Run(fmt.Sprintf("others=%d", n), func(b *testing.B) {
			hub := newHub(b, core.Config{MaxStreams: n + 1, KeepAlive: -1})
			_, end := openSinks(b, hub, n, func(i int) string { return uriFilter("file:///" + strconv.Itoa(i)) })
			defer end()
			each, endOne := openSink(b, hub, uriFilter("file:///one"))
			defer endOne()
			ctx, changes := context.Background(), []core.Change{core.ResourceUpdated("file:///one")}
			b.ReportAllocs()
			for b.Loop() {
				_ = hub.Publish(ctx, changes...)
				<-each
			}
		})
	}
}

// BenchmarkOpen is a stream's whole life in the engine, beside n others.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("others=%d", n), func(b *testing.B) {
			hub := newHub(b, core.Config{MaxStreams: n + 1})
			_, end := openSinks(b, hub, n, func(int) string { return listAndURI })
			defer end()
			req := request(b, hub, "1", listAndURI)
			conn := sink{flushed: new(atomic.Int64)}
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(context.Background())
				sub, err := hub.Open(ctx, core.Opening{Request: req, Connect: func() (core.Conn, error) { return conn, nil }})
				if err != nil {
					b.Fatal(err)
				}
				cancel()
				sub.Serve()
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	hub := newHub(b, core.Config{})
	for name, text := range map[string]string{"lists": listenText("1", validMeta, allLists), "100 URIs": listenText("1", validMeta, uriFilter(names(100)...))} {
		b.Run(name, func(b *testing.B) {
			data := []byte(text)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				msg, err := core.ParseMessage(data, core.Limits{})
				if err != nil {
					b.Fatal(err)
				}
				meta, err := msg.Meta()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := hub.ParseListen(msg, meta); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
