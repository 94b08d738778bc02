// The hub: owns the subscriptions of one endpoint.

package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a [Hub]. The zero value of each field is a useful default.
type Config struct {
	// Capabilities are the notifications that this server publishes. What a
	// client asks for beyond them is not honored; by default nothing is.
	// [Hub.SetCapabilities] changes them.
	Capabilities Capabilities

	// Extensions are families of notifications beyond the protocol's own. A member of
	// the filter that none of them has is ignored.
	Extensions []Extension

	// ServerInfo goes into the _meta of the result that ends a subscription.
	ServerInfo *Implementation

	// KeepAlive is the silence after which a sign of life is written: often
	// enough that no proxy or load balancer takes the stream for dead (60 s is a
	// usual limit). 15 s by default; negative for none: then a client that has gone
	// may be noticed only when something is next written to it.
	KeepAlive time.Duration

	// MaxLifetime is the age at which a subscription is ended with its result,
	// give or take a random tenth, so that streams opened together do not all come
	// back together. None by default: some clients do not come back.
	MaxLifetime time.Duration

	// MaxStreams is how many subscriptions are open at most; at the limit the
	// newcomer is refused and nobody is thrown out, since an evicted client only
	// comes back. 10,000 by default.
	MaxStreams int

	// MaxStreamsPerPrincipal is how many of them one principal may have. No limit
	// by default: an application without principals would be shut out.
	MaxStreamsPerPrincipal int

	// MaxShare is the part of MaxStreams, between 0 and 1, that one principal may
	// have, so that the places left for others follow a changed MaxStreams. The
	// smaller one of the two limits counts. No limit by default.
	MaxShare float64

	// LimitKey says who shares a principal's limits: it returns the same key for
	// principals that count as one, the tenant for one. By default each principal
	// counts alone. The empty key has no limit of its own.
	LimitKey func(principal string) string

	// MaxOpening is how many requests may be on their way through Authorizer and
	// Watcher at one time, which protects what is behind those when every client
	// comes back at once. No limit by default.
	MaxOpening int

	// Limits bound one request.
	Limits Limits

	// DrainSpread is the time over which Shutdown spreads the ends of the
	// subscriptions, so that their clients do not all come to the other nodes in
	// one second. By default all end at once.
	DrainSpread time.Duration

	// Mode says whether listening is served at all. [Hub.SetMode] changes it.
	Mode Mode

	Authorizer Authorizer // nil allows all
	Watcher    Watcher    // nil for none
	Matcher    Matcher    // nil matches exactly
	Observer   Observer   // nil for none
	Tap        Tap        // nil for none

	// Broker connects the hub with those of other nodes. By default there are none.
	// A hub with a broker runs goroutines of its own until Shutdown has returned.
	Broker Broker

	// GapSpread is the time over which all subscriptions are told that everything
	// changed after the broker was away, since each of them makes its client fetch.
	// 3 s by default; negative for at once.
	GapSpread time.Duration

	// OnEnd is called once for each subscription that was acknowledged, after it
	// has been released.
	OnEnd func(End)

	// Logger gets one line at debug level for each ended subscription, a warning
	// for each burst of refusals at a limit, and an error for each panic of a hook;
	// and what the hub's transports have to say, unless they have a logger of their
	// own. Nothing is logged by default.
	Logger *slog.Logger
}

// The defaults of a Config.
const (
	DefaultKeepAlive  = 15 * time.Second
	DefaultMaxStreams = 10_000
)

// Hub owns all subscriptions of one MCP endpoint in one process. All its methods
// are safe for concurrent use, and from inside any hook but a Matcher.
type Hub struct {
	config     Config
	serverInfo string // encoded, for results
	log        *slog.Logger
	deadlines  deadlines
	writers    writers
	watches    watches
	link       *link // nil without a broker
	families   []*family

	stats stats
	mode  atomic.Int32 // a Mode; set under mu

	declared   atomic.Pointer[Capabilities] // nil: the configured ones; set under mu
	undeclared atomic.Uint32                // bit k: the log says that kind k is published and not among the capabilities

	serial  atomic.Uint64 // of the newest subscription
	covered atomic.Uint64 // changes that the Matcher was asked for
	hooks   atomic.Int64  // hooks running on behalf of subscriptions
	closing atomic.Bool   // set under mu

	mu        sync.RWMutex
	index     index
	opening   int            // requests that are not yet admitted
	starting  int            // of the live subscriptions, those whose watches are starting
	live      int            // subscriptions that count against the limits
	releasing int            // those that do not any more, and are not yet released
	byKey     map[string]int // the live ones of each limit key
	drainEnd  time.Time      // when the last subscription is asked to end; closing only
	changed   *sync.Cond     // something above, or hooks, changed while closing; on mu

	closed context.Context // ends when closing starts
	close  context.CancelFunc
	hurry  context.Context // ends when closing must not take its time any more
	rush   context.CancelFunc
}

// NewHub returns a hub with the given configuration. It fails where that
// contradicts itself.
func NewHub(config Config) (*Hub, error) {
	if config.KeepAlive == 0 {
		config.KeepAlive = DefaultKeepAlive
	}
	if config.MaxStreams == 0 {
		config.MaxStreams = DefaultMaxStreams
	}
	if config.GapSpread == 0 {
		config.GapSpread = DefaultGapSpread
	}
	config.Limits = config.Limits.withDefaults()
	l := config.Limits
	switch {
	case config.MaxStreams < 0, config.MaxStreamsPerPrincipal < 0, config.MaxOpening < 0, l.MaxURIs < 0, l.MaxURILength < 0, l.MaxIDLength < 0:
		return nil, errors.New("core: a limit is negative")
	case config.MaxLifetime < 0:
		return nil, errors.New("core: the maximum lifetime is negative")
	case config.DrainSpread < 0:
		return nil, errors.New("core: the drain spread is negative")
	case !(config.MaxShare >= 0 && config.MaxShare <= 1):
		return nil, errors.New("core: the share of one principal is not between 0 and 1")
	case !config.Mode.valid():
		return nil, errors.New("core: there is no such mode")
	}
	info, err := encodeServerInfo(config.ServerInfo)
	if err != nil {
		return nil, fmt.Errorf("core: server info: %w", err)
	}
	families, err := newFamilies(config)
	if err != nil {
		return nil, err
	}
	h := &Hub{
		config:     config,
		families:   families,
		serverInfo: info,
		log:        newLog(config.Logger),
		deadlines:  deadlines{epoch: time.Now(), armed: never},
		writers:    newWriters(),
		watches:    watches{watcher: config.Watcher, byURI: make(map[string]*watch)},
		byKey:      make(map[string]int),
	}
	h.mode.Store(int32(config.Mode))
	h.closed, h.close = context.WithCancel(context.Background())
	h.hurry, h.rush = context.WithCancel(context.Background())
	h.changed = sync.NewCond(&h.mu)
	h.watches.hub = h
	if config.Broker != nil {
		h.link = newLink(h, config.Broker)
	}
	return h, nil
}

// Capabilities returns what the hub delivers: nothing unless it serves.
func (h *Hub) Capabilities() Capabilities {
	if h.Mode() != ModeServe {
		return Capabilities{}
	}
	return h.capabilities()
}

// ServerInfo returns the configured server info, nil where there is none.
func (h *Hub) ServerInfo() *Implementation { return h.config.ServerInfo }

// Logger returns where the hub logs, for its transports: to [Config.Logger], whose
// handler may panic here; where that is nil, nowhere. It is never nil.
func (h *Hub) Logger() *slog.Logger { return h.log }

// Limits returns the limits of one request.
func (h *Hub) Limits() Limits { return h.config.Limits }
