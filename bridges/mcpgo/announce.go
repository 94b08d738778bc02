// Announcing: what the server says becomes what the hub publishes.

package mcpgobridge

import (
	"context"
	"errors"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// The time between two attempts to become a session of the server again.
const (
	returnFirst = 100 * time.Millisecond // doubling
	returnMost  = 5 * time.Second
)

// announce publishes what the server announces, and sees to it that the server keeps
// announcing, until the bridge is closed. What was announced until then is published.
func (b *Bridge) announce() {
	pause := pause{least: b.config.interval}
	away := returnFirst
	for b.ctx.Err() == nil {
		if b.inbox.wait(b.lost, b.ctx.Done()) {
			pause.wait(b.ctx)
			b.publish(b.inbox.take())
			continue
		}
		if b.ctx.Err() != nil {
			break
		}
		away = b.comeBack(away)
	}
	b.publish(b.inbox.take())
}

// publish publishes news.
func (b *Bridge) publish(n news) {
	if n.empty() {
		return
	}
	if n.everything {
		b.learn()
		b.log.Warn("mcplisten: the server announced more at once than could be kept apart: everything is taken as changed")
		b.say(b.hub.PublishEverything(b.publishing()))
		return
	}
	changes := n.changes()
	if b.unknown(changes) {
		b.learn() // an announcement is how a server's new capability shows
	}
	b.say(b.hub.Publish(b.publishing(), changes...))
}

// say says in the log what kept a publish from going everywhere. After the hub's
// Shutdown nobody is left to be told.
func (b *Bridge) say(err error) {
	if err != nil && !errors.Is(err, core.ErrShutdown) {
		b.log.Error("mcplisten: publishing what the server announced", "error", err)
	}
}

// comeBack becomes a session of the server again, which has forgotten the bridge's.
// What it announced meanwhile is not known, so everything is taken as changed. It
// returns how long to wait the next time.
func (b *Bridge) comeBack(wait time.Duration) (next time.Duration) {
	b.log.Warn("mcplisten: the bridge's session was unregistered from the server, and is registered again")
	if err := b.registerAgain(); err != nil {
		b.log.Error("mcplisten: registering the bridge's session again", "error", err)
		signal(b.lost)
	} else {
		b.learn()
		b.say(b.hub.PublishEverything(b.publishing()))
	}
	// Whoever unregisters it each time shall not keep the bridge busy.
	select {
	case <-time.After(wait):
	case <-b.ctx.Done():
	}
	if len(b.lost) > 0 {
		return min(2*wait, returnMost)
	}
	return returnFirst
}

// registerAgain registers a new session, and subscribes it to everything that is
// watched.
func (b *Bridge) registerAgain() error {
	b.returning.Lock()
	defer b.returning.Unlock()
	if err := b.register(); err != nil {
		return err
	}
	b.watchAgain()
	return nil
}

// ownPublish marks the context of what a bridge publishes, with the bridge.
type ownPublish struct{}

func (b *Bridge) publishing() context.Context {
	return context.WithValue(context.WithoutCancel(b.ctx), ownPublish{}, b)
}

// pause keeps things apart in time.
type pause struct {
	least time.Duration
	last  time.Time // when it was last waited for
}

// wait waits until enough time has passed since the last wait, or ctx ends.
func (p *pause) wait(ctx context.Context) {
	if left := p.least - time.Since(p.last); left > 0 {
		select {
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
	p.last = time.Now()
}
