// The clock: a resource that is watched only while somebody listens to it.

package main

import (
	"context"
	"sync"
	"time"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/everything/internal/backend"
)

const tick = 2 * time.Second

// clock is a [core.Watcher]. A real one would open a file watcher or a database
// feed in Start; this one starts a ticker.
type clock struct {
	publish func(context.Context, ...core.Change) error
	stop    chan struct{}
	stopped sync.WaitGroup
}

// Start implements [core.Watcher]. Start and Stop of one URI never overlap.
func (c *clock) Start(_ context.Context, uri string) error {
	if uri != backend.ClockURI {
		return nil
	}
	c.stop = make(chan struct{})
	c.stopped.Add(1)
	go c.run(c.stop)
	return nil
}

// Stop implements [core.Watcher].
func (c *clock) Stop(uri string) {
	if uri != backend.ClockURI {
		return
	}
	close(c.stop)
	c.stopped.Wait()
}

func (c *clock) run(stop <-chan struct{}) {
	defer c.stopped.Done()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			// A valid change cannot fail.
			_ = c.publish(context.Background(), core.ResourceUpdated(backend.ClockURI))
		}
	}
}
