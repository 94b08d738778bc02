// Options: what can be set on a Handler, and the defaults.

package mcphttp

import (
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// The defaults of the options.
const (
	DefaultWriteTimeout = 10 * time.Second
	DefaultMaxBody      = 1 << 20
)

// Option sets one thing of a [Handler].
type Option func(*config)

type config struct {
	writeTimeout time.Duration
	maxBody      int64
	origins      []string
	hosts        []string
	principal    func(*http.Request) string
	passLegacy   bool
	lean         bool
	log          *slog.Logger
}

func (c *config) validate() error {
	switch {
	case c.writeTimeout <= 0:
		return errors.New("mcphttp: the write timeout is not positive")
	case c.maxBody <= 0:
		return errors.New("mcphttp: the body limit is not positive")
	}
	return nil
}

// WithWriteTimeout sets how long one write to a client may take before the
// client counts as too slow and its stream is ended, 10 s by default. It bounds
// what a client that stops reading can hold, not the life of a stream: it is for all
// that one flush sends. Where the response writer supports no deadlines there is
// none. Of an HTTP/2 connection whose client reads nothing at all, the end of a stream
// cannot get out: set http.Server's HTTP2.WriteByteTimeout too, as
// [RegisterShutdown] does.
func WithWriteTimeout(d time.Duration) Option {
	return func(c *config) { c.writeTimeout = d }
}

// WithMaxBody sets the largest request body in bytes, 1 MiB by default.
func WithMaxBody(bytes int64) Option {
	return func(c *config) { c.maxBody = bytes }
}

// WithOrigins sets the values of the Origin header that are allowed, such as
// "https://app.example.com": scheme, host and, unless it is the scheme's own,
// port. "https://*.example.com" stands for every sub-domain of example.com, at
// any depth, but not for example.com itself. Names are compared without regard to
// case; those in other scripts are given in their xn-- form. The origin "null" is
// never allowed. The list replaces the default, which allows loopback origins on a
// loopback listener and refuses all others. A request without Origin passes either
// way: it is not from a browser. A page of the service itself sends its own
// origin, which then belongs on the list too.
func WithOrigins(origins ...string) Option {
	return func(c *config) { c.origins = append(c.origins, origins...) }
}

// WithHosts sets the host names, without port, that the Host header may have. A
// service on a loopback listener behind a proxy that keeps the client's Host
// lists its public names; "*.example.com" stands for all sub-domains. Loopback
// names stay allowed on a loopback listener. Without a list every host is allowed
// on other listeners.
func WithHosts(hosts ...string) Option {
	return func(c *config) { c.hosts = append(c.hosts, hosts...) }
}

// WithPrincipal sets how to get the name of the authenticated principal from a
// request, for the hub's Authorizer and limits. Authentication itself is the job
// of a middleware in front. An empty name means nobody.
//
// It also makes a POST of notifications/cancelled end the stream that the
// principal opened under that request id, if there is exactly one. Without
// principals such a message is accepted and ends nothing: ids are chosen by
// clients, and anybody could end the streams of others.
func WithPrincipal(principal func(*http.Request) string) Option {
	return func(c *config) { c.principal = principal }
}

// WithLegacyMethods passes GET and DELETE requests on to the wrapped handler,
// for a server that still speaks older revisions of MCP there. By default they
// get 405.
func WithLegacyMethods() Option {
	return func(c *config) { c.passLegacy = true }
}

// WithLeanStreams takes the connection of each stream over from net/http once the
// acknowledgment is written, which leaves of an idle stream a fifth of the memory:
// about 4 KB and one goroutine. It is for services with very many streams behind a
// proxy, on HTTP/1.1 without TLS in the process. Where a connection cannot be taken
// over, above all on HTTP/2, a stream is served in the ordinary way, which the log
// says once.
//
// What is the same: all that a client sees but one header, Connection: close, since
// the connection ends with its stream; the deadline of the request's context; and
// hub.Shutdown, which waits for every stream. What is not:
//   - The handler returns once the stream is open. So do the middlewares in front: an
//     access log tells of a short request, a throttle gives its place to the next one,
//     and the request's context is over, with the values in it. Hooks that come later,
//     as a re-check, get another. What passes on or copies the response's bytes sees the
//     acknowledgment and no more; where it encodes them, the stream is an ordinary one.
//   - What a middleware does to the response after the handler is too late: net/http logs
//     a write to a connection that was taken over, and panics in a flush of it.
//   - http.Server knows nothing of these streams: server.Shutdown does not wait for
//     them, with [RegisterShutdown] or without, and neither server.Close nor the end of
//     its BaseContext cuts them. Call hub.Shutdown, and wait for it.
func WithLeanStreams() Option {
	return func(c *config) { c.lean = true }
}

// WithLogger sets where the handler says what an operator should know, each
// thing once. By default, and where log is nil, that is the hub's logger.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.log = log
		}
	}
}
