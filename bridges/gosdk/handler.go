// One endpoint, all revisions: the SDK serves 2026-07-28 in a handler without sessions
// and everything older in one with them, and neither serves both.

package gosdkbridge

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Handler returns the server's endpoint for what is no listen request, to put behind
// the hub's handler: what speaks revision 2026-07-28, by its MCP-Protocol-Version
// header, is served without sessions, and everything else as before by older, the
// handler that the service already has (GET and DELETE included, where the hub's
// handler passes them on: see mcphttp.WithLegacyMethods). A service that serves no
// older revision needs no Handler: its stateless one goes behind the hub's as it is.
//
// options are those of the handler for 2026-07-28; Stateless is set anyway. nil means
// the SDK's defaults.
func (b *Bridge) Handler(older http.Handler, options *mcp.StreamableHTTPOptions) http.Handler {
	var o mcp.StreamableHTTPOptions
	if options != nil {
		o = *options
	}
	o.Stateless = true
	newer := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server }, &o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.Header.Get("Mcp-Protocol-Version") >= revisionWithListen {
			newer.ServeHTTP(w, r)
			return
		}
		older.ServeHTTP(w, r)
	})
}
