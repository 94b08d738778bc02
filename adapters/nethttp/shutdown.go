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
// server.Shutdown closes the listener first. A service that spreads the ends
// ([core.Config].DrainSpread) calls hub.Shutdown before it as well, so that
// newcomers are told when to come back for as long as that takes.
//
// It must be called before the server serves. Where the server's
// HTTP2.WriteByteTimeout is not set, it becomes 10 s: of an HTTP/2 connection
// whose client reads nothing at all, no write deadline of a stream can get out,
// and its streams would never end.
//
// server.Close cuts the streams without a result.
func RegisterShutdown(server *http.Server, hub *core.Hub) {
	if server.HTTP2 == nil {
		server.HTTP2 = &http.HTTP2Config{}
	}
	if server.HTTP2.WriteByteTimeout == 0 {
		server.HTTP2.WriteByteTimeout = DefaultWriteTimeout
	}
	server.RegisterOnShutdown(func() {
		// It cannot fail: the context has no end. A stalled client ends with its
		// write timeout.
		_ = hub.Shutdown(context.Background())
	})
}
