// Options: what can be set on a Server, and the defaults.

package mcpstdio

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// The defaults of the options.
const (
	DefaultMaxLine      = 16 << 20
	DefaultWriteTimeout = 10 * time.Second
	DefaultGrace        = 5 * time.Second
	DefaultMaxCalls     = 100
)

// Option sets one thing of a [Server].
type Option func(*config)

type config struct {
	next         Next
	upstream     Upstream
	principal    func(context.Context) string
	maxLine      int
	maxCalls     int
	writeTimeout time.Duration
	grace        time.Duration
	log          *slog.Logger
}

func (c *config) validate() error {
	switch {
	case c.next != nil && c.upstream != nil:
		return errors.New("mcpstdio: there are both a next function and an upstream")
	case c.maxLine <= 0:
		return errors.New("mcpstdio: the line limit is not positive")
	case c.maxCalls <= 0:
		return errors.New("mcpstdio: the limit of calls is not positive")
	case c.writeTimeout <= 0:
		return errors.New("mcpstdio: the write timeout is not positive")
	case c.grace < 0:
		return errors.New("mcpstdio: the grace is negative")
	}
	return nil
}

// WithNext passes every message that is not the hub's to a function of this
// process.
func WithNext(next Next) Option {
	return func(c *config) { c.next = next }
}

// WithUpstream passes every message that is not the hub's to another MCP server,
// and what that one writes to the client: see [Command] and [InProcess].
//
// The subscriptions of the connection are the hub's, all of them. So what the server
// behind says of changes on its own is dropped, unless the client has sent it
// initialize, as clients of older revisions do, which expect just that. A response of
// its that would pass for an open subscription's result is dropped as well.
//
// If it stops reading for more than a second, requests beyond the 4 MiB or 1024
// messages that wait for it are refused until it reads again, and other messages
// are dropped.
func WithUpstream(upstream Upstream) Option {
	return func(c *config) { c.upstream = upstream }
}

// WithPrincipal sets how to get the name of the authenticated principal of a
// connection from the context that [Server.Serve] was given, for the hub's
// Authorizer and limits. An empty name means nobody, which is the default.
func WithPrincipal(principal func(ctx context.Context) string) Option {
	return func(c *config) { c.principal = principal }
}

// WithMaxLine sets the longest line in bytes, 16 MiB by default. A longer one of
// the client's is answered with an error and skipped; one of the upstream's ends
// the connection, since a message would be missing.
func WithMaxLine(bytes int) Option {
	return func(c *config) { c.maxLine = bytes }
}

// WithMaxCalls sets how many calls of the function given to [WithNext] may run
// at a time for one connection, 100 by default. What comes beyond them is refused
// if it is a request, and dropped if not.
func WithMaxCalls(n int) Option {
	return func(c *config) { c.maxCalls = n }
}

// WithWriteTimeout sets how long one write may take before the client counts as
// too slow and its connection is ended, 10 s by default. It holds where the writer
// has a SetWriteDeadline method that works: sockets and pipes made by this process
// have, the standard streams as a rule do not. There a client that stops reading
// is waited for, which costs one blocked write, whatever is published; but one that
// asks on while it does not read is given up all the same, once 64 answers wait and
// none gets out for that long.
func WithWriteTimeout(d time.Duration) Option {
	return func(c *config) { c.writeTimeout = d }
}

// WithGrace sets how long answers that are still due are waited for once the
// client has closed its side, 5 s by default.
func WithGrace(d time.Duration) Option {
	return func(c *config) { c.grace = d }
}

// WithLogger sets where the server says what an operator should know. By default,
// and where log is nil, that is the hub's logger. The standard output is the
// protocol's: log elsewhere.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.log = log
		}
	}
}
