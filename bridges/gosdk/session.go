// The bridge's session: a client of the server within the process, over no
// transport. What the server sends to it is what it announces.

package gosdkbridge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcplisten/mcplisten/core"
)

// SessionPrefix is what the ID of a bridge's own session starts with.
const SessionPrefix = "mcplisten-"

// The methods that the bridge deals with beside those of core.
const (
	methodPing          = "ping"
	methodInitialize    = "initialize"
	methodDiscover      = "server/discover"
	methodSubscribe     = "resources/subscribe"
	methodUnsubscribe   = "resources/unsubscribe"
	methodTools         = "tools/list"
	methodPrompts       = "prompts/list"
	methodResources     = "resources/list"
	methodTemplates     = "resources/templates/list"
	revisionOfSession   = "2025-11-25" // a session of it is told of every list without asking
	revisionWithListen  = core.ProtocolVersion
	pauseBetweenClosing = 100 * time.Millisecond // where somebody closes the session again and again
	steady              = time.Second            // after which a session counts as one that lasts
)

// unwrapped returns what the SDK does with a request, before any middleware. It goes
// by the request's session, and so is the same for every server; only a server of
// one's own shows it without what others have put around it.
func unwrapped() (handler mcp.MethodHandler) {
	mcp.NewServer(&mcp.Implementation{Name: "mcplisten"}, nil).AddReceivingMiddleware(
		func(next mcp.MethodHandler) mcp.MethodHandler {
			handler = next
			return next
		})
	return handler
}

// connect connects a session.
func (b *Bridge) connect() (*mcp.ServerSession, *connection, error) {
	c := &connection{
		id: SessionPrefix + rand.Text(), receive: b.announced,
		wake: make(chan struct{}, 1), answered: make(chan struct{}, 1), done: make(chan struct{}),
	}
	// It never sends an initialize, which the application's middleware might refuse,
	// nor a notification that it is initialized, which its handler might take for a
	// client.
	state := &mcp.ServerSessionState{InitializedParams: &mcp.InitializedParams{}}
	s, err := b.server.Connect(context.Background(), c, &mcp.ServerSessionOptions{State: state})
	if err != nil {
		return nil, nil, fmt.Errorf("gosdkbridge: connecting to the server: %w", err)
	}
	return s, c, nil
}

// initialize makes the session one of the revision that is told of lists.
func (b *Bridge) initialize(s *mcp.ServerSession) (*core.Implementation, error) {
	result, err := b.handle(context.Background(), methodInitialize, &mcp.ServerRequest[*mcp.InitializeParams]{
		Session: s,
		Params: &mcp.InitializeParams{
			ProtocolVersion: revisionOfSession,
			ClientInfo:      &mcp.Implementation{Name: "mcplisten"},
			Capabilities:    &mcp.ClientCapabilities{},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("gosdkbridge: initializing a session: %w", err)
	}
	answer, ok := result.(*mcp.InitializeResult)
	if !ok || answer.ServerInfo == nil {
		return nil, errors.New("gosdkbridge: the server does not say what it is")
	}
	return &core.Implementation{
		Name: answer.ServerInfo.Name, Title: answer.ServerInfo.Title, Version: answer.ServerInfo.Version,
	}, nil
}

// current returns the session.
func (b *Bridge) current() *mcp.ServerSession {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// keep sees to it that there is a session for as long as the bridge is open.
func (b *Bridge) keep() {
	for {
		since := time.Now()
		_ = b.current().Wait()
		if b.closed() {
			return
		}
		b.log.Warn("mcplisten: the server closed the bridge's session, a new one is attached")
		if time.Since(since) < steady {
			select {
			case <-time.After(pauseBetweenClosing):
			case <-b.ctx.Done():
				return
			}
		}
		for !b.reattach() {
			select {
			case <-time.After(pauseBetweenClosing):
			case <-b.ctx.Done():
				return
			}
		}
	}
}

// reattach attaches a new session and closes the gap: the server has told nobody of
// what changed meanwhile. It reports whether there is one, or no need of any.
func (b *Bridge) reattach() bool {
	s, c, err := b.connect()
	if err == nil {
		if _, err = b.initialize(s); err != nil {
			_ = s.Close()
		}
	}
	if err != nil {
		b.log.Error("mcplisten: no session for the bridge", "error", err)
		// Nothing is delivered now, so nothing stays acknowledged.
		b.settle(core.Capabilities{})
		own := b.config.Capabilities
		b.hub.EndWhere(func(s core.StreamInfo) bool { return beyond(s.Filter, own) })
		return false
	}
	b.mu.Lock()
	b.session = s
	closed := b.closed()
	b.mu.Unlock()
	if closed {
		_ = s.Close()
		return true
	}
	c.open()
	b.refresh()
	var lists, updates []core.Change
	for k, advertised := range b.advertises() {
		if kind := core.Kind(k); advertised {
			b.lists.announced(kind)
			lists = append(lists, core.Change{Kind: kind})
		}
	}
	b.publish(lists...)
	for _, uri := range b.moveAll(s) {
		updates = append(updates, core.ResourceUpdated(uri))
	}
	b.publish(updates...)
	return true
}

// connection is the session's transport and its connection. The SDK writes to it
// what a client would get, and reads what a client would send.
type connection struct {
	id      string
	receive func(method string, params json.RawMessage)

	wake     chan struct{} // one slot: something is in the queue
	answered chan struct{} // one slot: a request of ours was answered
	done     chan struct{} // closed by Close
	close    sync.Once

	mu     sync.Mutex
	opened bool // what the server announces is passed on
	queue  []jsonrpc.Message
}

// Connect returns the connection.
func (c *connection) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SupportsProtocolVersion keeps the session one of an older revision, whatever it
// asks: those are told of lists without asking.
func (c *connection) SupportsProtocolVersion(version string) bool {
	return version < revisionWithListen
}

// SessionID returns the session's ID.
func (c *connection) SessionID() string { return c.id }

// Read returns what the bridge sends.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			msg := c.queue[0]
			c.queue = c.queue[1:]
			c.mu.Unlock()
			return msg, nil
		}
		c.mu.Unlock()
		select {
		case <-c.wake:
		case <-c.done:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Write takes what the server sends. It never waits.
func (c *connection) Write(_ context.Context, msg jsonrpc.Message) error {
	select {
	case <-c.done:
		return io.ErrClosedPipe
	default:
	}
	switch m := msg.(type) {
	case *jsonrpc.Response:
		signal(c.answered)
	case *jsonrpc.Request:
		if m.IsCall() {
			c.put(answer(m))
			return nil
		}
		c.mu.Lock()
		opened := c.opened
		c.mu.Unlock()
		if opened {
			c.receive(m.Method, m.Params)
		}
	}
	return nil
}

// answer answers a request of the server: it may ask whether the bridge is alive.
func answer(m *jsonrpc.Request) *jsonrpc.Response {
	if m.Method == methodPing {
		return &jsonrpc.Response{ID: m.ID, Result: json.RawMessage("{}")}
	}
	return &jsonrpc.Response{ID: m.ID, Error: &jsonrpc.Error{
		Code: jsonrpc.CodeMethodNotFound, Message: "this session is a bridge within the server's process, and no client",
	}}
}

// ask sends a request.
func (c *connection) ask(method string) {
	id, _ := jsonrpc.MakeID(c.id) // a string can be an id
	c.put(&jsonrpc.Request{ID: id, Method: method})
}

func (c *connection) put(msg jsonrpc.Message) {
	c.mu.Lock()
	c.queue = append(c.queue, msg)
	c.mu.Unlock()
	signal(c.wake)
}

// open lets through what the server announces.
func (c *connection) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = true
}

// Close ends the connection.
func (c *connection) Close() error {
	c.close.Do(func() { close(c.done) })
	return nil
}

// signal fills a one-slot channel.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
