// Audiences: what they are made of, and that coalescing does not leak from one to
// another.

package core_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcplisten/mcplisten/core"
)

// TestAnAudienceIsAValue: what it was made of may change afterwards.
func TestAnAudienceIsAValue(t *testing.T) {
	t.Parallel()
	names := []string{"bob", "alice"}
	to := core.Principals(names...)
	names[0], names[1] = "mallory", "mallory"
	if to.Includes("mallory") || !to.Includes("alice") || !to.Includes("bob") {
		t.Error("the audience of alice and bob changed with the slice that it was made of")
	}
	if names[0] != "mallory" {
		t.Error("making an audience changed the caller's slice")
	}
}

// TestAPrefixIsNoWord: the separator of a tenant's names belongs to it.
func TestAPrefixIsNoWord(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		prefix, principal string
		want              bool
	}{
		{"acme/", "acme/bob", true},
		{"acme/", "acme/", true},
		{"acme/", "acme2/bob", false},
		{"acme/", "acme", false},
		{"acme/", "ACME/bob", false},
		{"acme", "acme2/bob", true},
		{"", "bob", true},
		{"", "", false},
	} {
		if got := core.PrincipalPrefix(test.prefix).Includes(test.principal); got != test.want {
			t.Errorf("the prefix %q includes %q: %v, want %v", test.prefix, test.principal, got, test.want)
		}
	}
}

// TestCoalescingDoesNotLeakBetweenPrincipals: what is pending for one tenant, a
// thousand times over, is never told to another, whoever is stalled meanwhile.
func TestCoalescingDoesNotLeakBetweenPrincipals(t *testing.T) {
	t.Parallel()
	for _, matcher := range []core.Matcher{nil, core.SubResources{}} {
		t.Run(fmt.Sprintf("%T", matcher), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{KeepAlive: -1, Matcher: matcher})
				filter := `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["/a","/b","/busy"]}`
				streams := make(map[string][]*stream)
				for i, name := range []string{"x/1", "x/1", "x/2", "y/1", "y/2", ""} {
					s := listen(t, hub, fmt.Sprint(i), filter, principal(name))
					streams[name] = append(streams[name], s)
					s.awaitSteps(2)
					s.take()
					s.stall()
				}
				publish(t, hub, core.ResourceUpdated("/busy")) // all are now being written to
				settle()
				for range 1000 {
					for _, p := range []struct {
						to      core.Audience
						changes []core.Change
					}{
						{core.Principals("x/1"), []core.Change{core.ToolsListChanged(), core.ResourceUpdated("/a")}},
						{core.PrincipalPrefix("y/"), []core.Change{core.PromptsListChanged(), core.ResourceUpdated("/b")}},
						{core.Principals("nobody"), []core.Change{core.ToolsListChanged(), core.PromptsListChanged()}},
					} {
						if err := hub.PublishTo(context.Background(), p.to, p.changes...); err != nil {
							t.Errorf("PublishTo: %v", err)
						}
					}
				}
				want := map[string][]string{
					"x/1": {"updated /busy", "flush", "tools", "updated /a", "flush"},
					"y/1": {"updated /busy", "flush", "prompts", "updated /b", "flush"},
					"y/2": {"updated /busy", "flush", "prompts", "updated /b", "flush"},
					"x/2": {"updated /busy", "flush"},
					"":    {"updated /busy", "flush"},
				}
				for name, list := range streams {
					for _, s := range list {
						s.resume()
						settle()
						wantSteps(t, s.take(), want[name]...)
					}
				}
				for _, info := range hub.Streams() {
					pending := uint64(0)
					if len(want[info.Principal]) > 2 {
						pending = 2 * 999
					}
					if info.Coalesced != pending {
						t.Errorf("%q: %d changes were coalesced, want %d: those of others are none of it", info.Principal, info.Coalesced, pending)
					}
				}
			})
		})
	}
}

// TestAudiencesAgreeWithIncludes: random names and audiences; who is told is who
// is included.
func TestAudiencesAgreeWithIncludes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		name := func() string {
			var b strings.Builder
			for range random.IntN(3) {
				b.WriteByte("ab/"[random.IntN(3)])
			}
			return b.String()
		}
		hub := newHub(t, core.Config{KeepAlive: -1})
		streams := make([]*stream, 40)
		of := make([]string, len(streams))
		for i := range streams {
			of[i] = name()
			streams[i] = listen(t, hub, fmt.Sprint(i), `{"toolsListChanged":true,"resourceSubscriptions":["a:"]}`, principal(of[i]))
			streams[i].awaitSteps(2)
			streams[i].take()
		}
		for range 200 {
			to := core.PrincipalPrefix(name())
			if random.IntN(2) == 0 {
				to = core.Principals(name(), name(), name())
			}
			change, want := core.ToolsListChanged(), "tools"
			if random.IntN(2) == 0 {
				change, want = core.ResourceUpdated("a:"), "updated a:"
			}
			if err := hub.PublishTo(context.Background(), to, change); err != nil {
				t.Errorf("PublishTo: %v", err)
			}
			synctest.Wait()
			for i, s := range streams {
				got := countPrefix(s.take(), want)
				if (got == 1) != to.Includes(of[i]) || got > 1 {
					t.Fatalf("seed %d: %q was told %d times; it is in the audience %+v: %v", seed, of[i], got, to, to.Includes(of[i]))
				}
			}
		}
	})
}
