// Options: what can be set on a subscription, and the defaults.

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// The defaults of the options.
const (
	DefaultAckTimeout = 30 * time.Second
	DefaultKeepAlive  = 15 * time.Second
	DefaultMaxMessage = 4 << 20
)

// Option sets one thing of a subscription. A nil Option is ignored.
type Option func(*config)

type config struct {
	ackTimeout   time.Duration
	keepAlive    time.Duration
	maxMessage   int
	meta         map[string]any
	info         *core.Implementation
	capabilities any
	families     []core.Family
	trace        func(ctx context.Context, set func(key, value string))
	log          *slog.Logger

	header http.Header
	host   string // of the request, where it is not the URL's
	http   *http.Client
	token  func(context.Context) (string, error)

	backoff Backoff
	onRetry func(Retry)

	failed error // of an option
}

func newConfig(options []Option) (*config, error) {
	c := &config{
		ackTimeout:   DefaultAckTimeout,
		keepAlive:    DefaultKeepAlive,
		maxMessage:   DefaultMaxMessage,
		info:         defaultInfo(),
		capabilities: struct{}{},
		header:       make(http.Header),
		log:          slog.New(slog.DiscardHandler),
	}
	for _, option := range options {
		if option != nil {
			option(c)
		}
	}
	c.backoff = c.backoff.withDefaults()
	switch {
	case c.failed != nil:
		return nil, c.failed
	case c.ackTimeout <= 0:
		return nil, errors.New("client: the acknowledgment timeout is not positive")
	case c.maxMessage <= 0:
		return nil, errors.New("client: the limit on messages is not positive")
	case c.backoff.First < 0 || c.backoff.Max < c.backoff.First || c.backoff.Reset < 0:
		return nil, errors.New("client: the backoff contradicts itself")
	}
	if encoded, err := json.Marshal(c.capabilities); err != nil || encoded[0] != '{' {
		return nil, errors.New("client: the client capabilities do not encode to a JSON object")
	}
	if _, err := json.Marshal(c.meta); err != nil {
		return nil, fmt.Errorf("client: a member of _meta cannot be encoded: %w", err)
	}
	if c.http == nil {
		c.http = defaultHTTP()
	}
	c.http = guardRedirects(c.http, c.header)
	return c, nil
}

// WithAckTimeout sets how long to wait for the acknowledgment, from the request
// on: 30 s by default. The end is then [ErrNoAck].
func WithAckTimeout(d time.Duration) Option {
	return func(c *config) { c.ackTimeout = d }
}

// WithKeepAlive sets the server's keep-alive period over HTTP, 15 s by default.
// When no byte has come for three periods, the connection counts as dead and the
// end is [ErrIdle]. Zero or less switches that off: for a server that sends no
// keep-alives.
//
// [Follow] does not let a server without keep-alives make it reconnect for ever
// at this pace: each time that a stream ends idle without a single byte after the
// acknowledgment, it waits twice as long on the next one, up to ten minutes.
func WithKeepAlive(period time.Duration) Option {
	return func(c *config) { c.keepAlive = period }
}

// WithMaxMessage sets the largest message in bytes, 4 MiB by default.
func WithMaxMessage(bytes int) Option {
	return func(c *config) { c.maxMessage = bytes }
}

// WithClientInfo sets the clientInfo of the request's _meta. By default it names
// this library.
func WithClientInfo(info core.Implementation) Option {
	return func(c *config) { c.info = &info }
}

// WithClientCapabilities sets the clientCapabilities of the request's _meta, a
// value that encodes to a JSON object; {} by default.
func WithClientCapabilities(capabilities any) Option {
	return func(c *config) { c.capabilities = capabilities }
}

// WithMeta adds a member to the request's _meta. The members that the protocol
// requires have their own options or none.
func WithMeta(key string, value any) Option {
	return func(c *config) {
		switch key {
		case core.MetaProtocolVersion, core.MetaClientCapabilities, core.MetaClientInfo:
			c.failed = fmt.Errorf("client: WithMeta cannot set %s", key)
			return
		}
		if c.meta == nil {
			c.meta = make(map[string]any)
		}
		c.meta[key] = value
	}
}

// WithTrace sets a function that puts the trace context of ctx into the
// request's _meta: traceparent, tracestate and baggage. With OpenTelemetry it
// is, where p is a propagator:
//
//	func(ctx context.Context, set func(key, value string)) {
//		carrier := propagation.MapCarrier{}
//		p.Inject(ctx, carrier)
//		for k, v := range carrier {
//			set(k, v)
//		}
//	}
func WithTrace(inject func(ctx context.Context, set func(key, value string))) Option {
	return func(c *config) { c.trace = inject }
}

// WithLogger sets where what goes wrong is logged. By default nothing is.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.log = log
		}
	}
}

// WithHeader adds a header to the HTTP request; Host sets the name that the server
// is asked for. The protocol's own headers and those of HTTP's framing cannot be
// set. A redirect to another server does not take the header along.
func WithHeader(name, value string) Option {
	return func(c *config) {
		key := http.CanonicalHeaderKey(name)
		switch {
		case !isHeaderName(name):
			c.failed = fmt.Errorf("client: %q is no name of a header", name)
		case !isHeaderValue(value):
			c.failed = fmt.Errorf("client: the value of the header %s has a line break or another control character", name)
		case slices.Contains(reserved, key):
			c.failed = fmt.Errorf("client: WithHeader cannot set %s", name)
		case key == "Host" && (value == "" || strings.ContainsAny(value, " \t/?#@")):
			c.failed = fmt.Errorf("client: %q is no host", value)
		case key == "Host":
			c.host = value
		default:
			c.header.Add(name, value)
		}
	}
}

// reserved are the headers that WithHeader does not set.
var reserved = []string{
	"Content-Type", "Accept", "Mcp-Protocol-Version", "Mcp-Method",
	"Content-Length", "Transfer-Encoding", "Trailer",
}

// isHeaderName reports whether a name is a token (RFC 9110, section 5.6.2).
func isHeaderName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		isAlphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !isAlphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

// isHeaderValue reports whether a value has no control characters but tabs (RFC
// 9110, section 5.5).
func isHeaderValue(value string) bool {
	for _, b := range []byte(value) {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

// WithHTTPClient sets the client that sends HTTP requests. Its Timeout is not
// used, since it would cut each stream at that age: [WithAckTimeout] and
// [WithKeepAlive] are there instead. A ResponseHeaderTimeout of its Transport is
// harmless: the headers come with the acknowledgment.
//
// After an end that leaves a connection in doubt, its idle connections are
// closed.
func WithHTTPClient(client *http.Client) Option {
	return func(c *config) {
		if client == nil {
			return
		}
		timeless := *client
		timeless.Timeout = 0
		c.http = &timeless
	}
}

// WithToken sends a bearer token. A redirect to another server does not take it
// along.
func WithToken(token string) Option {
	return func(c *config) {
		if !isHeaderValue(token) {
			c.failed = errors.New("client: the token has a line break or another control character")
			return
		}
		c.header.Set("Authorization", "Bearer "+token)
	}
}

// WithTokenSource sets where the bearer token of each HTTP request comes from. It
// is called again for each reconnect. With it, [Follow] takes a 401 for a token
// that has run out, and asks again up to five times in a row; without it a 401 is
// the end.
func WithTokenSource(source func(ctx context.Context) (string, error)) Option {
	return func(c *config) { c.token = source }
}

// WithBackoff sets how [Follow] spreads its attempts.
func WithBackoff(b Backoff) Option {
	return func(c *config) { c.backoff = b }
}

// WithOnRetry sets a function that [Follow] calls, on its own goroutine, after
// each end that it does not take for the last one, before it waits.
func WithOnRetry(f func(Retry)) Option {
	return func(c *config) { c.onRetry = f }
}

const modulePath = "github.com/mcplisten/mcplisten"

func defaultInfo() *core.Implementation {
	info := &core.Implementation{Name: "mcplisten", Version: "unknown"}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range append(build.Deps, &build.Main) {
			if module.Path == modulePath && module.Version != "" {
				info.Version = strings.Trim(module.Version, "()")
			}
		}
	}
	return info
}
