package main

// What the account finds, and what it does not mind.

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

const testBound = 10 * time.Second

// account is a ledger with one stream, and a clock.
type account struct {
	ledger *ledger
	stream *stream
	now    time.Time
}

var (
	toolsAndTopic = core.Filter{ToolsListChanged: true, ResourceSubscriptions: []string{"soak:///r/1"}}
	tools         = core.ToolsListChanged()
	below         = core.ResourceUpdated("soak:///r/1/0")
)

func newAccount(change func(*order)) *account {
	a := &account{ledger: newLedger(testBound), now: time.Now()}
	o := order{name: "test", id: `"7"`, filter: toolsAndTopic, principal: "user/1"}
	if change != nil {
		change(&o)
	}
	a.stream = a.ledger.ask(o, a.now)
	return a
}

func (a *account) acknowledge() {
	a.message(core.MethodAcknowledged, `,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["soak:///r/1"]}`)
}

func (a *account) message(method, more string) {
	a.raw(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%q:"7"}%s}}`, method, core.MetaSubscriptionID, more))
}

func (a *account) tell(c core.Change) {
	more := ""
	if c.URI != "" {
		more = fmt.Sprintf(`,"uri":%q`, c.URI)
	}
	a.message(c.Kind.Method(), more)
}

func (a *account) result() {
	a.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":"7","result":{"resultType":"complete","_meta":{%q:"7"}}}`, core.MetaSubscriptionID))
}

func (a *account) raw(text string) { a.stream.receive([]byte(text), a.now) }

func (a *account) publish(times int, changes ...core.Change) {
	a.ledger.publishing(core.Audience{}, changes, times, a.now)
}

func (a *account) wait(d time.Duration) {
	a.now = a.now.Add(d)
	a.ledger.check(a.now)
}

func TestFindings(t *testing.T) {
	t.Parallel()
	const one = 1
	withBelow := func(o *order) { o.below = true }
	for _, test := range []struct {
		name   string
		change func(*order)
		do     func(a *account)
		want   map[fault]int
	}{
		{"an ordinary life", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.tell(tools)
			a.result()
			a.stream.over(a.now, false)
		}, nil},
		{"a burst that became one", nil, func(a *account) {
			a.acknowledge()
			a.publish(20, tools)
			a.tell(tools)
			a.wait(2 * testBound)
		}, nil},
		{"a burst that became as many as it was", nil, func(a *account) {
			a.acknowledge()
			a.publish(3, tools)
			a.tell(tools)
			a.tell(tools)
			a.tell(tools)
		}, nil},
		{"a change published while the stream opens", nil, func(a *account) {
			a.publish(1, tools)
			a.acknowledge()
			a.tell(tools)
		}, nil},
		{"the same, not told", nil, func(a *account) {
			a.publish(1, tools)
			a.acknowledge()
			a.wait(2 * testBound)
		}, nil},
		{"a change of a resource below", withBelow, func(a *account) {
			a.acknowledge()
			a.publish(1, below)
			a.tell(below)
		}, nil},
		{"changes for others", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, core.PromptsListChanged(), below, core.ResourceUpdated("soak:///r/12"))
			a.ledger.publishing(core.Principals("user/2"), []core.Change{tools}, 1, a.now)
			a.wait(2 * testBound)
		}, nil},
		{"the client leaves before it was told", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.now = a.now.Add(testBound)
			a.stream.over(a.now, true)
			a.wait(2 * testBound)
		}, nil},
		{"a result just after a publish", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.result()
			a.stream.over(a.now, false)
		}, nil},
		{"a grant that ends with something pending", func(o *order) { o.fragile = true }, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.now = a.now.Add(testBound)
			a.result()
			a.stream.over(a.now, false)
		}, nil},
		{"a client that does not read", func(o *order) { o.attention = absent }, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.wait(2 * testBound)
		}, nil},

		{"a lost change", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.wait(testBound + one)
			a.wait(testBound) // told once
		}, map[fault]int{faultLost: 1}},
		{"a change lost by a slow reader", func(o *order) { o.attention = sluggish }, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.wait(testBound + one)
		}, map[fault]int{faultLost: 1}},
		{"the second change lost", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.tell(tools)
			a.publish(1, tools)
			a.wait(testBound + one)
		}, map[fault]int{faultLost: 1}},
		{"one of two changes lost", withBelow, func(a *account) {
			a.acknowledge()
			a.publish(1, tools, below)
			a.tell(tools)
			a.wait(testBound + one)
		}, map[fault]int{faultLost: 1}},
		{"a change lost before a result", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.now = a.now.Add(testBound/5 + one)
			a.result()
			a.stream.over(a.now, false)
		}, map[fault]int{faultLost: 1}},
		{"a slow reader's change just before a result", func(o *order) { o.attention = sluggish }, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.now = a.now.Add(testBound/5 + one)
			a.result()
			a.stream.over(a.now, false)
		}, nil},
		{"a slow reader's change lost before a result", func(o *order) { o.attention = sluggish }, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.now = a.now.Add(testBound/2 + one)
			a.result()
			a.stream.over(a.now, false)
		}, map[fault]int{faultLost: 1}},
		{"a notification before the acknowledgment", nil, func(a *account) {
			a.publish(1, tools)
			a.tell(tools)
			a.acknowledge()
		}, map[fault]int{faultOrder: 1}},
		{"the result before the acknowledgment", nil, func(a *account) { a.result() }, map[fault]int{faultOrder: 1}},
		{"two acknowledgments", nil, func(a *account) {
			a.acknowledge()
			a.acknowledge()
		}, map[fault]int{faultOrder: 1}},
		{"a notification after the result", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.result()
			a.tell(tools)
		}, map[fault]int{faultOrder: 1}},
		{"another id", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.raw(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%q:7}}}`, core.MethodToolsListChanged, core.MetaSubscriptionID))
		}, map[fault]int{faultID: 1}},
		{"no id", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.raw(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{}}`, core.MethodToolsListChanged))
		}, map[fault]int{faultID: 1}},
		{"another id in the result", nil, func(a *account) {
			a.acknowledge()
			a.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":"8","result":{"resultType":"complete","_meta":{%q:"7"}}}`, core.MetaSubscriptionID))
		}, map[fault]int{faultID: 1}},
		{"an acknowledgment of less", nil, func(a *account) {
			a.message(core.MethodAcknowledged, `,"notifications":{"toolsListChanged":true}`)
		}, map[fault]int{faultFilter: 1}},
		{"an acknowledgment of more", nil, func(a *account) {
			a.message(core.MethodAcknowledged, `,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["soak:///r/1"],"x":1}`)
		}, map[fault]int{faultFilter: 1}},
		{"a notification outside the filter", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, core.PromptsListChanged())
			a.tell(core.PromptsListChanged())
		}, map[fault]int{faultFilter: 1}},
		{"a resource below, where they match exactly", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, below)
			a.tell(below)
		}, map[fault]int{faultFilter: 1}},
		{"a resource beside", withBelow, func(a *account) {
			a.acknowledge()
			a.publish(1, core.ResourceUpdated("soak:///r/12"))
			a.tell(core.ResourceUpdated("soak:///r/12"))
		}, map[fault]int{faultFilter: 1}},
		{"a notification that nobody published", nil, func(a *account) {
			a.acknowledge()
			a.tell(tools)
		}, map[fault]int{faultUnasked: 1}},
		{"a notification twice", nil, func(a *account) {
			a.acknowledge()
			a.publish(1, tools)
			a.tell(tools)
			a.tell(tools)
		}, map[fault]int{faultUnasked: 1}},
		{"a notification for somebody else", nil, func(a *account) {
			a.acknowledge()
			a.ledger.publishing(core.PrincipalPrefix("user/2"), []core.Change{tools}, 1, a.now)
			a.tell(tools)
		}, map[fault]int{faultUnasked: 1}},
		{"what a burst allowed, long after it", nil, func(a *account) {
			a.acknowledge()
			a.publish(20, tools)
			a.tell(tools)
			a.now = a.now.Add(testBound + one)
			a.publish(1, tools)
			a.tell(tools)
			a.tell(tools)
		}, map[fault]int{faultUnasked: 1}},
		{"no JSON", nil, func(a *account) { a.raw(`{`) }, map[fault]int{faultMessage: 1}},
		{"another method", nil, func(a *account) {
			a.acknowledge()
			a.message("notifications/message", "")
		}, map[fault]int{faultMessage: 1}},
		{"a request", nil, func(a *account) {
			a.acknowledge()
			a.raw(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}`)
		}, map[fault]int{faultMessage: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(test.change)
			test.do(a)
			got := a.ledger.findings()
			if !maps.Equal(got.Count, test.want) {
				t.Errorf("findings are %v (%q), want %v", got.Count, got.Told, test.want)
			}
		})
	}
}

// TestAPublishOnItsWay to another node is news to a stream that opens there meanwhile, and is not owed to it.
func TestAPublishOnItsWay(t *testing.T) {
	t.Parallel()
	a := newAccount(nil)
	a.publish(1, tools)
	for _, test := range []struct {
		after time.Duration
		want  int
	}{{hop - 1, 0}, {hop, 1}} {
		late := &account{ledger: a.ledger, now: a.now.Add(test.after)}
		late.stream = a.ledger.ask(a.stream.order, late.now)
		late.acknowledge()
		late.tell(tools)
		if got := a.ledger.findings().Count[faultUnasked]; got != test.want {
			t.Errorf("told %v after the publish: %d findings, want %d", test.after, got, test.want)
		}
	}
}

// TestSettled: a change is settled when all who read at once have seen it, or have gone.
func TestSettled(t *testing.T) {
	t.Parallel()
	a := newAccount(nil)
	b := &account{ledger: a.ledger, stream: a.ledger.ask(a.stream.order, a.now), now: a.now}
	slow := a.stream.order
	slow.attention = sluggish
	c := &account{ledger: a.ledger, stream: a.ledger.ask(slow, a.now), now: a.now}
	want := func(when string, settled bool) {
		t.Helper()
		if got := a.ledger.settled(tools); got != settled {
			t.Errorf("%s: settled is %v, want %v", when, got, settled)
		}
	}
	for _, s := range []*account{a, b, c} {
		s.acknowledge()
	}
	want("before the publish", true)
	a.publish(1, tools)
	want("after it", false)
	if !a.stream.owes(a.now.Add(1)) || a.stream.owes(a.now) {
		t.Error("a stream is owed what was published before the time in question, and nothing else")
	}
	a.tell(tools)
	want("one was told", false)
	b.stream.over(b.now, true)
	want("the other one has gone", true)
	if h, n := a.ledger.take(); h.N != 1 || n != 1 {
		t.Errorf("%d latencies and %d deliveries, want one each", h.N, n)
	}
	f := a.ledger.findings()
	if f.Owed != 3 || f.Seen != 1 || f.Ended != 1 {
		t.Errorf("owed, seen and ended are %d, %d and %d, want 3, 1 and 1", f.Owed, f.Seen, f.Ended)
	}
}

// TestManyFindings: they are all counted, and only some are told.
func TestManyFindings(t *testing.T) {
	t.Parallel()
	var f findings
	for range 2 * maxTold {
		f.add(faultLost, "x")
	}
	if f.Count[faultLost] != 2*maxTold || len(f.Told) != maxTold {
		t.Errorf("%d counted and %d told, want %d and %d", f.Count[faultLost], len(f.Told), 2*maxTold, maxTold)
	}
}
