// What tests see of the bridge's memory.

package gosdkbridge

// OlderSubscriptions returns how many subscriptions of clients of older revisions the
// bridge remembers.
func (b *Bridge) OlderSubscriptions() int {
	b.older.mu.Lock()
	defer b.older.mu.Unlock()
	return b.older.count
}
