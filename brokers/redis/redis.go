// Package mcpredis connects the hubs of several nodes over Redis: its publish and
// subscribe, on one channel for each endpoint, and no key.
//
//	broker, err := mcpredis.New(redis.NewClient(&redis.Options{Addr: addr}), "mcplisten:orders")
//	…
//	hub, err := core.NewHub(core.Config{Broker: broker, …})
//
// Any client of go-redis will do: for a plain server, for Sentinel
// (redis.NewFailoverClient) and for Cluster (redis.NewClusterClient), where a
// channel is published to all nodes of the cluster. It stays the application's:
// this package does not close it. It uses one connection of its own for receiving,
// and one of the client's pool for each message.
package mcpredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mcplisten/mcplisten/core"
)

// checkEvery is how often the server is asked for a sign of life. After twice that
// without one, the connection counts as lost.
const checkEvery = 5 * time.Second

// Broker is a [core.Broker] over Redis.
type Broker struct {
	client  redis.UniversalClient
	channel string

	checkEvery time.Duration
}

// New returns the broker of one endpoint. Its messages go over the channel
// PREFIX:changes: endpoints with different prefixes see nothing of each other, and
// all nodes of one endpoint need the same. A user with an access list needs that
// channel, and the commands publish, subscribe, unsubscribe and ping.
//
// It fails without a client or a prefix. It does not need the server to be up.
func New(client redis.UniversalClient, prefix string) (*Broker, error) {
	switch {
	case client == nil:
		return nil, errors.New("mcpredis: there is no client")
	case prefix == "":
		return nil, errors.New("mcpredis: there is no prefix")
	}
	return &Broker{client, prefix + ":changes", checkEvery}, nil
}

// Send publishes msg. The server's answer confirms that it has it.
func (b *Broker) Send(ctx context.Context, msg []byte) error {
	// By default a client of go-redis heeds its own timeouts, and no context, while
	// it waits for the server. It has the message for longer than the caller then.
	sent := make(chan error, 1)
	text := string(msg)
	go func() { sent <- b.client.Publish(ctx, b.channel, text).Err() }()
	select {
	case err := <-sent:
		if err != nil {
			return fmt.Errorf("mcpredis: publishing: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("mcpredis: publishing: %w", ctx.Err())
	}
}

var errSilent = errors.New("mcpredis: the server is silent")

// Receive subscribes and passes messages on until ctx or the connection ends.
func (b *Broker) Receive(ctx context.Context, to core.BrokerReceiver) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	sub := b.client.Subscribe(ctx, b.channel)
	r := reception{sub: sub, to: to}
	r.heard.Store(time.Now().UnixNano())
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(watching, b.checkEvery) })
	defer watch.Wait()
	defer sub.Close()
	defer stop()
	err := r.receive(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case r.silent.Load():
		return errSilent
	default:
		return fmt.Errorf("mcpredis: receiving: %w", err)
	}
}

// reception is one subscription.
type reception struct {
	sub    *redis.PubSub
	to     core.BrokerReceiver
	heard  atomic.Int64 // when something came last, in Unix nanoseconds
	silent atomic.Bool  // the server was asked for a sign of life and gave none
}

// receive reads without a timeout: one in the middle of a message would take the
// rest of it for something else.
func (r *reception) receive(ctx context.Context) error {
	for {
		event, err := r.sub.Receive(ctx)
		if err != nil {
			return err
		}
		r.heard.Store(time.Now().UnixNano())
		switch event := event.(type) {
		case *redis.Subscription:
			// The client renews a connection behind our back, and the confirmation of
			// its new subscription is all that we see of it.
			r.to.Connected()
		case *redis.Message:
			r.to.Message([]byte(event.Payload))
		}
	}
}

// watch asks the server for signs of life, and ends the subscription where there is
// none, or when ctx ends: reading heeds no context.
func (r *reception) watch(ctx context.Context, every time.Duration) {
	defer r.sub.Close()
	check := time.NewTicker(every)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-check.C:
		}
		if time.Since(time.Unix(0, r.heard.Load())) > 2*every {
			r.silent.Store(true)
			return
		}
		// Where it fails, the client has closed the connection, and reading fails too.
		_ = r.sub.Ping(ctx)
	}
}
