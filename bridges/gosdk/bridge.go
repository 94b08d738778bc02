// The bridge: attaching a server to a hub, and detaching it.

package gosdkbridge

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcplisten/mcplisten/core"
)

// DefaultMaxDelay is the longest time from a list's change to its notification while
// the list keeps changing.
const DefaultMaxDelay = time.Second

// Option sets one thing of a bridge. A nil Option is ignored.
type Option func(*Bridge)

// WithMaxDelay sets within which time a list's subscribers are told of a change
// while changes keep coming, faster than the server's debounce of 10 ms: 1 s by
// default. Three times in it, as long as anybody may be listening, the bridge looks
// at the server's lists. Without such bursts it changes nothing.
func WithMaxDelay(d time.Duration) Option {
	return func(b *Bridge) { b.maxDelay = d }
}

// Bridge ties a server to a hub. All its methods are safe for concurrent use.
type Bridge struct {
	server   *mcp.Server
	hub      *core.Hub
	config   core.Config // as the application gave it
	maxDelay time.Duration
	log      *slog.Logger

	handle mcp.MethodHandler // what the SDK does with a request, without anybody's middleware
	send   mcp.MethodHandler // sends to a session, through the middleware that was there before
	values context.Context   // of a request of the bridge's own: the SDK looks for an id there

	ctx     context.Context // ends with the bridge
	detach  context.CancelFunc
	running sync.WaitGroup

	mu         sync.Mutex
	session    *mcp.ServerSession
	watched    map[string]*mcp.ServerSession // subscribed URIs, and where
	advertised core.Capabilities             // by the server, when it was last asked

	asking    sync.Mutex        // one question for capabilities at a time, so that the newest answer stays
	delivered core.Capabilities // the hub's; guarded by asking

	moving sync.RWMutex // subscribing holds it for reading, moving all to a new session for writing
	lists  lists
	older  older
	rounds rounds
}

// Attach ties a server to a new hub with the given configuration, whose Capabilities
// are what the application itself publishes there; what the server advertises comes
// on top. Where the configuration has no ServerInfo it is the server's. Its
// Authorizer, Watcher and Tap are called as without a bridge.
//
// It fails where the configuration contradicts itself, and then leaves the server as
// it was, or where the server does not do what the bridge relies on: with another
// version of the SDK.
func Attach(server *mcp.Server, config core.Config, options ...Option) (*Bridge, error) {
	if server == nil {
		return nil, errors.New("gosdkbridge: no server")
	}
	b := &Bridge{
		server: server, config: config, maxDelay: DefaultMaxDelay, log: config.Logger,
		handle: unwrapped(), watched: make(map[string]*mcp.ServerSession), delivered: config.Capabilities,
	}
	b.ctx, b.detach = context.WithCancel(context.Background())
	for _, option := range options {
		if option != nil {
			option(b)
		}
	}
	if b.maxDelay <= 0 {
		return nil, errors.New("gosdkbridge: the longest delay is not positive")
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	b.lists.init(b)
	b.older.init(b)
	if err := b.start(); err != nil {
		b.detach()
		if b.session != nil {
			_ = b.session.Close()
		}
		return nil, err
	}
	b.running.Go(b.keep)
	b.running.Go(b.lists.look)
	b.running.Go(b.older.run)
	return b, nil
}

// start makes the session and the hub.
func (b *Bridge) start() error {
	s, c, err := b.connect()
	if err != nil {
		return err
	}
	b.session = s
	info, err := b.initialize(s)
	if err != nil {
		return err
	}
	config := b.config
	if config.ServerInfo == nil {
		config.ServerInfo = info
	}
	config.Authorizer, config.Watcher, config.Tap = gate{b}, watcher{b}, &b.older
	if b.hub, err = core.NewHub(config); err != nil {
		return err
	}
	if err := b.enter(s, c); err != nil {
		return errors.Join(err, b.hub.Shutdown(context.Background()))
	}
	c.open()
	b.refresh()
	return nil
}

// enter puts the bridge among the server's middleware, and learns from a request of
// its own what the SDK wants to see in the context of every one.
func (b *Bridge) enter(s *mcp.ServerSession, c *connection) error {
	b.server.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		b.send = next
		return b.overhear(next)
	})
	b.server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == methodPing && req.GetSession() == mcp.Session(s) {
				b.learn(ctx)
				return b.handle(ctx, method, req)
			}
			result, err := next(ctx, method, req)
			if err == nil {
				result = b.received(method, req, result)
			}
			return result, err
		}
	})
	c.ask(methodPing)
	select {
	case <-c.answered:
	case <-c.done:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.values == nil {
		return errors.New("gosdkbridge: the server did not take a request of its own: another version of the SDK")
	}
	return nil
}

// learn keeps the values of the context of the bridge's own request.
func (b *Bridge) learn(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.values == nil {
		b.values = context.WithoutCancel(ctx)
	}
}

// received is told of each request that the server has answered, and returns the
// answer.
func (b *Bridge) received(method string, req mcp.Request, result mcp.Result) mcp.Result {
	switch params := req.GetParams().(type) {
	case *mcp.DiscoverParams:
		if answer, ok := result.(*mcp.DiscoverResult); ok {
			return b.agree(answer)
		}
	case *mcp.SubscribeParams:
		if method == methodSubscribe {
			b.older.subscribed(req.GetSession(), params.URI)
		}
	case *mcp.UnsubscribeParams:
		b.older.unsubscribed(req.GetSession(), params.URI)
	}
	return result
}

// Hub returns the hub: to mount it, to publish what the server does not announce, to
// shut it down.
func (b *Bridge) Hub() *core.Hub { return b.hub }

// Close unties the server from the hub and leaves both running. Streams whose honored
// filter has anything that the server announced are ended with their result, since
// nothing would come any more; the hub delivers from then on what the application
// publishes, and server/discover says so as long as the process runs. The server's
// sessions stay, but for the bridge's own. Close does not wait for the streams: a
// program that ends shuts down the hub first. It may be called several times.
func (b *Bridge) Close() error {
	b.mu.Lock()
	first := b.ctx.Err() == nil
	b.detach()
	s := b.session
	b.mu.Unlock()
	if first {
		b.settle(core.Capabilities{})
		own := b.config.Capabilities
		b.hub.EndWhere(func(s core.StreamInfo) bool { return beyond(s.Filter, own) })
		b.leaveAll()
		_ = s.Close()
	}
	b.running.Wait()
	return nil
}

// closed reports whether the bridge is closed or closing.
func (b *Bridge) closed() bool { return b.ctx.Err() != nil }
