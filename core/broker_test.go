// Several nodes: hubs on a bus that can lose its nodes, hang, lie and forget.
// Whatever it does, every stream hears of every change in the end, and nobody
// waits for it.

package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// bus is the broker of the tests. It delivers within Send.
type bus struct {
	mu    sync.Mutex
	nodes []*busNode
	sent  [][]byte // what was taken
	lose  bool     // take messages and deliver none
}

// busNode is one node's way to the bus.
type busNode struct {
	bus *bus

	mu        sync.Mutex // guards what follows, and calls of to
	to        core.BrokerReceiver
	away      bool
	sendHook  func(msg []byte) error // before a Send; its error is the Send's
	afterSend func() error           // after a delivery: its error is the Send's all the same
	sends     int
	stop      chan error // ends Receive
}

func (b *bus) node() *busNode {
	n := &busNode{bus: b, stop: make(chan error)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes = append(b.nodes, n)
	return n
}

func (b *bus) setLose(lose bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lose = lose
}

// took returns how many messages but beats were taken.
func (b *bus) took() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, msg := range b.sent {
		if bytes.Contains(msg, []byte(`"kinds"`)) || bytes.Contains(msg, []byte(`"uris"`)) || bytes.Contains(msg, []byte(`"all"`)) {
			n++
		}
	}
	return n
}

var errAway = errors.New("the broker is away")

func (n *busNode) Send(_ context.Context, msg []byte) error {
	n.mu.Lock()
	hook, after, away := n.sendHook, n.afterSend, n.away
	n.sends++
	n.mu.Unlock()
	if away {
		return errAway
	}
	if hook != nil {
		if err := hook(msg); err != nil {
			return err
		}
	}
	n.bus.deliver(msg)
	if after != nil {
		return after()
	}
	return nil
}

func (b *bus) deliver(msg []byte) {
	b.mu.Lock()
	b.sent = append(b.sent, bytes.Clone(msg))
	nodes, lose := slices.Clone(b.nodes), b.lose
	b.mu.Unlock()
	for _, n := range nodes {
		n.mu.Lock()
		if n.to != nil && !n.away && !lose {
			scratch := bytes.Clone(msg)
			n.to.Message(scratch)
			clear(scratch) // it was valid during the call only
		}
		n.mu.Unlock()
	}
}

func (n *busNode) Receive(ctx context.Context, to core.BrokerReceiver) error {
	n.mu.Lock()
	n.to = to
	if !n.away {
		to.Connected()
	}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.to = nil
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-n.stop:
		return err
	}
}

// cut takes the node off the bus, or back on.
func (n *busNode) cut(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away == away {
		return
	}
	n.away = away
	switch {
	case n.to == nil:
	case away:
		n.to.Disconnected()
	default:
		n.to.Connected()
	}
}

func (n *busNode) onSend(before func(msg []byte) error, after func() error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sendHook, n.afterSend = before, after
}

func (n *busNode) attempts() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sends
}

// cluster is hubs on a bus.
type cluster struct {
	*bus
	nodes []*busNode
	hubs  []*core.Hub
}

// newCluster returns hubs that are shut down when the test ends, with their nodes
// back on the bus.
func newCluster(tb testing.TB, size int, config core.Config) *cluster {
	tb.Helper()
	c := &cluster{bus: &bus{}}
	if config.KeepAlive == 0 {
		config.KeepAlive = -1
	}
	for range size {
		n := c.node()
		config.Broker = n
		c.nodes = append(c.nodes, n)
		hub := newHub(tb, config)
		c.hubs = append(c.hubs, hub)
		tb.Cleanup(func() {
			n.onSend(nil, nil)
			n.cut(false)
			if err := hub.Shutdown(context.Background()); err != nil {
				tb.Errorf("Shutdown: %v", err)
			}
		})
	}
	synctest.Wait()
	return c
}

func (c *cluster) stats(node int) core.BrokerStats { return *c.hubs[node].Stats().Broker }

// wantTold checks the notifications that a stream got since the last take, without
// the acknowledgment and flushes, in any order and each as often as it came.
func wantTold(tb testing.TB, s *stream, who string, want ...string) {
	tb.Helper()
	compareTold(tb, s.told(), who, want)
}

// wantToldOf is wantTold where it is left to chance how often each of them came.
func wantToldOf(tb testing.TB, s *stream, who string, want ...string) {
	tb.Helper()
	compareTold(tb, slices.Compact(s.told()), who, want)
}

func compareTold(tb testing.TB, got []string, who string, want []string) {
	tb.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		tb.Errorf("%s was told %q, want %q", who, got, want)
	}
}

// told takes the notifications, sorted.
func (s *stream) told() []string {
	var got []string
	for _, step := range s.take() {
		if step != "flush" && !strings.HasPrefix(step, "ack ") {
			got = append(got, step)
		}
	}
	slices.Sort(got)
	return got
}

const toolsAndA = `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["file:///a"]}`

func TestChangesReachAllNodesOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, core.Config{})
		streams := make([]*stream, 3)
		for i, hub := range c.hubs {
			streams[i] = listen(t, hub, "1", toolsAndA)
		}
		synctest.Wait()
		for i, hub := range c.hubs {
			publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("file:///a"), core.ResourceUpdated("file:///b"))
			synctest.Wait()
			for j, s := range streams {
				wantTold(t, s, fmt.Sprintf("published on %d, the stream on %d", i, j), "tools", "updated file:///a")
			}
		}
		for i := range c.hubs {
			if st := c.stats(i); !st.Connected || st.Sent != 1 || st.Received != 2 || st.Gaps != 0 || st.Ignored != 0 || st.Failed != 0 || st.Unsent != 0 {
				t.Errorf("node %d counts %+v, want one message sent and two received", i, st)
			}
		}
	})
}

func TestAudienceTravels(t *testing.T) {
	t.Parallel()
	const broken = "acme/\xff\xfe" // a principal need not be UTF-8
	names := []string{"acme/alice", broken, "other/bob", ""}
	cases := []struct {
		name string
		to   core.Audience
		want []string
	}{
		{"everybody", core.Audience{}, names},
		{"one", core.Principals("acme/alice"), names[:1]},
		{"one that is not UTF-8", core.Principals(broken), []string{broken}},
		{"several", core.Principals("other/bob", broken, "nobody/there"), []string{broken, "other/bob"}},
		{"a prefix", core.PrincipalPrefix("acme/"), names[:2]},
		{"a prefix that is not UTF-8", core.PrincipalPrefix(broken), []string{broken}},
		{"every name", core.PrincipalPrefix(""), names[:3]},
		{"nobody", core.Principals(), nil},
		{"so many that they need two messages", manyPrincipals("other/bob", "acme/alice"), []string{"acme/alice", "other/bob"}},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 2, core.Config{})
				streams := make(map[string]*stream)
				for i, name := range names {
					streams[name] = listen(t, c.hubs[1], strconv.Itoa(i), allLists, principal(name))
				}
				synctest.Wait()
				if err := c.hubs[0].PublishTo(t.Context(), test.to, core.ToolsListChanged()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for name, s := range streams {
					if slices.Contains(test.want, name) {
						wantTold(t, s, strconv.Quote(name), "tools")
					} else {
						wantTold(t, s, strconv.Quote(name))
					}
				}
			})
		})
	}
}

func manyPrincipals(names ...string) core.Audience {
	for i := range 3000 {
		names = append(names, fmt.Sprintf("n/%020d", i))
	}
	return core.Principals(names...)
}

// TestAudiencesStayApartWhileUnsent: what waits in an outage goes to whom it was
// for, and a publish to nobody takes nobody's away.
func TestAudiencesStayApartWhileUnsent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2, core.Config{})
		alice := listen(t, c.hubs[1], "1", allLists, principal("alice"))
		bob := listen(t, c.hubs[1], "2", allLists, principal("bob"))
		c.nodes[0].cut(true)
		for _, to := range []core.Audience{core.Principals(), core.Principals("alice"), core.PrincipalPrefix("al")} {
			if err := c.hubs[0].PublishTo(t.Context(), to, core.PromptsListChanged()); err != nil {
				t.Fatal(err)
			}
		}
		publish(t, c.hubs[0], core.ToolsListChanged())
		synctest.Wait()
		if n := c.stats(0).Unsent; n != 3 {
			t.Errorf("%d changes wait, want those to alice, to al and to everybody", n)
		}
		c.nodes[0].cut(false)
		synctest.Wait()
		wantToldOf(t, alice, "alice", "prompts", "tools")
		wantToldOf(t, bob, "bob", "tools")
	})
}

// TestABrokerHoldsUpNobody: with a Send that hangs, publishing returns and local
// streams are told, all without a moment of time.
func TestABrokerHoldsUpNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2, core.Config{})
		local, remote := listen(t, c.hubs[0], "1", toolsAndA), listen(t, c.hubs[1], "1", toolsAndA)
		release := make(chan struct{})
		c.nodes[0].onSend(func([]byte) error { <-release; return nil }, nil)
		start := time.Now()
		for i := range 100 {
			publish(t, c.hubs[0], core.ToolsListChanged())
			synctest.Wait()
			wantTold(t, local, fmt.Sprintf("after publish %d, the local stream", i), "tools")
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("with a broker that hangs, 100 publishes took %v", d)
		}
		wantTold(t, remote, "the other node's stream")
		close(release)
		synctest.Wait()
		wantToldOf(t, remote, "the other node's stream", "tools")
		if n := c.took(); n != 2 {
			t.Errorf("%d messages came of it, want the one on its way and one for the other 99", n)
		}
	})
}

// TestUnconfirmedIsSentAgain: what a Send failed for is sent again, whether or not
// it got there.
func TestUnconfirmedIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, delivered := range []bool{false, true} {
		t.Run(fmt.Sprintf("delivered=%v", delivered), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 2, core.Config{})
				s := listen(t, c.hubs[1], "1", toolsAndA)
				failures := 3
				fail := func() error {
					if failures--; failures >= 0 {
						return errBroken
					}
					return nil
				}
				if delivered {
					c.nodes[0].onSend(nil, fail)
				} else {
					c.nodes[0].onSend(func([]byte) error { return fail() }, nil)
				}
				publish(t, c.hubs[0], core.ToolsListChanged())
				synctest.Wait()
				if n := c.stats(0).Unsent; n != 1 {
					t.Errorf("%d changes wait after a failed Send, want 1", n)
				}
				advance(time.Second + time.Second/2)
				if delivered {
					wantTold(t, s, "the other node's stream", "tools", "tools", "tools", "tools")
				} else {
					wantTold(t, s, "the other node's stream", "tools")
				}
				if st := c.stats(0); st.Unsent != 0 || st.Failed != 3 || st.Sent != 1 {
					t.Errorf("counts are %+v, want 3 failures, then sent", st)
				}
				if st := c.stats(1); st.Gaps != 0 {
					t.Errorf("sending again looked like %d gaps to the other node", st.Gaps)
				}
			})
		})
	}
}

// TestPublishedDuringItsOwnSend: a change that comes while the same change is being
// sent is another one, and is sent as well.
func TestPublishedDuringItsOwnSend(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, errBroken} {
		t.Run(fmt.Sprintf("first=%v", err), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 2, core.Config{})
				s := listen(t, c.hubs[1], "1", toolsAndA)
				release, first := make(chan struct{}), true
				c.nodes[0].onSend(nil, func() error {
					if !first {
						return nil
					}
					first = false
					<-release
					return err
				})
				publish(t, c.hubs[0], core.ToolsListChanged())
				synctest.Wait()
				wantTold(t, s, "while Send has not returned, the stream", "tools")
				publish(t, c.hubs[0], core.ToolsListChanged())
				synctest.Wait()
				wantTold(t, s, "while Send has not returned, the stream")
				close(release)
				advance(time.Second)
				wantTold(t, s, "after Send returned, the stream", "tools")
			})
		})
	}
}

// TestOutageKeepsASet: a thousand publishes of three things in an outage are three
// changes afterwards, and one message.
func TestOutageKeepsASet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2, core.Config{Observer: &tracingObserver{}})
		s := listen(t, c.hubs[1], "1", toolsAndA)
		c.nodes[0].cut(true)
		publish(t, c.hubs[0], core.ToolsListChanged())
		synctest.Wait()
		for range 1000 {
			publish(t, c.hubs[0], core.ToolsListChanged(), core.PromptsListChanged(), core.ResourceUpdated("file:///a"))
			advance(10 * time.Millisecond)
		}
		if n := c.stats(0).Unsent; n != 3 {
			t.Errorf("%d changes wait, want 3", n)
		}
		for i := range 50 {
			publish(t, c.hubs[0], core.ResourceUpdated("file:///b"+strconv.Itoa(i))) // each with an origin of its own
		}
		before := c.took()
		c.nodes[0].cut(false)
		synctest.Wait()
		wantTold(t, s, "after the outage, the stream", "tools", "prompts", "updated file:///a")
		if n := c.took() - before; n != 1 {
			t.Errorf("the outage came to %d messages, want 1", n)
		}
		// 10 s of attempts, at most 7.5 s apart at the end.
		if n := c.nodes[0].attempts(); n < 5 || n > 14 { // a greeting and a beat included
			t.Errorf("%d attempts in an outage of 10 s, want about 7", n)
		}
	})
}

// TestAPublisherCutOffAlone: its own streams may have missed something, those of
// others only what it published.
func TestAPublisherCutOffAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, core.Config{GapSpread: 2 * time.Second})
		streams := make([]*stream, 3)
		for i, hub := range c.hubs {
			streams[i] = listen(t, hub, "1", toolsAndA)
		}
		c.nodes[0].cut(true)
		publish(t, c.hubs[0], core.ToolsListChanged())
		publish(t, c.hubs[1], core.ResourceUpdated("file:///a"))
		advance(time.Minute)
		wantTold(t, streams[0], "cut off, node 0's stream", "tools")
		wantTold(t, streams[1], "meanwhile, node 1's stream", "updated file:///a")
		wantTold(t, streams[2], "meanwhile, node 2's stream", "updated file:///a")
		c.nodes[0].cut(false)
		advance(time.Minute) // nor does a beat look like another gap
		wantTold(t, streams[0], "back, node 0's stream", "tools", "prompts", "updated file:///a")
		wantTold(t, streams[1], "then, node 1's stream", "tools")
		wantTold(t, streams[2], "then, node 2's stream", "tools")
	})
}

// TestAGapIsClosedOverItsSpread: after a gap, all streams of the node are told
// everything of their filters, one after another.
func TestAGapIsClosedOverItsSpread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2, core.Config{GapSpread: 4 * time.Second})
		streams := make([]*stream, 101)
		for i := range streams {
			streams[i] = listen(t, c.hubs[1], strconv.Itoa(i), toolsAndA)
		}
		other := listen(t, c.hubs[0], "1", toolsAndA)
		synctest.Wait()
		c.nodes[1].cut(true)
		publish(t, c.hubs[0], core.ToolsListChanged())
		advance(time.Second)
		if c.stats(1).Connected || !c.stats(0).Connected {
			t.Error("Connected is not what it should be with node 1 away")
		}
		c.nodes[1].cut(false)
		for i, want := range []int{0, 1, 26, 51, 76, 101, 101} {
			synctest.Wait()
			told := 0
			for _, s := range streams {
				if slices.Contains(s.all(), "prompts") {
					told++
				}
			}
			if told != want {
				t.Errorf("%d streams were told, want %d", told, want)
			}
			if i == 0 {
				advance(time.Second / 2) // until all nodes have said what they sent
			} else {
				advance(875 * time.Millisecond)
			}
		}
		for _, s := range streams {
			wantTold(t, s, "a stream", "tools", "prompts", "updated file:///a")
		}
		wantTold(t, other, "the other node's stream", "tools")
		if st := c.stats(1); st.Gaps != 1 || !st.Connected {
			t.Errorf("counts are %+v, want one gap", st)
		}
	})
}

// TestFirstConnect: a stream that opened before the broker was there may have
// missed something; one that opened after it has not, and without streams there is
// no gap.
func TestFirstConnect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &bus{}
		n := b.node()
		n.cut(true)
		hub := newHub(t, core.Config{Broker: n, KeepAlive: -1})
		defer shutdown(t, hub)
		early := listen(t, hub, "1", toolsAndA)
		defer early.close()
		synctest.Wait()
		wantTold(t, early, "without a broker, the stream")
		n.cut(false)
		advance(core.DefaultGapSpread)
		late := listen(t, hub, "2", toolsAndA)
		defer late.close()
		advance(core.DefaultGapSpread)
		wantTold(t, early, "the stream from before", "tools", "prompts", "updated file:///a")
		wantTold(t, late, "the stream from after")

		empty := newCluster(t, 1, core.Config{})
		if st := empty.stats(0); st.Gaps != 0 || !st.Connected {
			t.Errorf("a hub without streams counts %+v, want no gap", st)
		}
	})
}

// TestWhatTheBrokerLosesIsNoticed: a message that the broker took and lost shows
// with the next one, or else with the next beat.
func TestWhatTheBrokerLosesIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, core.Config{GapSpread: -1})
		s := listen(t, c.hubs[1], "1", toolsAndA)
		publish(t, c.hubs[0], core.ToolsListChanged())
		synctest.Wait()
		wantTold(t, s, "the stream", "tools")

		c.setLose(true)
		publish(t, c.hubs[0], core.ToolsListChanged())
		synctest.Wait()
		c.setLose(false)
		publish(t, c.hubs[2], core.PromptsListChanged()) // another node's says nothing about it
		synctest.Wait()
		wantTold(t, s, "the stream", "prompts")
		publish(t, c.hubs[0], core.PromptsListChanged())
		synctest.Wait()
		got := s.take()
		for _, want := range []string{"tools", "prompts", "updated file:///a"} {
			if !slices.Contains(got, want) {
				t.Errorf("after a loss, the stream was told %q, want everything", got)
			}
		}

		c.setLose(true)
		publish(t, c.hubs[0], core.ToolsListChanged())
		synctest.Wait()
		c.setLose(false)
		advance(11 * time.Second)
		wantTold(t, s, "after a loss and a beat, the stream", "tools", "prompts", "updated file:///a")
		advance(time.Minute)
		wantTold(t, s, "after a minute of quiet, the stream")
		if n := c.stats(1).Gaps; n != 2 {
			t.Errorf("%d gaps, want 2", n)
		}
	})
}

// TestANodeThatIsHeardLate: what it sent before it was first heard may have been
// for streams that are open here; one that opens later has missed nothing.
func TestANodeThatIsHeardLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, core.Config{GapSpread: time.Second})
		early := listen(t, c.hubs[0], "1", toolsAndA)
		synctest.Wait()
		c.setLose(true) // connected, and yet not to everybody
		n := c.node()
		hub := newHub(t, core.Config{Broker: n, KeepAlive: -1})
		t.Cleanup(func() { shutdown(t, hub) })
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		c.setLose(false)
		wantTold(t, early, "the stream, before the node is heard,")
		advance(15 * time.Second) // a beat
		wantTold(t, early, "the stream, after the node was heard,", "tools", "prompts", "updated file:///a")
		late := listen(t, c.hubs[0], "2", toolsAndA)
		publish(t, hub, core.PromptsListChanged())
		advance(time.Minute)
		wantTold(t, early, "the stream", "prompts")
		wantTold(t, late, "a later stream", "prompts")
	})
}

// TestTooMuchUnsentBecomesEverything: past a number and past a size.
func TestTooMuchUnsentBecomesEverything(t *testing.T) {
	t.Parallel()
	many := make([]core.Change, 10_001)
	for i := range many {
		many[i] = core.ResourceUpdated("file:///" + strconv.Itoa(i))
	}
	long := make([]core.Change, 9000)
	for i := range long {
		long[i] = core.ResourceUpdated("file:///" + strconv.Itoa(i) + strings.Repeat("x", 2000))
	}
	for name, test := range map[string]struct {
		changes []core.Change
		want    int
	}{
		"9,999":             {many[:9999], 9999},
		"10,001":            {many, 1},
		"17 MB of URIs":     {long, 1},
		"14 MB and no more": {long[:7000], 7000},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 2, core.Config{GapSpread: -1})
				s := listen(t, c.hubs[1], "1", toolsAndA)
				c.nodes[0].cut(true)
				for part := range slices.Chunk(test.changes, 100) {
					publish(t, c.hubs[0], part...)
				}
				synctest.Wait()
				if n := c.stats(0).Unsent; n != test.want {
					t.Errorf("%d changes wait, want %d", n, test.want)
				}
				publish(t, c.hubs[0], core.ToolsListChanged())
				c.nodes[0].cut(false)
				synctest.Wait()
				if test.want > 1 {
					wantTold(t, s, "the stream", "tools")
				} else {
					wantTold(t, s, "the stream", "tools", "prompts", "updated file:///a")
				}
				if n := c.stats(0).Unsent; n != 0 {
					t.Errorf("%d changes wait after the outage", n)
				}
			})
		})
	}
}

// TestAMessageTooLargeForTheBroker becomes everything, and holds up no other.
func TestAMessageTooLargeForTheBroker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2, core.Config{GapSpread: -1})
		s := listen(t, c.hubs[1], "1", toolsAndA)
		c.nodes[0].onSend(func(msg []byte) error {
			if len(msg) > 1000 {
				return fmt.Errorf("no: %w", core.ErrMessageTooLarge)
			}
			return nil
		}, nil)
		publish(t, c.hubs[0], core.ResourceUpdated("file:///"+strings.Repeat("x", 1500)))
		synctest.Wait()
		wantTold(t, s, "the stream", "tools", "prompts", "updated file:///a")
		c.hubs[0].Cancel(strings.Repeat("p", 1500), idOf(t, "1")) // is dropped
		publish(t, c.hubs[0], core.ToolsListChanged())
		synctest.Wait()
		wantTold(t, s, "the stream", "tools")
		if st := c.stats(0); st.Unsent != 0 {
			t.Errorf("counts are %+v, want nothing unsent", st)
		}
	})
}

// TestLongURIs: one that no filter may have concerns nobody, unless a Matcher may
// find that something covers it.
func TestLongURIs(t *testing.T) {
	t.Parallel()
	long := "file:///a/" + strings.Repeat("x", 3000)
	for name, matcher := range map[string]core.Matcher{"exact": nil, "sub-resources": core.SubResources{}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 2, core.Config{Matcher: matcher, GapSpread: -1})
				s := listen(t, c.hubs[1], "1", toolsAndA)
				publish(t, c.hubs[0], core.ResourceUpdated(long), core.ToolsListChanged())
				synctest.Wait()
				if matcher == nil {
					wantTold(t, s, "the stream", "tools")
				} else {
					wantTold(t, s, "the stream", "tools", "prompts", "updated file:///a")
				}
			})
		})
	}
}

// TestReceivingIsKeptUp: a Receive that returns or panics is called again, and
// then there was a gap.
func TestReceivingIsKeptUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2, core.Config{GapSpread: time.Second})
		s := listen(t, c.hubs[1], "1", toolsAndA)
		synctest.Wait()
		c.nodes[1].stop <- errBroken
		synctest.Wait()
		if c.stats(1).Connected {
			t.Error("connected with nobody receiving")
		}
		publish(t, c.hubs[0], core.ToolsListChanged())
		synctest.Wait()
		wantTold(t, s, "with nobody receiving, the stream")
		advance(10 * time.Second)
		wantTold(t, s, "received again, the stream", "tools", "prompts", "updated file:///a")
	})
}

// panicky is a broker and a BrokerObserver that panics.
type panicky struct{ calls atomic.Int64 }

func (p *panicky) Send(context.Context, []byte) error { p.calls.Add(1); panic("send") }
func (p *panicky) Receive(context.Context, core.BrokerReceiver) error {
	p.calls.Add(1)
	panic("receive")
}

func TestABrokerMayPanic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := new(panicky)
		hub := newHub(t, core.Config{Broker: b, KeepAlive: -1})
		s := listen(t, hub, "1", toolsAndA)
		publish(t, hub, core.ToolsListChanged())
		advance(time.Minute)
		wantTold(t, s, "the stream", "tools")
		if n := b.calls.Load(); n < 20 || n > 60 {
			t.Errorf("%d calls in a minute, want some with a growing wait between them", n)
		}
		s.close()
		if err := hub.Shutdown(t.Context()); !errors.Is(err, core.ErrUnsent) {
			t.Errorf("Shutdown: %v, want ErrUnsent", err)
		}
	})
}

// stubborn is a broker that heeds no context.
type stubborn struct{ release chan struct{} }

func (b stubborn) Send(context.Context, []byte) error { <-b.release; return errBroken }
func (b stubborn) Receive(_ context.Context, to core.BrokerReceiver) error {
	to.Connected()
	<-b.release
	return nil
}

func TestShutdownWithABroker(t *testing.T) {
	t.Parallel()
	t.Run("what is left is sent first", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := newCluster(t, 2, core.Config{})
			s := listen(t, c.hubs[1], "1", toolsAndA)
			c.nodes[0].onSend(func([]byte) error { <-time.After(time.Second); return nil }, nil)
			publish(t, c.hubs[0], core.ToolsListChanged())
			synctest.Wait()
			publish(t, c.hubs[0], core.PromptsListChanged())
			shutdown(t, c.hubs[0])
			synctest.Wait()
			wantTold(t, s, "the other node's stream", "tools", "prompts")
			if err := c.hubs[0].Publish(t.Context(), core.ToolsListChanged()); !errors.Is(err, core.ErrShutdown) {
				t.Errorf("Publish after Shutdown: %v, want ErrShutdown", err)
			}
			shutdown(t, c.hubs[0]) // a second one has nothing to do
		})
	})
	t.Run("what is on its way is waited for", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := newCluster(t, 2, core.Config{})
			failed := false
			c.nodes[0].onSend(func([]byte) error {
				<-time.After(time.Second)
				if !failed {
					failed = true
					return errBroken
				}
				return nil
			}, nil)
			s := listen(t, c.hubs[1], "1", toolsAndA)
			publish(t, c.hubs[0], core.ToolsListChanged())
			synctest.Wait()
			shutdown(t, c.hubs[0])
			synctest.Wait()
			wantTold(t, s, "the other node's stream", "tools")
		})
	})
	t.Run("a broker that comes back in time", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := newCluster(t, 2, core.Config{})
			s := listen(t, c.hubs[1], "1", toolsAndA)
			c.nodes[0].cut(true)
			publish(t, c.hubs[0], core.ToolsListChanged())
			advance(time.Minute)
			time.AfterFunc(3*time.Second, func() { c.nodes[0].cut(false) })
			shutdown(t, c.hubs[0])
			synctest.Wait()
			wantTold(t, s, "the other node's stream", "tools")
		})
	})
	t.Run("a broker that takes messages again", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := newCluster(t, 2, core.Config{})
			c.nodes[0].onSend(func([]byte) error { return errBroken }, nil)
			publish(t, c.hubs[0], core.ToolsListChanged())
			advance(time.Minute)
			c.nodes[0].onSend(nil, nil)
			start := time.Now()
			shutdown(t, c.hubs[0]) // tries at once
			if d := time.Since(start); d != 0 {
				t.Errorf("Shutdown took %v", d)
			}
		})
	})
	t.Run("the broker is away", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := &bus{}
			n := b.node()
			n.cut(true)
			hub := newHub(t, core.Config{Broker: n})
			publish(t, hub, core.ToolsListChanged())
			synctest.Wait()
			start := time.Now()
			if err := hub.Shutdown(t.Context()); !errors.Is(err, core.ErrUnsent) {
				t.Errorf("Shutdown: %v, want ErrUnsent", err)
			}
			if d := time.Since(start); d != 5*time.Second {
				t.Errorf("Shutdown took %v, want 5 s", d)
			}
		})
	})
	t.Run("the broker is away and nothing is left", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := &bus{}
			n := b.node()
			n.cut(true)
			hub := newHub(t, core.Config{Broker: n})
			start := time.Now()
			shutdown(t, hub)
			if d := time.Since(start); d != 0 {
				t.Errorf("Shutdown took %v, want none", d)
			}
		})
	})
	t.Run("no longer than its context", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := &bus{}
			n := b.node()
			n.cut(true)
			hub := newHub(t, core.Config{Broker: n})
			publish(t, hub, core.ToolsListChanged())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if err := hub.Shutdown(ctx); !errors.Is(err, core.ErrUnsent) {
				t.Errorf("Shutdown: %v, want ErrUnsent", err)
			}
			if d := time.Since(start); d != time.Second {
				t.Errorf("Shutdown took %v, want 1 s", d)
			}
		})
	})
	t.Run("a broker that heeds nothing", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := stubborn{make(chan struct{})}
			hub := newHub(t, core.Config{Broker: b})
			publish(t, hub, core.ToolsListChanged())
			synctest.Wait()
			start := time.Now()
			if err := hub.Shutdown(t.Context()); !errors.Is(err, core.ErrUnsent) {
				t.Errorf("Shutdown: %v, want ErrUnsent", err)
			}
			if d := time.Since(start); d > 6*time.Second {
				t.Errorf("Shutdown took %v, want 6 s at most", d)
			}
			close(b.release)
		})
	})
}

// TestPublishRacesShutdown: a publish that comes with the end is either sent or
// says that it was not.
func TestPublishRacesShutdown(t *testing.T) {
	for range 200 {
		bubbleNow(t, func(t *testing.T) {
			c := newCluster(t, 2, core.Config{})
			s := listen(t, c.hubs[1], "1", `{"resourceSubscriptions":["u:0","u:1","u:2","u:3"]}`)
			var done sync.WaitGroup
			var sent [4]bool
			for i := range sent {
				done.Go(func() {
					sent[i] = c.hubs[0].Publish(context.Background(), core.ResourceUpdated("u:"+strconv.Itoa(i))) == nil
				})
			}
			shutdown(t, c.hubs[0])
			done.Wait()
			synctest.Wait()
			var want []string
			for i, ok := range sent {
				if ok {
					want = append(want, "updated u:"+strconv.Itoa(i))
				}
			}
			got := strings.Join(s.take(), " ")
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("Publish returned nil, and the other node was not told of %q: %s", w, got)
				}
			}
		})
	}
}

// bubbleNow is bubble for one of many runs.
func bubbleNow(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestCancelReachesTheNodeOfTheStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, core.Config{})
		alices := listen(t, c.hubs[2], `"\u0061"`, allLists, principal("alice"))
		bobs := listen(t, c.hubs[2], `"a"`, allLists, principal("bob"))
		twice := []*stream{listen(t, c.hubs[1], "7", allLists, principal("bob")), listen(t, c.hubs[1], "7", allLists, principal("bob"))}
		if c.hubs[0].Cancel("alice", idOf(t, `"a"`)) {
			t.Error("Cancel reports a stream here, where there is none")
		}
		c.hubs[0].Cancel("bob", idOf(t, "7")) // names two
		c.hubs[0].Cancel("", idOf(t, "7"))
		synctest.Wait()
		elsewhere := listen(t, c.hubs[2], "7", allLists, principal("bob"))
		if c.hubs[1].Cancel("bob", idOf(t, "7")) { // names two here, and so is no matter of others
			t.Error("Cancel ended one of two")
		}
		synctest.Wait()
		wantEnd(t, alices.wait(), core.ClientClosed, false)
		for name, s := range map[string]*stream{"bob's": bobs, "one of two": twice[0], "another node's": elsewhere, "the other of two": twice[1]} {
			select {
			case <-s.done:
				t.Errorf("the cancellation ended %s stream too", name)
			default:
			}
		}
	})
}

// TestStrangeMessages: what other nodes may send.
func TestStrangeMessages(t *testing.T) {
	t.Parallel()
	const all = "everything"
	uri := func(n int) string { return strings.Repeat("x", n) }
	cases := []struct {
		name, msg string
		want      string // what the stream is told; "" nothing
		ignored   bool
	}{
		{"a list", `{"v":1,"node":"n","kinds":["notifications/tools/list_changed"]}`, "tools", false},
		{"members of tomorrow", `{"v":1,"node":"n","kinds":["notifications/tools/list_changed"],"new":{"a":[1]}}`, "tools", false},
		{"everything", `{"v":1,"node":"n","all":true}`, all, false},
		{"a beat of a node that has sent nothing", `{"v":1,"node":"n"}`, "", false},
		{"a beat of a node that was not heard before", `{"v":1,"node":"n","seq":7}`, all, false},
		{"its first message", `{"v":1,"node":"n","seq":1,"kinds":["notifications/tools/list_changed"]}`, "tools", false},
		{"an unknown kind", `{"v":1,"node":"n","kinds":["notifications/skills/list_changed"]}`, all, false},
		{"a newer version", `{"v":2,"node":"n"}`, all, false},
		{"a newer version with other types", `{"node":{"name":"n"},"kinds":7,"v":2,"uris":{"a":1},"to":"x"}`, all, false},
		{"a newer version's beat", `{"v":2,"node":"n","beat":true}`, "", false},
		{"a newer version's beat after messages", `{"v":2,"node":"n","beat":true,"seq":7}`, all, false},
		{"several publishes", `{"v":1,"node":"n","kinds":["notifications/tools/list_changed"],"then":[{"kinds":[]},{"kinds":[]}]}`, "tools", false},
		{"a bad second publish", `{"v":1,"node":"n","kinds":["notifications/tools/list_changed"],"then":[{"uris":[""]}]}`, "", true},
		{"an audience of a kind that is not known", `{"v":1,"node":"n","to":{"groups":["g"]},"kinds":["notifications/tools/list_changed"]}`, all, false},
		{"others' audience", `{"v":1,"node":"n","to":{"principals":["Ym9i"]},"kinds":["notifications/tools/list_changed"]}`, "", false},
		{"empty", ``, "", true},
		{"no JSON", `tools`, "", true},
		{"half", `{"v":1,"node":"n","kinds":["notifications/tools/list_changed"]`, "", true},
		{"two", `{"v":1,"node":"n","all":true}{"v":1,"node":"n","all":true}`, "", true},
		{"no version", `{"node":"n","all":true}`, "", true},
		{"version 0", `{"v":0,"node":"n","all":true}`, "", true},
		{"no node", `{"v":1,"all":true}`, "", true},
		{"wrong types", `{"v":1,"node":"n","all":1}`, "", true},
		{"an empty URI", `{"v":1,"node":"n","uris":["file:///a",""]}`, "", true},
		{"names that are no base64", `{"v":1,"node":"n","to":{"principals":["*"]},"all":true}`, "", true},
		{"a cancellation without an id", `{"v":1,"node":"n","cancel":{"principal":"Ym9i","id":""}}`, "", true},
		{"a cancellation of nobody", `{"v":1,"node":"n","cancel":{"principal":"","id":"MQ=="}}`, "", false},
		{"too large", `{"v":1,"node":"n","kinds":["notifications/tools/list_changed"],"x":"` + uri(1<<20) + `"}`, "", true},
		{"as large as can be", `{"v":1,"node":"n","kinds":["notifications/tools/list_changed"],"x":"` + uri(1<<20-100) + `"}`, "tools", false},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := new(tracingObserver)
				c := newCluster(t, 1, core.Config{GapSpread: -1, Observer: o})
				s := listen(t, c.hubs[0], "1", toolsAndA)
				synctest.Wait()
				c.deliver([]byte(test.msg))
				synctest.Wait()
				switch test.want {
				case "":
					wantTold(t, s, "the stream")
				case all:
					wantTold(t, s, "the stream", "tools", "prompts", "updated file:///a")
				default:
					wantTold(t, s, "the stream", test.want)
				}
				ignored := uint64(0)
				if test.ignored {
					ignored = 1
				}
				if st := c.stats(0); st.Ignored != ignored || o.ignored.Load() != int64(ignored) {
					t.Errorf("%d messages ignored, %d told, want %d", st.Ignored, o.ignored.Load(), ignored)
				}
			})
		})
	}
}

// tracingObserver observes publishes, deliveries and the broker, and its origins
// travel.
type tracingObserver struct {
	mu        sync.Mutex
	published int
	delivered []string // origins
	gaps      []int
	connected []bool
	ignored   atomic.Int64
	extra     string // makes origins longer
}

type originKey struct{}

func (o *tracingObserver) Accepted(context.Context, core.Accepted) core.StreamObserver {
	return tracingStream{o}
}
func (o *tracingObserver) Refused(context.Context, core.Refused) {}
func (o *tracingObserver) Publishing(ctx context.Context, _ []core.Change) (any, func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.published++
	if from, ok := ctx.Value(originKey{}).(string); ok {
		return "remote " + from, nil
	}
	return "p" + strconv.Itoa(o.published) + o.extra, nil
}
func (o *tracingObserver) BrokerConnected(connected bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.connected = append(o.connected, connected)
}
func (o *tracingObserver) BrokerGap(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gaps = append(o.gaps, n)
}
func (o *tracingObserver) BrokerIgnored()                 { o.ignored.Add(1) }
func (o *tracingObserver) InjectOrigin(origin any) string { return origin.(string) }
func (o *tracingObserver) ExtractOrigin(ctx context.Context, carried string) context.Context {
	return context.WithValue(ctx, originKey{}, carried)
}

type tracingStream struct{ o *tracingObserver }

func (s tracingStream) Acknowledged(error) {}
func (s tracingStream) Delivered(d *core.Delivery) {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	for _, origin := range d.Origins {
		s.o.delivered = append(s.o.delivered, fmt.Sprint(origin.From))
	}
}
func (s tracingStream) KeptAlive(error) {}
func (s tracingStream) Closed(core.End) {}

func TestOriginsTravel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &bus{}
		observers := []*tracingObserver{{}, {}}
		var hubs []*core.Hub
		var nodes []*busNode
		for _, o := range observers {
			nodes = append(nodes, b.node())
			hub := newHub(t, core.Config{Broker: nodes[len(nodes)-1], Observer: o, KeepAlive: -1, GapSpread: -1})
			t.Cleanup(func() { shutdown(t, hub) })
			hubs = append(hubs, hub)
		}
		synctest.Wait()
		listen(t, hubs[1], "1", toolsAndA)
		synctest.Wait()
		take := func() []string {
			o := observers[1]
			o.mu.Lock()
			defer o.mu.Unlock()
			defer func() { o.delivered = nil }()
			return o.delivered
		}
		publish(t, hubs[0], core.ToolsListChanged())
		publish(t, hubs[0], core.PromptsListChanged())
		synctest.Wait()
		if got := take(); !slices.Equal(got, []string{"remote p1", "remote p2"}) {
			t.Errorf("the other node delivered for %q, want both publishes", got)
		}
		observers[0].extra = strings.Repeat("x", 2000) // too long to travel
		publish(t, hubs[0], core.ToolsListChanged())
		synctest.Wait()
		if got := take(); len(got) != 1 || strings.HasPrefix(got[0], "remote") {
			t.Errorf("the other node delivered for %q, want an origin of its own", got)
		}
		nodes[1].cut(true)
		nodes[1].cut(false)
		synctest.Wait()
		o := observers[1]
		o.mu.Lock()
		defer o.mu.Unlock()
		if !slices.Equal(o.gaps, []int{1}) || !slices.Equal(o.connected, []bool{true, false, true}) {
			t.Errorf("the observer was told of gaps %v and connections %v", o.gaps, o.connected)
		}
	})
}

// TestBrokerModel: nodes that publish while the bus cuts them off, fails, delivers
// and says that it did not, takes and loses, in any order. In the end every stream
// has been told of each thing after its last change, and nothing is left unsent.
func TestBrokerModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			bubble(t, func(t *testing.T) { brokerModel(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func brokerModel(t *testing.T, rnd *rand.Rand) {
	const nodes, things = 3, 6
	c := newCluster(t, nodes, core.Config{GapSpread: time.Duration(rnd.IntN(3)) * time.Second})
	type listener struct {
		*stream
		from [things]int // of the steps, where the last change of each thing was published
		node int
	}
	change := func(thing int) (core.Change, string) {
		if thing == 0 {
			return core.ToolsListChanged(), "tools"
		}
		uri := "u:" + strconv.Itoa(thing)
		return core.ResourceUpdated(uri), "updated " + uri
	}
	var listeners []*listener
	var history []string
	note := func(format string, args ...any) { history = append(history, fmt.Sprintf(format, args...)) }
	for step := range 60 {
		node := rnd.IntN(nodes)
		switch rnd.IntN(10) {
		case 0:
			if len(listeners) < 8 {
				l := &listener{node: node}
				l.stream = listen(t, c.hubs[node], strconv.Itoa(step), `{"toolsListChanged":true,"resourceSubscriptions":["u:1","u:2","u:3","u:4","u:5"]}`)
				for i := range l.from {
					l.from[i] = -1
				}
				listeners = append(listeners, l)
				note("open on %d", node)
			}
		case 1:
			away := rnd.IntN(2) == 0
			c.nodes[node].cut(away)
			note("cut %d %v", node, away)
		case 2:
			n := rnd.IntN(3)
			fail := func() error {
				if n--; n >= 0 {
					return errBroken
				}
				return nil
			}
			if rnd.IntN(2) == 0 {
				c.nodes[node].onSend(nil, fail)
			} else {
				c.nodes[node].onSend(func([]byte) error { return fail() }, nil)
			}
			note("fail %d", node)
		case 3:
			lose := rnd.IntN(2) == 0
			c.setLose(lose)
			note("lose %v", lose)
		case 4:
			select {
			case c.nodes[node].stop <- errBroken:
				note("receive ends on %d", node)
			default:
			}
		case 5:
			d := time.Duration(rnd.IntN(3000)) * time.Millisecond
			advance(d)
			note("wait %v", d)
		default:
			thing := rnd.IntN(things)
			what, _ := change(thing)
			for _, l := range listeners {
				l.from[thing] = len(l.all())
			}
			publish(t, c.hubs[node], what)
			note("publish %d on %d", thing, node)
		}
		if rnd.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	c.setLose(false)
	for _, n := range c.nodes {
		n.cut(false)
	}
	advance(30 * time.Second)
	for i, l := range listeners {
		steps := l.all()
		for thing, from := range l.from {
			if _, want := change(thing); from >= 0 && !slices.Contains(steps[from:], want) {
				t.Errorf("stream %d on node %d was not told %q after its last change\n%s\n%q", i, l.node, want, strings.Join(history, "\n"), steps[from:])
			}
		}
	}
	for i := range c.hubs {
		if st := c.stats(i); st.Unsent != 0 || !st.Connected {
			t.Errorf("node %d ends with %+v, want connected and nothing unsent", i, st)
		}
	}
}

// TestACancellationDoesNotComeLate: after an outage it might end another stream that
// has the same id by then.
func TestACancellationDoesNotComeLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2, core.Config{GapSpread: -1})
		synctest.Wait()
		c.nodes[0].cut(true)
		c.hubs[0].Cancel("alice", idOf(t, "1")) // is tried, and not taken
		synctest.Wait()
		c.hubs[0].Cancel("alice", idOf(t, "1")) // comes while the broker is known to be away
		s := listen(t, c.hubs[1], "1", allLists, principal("alice"))
		c.nodes[0].cut(false)
		advance(time.Minute)
		if got := c.hubs[1].Stats().Open; got != 1 {
			t.Fatalf("%d streams are open, want the one that came later", got)
		}
		s.close()
	})
}

// TestASlowBrokerGetsFewMessages, however many traced publishes there are.
func TestASlowBrokerGetsFewMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2, core.Config{GapSpread: -1, Observer: new(tracingObserver)})
		synctest.Wait()
		c.nodes[0].onSend(func([]byte) error { <-time.After(20 * time.Millisecond); return nil }, nil)
		s := listen(t, c.hubs[1], "1", uriFilter("last:"))
		before := c.took()
		for i := range 1000 {
			publish(t, c.hubs[0], core.ResourceUpdated("u:"+strconv.Itoa(i)))
		}
		publish(t, c.hubs[0], core.ResourceUpdated("last:"))
		advance(200 * time.Millisecond)
		wantTold(t, s, "the stream", "updated last:")
		if n := c.took() - before; n > 10 {
			t.Errorf("1,001 publishes became %d messages, want few", n)
		}
		s.close()
	})
}
