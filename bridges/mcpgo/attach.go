// Attaching: how a server and a hub are tied, and how they part.

package mcpgobridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/server"
	"github.com/mcplisten/mcplisten/core"
)

// DefaultInterval is the least time between two publishes of what a server announces.
const DefaultInterval = 10 * time.Millisecond

// Option sets one thing of a [Bridge].
type Option func(*config)

type config struct {
	interval time.Duration
	context  context.Context
}

// WithInterval sets the least time between two publishes of what the server
// announces, and between two messages to its own clients of what the hub publishes:
// 10 ms by default. The first change goes out at once and what comes meanwhile when
// the time has passed, so a loop that adds many tools makes few notifications, and
// steady change delays none by more than the interval. Zero is none.
func WithInterval(d time.Duration) Option {
	return func(c *config) { c.interval = d }
}

// WithContext sets the context whose values the server's hooks find in what the
// bridge asks of the server for itself: what it advertises, and the subscriptions to
// resources when they end or are made again. Where a stream begins to listen to a
// resource, they find those of its request. The context's end ends nothing.
func WithContext(ctx context.Context) Option {
	return func(c *config) { c.context = ctx }
}

// Bridge is a server that is tied to a hub. Its methods are safe for concurrent use.
type Bridge struct {
	hub    *core.Hub
	server *server.MCPServer
	config config
	given  core.Config // the hub's, as the application gave it
	log    *slog.Logger
	inbox  *inbox
	lost   chan struct{} // one slot: the server has forgotten the bridge's session
	closed atomic.Bool
	ids    atomic.Uint64 // of requests

	session atomic.Pointer[session] // the one that the server knows, or is about to

	learning sync.Mutex
	known    core.Capabilities // what the server advertises; guarded by learning

	returning sync.RWMutex // held for writing while the session is replaced
	watching  sync.Mutex
	watched   map[string]bool // URIs that are subscribed to on the server; guarded by watching

	own own // the server's own clients

	ctx    context.Context // ends with the bridge
	cancel context.CancelFunc
	done   sync.WaitGroup
	close  func()
}

// Attach ties a server to a new hub with the given configuration. It must be called
// before the server serves its first request, since a server's hooks can only be
// added to until then. They stay when the bridge is closed.
//
// The hub delivers what the server advertises at the time, and what the
// configuration's Capabilities name on top: that is for what the application itself
// publishes on the hub. The configuration's Authorizer, Watcher and Tap are called as
// without a bridge, and its Logger is the bridge's too. Without a ServerInfo it has
// the server's.
//
// The server sees the bridge as one more session, whose id begins with
// [SessionPrefix]: its hooks are told of it. It is asked for server/discover, and while
// a stream listens to a resource the session is subscribed to it, as that of a client
// would be: so hooks that keep account of subscriptions work as they are. A
// subscription that the server refuses refuses the listen request.
//
// Attach fails where the configuration or the options contradict themselves, or where
// the server does not take the session or does not say what it advertises.
func Attach(srv *server.MCPServer, hub core.Config, options ...Option) (*Bridge, error) {
	if srv == nil {
		return nil, errors.New("mcpgobridge: no server")
	}
	c := config{interval: DefaultInterval, context: context.Background()}
	for _, option := range options {
		if option != nil {
			option(&c)
		}
	}
	if c.interval < 0 || c.context == nil {
		return nil, errors.New("mcpgobridge: the interval is negative, or the context nil")
	}
	b := &Bridge{
		server: srv, config: c, given: hub, log: hub.Logger,
		inbox:   newInbox(),
		lost:    make(chan struct{}, 1),
		watched: make(map[string]bool),
	}
	b.own.init()
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(c.context))
	b.close = sync.OnceFunc(b.shut)
	hub.Authorizer, hub.Watcher, hub.Tap = (*gate)(b), (*watcher)(b), (*tap)(b)
	first, err := b.ask()
	if hub.ServerInfo == nil {
		hub.ServerInfo = first.info
	}
	if err == nil {
		b.hub, err = core.NewHub(hub)
	}
	if err != nil {
		b.cancel()
		return nil, err
	}
	b.addHooks()
	if err := b.begin(); err != nil {
		b.closed.Store(true)
		b.unregister()
		b.cancel()
		return nil, errors.Join(err, b.hub.Shutdown(context.Background()))
	}
	b.done.Go(b.announce)
	b.done.Go(b.tellOwn)
	return b, nil
}

// begin registers the session, and then learns what the server advertises: what it
// announces later is not missed.
func (b *Bridge) begin() error {
	if err := b.register(); err != nil {
		return err
	}
	answer, err := b.ask()
	if err != nil {
		return err
	}
	b.learning.Lock()
	defer b.learning.Unlock()
	b.learned(answer.delivers)
	return nil
}

// Hub returns the hub: to mount it, to publish what the server does not announce, to
// shut it down.
func (b *Bridge) Hub() *core.Hub { return b.hub }

// Close parts the two, and leaves both running. What the server has announced is
// published before. Streams that were promised what the server announced end with
// their result, since nothing would come any more; from then on the hub delivers what
// the configuration's Capabilities name, and server/discover says so as long as the
// process runs. The server goes on serving its own clients.
//
// Close waits until the bridge has stopped, not for the streams: a program that ends
// shuts the hub down first. It may be called more than once, but not from inside a
// hook of the hub's or the server's. The error is always nil.
func (b *Bridge) Close() error {
	b.close()
	return nil
}

func (b *Bridge) shut() {
	b.closed.Store(true)
	b.leaveAll()
	b.unregister()
	b.cancel()
	b.done.Wait()
	b.unregister() // it may just have come back
	b.learning.Lock()
	defer b.learning.Unlock()
	b.learned(core.Capabilities{})
}

// SessionPrefix is how the ids of the bridge's sessions begin.
const SessionPrefix = "mcplisten-"

// register makes the bridge a session of the server. Each time it has another id:
// what hooks know of an earlier one is over.
func (b *Bridge) register() error {
	s := newSession(b.inbox)
	b.session.Store(s)
	if err := b.server.RegisterSession(b.ctx, s); err != nil {
		return fmt.Errorf("mcpgobridge: the server does not take the bridge's session: %w", err)
	}
	return nil
}

func (b *Bridge) unregister() {
	if s := b.session.Load(); s != nil {
		b.server.UnregisterSession(context.WithoutCancel(b.ctx), s.id)
	}
}

// addHooks adds to the server's hooks. A server that has none gets some.
func (b *Bridge) addHooks() {
	hooks := b.server.GetHooks()
	if hooks == nil {
		hooks = &server.Hooks{}
		server.WithHooks(hooks)(b.server)
	}
	b.hookCapabilities(hooks)
	b.hookSessions(hooks)
}
