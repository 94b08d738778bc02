// Package beside is the code of docs/observability.md: how each framework's own
// OpenTelemetry instrumentation and mcplisten go together, and how the life of a
// stream stays out of the durations of HTTP requests.
package beside

import (
	"net/http"

	"github.com/mcplisten/mcplisten/core"
)

// isListen reports whether a request opens a stream. The header can be relied on:
// a listen request without it is refused.
func isListen(r *http.Request) bool {
	return r.Header.Get("Mcp-Method") == core.MethodListen
}
