// The broker within one process: for several hubs of one endpoint side by side,
// and for tests.

package core

import (
	"bytes"
	"context"
	"sync"
)

// LocalBroker is a [Broker] that connects hubs of one process. The zero value is
// ready to use; each hub gets the same one.
type LocalBroker struct {
	mu        sync.Mutex
	receivers map[*localReceiver]struct{}
}

type localReceiver struct {
	messages chan []byte
	done     chan struct{} // closed when it has ended
}

// Send gives msg to every hub that receives, waiting for those that are behind.
func (b *LocalBroker) Send(ctx context.Context, msg []byte) error {
	b.mu.Lock()
	receivers := make([]*localReceiver, 0, len(b.receivers))
	for r := range b.receivers {
		receivers = append(receivers, r)
	}
	b.mu.Unlock()
	msg = bytes.Clone(msg)
	for _, r := range receivers {
		select {
		case r.messages <- msg:
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Receive passes on what is sent, until ctx ends.
func (b *LocalBroker) Receive(ctx context.Context, to BrokerReceiver) error {
	r := &localReceiver{messages: make(chan []byte, 16), done: make(chan struct{})}
	b.mu.Lock()
	if b.receivers == nil {
		b.receivers = make(map[*localReceiver]struct{})
	}
	b.receivers[r] = struct{}{}
	b.mu.Unlock()
	defer func() {
		close(r.done)
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.receivers, r)
	}()
	to.Connected()
	for {
		select {
		case msg := <-r.messages:
			to.Message(msg)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
