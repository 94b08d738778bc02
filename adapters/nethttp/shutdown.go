// Shutting down together: http.Server.Shutdown waits for open streams but does
// not tell them.

package mcphttp

import (
	"context"
	"net/http"

	"github.com/mcplisten/mcplisten/core"
)

// RegisterShutdown makes server.Shutdown end the hub's streams, each with its
// result; without it, server.Shutdown waits for streams that do not know. It
// returns as soon as they have ended, or when its own context does.
//
// server.Close cuts the streams without a result.
func RegisterShutdown(server *http.Server, hub *core.Hub) {
	server.RegisterOnShutdown(func() {
		// It cannot fail: the context has no end. A stalled client ends with its
		// write timeout.
		_ = hub.Shutdown(context.Background())
	})
}
