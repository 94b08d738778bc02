// The tap: told of all that is published, here and elsewhere, once.

package core_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcplisten/mcplisten/core"
)

type tap struct {
	mu     sync.Mutex
	told   []string
	missed int
	hook   func(ctx context.Context)
}

func (p *tap) Published(ctx context.Context, to core.Audience, changes []core.Change) {
	p.mu.Lock()
	for _, c := range changes {
		p.told = append(p.told, fmt.Sprintf("%s%s everyone=%t alice=%t", c.Kind.Method(), c.URI, to.Everyone(), to.Includes("alice")))
	}
	hook := p.hook
	p.mu.Unlock()
	if hook != nil {
		hook(ctx)
	}
}

func (p *tap) Missed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missed++
}

func (p *tap) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.told
	p.told = nil
	return told
}

func TestTap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type key struct{}
		p := &tap{}
		marked := false
		p.hook = func(ctx context.Context) { marked = ctx.Value(key{}) != nil }
		hub := newHub(t, core.Config{Tap: p})
		is := func(want ...string) {
			t.Helper()
			if got := p.take(); !slices.Equal(got, want) {
				t.Errorf("the tap was told %q, want %q", got, want)
			}
		}
		// It is told though nobody listens, and sees the publisher's context.
		publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("u"))
		is(core.MethodToolsListChanged+" everyone=true alice=true", core.MethodResourceUpdated+"u everyone=true alice=true")
		if marked {
			t.Error("the tap saw a value that the context has not")
		}
		if err := hub.PublishTo(context.WithValue(t.Context(), key{}, true), core.Principals("alice"), core.ToolsListChanged()); err != nil {
			t.Fatal(err)
		}
		is(core.MethodToolsListChanged + " everyone=false alice=true")
		if !marked {
			t.Error("the tap did not see the publisher's context")
		}
		// Nothing is nothing, and what is malformed is not published.
		publish(t, hub)
		if err := hub.Publish(t.Context(), core.ResourceUpdated("")); err == nil {
			t.Error("a malformed change was published")
		}
		is()
		// Its panic loses nothing.
		s := listen(t, hub, `1`, `{"toolsListChanged":true}`)
		s.conn.take()
		p.hook = func(context.Context) { panic("of a test") }
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		wantSteps(t, s.conn.take(), "tools", "flush")
	})
}

func TestTapOfAnotherNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		here, there := &tap{}, &tap{}
		broker := &core.LocalBroker{}
		one := newHub(t, core.Config{Tap: here, Broker: broker})
		other := newHub(t, core.Config{Tap: there, Broker: broker})
		synctest.Wait()
		here.mu.Lock()
		if here.missed == 0 {
			t.Error("the tap was not told that it may have missed what came before it")
		}
		here.mu.Unlock()
		if err := one.PublishTo(t.Context(), core.Principals("alice"), core.ResourceUpdated("u")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := []string{core.MethodResourceUpdated + "u everyone=false alice=true"}
		for name, p := range map[string]*tap{"here": here, "there": there} {
			if got := p.take(); !slices.Equal(got, want) {
				t.Errorf("%s: the tap was told %q, want %q", name, got, want)
			}
		}
		shutdown(t, one)
		shutdown(t, other)
	})
}

// TestSetCapabilities: requests from then on are honored by the new ones, and open
// streams keep what was acknowledged to them.
func TestSetCapabilities(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
		const both = `{"toolsListChanged":true,"promptsListChanged":true}`
		before := listen(t, hub, `1`, both)
		wantSteps(t, before.conn.take(), `ack {"toolsListChanged":true}`, "flush")
		hub.SetCapabilities(core.Capabilities{PromptsListChanged: true})
		if got, want := hub.Capabilities(), (core.Capabilities{PromptsListChanged: true}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		after := listen(t, hub, `2`, both)
		wantSteps(t, after.conn.take(), `ack {"promptsListChanged":true}`, "flush")
		publish(t, hub, core.ToolsListChanged(), core.PromptsListChanged())
		synctest.Wait()
		wantSteps(t, before.conn.take(), "tools", "flush")
		wantSteps(t, after.conn.take(), "prompts", "flush")
		hub.SetMode(core.ModeComplete)
		hub.SetCapabilities(core.Capabilities{ToolsListChanged: true})
		if got := hub.Capabilities(); got != (core.Capabilities{}) {
			t.Errorf("switched off, got %+v, want none", got)
		}
	})
}
