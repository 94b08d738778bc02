// The hub: owns the subscriptions of one endpoint, and lets new ones in.

package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a [Hub]. The zero value of each field is a useful default.
type Config struct {
	// Capabilities are the notifications that this server publishes. What a
	// client asks for beyond them is not honored; by default nothing is.
	Capabilities Capabilities

	// ServerInfo goes into the _meta of the result that ends a subscription.
	ServerInfo *Implementation

	// KeepAlive is the silence after which a sign of life is written: often
	// enough that no proxy or load balancer takes the stream for dead (60 s is a
	// usual limit). 15 s by default; negative for none.
	KeepAlive time.Duration

	// MaxLifetime is the age at which a subscription is ended with its result,
	// give or take a random tenth, so that streams opened together do not all come
	// back together. None by default: some clients do not come back.
	MaxLifetime time.Duration

	// MaxStreams is how many subscriptions are open at most; at the limit the
	// newcomer is refused and nobody is thrown out. 10,000 by default.
	MaxStreams int

	// Limits bound one request.
	Limits Limits

	Authorizer Authorizer // nil allows all
	Watcher    Watcher    // nil for none
	Matcher    Matcher    // nil matches exactly
	Observer   Observer   // nil for none

	// OnEnd is called once for each subscription that was acknowledged, on its
	// own goroutine, after it has been released.
	OnEnd func(End)

	// Logger gets one line at debug level for each ended subscription, and an
	// error for each panic of a hook. Nothing is logged by default.
	Logger *slog.Logger
}

// The defaults of a Config.
const (
	DefaultKeepAlive  = 15 * time.Second
	DefaultMaxStreams = 10_000
)

// shutdownRetry is the advice to newcomers of a hub that is closing: by then
// another node, or this one again, should serve.
const shutdownRetry = 5 * time.Second

// limitRetry is the advice to newcomers at a limit.
const limitRetry = 10 * time.Second

// Hub owns all subscriptions of one MCP endpoint in one process. All its methods
// are safe for concurrent use, and from inside any hook but a Matcher.
type Hub struct {
	config     Config
	serverInfo string // encoded, for results
	log        *slog.Logger
	deadlines  deadlines
	watches    watches

	serial  atomic.Uint64 // of the newest subscription
	hooks   atomic.Int64  // hooks running on goroutines of subscriptions
	closing atomic.Bool   // set under mu

	mu      sync.RWMutex
	index   index
	live    int        // subscriptions from admission to release
	changed *sync.Cond // live or hooks changed while closing; on mu

	closed context.Context // ends when closing starts
	close  context.CancelFunc
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
	config.Limits = config.Limits.withDefaults()
	l := config.Limits
	switch {
	case config.MaxStreams < 0, l.MaxURIs < 0, l.MaxURILength < 0, l.MaxIDLength < 0:
		return nil, errors.New("core: a limit is negative")
	case config.MaxLifetime < 0:
		return nil, errors.New("core: the maximum lifetime is negative")
	}
	info, err := encodeServerInfo(config.ServerInfo)
	if err != nil {
		return nil, fmt.Errorf("core: server info: %w", err)
	}
	h := &Hub{
		config:     config,
		serverInfo: info,
		log:        config.Logger,
		deadlines:  deadlines{epoch: time.Now(), armed: never},
		watches:    watches{watcher: config.Watcher, byURI: make(map[string]*watch)},
	}
	h.closed, h.close = context.WithCancel(context.Background())
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.changed = sync.NewCond(&h.mu)
	h.watches.hub = h
	return h, nil
}

// Capabilities returns what the hub delivers.
func (h *Hub) Capabilities() Capabilities { return h.config.Capabilities }

// ServerInfo returns the configured server info, nil where there is none.
func (h *Hub) ServerInfo() *Implementation { return h.config.ServerInfo }

// Limits returns the limits of one request.
func (h *Hub) Limits() Limits { return h.config.Limits }

// ParseListen makes a listen request of a message and the _meta that
// [Message.Meta] gave for it. It fails with an [*Error] where the request has no
// id, its protocol version is not supported, its filter is missing or malformed,
// or a limit is passed.
func (h *Hub) ParseListen(msg *Message, meta Meta) (*Request, error) {
	return parseListen(msg, meta, h.config.Limits)
}

// Refuse tells the observer that the transport answers a request with an error.
// The hub reports the refusals of [Hub.Open] itself.
func (h *Hub) Refuse(ctx context.Context, r Refused) {
	if h.config.Observer == nil {
		return
	}
	_ = h.guard("Observer.Refused", func() error {
		h.config.Observer.Refused(ctx, r)
		return nil
	})
}

// Opening is what a transport brings to open a subscription.
type Opening struct {
	Request   *Request
	Principal string    // who asks, as the transport authenticated them; empty for nobody
	Received  time.Time // when the request came; zero means now

	// Deadline is a time by which the transport will cut the connection. The
	// subscription ends with its result a little before. Zero means none. The
	// context's own deadline is obeyed as well.
	Deadline time.Time

	// Connect is called once the request has passed every check, and returns
	// where to write. Nothing may have been answered before. Where it fails,
	// nothing may have been answered either.
	Connect func() (Conn, error)
}

// Open opens a subscription: it authorizes and admits the request, starts its
// watches, registers it and writes the acknowledgment. ctx ends the
// subscription: it is the request's, or for a transport without requests the
// connection's.
//
// Open fails with an [*Error] and without having called Connect, or with
// Connect's error. Else the caller must call [Subscription.Serve], also where
// writing the acknowledgment failed.
func (h *Hub) Open(ctx context.Context, o Opening) (*Subscription, error) {
	if o.Received.IsZero() {
		o.Received = time.Now()
	}
	s, err := h.open(ctx, o)
	if err != nil {
		e := AsError(err)
		if ctx.Err() != nil && e.Refusal != RefusedShutdown {
			e = &Error{Code: CodeInternalError, Message: "the client has gone", Refusal: RefusedCanceled, Err: err}
		}
		h.Refuse(ctx, Refused{ID: o.Request.ID, Method: MethodListen, Meta: o.Request.Meta, Err: e, Received: o.Received})
		return nil, e
	}
	return s, nil
}

func (h *Hub) open(ctx context.Context, o Opening) (*Subscription, error) {
	if err := h.admit(); err != nil {
		return nil, err
	}
	s := newSubscription(ctx, h, o)
	served := false
	defer func() {
		if !served { // refused, or the transport panicked
			s.giveBack()
			h.leave()
		}
	}()
	opening, opened := h.opening(ctx)
	defer opened()
	grant, err := h.authorize(opening, o)
	if err != nil {
		return nil, err
	}
	s.endAt, s.endWith = h.lifetime(ctx, o, grant)
	honored := h.config.Capabilities.Honor(o.Request.Filter)
	// Registered before the watches start, so that what a watcher publishes at
	// once is not missed.
	if err := h.register(s, honored); err != nil {
		return nil, err
	}
	if err := h.watch(opening, honored.ResourceSubscriptions); err != nil {
		return nil, err
	}
	s.watched = true
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn, err := o.Connect()
	if err != nil {
		return nil, err
	}
	s.acknowledge(conn, o, honored)
	served = true
	return s, nil
}

// admit takes a place among the subscriptions, which leave gives back.
func (h *Hub) admit() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closing.Load():
		return shuttingDown()
	case h.live >= h.config.MaxStreams:
		return &Error{
			Code: CodeInternalError, Message: "too many subscriptions", Refusal: RefusedLimit,
			RetryAfter: limitRetry, Err: ErrLimit,
		}
	}
	h.live++
	return nil
}

func (h *Hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live--
	h.changed.Broadcast()
}

func shuttingDown() *Error {
	return &Error{
		Code: CodeInternalError, Message: "the server is shutting down", Refusal: RefusedShutdown,
		RetryAfter: shutdownRetry, Err: ErrShutdown,
	}
}

func (h *Hub) authorize(ctx context.Context, o Opening) (grant Grant, err error) {
	if h.config.Authorizer == nil {
		return Grant{}, nil
	}
	err = h.hook("Authorizer.Authorize", func() error {
		var err error
		grant, err = h.config.Authorizer.Authorize(ctx, o.Principal, o.Request.Filter)
		return err
	})
	if err == nil && !grant.Until.IsZero() && !time.Now().Before(grant.Until) {
		err = errors.New("core: the grant has already expired")
	}
	return grant, h.refusedBy(err, CodeInvalidRequest, RefusedAuth, "not allowed")
}

// opening returns ctx for the hooks of one Open, which a closing hub cancels.
func (h *Hub) opening(ctx context.Context) (_ context.Context, opened func()) {
	if h.config.Authorizer == nil && h.config.Watcher == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.closed, cancel)
	return ctx, func() { stop(); cancel() }
}

// watch starts the watches of uris.
func (h *Hub) watch(ctx context.Context, uris []string) error {
	err := h.watches.startAll(ctx, uris)
	return h.refusedBy(err, CodeInternalError, RefusedWatch, "a resource cannot be watched")
}

// refusedBy makes the refusal of a hook's error: the hook's own, or one that
// tells nothing.
func (h *Hub) refusedBy(err error, code int, refusal Refusal, message string) error {
	var own *Error
	switch {
	case err == nil:
		return nil
	case h.closing.Load():
		return shuttingDown()
	case errors.As(err, &own):
		named := *own
		if named.Refusal == "" {
			named.Refusal = refusal
		}
		return &named
	case errors.Is(err, errHookPanicked):
		return &Error{Code: CodeInternalError, Message: "internal error", Refusal: RefusedPanic, Err: err}
	default:
		return &Error{Code: code, Message: message, Refusal: refusal, Err: err}
	}
}

// lifetime returns when, and why, the subscription is to end by itself.
func (h *Hub) lifetime(ctx context.Context, o Opening, grant Grant) (endAt int64, reason Reason) {
	endAt = never
	now := time.Now()
	earlier := func(after time.Duration, why Reason) {
		if at := h.deadlines.now() + max(int64(after), 0); at < endAt {
			endAt, reason = at, why
		}
	}
	if !grant.Until.IsZero() {
		earlier(grant.Until.Sub(now), GrantExpired)
	}
	if life := h.config.MaxLifetime; life > 0 {
		earlier(life+time.Duration((rand.Float64()-0.5)/5*float64(life)), MaxLifetime)
	}
	if at, ok := ctx.Deadline(); ok {
		earlier(beforeDeadline(at.Sub(now)), Deadline)
	}
	if !o.Deadline.IsZero() {
		earlier(beforeDeadline(o.Deadline.Sub(now)), Deadline)
	}
	return endAt, reason
}

// beforeDeadline returns when to end with a result where the connection is cut
// after left: early enough to be flushed, late enough to be of use.
func beforeDeadline(left time.Duration) time.Duration {
	return left - min(left/10, 500*time.Millisecond)
}

func (h *Hub) register(s *Subscription, honored Filter) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing.Load() {
		return shuttingDown()
	}
	h.index.add(s, honored)
	return nil
}

func (h *Hub) unregister(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.index.remove(s)
}
