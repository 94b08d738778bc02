// Order and completeness: the acknowledgment first, every change after it, in
// batches with one flush each, and nothing but what was asked for.

package core_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcplisten/mcplisten/core"
)

// TestI1_AckIsFirstUnderLoad opens 400 streams while eight goroutines publish
// without pause.
func TestI1_AckIsFirstUnderLoad(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	var stop atomic.Bool
	var publishers sync.WaitGroup
	for i := range 8 {
		publishers.Go(func() {
			changes := []core.Change{core.ToolsListChanged(), core.ResourceUpdated("file:///" + strconv.Itoa(i%4))}
			for !stop.Load() {
				publish(t, hub, changes...)
				runtime.Gosched() // or the streams would wait for their turn most of the time
			}
		})
	}
	var clients sync.WaitGroup
	for client := range 16 {
		clients.Go(func() {
			for i := range 25 {
				s := listen(t, hub, strconv.Itoa(client*25+i), `{"toolsListChanged":true,"resourceSubscriptions":["file:///`+strconv.Itoa(i%4)+`"]}`)
				s.awaitSteps(5) // the acknowledgment, and at least one batch
				if steps := s.all(); !strings.HasPrefix(steps[0], "ack ") || countPrefix(steps, "ack ") != 1 {
					t.Errorf("I1: stream %s began with %q, want one acknowledgment, and first", s.id, steps[:5])
				}
				s.close()
			}
		})
	}
	clients.Wait()
	stop.Store(true)
	publishers.Wait()
}

func countPrefix(steps []string, prefix string) int {
	n := 0
	for _, s := range steps {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// TestI2_NothingIsLostAfterTheAck reads the acknowledgment and publishes one
// change, 1,000 times, from the very moment at which the client can read it.
func TestI2_NothingIsLostAfterTheAck(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	for i := range 1000 {
		uri := "file:///" + strconv.Itoa(i)
		c := func(s *stream, _ *core.Opening, _ *context.Context) {
			s.onCall(func(step string) error {
				if step != "flush" {
					return nil
				}
				s.fault = nil // on the Conn's lock
				go publish(t, hub, core.ResourceUpdated(uri))
				return nil
			})
		}
		s := listen(t, hub, strconv.Itoa(i), uriFilter(uri), c)
		s.awaitSteps(4) // hangs if the change is lost
		if got := s.take(); got[2] != "updated "+uri {
			t.Fatalf("I2: after the acknowledgment came %q, want the update of %s", got[2:], uri)
		}
		s.close()
	}
}

// TestI2_PublishedBeforeTheAckIsFlushedComesAfterIt: between registration and
// acknowledgment, changes wait.
func TestI2_PublishedBeforeTheAckIsFlushedComesAfterIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{Watcher: watcherFunc(func(context.Context, string) error { return nil })})
		opened := make(chan *stream)
		var s *stream
		go func() {
			opened <- listen(t, hub, "1", `{"promptsListChanged":true,"resourceSubscriptions":["a:"]}`, stalled(),
				func(opening *stream, _ *core.Opening, _ *context.Context) { s = opening })
		}()
		synctest.Wait() // in the acknowledgment
		publish(t, hub, core.ResourceUpdated("a:"), core.PromptsListChanged(), core.ResourceUpdated("a:"))
		synctest.Wait()
		wantSteps(t, s.all())
		s.resume()
		<-opened
		synctest.Wait()
		wantSteps(t, s.all(), `ack {"promptsListChanged":true,"resourceSubscriptions":["a:"]}`, "flush", "prompts", "updated a:", "flush")
	})
}

// TestI2_WhatAWatcherPublishesAtOnceIsNotMissed: a watch that begins with a
// change reaches the subscriber for whom it was started.
func TestI2_WhatAWatcherPublishesAtOnceIsNotMissed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var hub *core.Hub
		hub = newHub(t, core.Config{Watcher: watcherFunc(func(ctx context.Context, uri string) error {
			return hub.Publish(ctx, core.ResourceUpdated(uri))
		})})
		s := listen(t, hub, "1", uriFilter("a:"))
		synctest.Wait()
		wantSteps(t, s.all(), `ack {"resourceSubscriptions":["a:"]}`, "flush", "updated a:", "flush")
	})
}

func TestI3_NothingOutsideTheHonoredFilter(t *testing.T) {
	t.Parallel()
	publishAll := func(t *testing.T, hub *core.Hub) {
		publish(t, hub, core.ToolsListChanged())
		publish(t, hub, core.PromptsListChanged(), core.ResourcesListChanged())
		for _, uri := range []string{"file:///a", "file:///a/", "file:///A", "file:///ab", "file:///a/b", "file:///b", "file:///"} {
			publish(t, hub, core.ResourceUpdated(uri))
		}
		synctest.Wait()
	}
	tests := []struct {
		name   string
		can    core.Capabilities
		filter string
		want   []string // the acknowledgment first; flushes left out
	}{
		{"nothing asked for", everything, `{}`, []string{"ack {}", "result"}},
		{"false is not asked for", everything, `{"toolsListChanged":false,"resourceSubscriptions":[]}`, []string{"ack {}", "result"}},
		{"unknown members are not echoed", everything, `{"taskIds":["` + marker + `"]}`, []string{"ack {}", "result"}},
		{"tools", everything, `{"toolsListChanged":true,"promptsListChanged":false}`, []string{`ack {"toolsListChanged":true}`, "tools"}},
		{"prompts", everything, `{"promptsListChanged":true}`, []string{`ack {"promptsListChanged":true}`, "prompts"}},
		{"resources list is not updates", everything, `{"resourcesListChanged":true}`, []string{`ack {"resourcesListChanged":true}`, "resources"}},
		{"one URI, exactly", everything, uriFilter("file:///a"), []string{`ack {"resourceSubscriptions":["file:///a"]}`, "updated file:///a"}},
		{"no capability for prompts", core.Capabilities{ToolsListChanged: true}, allLists, []string{`ack {"toolsListChanged":true}`, "tools"}},
		{
			"no capability for URIs", core.Capabilities{ResourcesListChanged: true},
			`{"resourcesListChanged":true,"resourceSubscriptions":["file:///a"]}`, []string{`ack {"resourcesListChanged":true}`, "resources"},
		},
		{"no capability for what is asked", core.Capabilities{PromptsListChanged: true}, uriFilter("file:///a"), []string{"ack {}", "result"}},
		{
			"names in other cases", everything, `{"toolslistchanged":true,"PROMPTSLISTCHANGED":true,"resourcesListChanged":true}`,
			[]string{`ack {"resourcesListChanged":true}`, "resources"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{Capabilities: test.can})
				s := listen(t, hub, "1", test.filter)
				publishAll(t, hub)
				wantSteps(t, without(s.all(), "flush"), test.want...)
			})
		})
	}
	t.Run("no capabilities at all is the default", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			hub, err := core.NewHub(core.Config{})
			if err != nil {
				t.Fatal(err)
			}
			s := listen(t, hub, "1", `{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`)
			publishAll(t, hub)
			wantSteps(t, s.all(), "ack {}", "flush", "result", "flush")
			wantEnd(t, s.wait(), core.Completed, true)
		})
	})
}

func without(steps []string, step string) []string {
	return slices.DeleteFunc(slices.Clone(steps), func(s string) bool { return s == step })
}

// TestI5_NothingAfterTheTerminalMessage: whatever asks for an end and however
// often, there is one result and it is last; a client that left gets none.
func TestI5_NothingAfterTheTerminalMessage(t *testing.T) {
	t.Parallel()
	for round := range 50 {
		hub := newHub(t, core.Config{})
		s := listen(t, hub, strconv.Itoa(round), allLists)
		var ending sync.WaitGroup
		for range 3 {
			ending.Go(func() { hub.EndWhere(func(core.StreamInfo) bool { return true }) })
			ending.Go(func() { publish(t, hub, core.ToolsListChanged(), core.PromptsListChanged()) })
		}
		ending.Go(func() { shutdown(t, hub) })
		if round%3 == 0 {
			ending.Go(s.cancel)
		}
		ending.Wait()
		end := s.wait()
		publish(t, hub, core.ToolsListChanged())
		steps := s.all()
		results := count(steps, "result")
		switch {
		case end.Reason == core.ClientClosed && (results != 0 || round%3 != 0):
			t.Errorf("I5: a stream that ended as client_closed got %q, want no result", steps)
		case end.Reason != core.ClientClosed && (results != 1 || steps[len(steps)-2] != "result" || !end.Graceful):
			t.Errorf("I5: a stream that ended as %s (graceful %v) got %q, want one result as its last message", end.Reason, end.Graceful, steps)
		}
	}
}

func TestI5_ACancelledStreamGetsNoResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{})
		idle := listen(t, hub, "1", allLists)
		busy := listen(t, hub, "2", allLists)
		busy.stall()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		publish(t, hub, core.PromptsListChanged()) // pending for the busy one, and never sent
		synctest.Wait()
		idle.cancel()
		busy.cancel()
		hub.EndWhere(func(core.StreamInfo) bool { return true }) // too late for either
		synctest.Wait()
		wantEnd(t, idle.wait(), core.ClientClosed, false)
		wantSteps(t, idle.all(), "ack "+allLists, "flush", "tools", "flush", "prompts", "flush")
		busy.resume()
		wantEnd(t, busy.wait(), core.ClientClosed, false)
		wantSteps(t, busy.all(), "ack "+allLists, "flush", "tools", "flush")
	})
}

// TestI6_PublishNeverWaitsForAClient publishes 60,000 changes beside a stalled
// reader: under fake time a publish that waited would hang the test.
func TestI6_PublishNeverWaitsForAClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		stuck := listen(t, hub, "0", `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:","b:","c:"]}`)
		healthy := make([]*stream, 9)
		for i := range healthy {
			healthy[i] = listen(t, hub, strconv.Itoa(i+1), uriFilter("a:", "c:"))
		}
		synctest.Wait()
		stuck.take()
		stuck.stall()
		publish(t, hub, core.ResourceUpdated("b:"))
		synctest.Wait()
		for range 20_000 {
			publish(t, hub, core.ResourceUpdated("c:"), core.ToolsListChanged(), core.ResourceUpdated("a:"))
		}
		synctest.Wait()
		for i, s := range healthy {
			s.take()
			publish(t, hub, core.ResourceUpdated("a:"))
			synctest.Wait()
			if got := s.take(); !slices.Equal(got, []string{"updated a:", "flush"}) {
				t.Errorf("I6: beside a stalled reader, stream %d got %q, want the update of a:", i, got)
			}
		}
		// I7: what a slow client is told at last is bounded by its filter.
		stuck.resume()
		synctest.Wait()
		wantSteps(t, stuck.take(), "updated b:", "flush", "tools", "updated a:", "updated c:", "flush")
	})
}

// TestI7_OneBatchHoldsEachMemberOnce: order within a batch, coalescing, and one
// flush per wake-up, for filters of all sizes around the words of the set.
func TestI7_OneBatchHoldsEachMemberOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 63, 64, 65, 127, 128, 129, 192, 193, 1000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{KeepAlive: -1})
				uris := names(n)
				list := strings.TrimPrefix(uriFilter(uris...), "{")
				opened := make(chan *stream)
				var s *stream
				go func() {
					opened <- listen(t, hub, "1", `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,`+list,
						stalled(), func(opening *stream, _ *core.Opening, _ *context.Context) { s = opening })
				}()
				synctest.Wait() // in the acknowledgment
				want := []string{"tools", "prompts", "resources"}
				for _, uri := range uris {
					want = append(want, "updated "+uri)
				}
				want = append(want, "flush")
				for range 2 {
					for i := range uris { // in another order than that of the filter
						publish(t, hub, core.ResourceUpdated(uris[(i*7+3)%n]), core.ResourceUpdated(uris[n-1-i]))
					}
					publish(t, hub, core.ResourcesListChanged(), core.PromptsListChanged(), core.ToolsListChanged())
				}
				s.resume()
				<-opened
				synctest.Wait()
				wantSteps(t, s.take()[2:], want...)
				counts := hub.Streams()[0].Counts
				// Of 2n marks in each round and 3 list changes, all but one of each are folded.
				if want := uint64(4*n + 6 - n - 3); counts.Coalesced != want {
					t.Errorf("%d changes were coalesced, want %d", counts.Coalesced, want)
				}
				if want := uint64(n + 3); counts.Delivered != want {
					t.Errorf("%d were delivered, want %d", counts.Delivered, want)
				}
				// Nothing is left over, and each URI is still heard by itself.
				for _, i := range []int{0, n / 2, n - 1} {
					publish(t, hub, core.ResourceUpdated(uris[i]))
					synctest.Wait()
					wantSteps(t, s.take(), "updated "+uris[i], "flush")
				}
				publish(t, hub, core.ResourceUpdated("file:///else"))
				synctest.Wait()
				wantSteps(t, s.take())
			})
		})
	}
}

// TestI7_ChangesDuringABatchAreTheNextBatch: what comes while a batch is being
// written is not lost, whether the batch has passed its place or not.
func TestI7_ChangesDuringABatchAreTheNextBatch(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{KeepAlive: -1})
	uris := names(200)
	for at := range 5 {
		s := listen(t, hub, "1", uriFilter(uris...))
		s.awaitSteps(2)
		s.take()
		calls := 0
		s.onCall(func(string) error {
			if calls == at*40 { // between two words
				// Not from this goroutine: the Conn's lock is held.
				done := make(chan struct{})
				go func() {
					defer close(done)
					for _, uri := range uris {
						publish(t, hub, core.ResourceUpdated(uri))
					}
				}()
				<-done
			}
			calls++
			return nil
		})
		for _, uri := range uris {
			publish(t, hub, core.ResourceUpdated(uri))
		}
		publish(t, hub, core.ResourceUpdated(uris[at*40]))
		hub.EndWhere(func(core.StreamInfo) bool { return true })
		s.wait()
		steps := s.take()
		for _, uri := range uris {
			if n := count(steps, "updated "+uri); n == 0 {
				t.Errorf("I2: %s was never delivered (changes at call %d)", uri, at*40)
			}
		}
		if last := steps[len(steps)-2:]; !slices.Equal(last, []string{"result", "flush"}) {
			t.Errorf("the stream ended with %q, want its result", last)
		}
	}
}

func TestCoalescing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		published []core.Change
		want      []string
		coalesced uint64
	}{
		{"one", []core.Change{core.ToolsListChanged()}, []string{"tools"}, 0},
		{"the same thrice", []core.Change{core.ToolsListChanged(), core.ToolsListChanged(), core.ToolsListChanged()}, []string{"tools"}, 2},
		{"kinds do not fold into each other", []core.Change{core.ResourceUpdated("a:"), core.ResourcesListChanged()}, []string{"resources", "updated a:"}, 0},
		{"URIs do not fold into each other", []core.Change{core.ResourceUpdated("b:"), core.ResourceUpdated("a:")}, []string{"updated a:", "updated b:"}, 0},
		{"what is not for it does not count", []core.Change{core.PromptsListChanged(), core.ResourceUpdated("c:"), core.ResourceUpdated("c:")}, nil, 0},
		{"the list is not its members", []core.Change{core.ResourcesListChanged(), core.ResourcesListChanged()}, []string{"resources"}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{KeepAlive: -1})
				s := listen(t, hub, "1", `{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a:","b:","busy:"]}`)
				s.stall()
				publish(t, hub, core.ResourceUpdated("busy:"))
				synctest.Wait()
				publish(t, hub, test.published...)
				s.resume()
				synctest.Wait()
				want := []string{"updated busy:", "flush"}
				if len(test.want) > 0 {
					want = append(append(want, test.want...), "flush")
				}
				wantSteps(t, s.take()[2:], want...)
				if got := hub.Streams()[0].Coalesced; got != test.coalesced {
					t.Errorf("%d changes were coalesced, want %d", got, test.coalesced)
				}
			})
		})
	}
}

// TestSteadyChangeDoesNotStarveDelivery: the leading edge goes out at once.
func TestSteadyChangeDoesNotStarveDelivery(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{})
		s := listen(t, hub, "1", allLists)
		synctest.Wait()
		s.take()
		for range 200 {
			publish(t, hub, core.ToolsListChanged())
			synctest.Wait()
			wantSteps(t, s.take(), "tools", "flush")
		}
	})
}

// TestI12_IdsAreLabels: streams with one id are strangers to each other.
func TestI12_IdsAreLabels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{})
		alice := listen(t, hub, "1", `{"toolsListChanged":true}`, principal("alice"))
		bob := listen(t, hub, "1", `{"promptsListChanged":true}`, principal("bob"))
		again := listen(t, hub, "1", `{"toolsListChanged":true}`, principal("alice"))
		synctest.Wait()
		for _, s := range []*stream{alice, bob, again} {
			if got := s.take(); countPrefix(got, "ack") != 1 {
				t.Errorf("I12: a stream with an id in use got %q, want its acknowledgment", got)
			}
		}
		alice.close()
		publish(t, hub, core.ToolsListChanged(), core.PromptsListChanged())
		synctest.Wait()
		wantSteps(t, alice.take())
		wantSteps(t, bob.take(), "prompts", "flush")
		wantSteps(t, again.take(), "tools", "flush")
		serials := make(map[uint64]bool)
		for _, info := range hub.Streams() {
			serials[info.Serial] = true
		}
		if len(serials) != 2 {
			t.Errorf("I12: two open streams have the serials %v, want two different ones", serials)
		}
	})
}

func TestPublishRefusesMalformedChangesWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		observed := &recorder{}
		hub := newHub(t, core.Config{Observer: observed})
		s := listen(t, hub, "1", allLists)
		synctest.Wait()
		s.take()
		observed.take()
		for name, bad := range map[string]core.Change{
			"unknown kind":     {Kind: core.NumKinds},
			"far kind":         {Kind: 255},
			"list with a URI":  {Kind: core.KindTools, URI: "a:"},
			"update of no URI": core.ResourceUpdated(""),
			"URI not UTF-8":    core.ResourceUpdated("a:\xff"),
		} {
			if err := hub.Publish(context.Background(), core.ToolsListChanged(), bad); err == nil {
				t.Errorf("%s: published, want an error", name)
			}
		}
		synctest.Wait()
		wantSteps(t, s.take())
		wantSteps(t, observed.take())
		publish(t, hub)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := hub.Publish(ctx, core.ToolsListChanged()); err != nil {
			t.Errorf("Publish with a context that has ended: %v, want it published", err)
		}
		synctest.Wait()
		wantSteps(t, s.take(), "tools", "flush")
	})
}

func TestKindsNameTheirMethods(t *testing.T) {
	t.Parallel()
	for kind, want := range map[core.Kind]string{
		core.KindTools: "notifications/tools/list_changed", core.KindPrompts: "notifications/prompts/list_changed",
		core.KindResources: "notifications/resources/list_changed", core.KindResourceUpdated: "notifications/resources/updated",
		core.NumKinds: "unknown",
	} {
		if got := kind.Method(); got != want || fmt.Sprint(kind) != want {
			t.Errorf("kind %d is %q and prints as %v, want %q", uint8(kind), got, kind, want)
		}
	}
}

// TestI8_ManyStreamsManyWriters is for the race detector and the Conn's own
// check: streams come and go while everything is published, ended and listed.
// Along the way each message is checked against I1, I3, I4 and I5.
func TestI8_ManyStreamsManyWriters(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{Matcher: core.SubResources{}, Watcher: watcherFunc(func(context.Context, string) error { return nil })})
	var stop atomic.Bool
	var background, clients sync.WaitGroup
	for range 2 {
		background.Go(func() {
			for !stop.Load() {
				publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("/a/b"), core.ResourceUpdated("/c"))
				hub.Streams()
				runtime.Gosched()
			}
		})
	}
	for client := range 3 {
		clients.Go(func() {
			for i := range 24 {
				s := listen(t, hub, strconv.Itoa(client*1000+i), `{"toolsListChanged":true,"resourceSubscriptions":["/a","/c/d"]}`)
				s.awaitSteps(4 + i%8)
				switch i % 3 {
				case 0:
					s.close()
				case 1:
					hub.EndWhere(func(info core.StreamInfo) bool { return info.ID.String() == s.id })
					s.wait()
				default:
					s.fail("flush", errBroken)
					s.wait()
				}
				for n, step := range s.all() {
					ok := step == "flush" || step == "tools" || step == "updated /a/b" || step == "result"
					if n == 0 {
						ok = strings.HasPrefix(step, "ack ")
					}
					if !ok {
						t.Errorf("I1, I3: step %d is %q", n, step)
					}
				}
			}
		})
	}
	clients.Wait()
	stop.Store(true)
	background.Wait()
}
