// Extensions on several nodes: values travel, and where they may have been missed
// they are read again. Whatever the broker does, every stream ends up with the
// newest value of each key, and is never told an older one after a newer.

package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// jobStore is the database behind all nodes.
type jobStore struct {
	mu     sync.Mutex
	states map[string]int
	reads  []string
	fail   func(principal, key string) error
}

func newJobStore() *jobStore { return &jobStore{states: make(map[string]int)} }

// change raises a job's state and returns the change to publish.
func (s *jobStore) change(key string) core.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[key]++
	return job(key, s.states[key])
}

func (s *jobStore) current(_ context.Context, principal, key string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, principal+" "+key)
	if s.fail != nil {
		if err := s.fail(principal, key); err != nil {
			return nil, err
		}
	}
	state, there := s.states[key]
	if !there {
		return nil, core.ErrNoValue
	}
	return jobState{key, state}, nil
}

// takeReads returns what was read since the last time, sorted.
func (s *jobStore) takeReads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	reads := s.reads
	s.reads = nil
	slices.Sort(reads)
	return reads
}

func (s *jobStore) failWith(fail func(principal, key string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// nodesWithJobs is a cluster whose hubs share a store.
func nodesWithJobs(tb testing.TB, size int, spread time.Duration, change func(*core.Extension)) (*cluster, *jobStore) {
	tb.Helper()
	store := newJobStore()
	x := core.Extension{Family: jobs, Public: true, Encode: versioned, Current: store.current}
	if change != nil {
		change(&x)
	}
	return newCluster(tb, size, core.Config{GapSpread: spread, Extensions: []core.Extension{x}}), store
}

// wantToldAgain is wantTold after a gap, of which there may have been two in a row:
// things may be told twice.
func wantToldAgain(tb testing.TB, s *stream, who string, want ...string) {
	tb.Helper()
	var got []string
	for _, step := range s.take() {
		if step != "flush" && !strings.HasPrefix(step, "ack ") {
			got = append(got, step)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		tb.Errorf("%s was told %q, want %q", who, got, want)
	}
}

func TestValuesReachAllNodesOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, store := nodesWithJobs(t, 3, -1, nil)
		var streams []*stream
		for i, hub := range c.hubs {
			streams = append(streams, listenJobs(t, hub, strconv.Itoa(i), `{"toolsListChanged":true,"jobIds":["a","b"]}`))
		}
		publish(t, c.hubs[0], store.change("a"), core.ToolsListChanged(), store.change("other"))
		synctest.Wait()
		publish(t, c.hubs[2], store.change("a"), store.change("b"))
		synctest.Wait()
		for i, s := range streams {
			wantTold(t, s, fmt.Sprintf("node %d", i), "tools", "job a 1", "job a 2", "job b 1")
		}
		if reads := store.takeReads(); len(reads) > 0 {
			t.Errorf("values were read though they came: %q", reads)
		}
		// An older one that is late is not told where the newer was.
		publish(t, c.hubs[1], job("a", 1))
		synctest.Wait()
		for i, s := range streams {
			wantTold(t, s, fmt.Sprintf("node %d", i))
		}
		if err := c.hubs[0].Publish(context.Background(), job("a", 0)); !errors.Is(err, core.ErrPayload) {
			t.Errorf("a value without a version, on several nodes: %v", err)
		}
	})
}

func TestValuesHaveAudiencesOnAllNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, store := nodesWithJobs(t, 2, -1, nil)
		alice := listenJobs(t, c.hubs[1], "1", jobFilter("a"), principal("alice"))
		bob := listenJobs(t, c.hubs[1], "2", jobFilter("a"), principal("bob"))
		if err := c.hubs[0].PublishTo(context.Background(), core.Principals("alice"), store.change("a")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantTold(t, alice, "alice", "job a 1")
		wantTold(t, bob, "bob")
	})
}

// TestAnOutageKeepsTheNewestValues: what cannot be sent is kept once for each key.
func TestAnOutageKeepsTheNewestValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, store := nodesWithJobs(t, 2, -1, nil)
		s := listenJobs(t, c.hubs[1], "1", jobFilter("a", "b"))
		c.nodes[0].onSend(func([]byte) error { return errBroken }, nil)
		for range 500 {
			publish(t, c.hubs[0], store.change("a"), store.change("b"))
		}
		publish(t, c.hubs[0], job("a", 3)) // comes late, and is no newer for that
		synctest.Wait()
		if n := c.stats(0).Unsent; n != 2 {
			t.Errorf("%d changes wait, want 2", n)
		}
		c.nodes[0].onSend(nil, nil)
		advance(time.Minute)
		wantTold(t, s, "the stream", "job a 500", "job b 500")
	})
}

// TestOfEqualVersionsTheLaterCounts also where the earlier one was being sent when it
// came, and is put back.
func TestOfEqualVersionsTheLaterCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _ := nodesWithJobs(t, 2, -1, func(x *core.Extension) {
			x.Encode = func(key string, value any) (core.Payload, error) {
				p, err := versioned(key, value)
				p.Version = 1
				return p, err
			}
		})
		s := listenJobs(t, c.hubs[1], "1", jobFilter("a"))
		first, fails := true, make(chan struct{})
		c.nodes[0].onSend(func([]byte) error {
			if first {
				first = false
				<-fails
				return errBroken
			}
			return nil
		}, nil)
		publish(t, c.hubs[0], job("a", 1))
		synctest.Wait()
		publish(t, c.hubs[0], job("a", 2))
		close(fails)
		advance(time.Minute)
		wantTold(t, s, "the stream", "job a 2")
	})
}

// TestAGapReadsValuesAgain: once for each principal that listens to a key, and what
// one of them is shown is nobody else's.
func TestAGapReadsValuesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, store := nodesWithJobs(t, 2, 2*time.Second, func(x *core.Extension) {
			x.Public, x.Authorize = false, func(context.Context, string, []string) error { return nil }
		})
		store.failWith(func(principal, _ string) error {
			if principal == "bob" {
				return core.ErrNoValue
			}
			return nil
		})
		alice := listenJobs(t, c.hubs[1], "1", jobFilter("a", "b", "gone"), principal("alice"))
		again := listenJobs(t, c.hubs[1], "2", jobFilter("a"), principal("alice"))
		bob := listenJobs(t, c.hubs[1], "3", jobFilter("a"), principal("bob"))
		c.nodes[1].cut(true)
		publish(t, c.hubs[0], store.change("a"), store.change("b"))
		synctest.Wait()
		c.nodes[1].cut(false)
		advance(3 * time.Second)
		wantToldAgain(t, alice, "alice", "job a 1", "job b 1")
		wantToldAgain(t, again, "alice's other stream", "job a 1")
		wantToldAgain(t, bob, "bob")
		if got, want := slices.Compact(store.takeReads()), []string{"alice a", "alice b", "alice gone", "bob a"}; !slices.Equal(got, want) {
			t.Errorf("read were %q, want %q", got, want)
		}
		if n := c.stats(1).Stale; n != 0 {
			t.Errorf("%d keys still wait", n)
		}
	})
}

// TestPublicValuesAreReadForAll who listen together, not for each principal.
func TestPublicValuesAreReadForAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, store := nodesWithJobs(t, 2, -1, nil)
		var streams []*stream
		for i := range 50 {
			streams = append(streams, listenJobs(t, c.hubs[1], strconv.Itoa(i), jobFilter("a"), principal(strconv.Itoa(i))))
		}
		c.nodes[1].cut(true)
		publish(t, c.hubs[0], store.change("a"))
		synctest.Wait()
		c.nodes[1].cut(false)
		synctest.Wait()
		for _, s := range streams {
			wantToldAgain(t, s, s.id, "job a 1")
		}
		if reads := slices.Compact(store.takeReads()); !slices.Equal(reads, []string{" a"}) {
			t.Errorf("read was %q, want the key for nobody in particular", reads)
		}
	})
}

// TestReadingAgainIsNotGivenUp: a value that cannot be read is read later, without
// holding up others, and not any more once nobody listens.
func TestReadingAgainIsNotGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, store := nodesWithJobs(t, 2, -1, nil)
		store.failWith(func(_, key string) error {
			switch key {
			case "panics":
				panic(key)
			case "fails":
				return errBroken
			}
			return nil
		})
		s := listenJobs(t, c.hubs[1], "1", jobFilter("a", "fails"))
		leaver := listenJobs(t, c.hubs[1], "2", jobFilter("panics"))
		c.nodes[1].cut(true)
		publish(t, c.hubs[0], store.change("a"), store.change("fails"), store.change("panics"))
		synctest.Wait()
		c.nodes[1].cut(false)
		advance(time.Second)
		wantToldAgain(t, s, "the stream", "job a 1")
		if n := c.stats(1).Stale; n != 2 {
			t.Errorf("%d keys wait, want 2", n)
		}
		leaver.close()
		advance(5 * time.Minute)
		if n := c.stats(1).Stale; n != 1 {
			t.Errorf("%d keys wait with one listener gone, want 1", n)
		}
		if reads := len(store.takeReads()); reads > 30 {
			t.Errorf("%d reads in five minutes of failure", reads)
		}
		store.failWith(nil)
		publish(t, c.hubs[1], store.change("fails")) // its own node's are not held up
		advance(2 * time.Minute)
		wantToldAgain(t, s, "the stream", "job fails 2")
		if n := c.stats(1).Stale; n != 0 {
			t.Errorf("%d keys wait in the end", n)
		}
	})
}

// withoutPayloads is a broker for which every payload is too large: each value is to
// be read.
func withoutPayloads(msg []byte) error {
	if strings.Contains(string(msg), `"params"`) {
		return core.ErrMessageTooLarge
	}
	return nil
}

// TestCurrentLags: another node says that there is a value to read, and what is read
// is older, as from a replica. It is told once, and read again until it is the new one.
func TestCurrentLags(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, store := nodesWithJobs(t, 2, -1, nil)
		s := listenJobs(t, c.hubs[1], "1", jobFilter("a"))
		store.change("a")
		published := job("a", 3)
		c.nodes[0].onSend(withoutPayloads, nil)
		publish(t, c.hubs[0], published)
		advance(time.Minute)
		wantTold(t, s, "while the replica is behind", "job a 1")
		if n := c.stats(1).Stale; n != 1 {
			t.Errorf("%d keys wait, want 1", n)
		}
		store.change("a")
		store.change("a")
		advance(2 * time.Minute)
		wantTold(t, s, "when it has caught up", "job a 3")
		if n := c.stats(1).Stale; n != 0 {
			t.Errorf("%d keys wait in the end", n)
		}
	})
}

// TestOneThatFailsHoldsUpNoOther: a key that never can be read and keeps changing, or
// has failed for long, is nothing to another that could not be read once.
func TestOneThatFailsHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, store := nodesWithJobs(t, 2, -1, nil)
		failOnce := true
		store.failWith(func(_, key string) error {
			if key == "a" && !failOnce {
				return nil
			}
			failOnce = failOnce && key != "a"
			return errBroken
		})
		c.nodes[0].onSend(withoutPayloads, nil)
		s := listenJobs(t, c.hubs[1], "1", jobFilter("a", "never"))
		publish(t, c.hubs[0], store.change("never"))
		advance(5 * time.Minute)
		publish(t, c.hubs[0], store.change("a"))
		for range 50 {
			publish(t, c.hubs[0], store.change("never"))
			advance(20 * time.Millisecond)
		}
		wantTold(t, s, "after a second", "job a 1")
		if n := c.stats(1).Stale; n != 1 {
			t.Errorf("%d keys wait, want 1", n)
		}
	})
}

// TestWhatIsReadWhileItChanges: a value that was read before another came is older,
// and not told after it.
func TestWhatIsReadWhileItChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		read := make(chan struct{})
		c, store := nodesWithJobs(t, 2, -1, func(x *core.Extension) {
			current := x.Current
			x.Current = func(ctx context.Context, principal, key string) (any, error) {
				value, err := current(ctx, principal, key)
				<-read
				return value, err
			}
		})
		s := listenJobs(t, c.hubs[1], "1", jobFilter("a"))
		c.nodes[1].cut(true)
		publish(t, c.hubs[0], store.change("a"))
		synctest.Wait()
		c.nodes[1].cut(false)
		synctest.Wait()
		publish(t, c.hubs[0], store.change("a"))
		synctest.Wait()
		close(read)
		synctest.Wait()
		got := without(s.all()[1:], "flush")
		if len(got) == 0 || !slices.IsSorted(got) || got[len(got)-1] != "job a 2" {
			t.Errorf("told %q", got)
		}
	})
}

// TestWhatIsMissedWhileItIsRead: a second gap while a value is being read has it read
// once more.
func TestWhatIsMissedWhileItIsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		read := make(chan struct{})
		c, store := nodesWithJobs(t, 2, -1, func(x *core.Extension) {
			current := x.Current
			x.Current = func(ctx context.Context, principal, key string) (any, error) {
				value, err := current(ctx, principal, key)
				<-read
				return value, err
			}
		})
		s := listenJobs(t, c.hubs[1], "1", jobFilter("a"))
		for range 2 {
			c.nodes[1].cut(true)
			publish(t, c.hubs[0], store.change("a"))
			synctest.Wait()
			c.nodes[1].cut(false)
			synctest.Wait()
		}
		close(read)
		synctest.Wait()
		if got := without(s.all(), "flush"); got[len(got)-1] != "job a 2" {
			t.Errorf("told %q, and the newest is state 2", got)
		}
	})
}

// TestALargeValueIsReadByTheOthers: a payload that the broker or the nodes do not
// take goes without, and is read again. It is no change of everything.
func TestALargeValueIsReadByTheOthers(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"broker": 2000, "nodes": 2 << 20} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, store := nodesWithJobs(t, 2, -1, func(x *core.Extension) {
					x.MaxPayload = 3 << 20
					x.Encode = func(key string, value any) (core.Payload, error) {
						p, err := versioned(key, value)
						if key == "large" {
							p.Params = append(p.Params[:len(p.Params)-1], `,"x":"`+strings.Repeat("x", limit)+`"}`...)
						}
						return p, err
					}
				})
				alice := listenJobs(t, c.hubs[1], "1", `{"toolsListChanged":true,"jobIds":["large","a"]}`, principal("alice"))
				bob := listenJobs(t, c.hubs[1], "2", jobFilter("large"), principal("bob"))
				c.nodes[0].onSend(func(msg []byte) error {
					if len(msg) > 2000 {
						return fmt.Errorf("no: %w", core.ErrMessageTooLarge)
					}
					return nil
				}, nil)
				if err := c.hubs[0].PublishTo(context.Background(), core.Principals("alice"), store.change("large"), store.change("a")); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				wantToldAgain(t, alice, "alice", "job large 1", "job a 1")
				wantToldAgain(t, bob, "bob")
				if gaps := c.stats(1).Gaps; gaps != 0 {
					t.Errorf("%d gaps", gaps)
				}
			})
		})
	}
}

// TestTooManyValuesBecomeEverything: the outbox is bounded, and what it cannot hold
// is read again.
func TestTooManyValuesBecomeEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, store := nodesWithJobs(t, 2, -1, func(x *core.Extension) {
			x.Encode = func(key string, value any) (core.Payload, error) {
				p, err := versioned(key, value)
				p.Params = append(p.Params[:len(p.Params)-1], `,"x":"`+strings.Repeat("x", 200_000)+`"}`...)
				return p, err
			}
		})
		s := listenJobs(t, c.hubs[1], "1", jobFilter("7", "8"))
		c.nodes[0].cut(true)
		for i := range 70 {
			publish(t, c.hubs[0], store.change(strconv.Itoa(i)))
		}
		if n := c.stats(0).Unsent; n != 70 {
			t.Errorf("%d changes wait, want 70 of 14 MB", n)
		}
		for i := range 20 {
			publish(t, c.hubs[0], store.change(strconv.Itoa(100+i)))
		}
		if n := c.stats(0).Unsent; n > 20 {
			t.Errorf("%d changes wait, want one that stands for all", n)
		}
		c.nodes[0].cut(false)
		synctest.Wait()
		wantToldAgain(t, s, "the stream", "job 7 1", "job 8 1")
	})
}

// TestStrangeValuesOfNodes: what another node sends is checked like what is
// published here. Where a payload is not usable, the value is read.
func TestStrangeValuesOfNodes(t *testing.T) {
	t.Parallel()
	value := func(members string) string {
		return `{"v":1,"node":"n","seq":1,"then":[{"values":[{` + members + `}]}]}`
	}
	for _, c := range []struct {
		name, msg string
		want      string
		ignored   bool
	}{
		{"a value", value(`"method":"notifications/jobs","key":"a","version":9,"params":{"job":"a","state":9}`), "job a 9", false},
		{"in many lines", value("\"method\":\"notifications/jobs\",\"key\":\"a\",\"version\":9,\"params\":{\n\"job\":\"a\",\r\n\"state\":9}"), "job a 9", false},
		{"to be read", value(`"method":"notifications/jobs","key":"a","version":1`), "job a 7", false},
		{"of nobody here", value(`"method":"notifications/jobs","key":"z","version":9,"params":{"job":"z","state":9}`), "", false},
		{"of another family", value(`"method":"notifications/x","key":"a","version":9,"params":{"job":"a"}`), "", false},
		{"another key's", value(`"method":"notifications/jobs","key":"a","version":9,"params":{"job":"b","state":9}`), "job a 7", true},
		{"_meta", value(`"method":"notifications/jobs","key":"a","version":9,"params":{"job":"a","_meta":{}}`), "job a 7", true},
		{"not UTF-8", value("\"method\":\"notifications/jobs\",\"key\":\"a\",\"version\":9,\"params\":{\"job\":\"a\",\"x\":\"\xff\"}"), "job a 7", true},
		{"too large", value(`"method":"notifications/jobs","key":"a","version":9,"params":{"job":"a","state":9,"x":"` + strings.Repeat("x", 100) + `"}`), "job a 7", true},
		{"no version", value(`"method":"notifications/jobs","key":"a","params":{"job":"a","state":9}`), "", true},
		{"no object", value(`"method":"notifications/jobs","key":"a","version":9,"params":["job"]`), "", true},
		{"no key", value(`"method":"notifications/jobs","version":9,"params":{"job":"","state":9}`), "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cluster, store := nodesWithJobs(t, 1, -1, func(x *core.Extension) { x.MaxPayload = 100 })
				store.states["a"] = 7
				s := listenJobs(t, cluster.hubs[0], "1", jobFilter("a"))
				cluster.deliver([]byte(c.msg))
				synctest.Wait()
				if c.want == "" {
					wantTold(t, s, "the stream")
				} else {
					wantTold(t, s, "the stream", c.want)
				}
				if got := cluster.stats(0).Ignored; (got == 1) != c.ignored {
					t.Errorf("ignored %d", got)
				}
			})
		})
	}
}

// TestValuesModel: jobs that change on all nodes while the bus cuts, fails, lies and
// loses. In the end every stream has the newest value of each of its keys, and it
// was never told an older one after a newer.
func TestValuesModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			bubble(t, func(t *testing.T) { valuesModel(t, rand.New(rand.NewPCG(seed, 11))) })
		})
	}
}

func valuesModel(t *testing.T, rnd *rand.Rand) {
	const nodes = 3
	keys := []string{"a", "b", "c"}
	c, store := nodesWithJobs(t, nodes, time.Duration(rnd.IntN(3))*time.Second, nil)
	type listener struct {
		*stream
		changed map[string]bool // since it opened
	}
	var listeners []*listener
	for step := range 60 {
		node := rnd.IntN(nodes)
		switch rnd.IntN(12) {
		case 0:
			if len(listeners) < 8 {
				l := &listener{listenJobs(t, c.hubs[node], strconv.Itoa(step), jobFilter(keys...)), make(map[string]bool)}
				listeners = append(listeners, l)
			}
		case 1:
			c.nodes[node].cut(rnd.IntN(2) == 0)
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
		case 3:
			c.setLose(rnd.IntN(2) == 0)
		case 4:
			advance(time.Duration(rnd.IntN(3000)) * time.Millisecond)
		case 5:
			calls := rnd.IntN(2)
			store.failWith(func(string, string) error { // one at a time
				if calls++; calls%2 == 0 {
					return errBroken
				}
				return nil
			})
		case 6:
			if len(listeners) > 0 {
				if l := listeners[rnd.IntN(len(listeners))]; rnd.IntN(2) == 0 {
					l.stall()
				} else {
					l.resume()
				}
			}
		default:
			key := keys[rnd.IntN(len(keys))]
			change := store.change(key)
			for _, l := range listeners {
				l.changed[key] = true
			}
			publish(t, c.hubs[node], change)
		}
		if rnd.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	c.setLose(false)
	store.failWith(nil)
	for _, n := range c.nodes {
		n.cut(false)
	}
	for _, l := range listeners {
		l.resume()
	}
	advance(3 * time.Minute)
	for i, l := range listeners {
		newest := make(map[string]int)
		for _, step := range l.all() {
			var key string
			var state int
			if n, _ := fmt.Sscanf(step, "job %s %d", &key, &state); n != 2 {
				continue
			}
			if state < newest[key] {
				t.Errorf("stream %d was told state %d of %s after %d", i, state, key, newest[key])
			}
			newest[key] = state
		}
		for key := range l.changed {
			if newest[key] != store.states[key] {
				t.Errorf("stream %d was last told state %d of %s, want %d", i, newest[key], key, store.states[key])
			}
		}
	}
	for i := range c.hubs {
		if st := c.stats(i); st.Unsent != 0 || st.Stale != 0 {
			t.Errorf("node %d ends with %+v, want nothing unsent or stale", i, st)
		}
	}
}
