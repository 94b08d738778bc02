// What the tests set on a broker.

package mcpredis

import "time"

// Check sets how often the server is asked for a sign of life.
func (b *Broker) Check(every time.Duration) { b.checkEvery = every }
