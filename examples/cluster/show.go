// The show: streams through the proxy, a publish on each replica, and who heard it.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// listener is one stream and where the proxy put it.
type listener struct {
	name     string
	on       *replica
	follower *client.Follower
	heard    chan heard
}

type heard struct {
	what client.Notification
	at   time.Time
}

// patience is how long anything here may take.
const patience = 10 * time.Second

const note = "note://shared"

func show(ctx context.Context, out io.Writer, endpoint string, replicas []*replica, streams int) error {
	var listeners []*listener
	defer func() {
		for _, l := range listeners {
			l.follower.Close()
		}
	}()
	for i := range streams {
		l, err := open(ctx, fmt.Sprintf("stream %d", i+1), endpoint, replicas)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
		fmt.Fprintf(out, "%s is on %s\n", l.name, l.on.name)
	}
	for i, r := range replicas {
		change, name := core.ToolsListChanged(), "tools"
		if i%2 == 1 {
			change, name = core.ResourceUpdated(note), note
		}
		fmt.Fprintf(out, "\n%s publishes a change of %s\n", r.name, name)
		start := time.Now()
		if err := r.hub.Publish(ctx, change); err != nil {
			return err
		}
		for _, l := range listeners {
			h, err := l.next(ctx)
			if err != nil {
				return err
			}
			what := h.what.URI
			if h.what.Kind == client.Tools {
				what = "tools"
			}
			fmt.Fprintf(out, "  %s on %s heard %s after %v\n", l.name, l.on.name, what, h.at.Sub(start).Round(10*time.Microsecond))
		}
	}
	fmt.Fprintln(out)
	for _, r := range replicas {
		if err := sent(ctx, r); err != nil {
			return err
		}
		st := r.hub.Stats()
		fmt.Fprintf(out, "%s: %d streams, %d messages to the others, %d from them\n", r.name, st.Open, st.Broker.Sent, st.Broker.Received)
	}
	return nil
}

// sent waits until the broker has confirmed what a replica published, which may be
// after the others have heard it.
func sent(ctx context.Context, r *replica) error {
	for r.hub.Stats().Broker.Sent == 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// open opens a stream and finds out which replica has it.
func open(ctx context.Context, name, endpoint string, replicas []*replica) (*listener, error) {
	before := make([]int, len(replicas))
	for i, r := range replicas {
		before[i] = r.hub.Stats().Open
	}
	f, err := client.Follow(ctx, client.URL(endpoint), core.Filter{ToolsListChanged: true, ResourceSubscriptions: []string{note}})
	if err != nil {
		return nil, err
	}
	l := &listener{name: name, follower: f, heard: make(chan heard, 100)}
	go func() {
		defer close(l.heard)
		for n := range f.Notifications() {
			select {
			case l.heard <- heard{n, time.Now()}:
			case <-ctx.Done():
			}
		}
	}()
	// The first one is Started: the acknowledgment came.
	if h, err := l.next(ctx); err != nil || h.what.Kind != client.Started {
		f.Close()
		return nil, errors.Join(fmt.Errorf("%s does not start", name), err)
	}
	for i, r := range replicas {
		if r.hub.Stats().Open > before[i] {
			l.on = r
			return l, nil
		}
	}
	f.Close()
	return nil, fmt.Errorf("%s is on no replica", name)
}

func (l *listener) next(ctx context.Context) (heard, error) {
	select {
	case h, ok := <-l.heard:
		if !ok {
			return h, fmt.Errorf("%s has ended: %v", l.name, l.follower.End())
		}
		return h, nil
	case <-time.After(patience):
		return heard{}, fmt.Errorf("%s heard nothing for %v", l.name, patience)
	case <-ctx.Done():
		return heard{}, ctx.Err()
	}
}
