// Matchers: which subscribed URIs a changed resource concerns.

package core_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcplisten/mcplisten/core"
)

func TestSubResourcesCover(t *testing.T) {
	t.Parallel()
	tests := []struct {
		subscribed, changed string
		covers              bool
	}{
		{"/a", "/a", true},
		{"/a", "/a/b", true},
		{"/a", "/a/b/c", true},
		{"/a", "/a/", true},
		{"/a/", "/a/", true},
		{"/a/", "/a/b", true},
		{"/a/b", "/a/b/c", true},
		{"/", "/a", true},
		{"/", "/a/b", true},
		{"/a", "/ab", false},
		{"/a", "/ab/c", false},
		{"/a/", "/a", false},
		{"/a/b", "/a", false},
		{"/a/b", "/a/bc", false},
		{"/a", "/A/b", false},
		{"/a", "/%61/b", false},
		{"/a", "/", false},
		{"/a", "a/b", false},
		{"a", "/a/b", false},
		{"a", "a/b", true},

		// Two slashes in a row name an empty segment between them.
		{"/a", "/a//b", true},
		{"/a/", "/a//b", true},
		{"/a//", "/a//b", true},
		{"/a//", "/a/b", false},
		{"/a//b", "/a/b", false},

		// A query and a fragment belong to their URI.
		{"/a", "/a?x", false},
		{"/a", "/a#x", false},
		{"/a", "/a?x/y", false},
		{"/a?x", "/a?x/y", false},
		{"/a?x", "/a?x", true},
		{"/a", "/a/b?x", true},
		{"/a", "/a/b#x/y", true},
		{"/a/b", "/a/b?x/y", false},
		{"/a/b?x", "/a/b?x/y", false},

		// Schemes and authorities.
		{"file:///", "file:///a", true},
		{"file:///a", "file:///a/b", true},
		{"file:///a", "file:///ab", false},
		{"file:///a/", "file:///a/b", true},
		{"file:/", "file:///a", false},
		{"file:", "file:///a", false},
		{"https://host", "https://host/a", true},
		{"https://host/", "https://host/a", true},
		{"https://host", "https://host2/a", false},
		{"https://host", "https://host:8080/a", false},
		{"https:/", "https://host/a", false},
		{"https:", "https://host/a", false},
		{"https://host/a", "https://other/a/b", false},
		{"https://host/a", "http://host/a/b", false},
		{"db:tables", "db:tables/users", true},
		{"db:tables", "db:tables2/users", false},
		{"/x/http://y", "/x/http://y/z", true},
		{"/x", "/x/http://y/z", true},
		{"urn:a", "urn:a:b", false},
	}
	for _, test := range tests {
		var covered []string
		core.SubResources{}.Cover(test.changed, func(uri string) bool {
			covered = append(covered, uri)
			return true
		})
		if got := slices.Contains(covered, test.subscribed); got != test.covers {
			t.Errorf("a change of %s is told to subscribers of %s: %v, want %v (to %q)", test.changed, test.subscribed, got, test.covers, covered)
		}
		if len(covered) == 0 || covered[0] != test.changed {
			t.Errorf("a change of %s yields %q, want itself first", test.changed, covered)
		}
		slices.Sort(covered)
		if once := slices.Compact(slices.Clone(covered)); len(once) != len(covered) {
			t.Errorf("a change of %s yields a URI twice: %q", test.changed, covered)
		}
		if slices.Contains(covered, "") {
			t.Errorf("a change of %s yields the empty URI: %q", test.changed, covered)
		}
		for stopAt := 1; stopAt <= len(covered); stopAt++ {
			n := 0
			core.SubResources{}.Cover(test.changed, func(string) bool { n++; return n < stopAt })
			if n != stopAt {
				t.Errorf("a change of %s yields %d URIs after it was told to stop at %d", test.changed, n, stopAt)
			}
		}
	}
}

// listenBusy opens a stream with one more URI, busy:, which is being written.
func listenBusy(t *testing.T, hub *core.Hub, uris ...string) *stream {
	t.Helper()
	s := listen(t, hub, "1", uriFilter(append(slices.Clone(uris), "busy:")...))
	s.take()
	s.stall()
	publish(t, hub, core.ResourceUpdated("busy:"))
	synctest.Wait()
	return s
}

// rest lets a busy stream go on, and returns what it is told then but for the
// first batch.
func (s *stream) rest() []string {
	s.resume()
	synctest.Wait()
	return s.take()[2:]
}

func TestSubResourcesAreToldByTheirOwnURI(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		subscribed []string
		changed    []string
		want       []string
	}{
		{"below", []string{"/a"}, []string{"/a/c", "/a/b", "/a/b/c"}, []string{"updated /a/b", "updated /a/b/c", "updated /a/c", "flush"}},
		{"itself", []string{"/a"}, []string{"/a"}, []string{"updated /a", "flush"}},
		{"itself first", []string{"/a", "/b"}, []string{"/a/x", "/b", "/a"}, []string{"updated /a", "updated /b", "updated /a/x", "flush"}},
		{"not beside", []string{"/a"}, []string{"/ab", "/b", "/"}, nil},
		{"once for two that cover it", []string{"/a", "/a/b"}, []string{"/a/b/c"}, []string{"updated /a/b/c", "flush"}},
		{"once where one is exact", []string{"/a", "/a/b"}, []string{"/a/b"}, []string{"updated /a/b", "flush"}},
		{"folded", []string{"/a"}, []string{"/a/b", "/a/b", "/a/b"}, []string{"updated /a/b", "flush"}},
		{"too long for the limit", []string{"/a"}, []string{"/a/" + strings.Repeat("x", 2048)}, []string{"updated /a", "flush"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{Matcher: core.SubResources{}, KeepAlive: -1})
				s := listenBusy(t, hub, test.subscribed...)
				for _, uri := range test.changed {
					publish(t, hub, core.ResourceUpdated(uri))
				}
				wantSteps(t, s.rest(), test.want...)
			})
		})
	}
}

// TestI7_SubResourcesPendingAreBounded: up to the cap each resource is told by
// its own URI, and what is beyond by the subscribed one.
func TestI7_SubResourcesPendingAreBounded(t *testing.T) {
	t.Parallel()
	for _, n := range []int{core.MaxBelow - 1, core.MaxBelow, core.MaxBelow + 1, 5000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{Matcher: core.SubResources{}, KeepAlive: -1})
				s := listenBusy(t, hub, "file:///", "other:")
				uris := names(n)
				for range 2 {
					for _, uri := range uris {
						publish(t, hub, core.ResourceUpdated(uri))
					}
				}
				var want []string
				if n > core.MaxBelow {
					want = append(want, "updated file:///")
				}
				for _, uri := range uris[:min(n, core.MaxBelow)] {
					want = append(want, "updated "+uri)
				}
				wantSteps(t, s.rest(), append(want, "flush")...)
				// The room is free again.
				publish(t, hub, core.ResourceUpdated("file:///new"))
				synctest.Wait()
				wantSteps(t, s.take(), "updated file:///new", "flush")
			})
		})
	}
}

// TestSubResourcesCountOneChangeOnce: a change that two subscribed URIs cover is
// one change.
func TestSubResourcesCountOneChangeOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{Matcher: core.SubResources{}, KeepAlive: -1})
		s := listenBusy(t, hub, "/a", "/a/b")
		publish(t, hub, core.ResourceUpdated("/a/b/c"))
		if got := hub.Streams()[0].Coalesced; got != 0 {
			t.Errorf("one change counts as %d coalesced ones, want 0", got)
		}
		publish(t, hub, core.ResourceUpdated("/a/b/c"))
		if got := hub.Streams()[0].Coalesced; got != 1 {
			t.Errorf("the same change again: %d coalesced, want 1", got)
		}
		wantSteps(t, s.rest(), "updated /a/b/c", "flush")
	})
}

// matcherFunc is a Matcher that is a function.
type matcherFunc func(uri string, yield func(string) bool)

func (f matcherFunc) Cover(uri string, yield func(string) bool) { f(uri, yield) }

func TestOwnMatchers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		matcher matcherFunc
		want    []string // of a change of "a:1", for a subscriber of "a:", "b:" and "a:1"
		fails   bool
	}{
		{"nothing", func(string, func(string) bool) {}, nil, false},
		{"itself", func(uri string, yield func(string) bool) { yield(uri) }, []string{"updated a:1", "flush"}, false},
		{"unknown ones", func(_ string, yield func(string) bool) { yield("c:"); yield("") }, nil, false},
		{"all, and not itself", func(_ string, yield func(string) bool) { yield("a:"); yield("b:") }, nil, false},
		{
			// A change that nobody can be told of exactly is told to all who listen to a resource.
			"one that panics", func(string, func(string) bool) { panic("matcher") },
			[]string{"updated a:", "updated b:", "updated a:1", "updated busy:", "flush"}, true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				matcher := matcherFunc(func(uri string, yield func(string) bool) {
					if uri == "busy:" {
						yield(uri)
						return
					}
					test.matcher(uri, yield)
				})
				hub := newHub(t, core.Config{Matcher: matcher, KeepAlive: -1})
				s := listenBusy(t, hub, "a:", "b:", "a:1")
				if err := hub.Publish(context.Background(), core.ResourceUpdated("a:1")); (err != nil) != test.fails {
					t.Errorf("Publish: %v, want an error: %v", err, test.fails)
				}
				wantSteps(t, s.rest(), test.want...)
			})
		})
	}
}
