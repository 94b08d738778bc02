// Cancelling by name: what a principal and an id together can end, and what they
// cannot.

package core_test

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcplisten/mcplisten/core"
)

// idOf returns the id that the JSON text is.
func idOf(tb testing.TB, raw string) core.ID {
	tb.Helper()
	id, err := core.ParseID([]byte(raw))
	if err != nil {
		tb.Fatalf("%s is no id: %v", raw, err)
	}
	return id
}

// TestACancelledStreamDeliversNothingMore: no result, and not what is pending.
func TestACancelledStreamDeliversNothingMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		s := listen(t, hub, "1", allLists, principal("a"))
		synctest.Wait()
		s.take()
		s.stall()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		publish(t, hub, core.PromptsListChanged())
		if !hub.Cancel("a", idOf(t, "1")) {
			t.Fatal("a's stream was not cancelled")
		}
		if n := hub.Revoke(func(core.StreamInfo) bool { return true }); n != 0 {
			t.Errorf("Revoke of a cancelled stream is %d: it would get a result", n)
		}
		s.resume()
		wantEnd(t, s.wait(), core.ClientClosed, false)
		wantSteps(t, s.take(), "tools", "flush")
	})
}

// TestAnIdIsFreeAgainOnceCancelled: a client that opens another stream under the
// same id can cancel that one too, however slowly the first one ends.
func TestAnIdIsFreeAgainOnceCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1})
		first := listen(t, hub, "1", allLists, principal("a"))
		synctest.Wait()
		first.stall()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait() // it cannot end before it is resumed
		if !hub.Cancel("a", idOf(t, "1")) {
			t.Fatal("the first stream was not cancelled")
		}
		if hub.Cancel("a", idOf(t, "1")) {
			t.Error("a stream was cancelled twice")
		}
		second := listen(t, hub, "1", allLists, principal("a"))
		if !hub.Cancel("a", idOf(t, "1")) {
			t.Error("the second stream was not cancelled")
		}
		wantEnd(t, second.wait(), core.ClientClosed, false)
		first.resume()
		wantEnd(t, first.wait(), core.ClientClosed, false)
	})
}

// TestOnlyWhoAskedCanCancel: a grant may name another principal, a tenant for
// one; neither its other members nor somebody of that name can end the stream.
func TestOnlyWhoAskedCanCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{KeepAlive: -1, Authorizer: authorizerFunc(func(principal string, _ core.Filter) (core.Grant, error) {
			if principal == "self" {
				return core.Grant{Principal: principal}, nil
			}
			return core.Grant{Principal: "tenant"}, nil
		})})
		listen(t, hub, "1", allLists, principal("alice"))
		self := listen(t, hub, "1", allLists, principal("self"))
		for _, who := range []string{"bob", "tenant", "alice"} {
			if hub.Cancel(who, idOf(t, "1")) {
				t.Errorf("%q cancelled a stream whose grant names another principal than who asked", who)
			}
		}
		if !hub.Cancel("self", idOf(t, "1")) {
			t.Error("a grant that names who asked is in the way of a cancellation")
		}
		wantEnd(t, self.wait(), core.ClientClosed, false)
		if n := len(hub.Streams()); n != 1 {
			t.Errorf("%d streams are open, want alice's", n)
		}
	})
}

// TestCancelsCrossNoPrincipals: a hundred principals with the same ids cancel
// their own, all at once, and each ends exactly its own.
func TestCancelsCrossNoPrincipals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 100
		hub := newHub(t, core.Config{KeepAlive: -1})
		stay, leave := make([]*stream, n), make([]*stream, n)
		for i := range n {
			name := principal("p" + strconv.Itoa(i))
			stay[i] = listen(t, hub, `"stay"`, allLists, name)
			leave[i] = listen(t, hub, `"leave"`, allLists, name)
		}
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				if !hub.Cancel("p"+strconv.Itoa(i), idOf(t, `"leave"`)) {
					t.Errorf("p%d could not cancel its own", i)
				}
				for _, id := range []string{`"other"`, `"Leave"`, "1"} {
					if hub.Cancel("p"+strconv.Itoa(i), idOf(t, id)) {
						t.Errorf("p%d cancelled %s, which nobody has", i, id)
					}
				}
			})
		}
		all.Wait()
		for i := range n {
			wantEnd(t, leave[i].wait(), core.ClientClosed, false)
		}
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		for i := range n {
			wantSteps(t, stay[i].take(), "ack "+allLists, "flush", "tools", "flush")
		}
	})
}

// TestWhatIsAmbiguousHereIsNotPassedOn: two of one name here, and one on another
// node, are three, and a cancellation means none of them.
func TestWhatIsAmbiguousHereIsNotPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2, core.Config{})
		streams := []*stream{
			listen(t, c.hubs[0], "7", allLists, principal("alice")), listen(t, c.hubs[0], "7", allLists, principal("alice")),
			listen(t, c.hubs[1], "7", allLists, principal("alice")),
		}
		if c.hubs[0].Cancel("alice", idOf(t, "7")) {
			t.Error("Cancel of two is true")
		}
		synctest.Wait()
		for i, s := range streams {
			select {
			case <-s.done:
				t.Errorf("stream %d was ended", i)
			default:
			}
		}
	})
}
