// Package brokertest is the contract of [core.Broker] as a test: whoever writes a
// broker runs [Run] on it, and [Outage] to see hubs keep their promise on it.
//
//	func TestContract(t *testing.T) {
//		brokertest.Run(t, func(t *testing.T) brokertest.Cluster {
//			return brokertest.Cluster{Node: func(t *testing.T, endpoint string) brokertest.Node { … }}
//		})
//	}
package brokertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// Cluster is a broker under test, and the nodes on it.
type Cluster struct {
	// Node returns a new node of an endpoint. Nodes of different endpoints share a
	// broker and see nothing of each other. What a node needs is cleaned up with t.
	Node func(t *testing.T, endpoint string) Node

	// Stop takes the broker away from all nodes, and Start brings it back. Where one
	// is nil, the tests of outages are skipped.
	Stop, Start func(t *testing.T)
}

// Node is one node's broker.
type Node struct {
	core.Broker

	// Cut takes the broker away from this node alone, and Mend brings it back. Where
	// one is nil, the tests of it are skipped.
	Cut, Mend func(t *testing.T)
}

// patience is how long a test waits for something to happen.
const patience = 30 * time.Second

// Run tests a broker. start is called for each test and returns a broker that
// nothing else uses, or nodes of endpoints that nothing else uses.
func Run(t *testing.T, start func(t *testing.T) Cluster) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, c Cluster)
	}{
		{"a message reaches every node", reachesEveryNode},
		{"messages keep their order", keepsOrder},
		{"a message may be any bytes and large", anyBytes},
		{"endpoints are apart", endpointsApart},
		{"the caller keeps its slice", slicesAreTheCallers},
		{"connected comes first", connectedFirst},
		{"receiving ends with its context, and starts again", receivesAgain},
		{"nodes send at the same time", sendAtOnce},
		{"sending fails while the broker is away", failsWhileAway},
		{"nothing is lost without a gap", nothingLostSilently},
		{"nothing is lost without a gap where one node is cut off", nothingLostAlone},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, start(t)) })
	}
}

// event is a call of a receiver.
type event struct {
	at   int64  // on the test's clock
	kind string // connected, disconnected or message
	msg  string
}

// receiver records the calls of one node's Receive, and that they do not overlap.
type receiver struct {
	t     *testing.T
	clock *atomic.Int64
	busy  atomic.Bool

	mu     sync.Mutex
	events []event
	more   chan struct{} // closed and replaced at each event
}

func (r *receiver) Connected()         { r.record("connected", nil) }
func (r *receiver) Disconnected()      { r.record("disconnected", nil) }
func (r *receiver) Message(msg []byte) { r.record("message", msg) }

func (r *receiver) record(kind string, msg []byte) {
	if !r.busy.CompareAndSwap(false, true) {
		r.t.Errorf("two calls of one receiver at once, the second %s", kind)
	}
	defer r.busy.Store(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event{r.clock.Add(1), kind, string(msg)})
	close(r.more)
	r.more = make(chan struct{})
}

// await waits until the events are as asked for.
func (r *receiver) await(what string, done func([]event) bool) {
	r.t.Helper()
	late := time.After(patience)
	for {
		r.mu.Lock()
		ok, more, n := done(r.events), r.more, len(r.events)
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-more:
		case <-late:
			r.t.Fatalf("after %v and %d calls of the receiver, still not: %s\n%s", patience, n, what, r.tail())
		}
	}
}

// tail describes the last events.
func (r *receiver) tail() string {
	var b strings.Builder
	events := r.all()
	for _, e := range events[max(0, len(events)-10):] {
		fmt.Fprintf(&b, "%d %s %.40q\n", e.at, e.kind, e.msg)
	}
	return b.String()
}

func (r *receiver) all() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *receiver) messages() (msgs []string) {
	for _, e := range r.all() {
		if e.kind == "message" {
			msgs = append(msgs, e.msg)
		}
	}
	return msgs
}

// count returns how many events are of a kind.
func count(events []event, kind string) (n int) {
	for _, e := range events {
		if e.kind == kind {
			n++
		}
	}
	return n
}

// peer is a node of a test.
type peer struct {
	Node
	*receiver
	stop func() error // ends receiving, and waits for it
}

// world is the nodes of one test, and its clock.
type world struct {
	t     *testing.T
	c     Cluster
	clock atomic.Int64
}

// join starts a node, which receives as a hub does.
func (w *world) join(endpoint string) *peer {
	w.t.Helper()
	p := w.stranger(endpoint)
	w.receive(p)
	p.await("connected", func(e []event) bool { return count(e, "connected") > 0 })
	return p
}

// stranger is a node that does not receive yet.
func (w *world) stranger(endpoint string) *peer {
	return &peer{Node: w.c.Node(w.t, endpoint), receiver: &receiver{t: w.t, clock: &w.clock, more: make(chan struct{})}}
}

func (w *world) receive(p *peer) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var last error
	go func() {
		defer close(done)
		for {
			last = p.Receive(ctx, p.receiver)
			if ctx.Err() != nil {
				return
			}
			p.Disconnected()
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}()
	p.stop = func() error {
		cancel()
		select {
		case <-done:
			return last
		case <-time.After(patience):
			w.t.Fatal("Receive goes on after its context has ended")
			return nil
		}
	}
	w.t.Cleanup(func() { _ = p.stop() })
}

// send sends a message that must be taken.
func (w *world) send(p *peer, msg string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Send(ctx, []byte(msg)); err != nil {
		w.t.Fatalf("Send: %v", err)
	}
}

func has(msgs ...string) func([]event) bool {
	return func(events []event) bool {
		n := 0
		for _, e := range events {
			if n < len(msgs) && e.kind == "message" && e.msg == msgs[n] {
				n++
			}
		}
		return n == len(msgs)
	}
}

func reachesEveryNode(t *testing.T, c Cluster) {
	w := &world{t: t, c: c}
	nodes := []*peer{w.join("e"), w.join("e"), w.join("e")}
	for i, from := range nodes {
		msg := fmt.Sprint("from ", i)
		w.send(from, msg)
		for j, to := range nodes {
			if i != j {
				to.await(fmt.Sprintf("node %d has %q", j, msg), has(msg))
			}
		}
	}
	w.send(w.stranger("e"), "from who does not receive")
	nodes[0].await("a message of a node that does not receive", has("from who does not receive"))
	for i, n := range nodes {
		if e := n.all(); count(e, "connected") != 1 || count(e, "disconnected") != 0 {
			t.Errorf("node %d was connected %d times and disconnected %d times, want once and never", i, count(e, "connected"), count(e, "disconnected"))
		}
	}
}

func keepsOrder(t *testing.T, c Cluster) {
	w := &world{t: t, c: c}
	from, to := w.join("e"), w.join("e")
	msgs := make([]string, 500)
	for i := range msgs {
		msgs[i] = fmt.Sprint("message ", i)
		w.send(from, msgs[i])
	}
	to.await("all messages in order", has(msgs...))
	if got := to.messages(); len(got) != len(msgs) {
		t.Errorf("%d messages came, want %d", len(got), len(msgs))
	}
}

func anyBytes(t *testing.T, c Cluster) {
	w := &world{t: t, c: c}
	from, to := w.join("e"), w.join("e")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	msgs := []string{string(all), strings.Repeat("\r\n", 100), "x", strings.Repeat(string(all), 512<<10/256), "last"}
	for _, msg := range msgs {
		w.send(from, msg)
	}
	to.await("messages of every byte, of line ends and of 512 KiB", has(msgs...))
}

func endpointsApart(t *testing.T, c Cluster) {
	w := &world{t: t, c: c}
	a, b, b2 := w.join("e"), w.join("e2"), w.join("e2")
	w.send(a, "for e")
	w.send(b, "for e2")
	b2.await("the endpoint's own message", has("for e2"))
	w.send(b2, "for e2, too")
	b.await("the endpoint's own message", has("for e2, too"))
	for _, p := range []*peer{b, b2} {
		if slices.Contains(p.messages(), "for e") {
			t.Error("a message of another endpoint came")
		}
	}
}

func slicesAreTheCallers(t *testing.T, c Cluster) {
	w := &world{t: t, c: c}
	from, to := w.join("e"), w.join("e")
	buf := make([]byte, 1000)
	var want []string
	for i := range 50 {
		for j := range buf {
			buf[j] = byte('a' + i%26)
		}
		want = append(want, string(buf))
		if err := from.Send(t.Context(), buf); err != nil {
			t.Fatalf("Send: %v", err)
		}
		clear(buf)
	}
	to.await("messages as they were when they were sent", has(want...))
}

func connectedFirst(t *testing.T, c Cluster) {
	w := &world{t: t, c: c}
	from := w.join("e")
	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				w.send(from, fmt.Sprint("noise ", i))
			}
		}
	})
	for i := range 5 {
		to := w.join("e")
		msg := fmt.Sprint("after connected ", i)
		w.send(w.stranger("e"), msg)
		to.await("what was sent once it was connected", has(msg))
		if first := to.all()[0]; first.kind != "connected" {
			t.Errorf("the first call is %s, want connected", first.kind)
		}
	}
	close(stop)
	sending.Wait()
}

func receivesAgain(t *testing.T, c Cluster) {
	w := &world{t: t, c: c}
	from, to := w.join("e"), w.join("e")
	for i := range 3 {
		if err := to.stop(); err == nil {
			t.Error("Receive returned nil, want an error that says why it ended")
		}
		events := len(to.all())
		w.send(from, fmt.Sprint("missed ", i))
		if n := len(to.all()); n != events {
			t.Error("the receiver was called after Receive returned")
		}
		w.receive(to)
		to.await("connected again", func(e []event) bool { return count(e, "connected") == i+2 })
		msg := fmt.Sprint("again ", i)
		w.send(from, msg)
		to.await(msg, has(msg))
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	done := make(chan struct{})
	go func() { defer close(done); _ = w.stranger("e").Receive(ended, w.stranger("e").receiver) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("Receive with a context that has ended does not return")
	}
}

func sendAtOnce(t *testing.T, c Cluster) {
	w := &world{t: t, c: c}
	const nodes, each = 4, 100
	var peers []*peer
	for range nodes {
		peers = append(peers, w.join("e"))
	}
	var sending sync.WaitGroup
	for i, p := range peers {
		sending.Go(func() {
			for j := range each {
				if err := p.Send(context.Background(), fmt.Appendf(nil, "%d/%d", i, j)); err != nil {
					t.Errorf("Send: %v", err)
					return
				}
			}
		})
	}
	sending.Wait()
	for i, p := range peers {
		for from := range nodes {
			if from == i {
				continue
			}
			var want []string
			for j := range each {
				want = append(want, fmt.Sprintf("%d/%d", from, j))
			}
			p.await(fmt.Sprintf("node %d has all of node %d, in order", i, from), has(want...))
		}
	}
}

func failsWhileAway(t *testing.T, c Cluster) {
	if c.Stop == nil || c.Start == nil {
		t.Skip("this broker cannot be stopped")
	}
	w := &world{t: t, c: c}
	from, to := w.join("e"), w.join("e")
	c.Stop(t)
	to.await("disconnected", func(e []event) bool { return count(e, "disconnected") > 0 })
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		start := time.Now()
		err := from.Send(ctx, []byte("while it is away"))
		if err == nil {
			t.Error("Send returned nil with nobody there")
		}
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("Send took %v, with a context of 1 s", d)
		}
		cancel()
	}
	c.Start(t)
	to.await("connected again", func(e []event) bool { return count(e, "connected") > 1 })
	w.sendInTheEnd(from, "after it")
	to.await("a message after the outage", has("after it"))
}

// sendInTheEnd sends a message again until it is taken.
func (w *world) sendInTheEnd(p *peer, msg string) {
	w.t.Helper()
	late := time.After(patience)
	for {
		err := p.sendOnce(msg)
		if err == nil {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			w.t.Fatalf("after %v, Send still fails: %v", patience, err)
		}
	}
}

func (p *peer) sendOnce(msg string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return p.Send(ctx, []byte(msg))
}

// nothingLostSilently: every message that was taken arrived, or else the receiver
// was told of a gap after it was sent.
func nothingLostSilently(t *testing.T, c Cluster) {
	if c.Stop == nil || c.Start == nil {
		t.Skip("this broker cannot be stopped")
	}
	lossless(t, c, func(func() Node) (func(*testing.T), func(*testing.T)) { return c.Stop, c.Start })
}

func nothingLostAlone(t *testing.T, c Cluster) {
	lossless(t, c, func(node func() Node) (func(*testing.T), func(*testing.T)) { n := node(); return n.Cut, n.Mend })
}

func lossless(t *testing.T, c Cluster, outage func(receiver func() Node) (away, back func(*testing.T))) {
	w := &world{t: t, c: c}
	nodes := []*peer{w.join("e"), w.join("e"), w.join("e")}
	away, back := outage(func() Node { return nodes[0].Node })
	if away == nil || back == nil {
		t.Skip("no node of this broker can be cut off")
	}
	type sent struct {
		from int
		at   int64 // when its Send started
		msg  string
	}
	var mu sync.Mutex
	var taken []sent
	stop := make(chan struct{})
	var sending sync.WaitGroup
	for i, p := range nodes {
		sending.Go(func() {
			for j := 0; ; j++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				s := sent{i, w.clock.Add(1), fmt.Sprintf("%d/%d", i, j)}
				if p.sendOnce(s.msg) == nil {
					mu.Lock()
					taken = append(taken, s)
					mu.Unlock()
				}
			}
		})
	}
	for range 3 {
		w.grow(func() int { mu.Lock(); defer mu.Unlock(); return len(taken) }, 200)
		connected := count(nodes[0].all(), "connected")
		away(t)
		nodes[0].await("disconnected", func(e []event) bool { return len(e) > 0 && lastState(e) == "disconnected" })
		back(t)
		nodes[0].await("connected again", func(e []event) bool { return count(e, "connected") > connected && lastState(e) == "connected" })
	}
	w.grow(func() int { mu.Lock(); defer mu.Unlock(); return len(taken) }, 200)
	close(stop)
	sending.Wait()
	for i, p := range nodes {
		end := fmt.Sprint("the end of ", i)
		w.sendInTheEnd(p, end)
		for _, to := range nodes {
			if to != p {
				to.await(end, has(end))
			}
		}
	}
	for i, to := range nodes {
		events := to.all()
		got, gap := make(map[string]bool), int64(0)
		for _, e := range events {
			got[e.msg] = true
			if e.kind == "connected" {
				gap = e.at
			}
		}
		lost := 0
		for _, s := range taken {
			if s.from == i || got[s.msg] {
				continue
			}
			lost++
			if gap < s.at {
				t.Errorf("node %d did not get %q of %d, which was taken, and was not told of a gap: its last one was at %d", i, s.msg, s.at, gap)
			}
		}
		t.Logf("node %d: %d messages were taken, %d did not arrive, all before a gap", i, len(taken), lost)
	}
}

// lastState returns the last event that is no message.
func lastState(events []event) string {
	for _, e := range slices.Backward(events) {
		if e.kind != "message" {
			return e.kind
		}
	}
	return ""
}

// grow waits until a number has grown.
func (w *world) grow(number func() int, by int) {
	w.t.Helper()
	late := time.After(patience)
	for from := number(); number() < from+by; {
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			w.t.Fatalf("after %v only %d messages of %d more were taken", patience, number()-from, by)
		}
	}
}
