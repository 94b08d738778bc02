// Package listentest is the black-box test of an endpoint that serves
// subscriptions/listen over HTTP: one table of behaviours, which every adapter
// runs over real sockets. What differs between adapters is how the endpoint is
// mounted, so that is all that an adapter's own test says:
//
//	func TestEndpoint(t *testing.T) {
//		listentest.Run(t, func(tb testing.TB, e listentest.Endpoint) http.Handler {
//			… mount e.Hub with e.Options at listentest.Path, in front of e.Next if there is one …
//		})
//	}
//
// The package also has the server and the client of these tests. The client is
// strict: it checks each message on the wire against the rules that the protocol
// states in prose.
package listentest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// Path is where the endpoint is mounted.
const Path = "/mcp"

// Endpoint is what a test asks to be mounted.
type Endpoint struct {
	Hub     *core.Hub
	Options []mcphttp.Option
	Next    http.Handler // nil: the endpoint stands alone
}

// Mount mounts an endpoint at Path and returns the handler for all requests of a
// server. It fails tb where that cannot be done.
type Mount func(tb testing.TB, e Endpoint) http.Handler

// suite is the table for one way of mounting.
type suite struct {
	mount Mount
	lean  bool // see RunLean
}

// Run runs the whole table.
func Run(t *testing.T, mount Mount) {
	t.Helper()
	suite{mount: mount}.run(t)
}

// RunLean runs the whole table with lean streams ([mcphttp.WithLeanStreams]). On
// HTTP/1.1 a connection then ends with its stream, and what is in front of the
// endpoint is not asked again once the stream is open.
func RunLean(t *testing.T, mount Mount) {
	t.Helper()
	suite{lean: true, mount: func(tb testing.TB, e Endpoint) http.Handler {
		tb.Helper()
		e.Options = append(slices.Clone(e.Options), mcphttp.WithLeanStreams())
		return mount(tb, e)
	}}.run(t)
}

// takesOver reports whether streams on p are lean.
func (s suite) takesOver(p Protocol) bool { return s.lean && p == HTTP1 }

func (s suite) run(t *testing.T) {
	t.Helper()
	// These take all the processors or look at memory: one after the other.
	t.Run("StalledClientHoldsUpNobody", s.stalledClient)
	t.Run("AckFirstWhilePublishing", s.ackFirst)
	t.Run("NothingLostAfterAck", s.nothingLost)
	// The rest runs side by side.
	t.Run("Stream", s.stream)
	t.Run("StreamHeaders", s.streamHeaders)
	t.Run("OneWritePerFlush", s.oneWrite)
	t.Run("Refusals", s.refusals)
	t.Run("Accept", s.accept)
	t.Run("ContentType", s.contentType)
	t.Run("BodyLimit", s.bodyLimit)
	t.Run("Methods", s.methods)
	t.Run("Alone", s.alone)
	t.Run("Discover", s.discover)
	t.Run("Refusers", s.refusers)
	t.Run("Policies", s.policies)
	t.Run("Cancellation", s.cancellation)
	t.Run("Tasks", s.tasks)
	t.Run("TaskRefusals", s.taskRefusals)
	t.Run("HonoredFilter", s.honored)
	t.Run("IDs", s.ids)
	t.Run("EqualIDs", s.equalIDs)
	t.Run("Hosts", s.hosts)
	t.Run("Origins", s.origins)
	t.Run("NextUnread", s.nextUnread)
	t.Run("NextIntact", s.nextIntact)
	t.Run("NextNotCalled", s.nextNotCalled)
	t.Run("BrokenBodies", s.brokenBodies)
	t.Run("ServerTimeouts", s.serverTimeouts)
	t.Run("ConnectionReuse", s.connectionReuse)
	t.Run("HiddenDeadline", s.hiddenDeadline)
	t.Run("ContextDeadline", s.contextDeadline)
	t.Run("CannotFlush", s.cannotFlush)
	t.Run("SwallowedFlushError", s.swallowedFlushError)
	t.Run("Disconnect", s.disconnect)
	t.Run("SlowClient", s.slowClient)
	t.Run("StalledConnection", s.stalledConnection)
	t.Run("Shutdown", s.shutdown)
	t.Run("ServerClose", s.serverClose)
	t.Run("WriterPanics", s.writerPanics)
}
