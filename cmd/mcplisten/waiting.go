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
	for name, f := range map[string]core.Filter{"all": c.honored, "part": firstOf(c.honored)} {
		r, m, o, err := c.open(ctx, `"check-`+name+`"`, encode(f))
		if err != nil {
			c.say(skip, "keep-alive", "", "%v", err)
			return
		}
		streams = append(streams, &watched{raw: r, name: name, honored: m.honored()})
		if o != came || !m.isAck() {
			c.say(skip, "keep-alive", "", "no stream to watch")
			return
		}
	}
	if c.trigger != "" {
		if err := c.runTrigger(ctx); err != nil {
			c.say(skip, "delivery", "", "the trigger failed: %v", err)
		}
	}
	wait := max(c.wait, c.timeout)
	if c.wait > 0 {
		wait = c.wait
	}
	c.watch(ctx, streams, wait)
	c.sayWatched(streams)
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
				s.take(e, time.Since(start))
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
		s.asEvent = fmt.Sprintf("event %q: %s", e.Name, short(string(e.Data)))
		return
	}
	if !covered {
		s.foreign = method
		return
	}
	s.delivered = append(s.delivered, method)
}

func (c *checker) sayWatched(streams []*watched) {
	delivered, foreign := 0, false
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
			c.say(warn, "keep-alive", "If this was no restart, something cuts streams: a server's or a proxy's timeout.", "a stream ended while it was watched")
		}
	}
	switch {
	case c.trigger != "" && delivered == 0:
		c.say(fail, "delivery", "What is acknowledged must be delivered. With several replicas, changes must reach all of them.", "the trigger ran, and nothing came within %v", c.timeout)
	case delivered > 0 && !foreign:
		c.say(ok, "delivery", "", "%d notifications, each within its filter", delivered)
	}
	if c.trigger != "" {
		c.sayUnseen(streams)
	}
	s := streams[0]
	switch {
	case c.wait == 0:
	case s.keepAlive > 0:
		c.say(ok, "keep-alive", "", "a comment after %v", s.keepAlive.Round(100*time.Millisecond))
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
