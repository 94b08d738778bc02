// What the tests do with a broker's connection.

package mcpnats

import (
	"context"
	"time"
)

// Flush waits until the server has seen, and sent, all that came before.
func (b *Broker) Flush() error { return b.flush(context.Background(), 10*time.Second) }

// Check sets how often, and how long, the connection is asked for a sign of life.
func (b *Broker) Check(every, timeout time.Duration) { b.checkEvery, b.checkTimeout = every, timeout }
