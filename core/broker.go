// The broker seam: changes between the nodes of one endpoint. A Broker only carries
// bytes and says when it could not; what is sent again and what was missed is the
// link's affair.

package core

import (
	"context"
	"time"
)

// Broker carries messages between the hubs of one endpoint, which run on several
// nodes. The messages are the hubs' own affair; a broker looks at none.
//
// Package brokertest has the contract as a test.
type Broker interface {
	// Send gives msg to every node that receives; whether to this one too is all
	// the same. It returns nil only once the broker has taken it: until then the
	// hub keeps what it stands for, and sends it again after an error. What is sent
	// one after another arrives in that order.
	//
	// A message has a few hundred bytes as a rule and 1 MiB at most. Where the
	// broker takes no message of its size, the error wraps [ErrMessageTooLarge].
	//
	// It may block until ctx ends. It is called from one goroutine. The slice is
	// valid during the call only.
	Send(ctx context.Context, msg []byte) error

	// Receive passes on what other nodes send, until ctx ends or it cannot go on;
	// the hub calls it again then. It is called from one goroutine and calls the
	// receiver from one goroutine at a time.
	Receive(ctx context.Context, to BrokerReceiver) error
}

// BrokerReceiver is what a [Broker] calls.
type BrokerReceiver interface {
	// Connected says that messages sent from now on will arrive. What was sent
	// since the last Disconnected, or before the first Connected, is taken as
	// missed. A broker that cannot tell whether something is missing calls it to be
	// safe.
	Connected()
	// Disconnected says that messages may get lost from now on.
	Disconnected()
	// Message passes on a message. The slice is valid during the call only.
	Message(msg []byte)
}

// BrokerObserver is told how a hub and its broker fare. An [Observer] may be one.
type BrokerObserver interface {
	// BrokerConnected is called when the broker connects, or is lost.
	BrokerConnected(connected bool)
	// BrokerGap is called when messages of other nodes may have been missed, and
	// all subscriptions are about to be told that everything changed.
	BrokerGap(subscriptions int)
	// BrokerIgnored is called for a message that was malformed or too large, and for
	// such a payload in one.
	BrokerIgnored()
}

// OriginCarrier takes origins from node to node. An [Observer] may be one.
type OriginCarrier interface {
	// InjectOrigin returns what Publishing returned as a short string.
	InjectOrigin(origin any) string
	// ExtractOrigin returns a context for Publishing on another node.
	ExtractOrigin(ctx context.Context, carried string) context.Context
}

// DefaultGapSpread is the time over which subscriptions are told after a gap.
const DefaultGapSpread = 3 * time.Second

// BrokerStats count what passed between a hub and its broker.
type BrokerStats struct {
	Connected bool
	Sent      uint64 // messages that the broker took
	Failed    uint64 // attempts that it did not
	Received  uint64 // messages of other nodes
	Ignored   uint64 // messages, and payloads in them, that were malformed or too large
	Gaps      uint64 // times that open subscriptions may have missed messages
	Unsent    int    // changes that wait to be sent
	Stale     int    // keys of extensions whose values wait to be read again
}
