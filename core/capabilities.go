// Capabilities that change: an MCP server may get its first tool long after its
// start, and advertises tools from then on.

package core

// SetCapabilities changes what the hub delivers, which is [Config].Capabilities
// before. It decides about listen requests that are acknowledged from then on. Open
// subscriptions keep what was acknowledged to them: where that is not delivered any
// more, end them with [Hub.EndWhere] afterwards.
func (h *Hub) SetCapabilities(c Capabilities) {
	// Under the lock, so that nothing is registered later by what was delivered
	// before.
	h.mu.Lock()
	defer h.mu.Unlock()
	h.declared.Store(&c)
}

// capabilities returns what the hub delivers while it serves.
func (h *Hub) capabilities() Capabilities {
	if c := h.declared.Load(); c != nil {
		return *c
	}
	return h.config.Capabilities
}
