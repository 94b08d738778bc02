// Outages: hubs with thousands of streams lose their broker, all of them or one
// alone, and no stream misses a change.

package brokertest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// Load is what an [Outage] test puts on its nodes. The zero value of each field is
// the default.
type Load struct {
	Nodes     int           // 3 by default
	Streams   int           // on all nodes together; 300 by default
	Publishes int           // one after another, on changing nodes; 300 by default
	Away      time.Duration // how long the broker is away at least; 1 s by default
	Alone     bool          // only one node is cut off
	GapSpread time.Duration // as [core.Config] has it; 1 s by default
}

// things is how many things change: the list of tools, and resources.
const things = 21

// perStream is how many of the resources a stream listens to.
const perStream = 5

// Outage publishes on the hubs of several nodes. After a third of the publishes the
// broker goes away, for another third. It fails where in the end a stream has not
// been told of everything that it listens to since that last changed, where a
// publish waits for the broker, or where memory grows.
func Outage(t *testing.T, c Cluster, load Load) {
	o := newOutage(t, c, load)
	defer o.close()
	third := load.publishes() / 3
	o.publish(third, 0)
	o.await("before the outage", func(*listener, int) bool { return true })
	before := o.heap()

	o.away(t)
	o.publish(third, load.away()/time.Duration(third))
	// Nothing above has waited for the broker: it only comes back now.
	o.await("during the outage, of what its own node published", func(l *listener, thing int) bool { return o.publishedOn[thing] == l.node })
	unsent := o.triedInVain()
	during := o.heap()
	start := time.Now()
	o.back(t)
	// Nothing changes now: what was missed is not made up for by the next change.
	o.await("after the outage", func(*listener, int) bool { return true })
	caughtUp := time.Since(start)
	o.publish(third, 0)
	o.await("in the end", func(*listener, int) bool { return true })
	after := o.heap()

	told := uint64(0)
	for _, l := range o.listeners {
		told += l.told.Load()
	}
	const mib = 1 << 20
	t.Logf("%d nodes, %d streams, %d publishes (the slowest took %v), broker away for %v with %d changes unsent at its end; "+
		"everybody caught up %v after it; %d notifications; heap %.1f MiB before, %.1f during, %.1f after",
		len(o.hubs), len(o.listeners), 3*third, o.slowest, load.away(), unsent, caughtUp.Round(time.Millisecond), told,
		before/mib, during/mib, after/mib)
	for i, hub := range o.hubs {
		t.Logf("node %d: %+v", i, *hub.Stats().Broker)
	}
	if most := before*1.2 + 4*mib; during > most || after > most {
		t.Errorf("memory grew from %.1f MiB to %.1f during the outage and %.1f after it", before/mib, during/mib, after/mib)
	}
	if unsent == 0 {
		t.Error("nothing was unsent during the outage: it was none")
	}
}

func (l Load) publishes() int      { return or(l.Publishes, 300) }
func (l Load) away() time.Duration { return or(l.Away, time.Second) }

func or[T int | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}

type outage struct {
	t          *testing.T
	hubs       []*core.Hub
	listeners  []*listener
	away, back func(*testing.T)
	streams    sync.WaitGroup
	end        context.CancelFunc

	clock       atomic.Int64
	round       int
	changedAt   [things]int64 // when each thing was last published
	publishedOn [things]int   // and where
	slowest     time.Duration
}

// listener is a client. It is the Conn of its own subscription.
type listener struct {
	o      *outage
	node   int
	listen [things]bool
	toldAt [things]atomic.Int64
	told   atomic.Uint64
}

func (l *listener) WriteMessage(msg []byte) error {
	if thing, ok := thingOf(msg); ok {
		l.toldAt[thing].Store(l.o.clock.Add(1))
		l.told.Add(1)
	}
	return nil
}
func (l *listener) WriteKeepAlive() error { return nil }
func (l *listener) Flush() error          { return nil }

// thingOf reads a notification.
func thingOf(msg []byte) (int, bool) {
	if bytes.Contains(msg, []byte(`"`+core.MethodToolsListChanged+`"`)) {
		return 0, true
	}
	_, rest, updated := bytes.Cut(msg, []byte(`"uri":"thing:`))
	number, _, ok := bytes.Cut(rest, []byte(`"`))
	thing, err := strconv.Atoi(string(number))
	return thing, updated && ok && err == nil
}

func uriOf(thing int) string { return "thing:" + strconv.Itoa(thing) }

func newOutage(t *testing.T, c Cluster, load Load) *outage {
	t.Helper()
	o := &outage{t: t, away: c.Stop, back: c.Start}
	var nodes []Node
	for range or(load.Nodes, 3) {
		n := c.Node(t, "outage")
		nodes = append(nodes, n)
		hub, err := core.NewHub(core.Config{
			Capabilities: core.Capabilities{ToolsListChanged: true, ResourceSubscriptions: true},
			Broker:       n.Broker, GapSpread: or(load.GapSpread, time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
		o.hubs = append(o.hubs, hub)
	}
	if load.Alone {
		o.away, o.back = nodes[0].Cut, nodes[0].Mend
	}
	if o.away == nil || o.back == nil {
		o.close()
		t.Skip("this broker cannot go away like that")
	}
	eventually(t, "all nodes are connected", func() bool {
		for _, hub := range o.hubs {
			if !hub.Stats().Broker.Connected {
				return false
			}
		}
		return true
	})
	ctx, cancel := context.WithCancel(context.Background())
	o.end = cancel
	for i := range or(load.Streams, 300) {
		o.listen(ctx, i)
	}
	return o
}

// listen opens stream i.
func (o *outage) listen(ctx context.Context, i int) {
	o.t.Helper()
	l := &listener{o: o, node: i % len(o.hubs)}
	l.listen[0] = true
	var uris []string
	for k := range perStream {
		thing := 1 + (i+k*4)%(things-1)
		l.listen[thing] = true
		uris = append(uris, strconv.Quote(uriOf(thing)))
	}
	hub := o.hubs[l.node]
	text := `{"jsonrpc":"2.0","id":` + strconv.Itoa(i) + `,"method":"` + core.MethodListen + `","params":{"_meta":{"` +
		core.MetaProtocolVersion + `":"` + core.ProtocolVersion + `","` + core.MetaClientCapabilities + `":{}},` +
		`"notifications":{"toolsListChanged":true,"resourceSubscriptions":[` + strings.Join(uris, ",") + `]}}}`
	msg, err := core.ParseMessage([]byte(text), hub.Limits())
	if err != nil {
		o.t.Fatal(err)
	}
	meta, err := msg.Meta()
	if err != nil {
		o.t.Fatal(err)
	}
	req, err := hub.ParseListen(msg, meta)
	if err != nil {
		o.t.Fatal(err)
	}
	sub, err := hub.Open(ctx, core.Opening{Request: req, Connect: func() (core.Conn, error) { return l, nil }})
	if err != nil {
		o.t.Fatal(err)
	}
	o.listeners = append(o.listeners, l)
	o.streams.Go(func() { sub.Serve() })
}

// publish publishes n changes, pause apart.
func (o *outage) publish(n int, pause time.Duration) {
	o.t.Helper()
	var tick <-chan time.Time
	if pause > 0 {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		tick = ticker.C
	}
	for range n {
		thing, node := o.round*8%things, (o.round*5+o.round/7)%len(o.hubs)
		o.round++
		o.changedAt[thing], o.publishedOn[thing] = o.clock.Add(1), node
		change := core.ResourceUpdated(uriOf(thing))
		if thing == 0 {
			change = core.ToolsListChanged()
		}
		start := time.Now()
		if err := o.hubs[node].Publish(context.Background(), change); err != nil {
			o.t.Fatalf("Publish: %v", err)
		}
		o.slowest = max(o.slowest, time.Since(start))
		if tick != nil {
			<-tick
		}
	}
}

// await waits until every stream has been told of what it listens to since that
// last changed, as far as it counts.
func (o *outage) await(when string, counts func(l *listener, thing int) bool) {
	o.t.Helper()
	missing := ""
	if !within(2*patience, func() bool {
		for i, l := range o.listeners {
			for thing, at := range o.changedAt {
				if told := l.toldAt[thing].Load(); at != 0 && l.listen[thing] && told <= at && counts(l, thing) {
					missing = fmt.Sprintf("stream %d on node %d was told of thing %d at %d; it changed at %d, on node %d",
						i, l.node, thing, told, at, o.publishedOn[thing])
					return false
				}
			}
		}
		return true
	}) {
		for i, hub := range o.hubs {
			o.t.Logf("node %d: %+v", i, *hub.Stats().Broker)
		}
		o.t.Fatalf("%s: %s", when, missing)
	}
}

// triedInVain waits until every hub that has something unsent has tried once more
// to send all of it, and returns how much that is.
func (o *outage) triedInVain() (unsent int) {
	o.t.Helper()
	before := make([]core.BrokerStats, len(o.hubs))
	for i, hub := range o.hubs {
		before[i] = *hub.Stats().Broker
	}
	for i, hub := range o.hubs {
		eventually(o.t, fmt.Sprintf("node %d tries to send during the outage", i), func() bool {
			return before[i].Unsent == 0 || hub.Stats().Broker.Failed > before[i].Failed
		})
		unsent += hub.Stats().Broker.Unsent
	}
	return unsent
}

// heap returns the bytes in use.
func (o *outage) heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func (o *outage) close() {
	o.t.Helper()
	if o.end != nil {
		o.end()
	}
	o.streams.Wait()
	for _, hub := range o.hubs {
		if err := hub.Shutdown(context.Background()); err != nil {
			o.t.Errorf("Shutdown: %v", err)
		}
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	if !within(patience, so) {
		t.Fatalf("after %v, still not: %s", patience, what)
	}
}

// within reports whether something becomes so within d.
func within(d time.Duration, so func() bool) bool {
	late := time.After(d)
	for !so() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			return false
		}
	}
	return true
}
