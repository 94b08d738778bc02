// What is pending: bounded, and nothing is lost.

package client_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/client"
)

func updated(uri string) client.Notification {
	return client.Notification{Kind: client.Updated, URI: uri}
}

func TestPendingBelow(t *testing.T) {
	t.Parallel()
	p := client.NewPending()
	for i := range client.MaxBelow {
		p.Add(updated(fmt.Sprintf("/a/%d", i)), "/a")
		p.Add(updated(fmt.Sprintf("/a/%d", i)), "/a") // the same once more
	}
	p.Add(updated("/b/1"), "/b")
	if n, _ := p.Size(); n != client.MaxBelow+1 {
		t.Fatalf("%d pending, want %d", n, client.MaxBelow+1)
	}
	for i := range 1000 { // one too many, and more
		p.Add(updated(fmt.Sprintf("/a/more/%d", i)), "/a")
	}
	for _, want := range []string{"/b/1", "/a"} {
		if n, ok := p.Take(); !ok || n.URI != want {
			t.Errorf("got %v, want %s", n, want)
		}
	}
	p.Add(updated("/a/1"), "/a") // by name again
	if n, ok := p.Take(); !ok || n.URI != "/a/1" {
		t.Errorf("got %v, want /a/1", n)
	}
	long := "/a/" + strings.Repeat("x", client.MaxBelowLength)
	p.Add(updated(long), "/a")
	if n, _ := p.Take(); n.URI != "/a" {
		t.Errorf("got %v, want /a", n)
	}
	if n, ok := p.Take(); ok {
		t.Errorf("got %v, want nothing", n)
	}
	if n, maps := p.Size(); n+maps > 0 {
		t.Errorf("an empty set holds %d and %d", n, maps)
	}
}

// Whatever is added and taken, in any order: each change is told after it came,
// by its own URI or by one above it, and the set stays within its bound.
func TestPendingModel(t *testing.T) {
	t.Parallel()
	parents := []string{"/a", "/b", "/c"}
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		p := client.NewPending()
		untold := make(map[string]bool)
		for range 5000 {
			if rnd.IntN(4) > 0 {
				parent := parents[rnd.IntN(len(parents))]
				uri := fmt.Sprintf("%s/%d", parent, rnd.IntN(200))
				if rnd.IntN(20) == 0 {
					p.Add(updated(parent), "")
					untold[parent] = true
				} else {
					p.Add(updated(uri), parent)
					untold[uri] = true
				}
			} else if n, ok := p.Take(); ok {
				tell(untold, n.URI, parents)
			}
			if n, maps := p.Size(); n > len(parents)*(client.MaxBelow+1) || maps > n {
				t.Fatalf("seed %d: %d pending, maps of %d", seed, n, maps)
			}
		}
		for n, ok := p.Take(); ok; n, ok = p.Take() {
			tell(untold, n.URI, parents)
		}
		if len(untold) > 0 {
			t.Fatalf("seed %d: lost %v", seed, untold)
		}
	}
}

// tell takes off what a notification covers.
func tell(untold map[string]bool, uri string, parents []string) {
	delete(untold, uri)
	for _, parent := range parents {
		if uri != parent {
			continue
		}
		for other := range untold {
			if strings.HasPrefix(other, parent+"/") {
				delete(untold, other)
			}
		}
	}
}
