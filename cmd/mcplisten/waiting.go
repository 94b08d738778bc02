// Checks that take time: keep-alives, and what is delivered to whom.

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/sse"
)

// watched is a stream that is listened to during the wait.
type watched struct {
	*raw
	name      string
	honored   core.Filter
	keepAlive time.Duration // when the first one came
	asEvent   string        // a keep-alive with data
	delivered []string
	foreign   string // what was not asked for
	over      bool
	goodbye   bool          // over with the result
	lived     time.Duration // until then
}

// checkWait listens with the full filter and with a part of it, makes the server
// publish if it can, and waits for a keep-alive.
func (c *checker) checkWait(ctx context.Context) {
	if c.wait == 0 && c.trigger == "" {
		c.say(skip, "keep-alive", "", "left out by --wait 0")
		return
	}
	if c.honored.Empty() {
		c.say(skip, "keep-alive", "", "the server honors nothing")
		return
	}
	var streams []*watched
	defer func() {
		for _, s := range streams {
			s.close()
		}
	}()
	for _, part := range []struct {
		name   string
		filter core.Filter
	}{{"all", c.honored}, {"part", firstOf(c.honored)}} {
		r, m, o, err := c.open(ctx, `"check-`+part.name+`"`, encode(part.filter))
		if err != nil {
			c.say(skip, "keep-alive", "", "%v", err)
			return
		}
		if len(streams) > 0 && r.limited() {
			r.close() // the first one can tell of keep-alives alone
			break
		}
		streams = append(streams, &watched{raw: r, name: part.name, honored: m.honored()})
		if c.full("keep-alive", r) {
			return
		}
		if o != came || !m.isAck() {
			c.say(skip, "keep-alive", "", "no stream to watch")
			return
		}
	}
	triggered := c.trigger != ""
	if triggered {
		if err := c.runTrigger(ctx); err != nil {
			c.say(skip, "delivery", "", "the trigger failed: %v", err)
			triggered = false
		}
	}
	wait := max(c.wait, c.timeout)
	if c.wait > 0 {
		wait = c.wait
	}
	c.watch(ctx, streams, wait)
	for _, s := range streams {
		if s.over && !s.goodbye {
			c.look(ctx)
		}
	}
	c.sayWatched(streams, triggered)
}

// firstOf returns the first thing of a filter alone.
func firstOf(f core.Filter) core.Filter {
	switch {
	case f.ToolsListChanged:
		return core.Filter{ToolsListChanged: true}
	case f.PromptsListChanged:
		return core.Filter{PromptsListChanged: true}
	case f.ResourcesListChanged:
		return core.Filter{ResourcesListChanged: true}
	default:
		return core.Filter{ResourceSubscriptions: f.ResourceSubscriptions[:1]}
	}
}

// watch reads the streams one beside the other until each has had a keep-alive,
// or the time is over.
func (c *checker) watch(ctx context.Context, streams []*watched, wait time.Duration) {
	start := time.Now()
	done := make(chan struct{})
	for _, s := range streams {
		go func() {
			defer func() { done <- struct{}{} }()
			for s.keepAlive == 0 || c.trigger != "" && time.Since(start) < c.timeout {
				until := wait - time.Since(start)
				if s.keepAlive > 0 {
					until = c.timeout - time.Since(start)
				}
				e, o := s.next(until)
				if o != came || ctx.Err() != nil {
					s.over = o == ended
					return
				}
				if s.take(e, time.Since(start)); s.over {
					return
				}
			}
		}()
	}
	for range streams {
		<-done
	}
}

func (s *watched) take(e sse.Event, at time.Duration) {
	if e.Comment {
		if s.keepAlive == 0 {
			s.keepAlive = at
		}
		return
	}
	if len(e.Data) == 0 {
		return
	}
	m := parseRPC(e.Data)
	method := m.method
	if m.uri != "" {
		method += " " + m.uri
	}
	covered := false
	switch m.method {
	case core.MethodToolsListChanged:
		covered = s.honored.ToolsListChanged
	case core.MethodPromptsListChanged:
		covered = s.honored.PromptsListChanged
	case core.MethodResourcesListChanged:
		covered = s.honored.ResourcesListChanged
	case core.MethodResourceUpdated:
		subscribed := make(map[string]bool)
		for _, uri := range s.honored.ResourceSubscriptions {
			subscribed[uri] = true
		}
		core.SubResources{}.Cover(m.uri, func(uri string) bool {
			covered = covered || subscribed[uri]
			return !covered
		})
	default:
		if m.goodbye() {
			s.over, s.goodbye, s.lived = true, true, at
			return
		}
		s.asEvent = fmt.Sprintf("event %q: %s", e.Name, short(string(e.Data)))
		return
	}
	if !covered {
		s.foreign = method
		return
	}
	s.delivered = append(s.delivered, method)
}

func (c *checker) sayWatched(streams []*watched, triggered bool) {
	delivered, foreign, over := 0, false, 0
	for _, s := range streams {
		delivered += len(s.delivered)
		if s.foreign != "" {
			foreign = true
			c.say(fail, "filter isolation", "What is not in the honored filter must not be sent.", "listening to %s, it sent %s", describe(s.honored), s.foreign)
		}
		if s.asEvent != "" {
			c.say(fail, "keep-alive", "Use a comment line, which every client skips: events with data that are no notification make clients fail.", "%s", s.asEvent)
		}
		if s.over {
			over++
		}
		if s.over && !s.goodbye {
			c.say(warn, "keep-alive", "If this was no restart, something cuts streams: a server's or a proxy's timeout.", "a stream ended while it was watched")
		}
	}
	switch {
	case triggered && delivered == 0 && over == len(streams):
		c.say(skip, "delivery", "", "the server ended the streams before anything came")
	case triggered && delivered == 0:
		c.say(fail, "delivery", "What is acknowledged must be delivered. With several replicas, changes must reach all of them.", "the trigger ran, and nothing came within %v", c.timeout)
	case delivered > 0 && !foreign:
		c.say(ok, "delivery", "", "%d notifications, each within its filter", delivered)
	}
	if triggered && over == 0 {
		c.sayUnseen(streams)
	}
	if c.wait == 0 {
		return
	}
	// The longest of the lives says most.
	s := streams[0]
	for _, other := range streams[1:] {
		if s.keepAlive == 0 && (other.keepAlive > 0 || s.over && !other.over) {
			s = other
		}
	}
	switch {
	case s.keepAlive > 0:
		c.say(ok, "keep-alive", "", "a comment after %v", s.keepAlive.Round(100*time.Millisecond))
	case s.goodbye:
		c.say(skip, "keep-alive", "", "the server ended the stream with its result after %v, before a keep-alive", s.lived.Round(100*time.Millisecond))
	case !s.over:
		c.say(warn, "keep-alive", "Send a comment line after 15 s of silence: load balancers and proxies cut a silent stream after 60 s, and clients cannot tell a dead connection.", "nothing within %v of silence", c.wait)
	}
}

// sayUnseen says what was honored and did not come after the trigger, which may
// well not have published it.
func (c *checker) sayUnseen(streams []*watched) {
	unseen := c.honored
	unseen.ResourceSubscriptions = nil
	came := make(map[string]bool)
	for _, s := range streams {
		for _, d := range s.delivered {
			came[d] = true
		}
	}
	unseen.ToolsListChanged = unseen.ToolsListChanged && !came[core.MethodToolsListChanged]
	unseen.PromptsListChanged = unseen.PromptsListChanged && !came[core.MethodPromptsListChanged]
	unseen.ResourcesListChanged = unseen.ResourcesListChanged && !came[core.MethodResourcesListChanged]
	for _, uri := range c.honored.ResourceSubscriptions {
		if !came[core.MethodResourceUpdated+" "+uri] {
			unseen.ResourceSubscriptions = append(unseen.ResourceSubscriptions, uri)
		}
	}
	if !unseen.Empty() {
		c.say(note, "delivery", "Right if the trigger does not change it. Else it is acknowledged and not delivered.", "honored, and not seen after the trigger: %s", describe(unseen))
	}
}
