// Package mcpnats connects the hubs of several nodes over NATS. It uses core NATS:
// no JetStream, no account of its own, one subject for each endpoint.
//
//	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
//	…
//	broker, err := mcpnats.New(nc, "mcplisten.orders")
//	…
//	hub, err := core.NewHub(core.Config{Broker: broker, …})
//
// The connection stays the application's: this package neither closes it nor
// changes what it does when it is lost. Let it reconnect for ever
// (nats.MaxReconnects(-1)), since a connection that has given up is the end of
// what this node tells the others, and begin with a server that is away
// (nats.RetryOnFailedConnect), so that the service can start without it.
package mcpnats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcplisten/mcplisten/core"
)

const (
	// sendTimeout bounds a Send whose context has no deadline.
	sendTimeout = 5 * time.Second
	// checkEvery is how often the connection is asked for a sign of life, and
	// checkTimeout how long it has for that. The connection's own pings are two
	// minutes apart by default.
	checkEvery   = 5 * time.Second
	checkTimeout = 5 * time.Second
	// waiting is how many messages may wait for the hub, which takes some
	// microseconds for one. What comes beyond them is lost, and that is noticed.
	waiting = 4096
)

// Broker is a [core.Broker] over a NATS connection.
type Broker struct {
	nc      *nats.Conn
	subject string

	checkEvery, checkTimeout time.Duration
}

// New returns the broker of one endpoint. Its messages go over the subject
// PREFIX.changes: endpoints with different prefixes see nothing of each other, and
// all nodes of one endpoint need the same. A user with restricted permissions
// needs to publish and to subscribe to that subject.
//
// It fails where the prefix is no subject, or has wildcards. It does not need the
// connection to be up.
func New(nc *nats.Conn, prefix string) (*Broker, error) {
	if nc == nil {
		return nil, errors.New("mcpnats: there is no connection")
	}
	for token := range strings.SplitSeq(prefix, ".") {
		if token == "" || strings.ContainsAny(token, " \t\r\n\f\x00*>") {
			return nil, fmt.Errorf("mcpnats: the prefix %q is no subject without wildcards", prefix)
		}
	}
	return &Broker{nc, prefix + ".changes", checkEvery, checkTimeout}, nil
}

var (
	errNotConnected = errors.New("mcpnats: not connected")
	errReconnected  = errors.New("mcpnats: the connection was lost meanwhile")
	errEnded        = errors.New("mcpnats: the subscription has ended")
)

// Send publishes msg and waits until the server has confirmed that it came so far.
// Without a connection it fails at once.
func (b *Broker) Send(ctx context.Context, msg []byte) error {
	before, said := b.nc.Stats().Reconnects, b.nc.LastError()
	if !b.nc.IsConnected() {
		// The client would keep it and send it some time, or drop it.
		return errNotConnected
	}
	if limit := b.nc.MaxPayload(); limit > 0 && int64(len(msg)) > limit {
		return fmt.Errorf("mcpnats: %w: %d bytes, the server takes %d", core.ErrMessageTooLarge, len(msg), limit)
	}
	if err := b.nc.Publish(b.subject, msg); err != nil {
		return fmt.Errorf("mcpnats: publishing: %w", err)
	}
	if err := b.flush(ctx, sendTimeout); err != nil {
		return fmt.Errorf("mcpnats: publishing: %w", err)
	}
	// The confirmation may be a new connection's, and msg have gone into the old one.
	if b.nc.Stats().Reconnects != before {
		return errReconnected
	}
	// The server tells nobody but the connection that the user may not publish to a
	// subject, and the connection keeps the last error only: what came while this
	// message was on its way may have taken the place of its own.
	if err := b.nc.LastError(); err != said && errors.Is(err, nats.ErrPermissionViolation) { //nolint:errorlint // the same value, not a like one
		return fmt.Errorf("mcpnats: publishing: %w", err)
	}
	return nil
}

// flush waits until the server has seen all that was sent to it.
func (b *Broker) flush(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return b.nc.FlushWithContext(ctx)
}

// Receive subscribes and passes messages on until ctx or the connection ends.
func (b *Broker) Receive(ctx context.Context, to core.BrokerReceiver) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	said := b.nc.LastError()
	messages := make(chan *nats.Msg, waiting)
	changed, stop := b.changes()
	defer stop()
	sub, err := b.nc.ChanSubscribe(b.subject, messages)
	if err != nil {
		return fmt.Errorf("mcpnats: subscribing: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // it fails where the connection has ended, and the subscription with it
	check := time.NewTicker(b.checkEvery)
	defer check.Stop()
	r := reception{broker: b, sub: sub, to: to, said: said}
	for {
		// The state comes first: a message that came over a new connection is no
		// proof that the ones before it came over the old one.
		if err := r.look(ctx); err != nil {
			return err
		}
		select {
		case m := <-messages:
			r.pass(m, messages)
		case <-changed:
		case <-check.C:
			r.check = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changes returns a channel with one slot that is filled when the connection's state
// has changed, until stop is called. The client takes an event that nobody has read
// yet for the sign of a closed channel, drops it and forgets the listener: so events
// are read at once, and now and then it is told anew who listens.
func (b *Broker) changes() (_ <-chan struct{}, stop func()) {
	changed, ended := make(chan struct{}, 1), make(chan struct{})
	events := b.nc.StatusChanged()
	var reading sync.WaitGroup
	reading.Go(func() {
		anew := time.NewTicker(b.checkEvery)
		defer anew.Stop()
		defer func() { b.nc.RemoveStatusListener(events) }()
		for {
			select {
			case <-events:
			case <-anew.C:
				b.nc.RemoveStatusListener(events)
				events = b.nc.StatusChanged()
			case <-ended:
				return
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	})
	return changed, sync.OnceFunc(func() { close(ended); reading.Wait() })
}

// reception is what one Receive knows of its connection.
type reception struct {
	broker *Broker
	sub    *nats.Subscription
	to     core.BrokerReceiver
	said   error // the connection's last error before the subscription

	connected  bool
	reconnects uint64 // of the connection that it is connected over
	dropped    int    // messages that the hub was too slow for
	check      bool   // it is time to ask for a sign of life
}

// pass passes on a message and those that wait behind it.
func (r *reception) pass(m *nats.Msg, messages <-chan *nats.Msg) {
	for range waiting {
		r.to.Message(m.Data)
		select {
		case m = <-messages:
		default:
			return
		}
	}
}

// look compares the connection with what the receiver was told of it.
func (r *reception) look(ctx context.Context) error {
	nc := r.broker.nc
	if nc.IsClosed() || !r.sub.IsValid() {
		return errEnded
	}
	if dropped, err := r.sub.Dropped(); err == nil && dropped != r.dropped {
		r.dropped = dropped
		r.lost()
	}
	if !nc.IsConnected() || nc.Stats().Reconnects != r.reconnects {
		r.lost()
	}
	check := r.check
	r.check = false
	if r.connected && !check || !nc.IsConnected() {
		return nil
	}
	// Once the server has answered, it has the subscription.
	reconnects := nc.Stats().Reconnects
	answered := r.broker.flush(ctx, r.broker.checkTimeout) == nil && nc.Stats().Reconnects == reconnects
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !answered:
		r.lost()
		return nil // the next change of its state, or the next check, shows more
	}
	if err := r.forbidden(); err != nil {
		return err
	}
	if r.connected {
		return nil
	}
	r.connected, r.reconnects = true, reconnects
	r.to.Connected()
	return nil
}

// forbidden returns the error of a server that does not let the user subscribe, or
// does not any more. The connection keeps an error until it reconnects, so one from
// before the subscription says nothing.
func (r *reception) forbidden() error {
	err := r.broker.nc.LastError()
	if err == r.said || !errors.Is(err, nats.ErrPermissionViolation) { //nolint:errorlint // the same value, not a like one
		return nil
	}
	denied := fmt.Sprintf("subscription to %q", strings.ToLower(r.broker.subject))
	if strings.Contains(strings.ToLower(err.Error()), denied) {
		return fmt.Errorf("mcpnats: %w", err)
	}
	return nil
}

func (r *reception) lost() {
	if r.connected {
		r.connected = false
		r.to.Disconnected()
	}
}
