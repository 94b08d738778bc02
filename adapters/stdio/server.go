// The server: the life of one connection, from its first line to the end of
// everything that it started.

package mcpstdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// Server serves one MCP endpoint over any number of connections. It is safe for
// concurrent use.
type Server struct {
	hub    *core.Hub
	config config
}

// New returns a server for the hub's endpoint. It fails where the options
// contradict themselves. A nil option is none.
func New(hub *core.Hub, options ...Option) (*Server, error) {
	if hub == nil {
		return nil, errors.New("mcpstdio: no hub")
	}
	c := config{
		maxLine:      DefaultMaxLine,
		maxCalls:     DefaultMaxCalls,
		writeTimeout: DefaultWriteTimeout,
		grace:        DefaultGrace,
		log:          hub.Logger(),
	}
	for _, option := range options {
		if option != nil {
			option(&c)
		}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Server{hub: hub, config: c}, nil
}

// ErrUpstream is in the chain of the error of a connection whose upstream ended
// before the client did, or could not be written to or read.
var ErrUpstream = errors.New("mcpstdio: the upstream ended")

// errEndOfInput is why a connection ends whose client has closed its side.
var errEndOfInput = errors.New("mcpstdio: end of input")

// lastWrites is how long a connection that ends otherwise than by its client waits
// for what is being written.
const lastWrites = time.Second

// Serve serves one connection: it reads messages from r and writes messages to w,
// one a line. Its subscriptions and calls have ended when it returns:
//
//   - nil when the input has ended. Its subscriptions end at once, answers that are
//     still due are waited for: see [WithGrace].
//   - ctx's error when ctx ends. The subscriptions end without a result: for a
//     goodbye, call the hub's Shutdown first.
//   - else what failed: reading, writing (it wraps [core.ErrSlowClient] where the
//     client did not read in time), or the upstream ([ErrUpstream]).
//
// Where Serve must return while a Read of r or a Write to w is under way, it closes
// that one if it is an [io.Closer]. If closing does not help, as with the standard
// streams, the goroutine of that call stays until the call returns, and no other.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	c := &connection{
		Server: s,
		in:     make(chan input),
		open:   make(map[string]*listening),
		calls:  make(map[string]*call),
		unsure: make(chan struct{}, maxUnsure),
	}
	c.ctx, c.end = context.WithCancelCause(ctx)
	c.answers, c.noAnswers = context.WithCancel(ctx)
	defer c.noAnswers()
	c.out = newOutput(w, s.config.writeTimeout, func(err error) {
		c.end(err)
		c.noAnswers()
	})
	if s.config.principal != nil {
		c.principal = s.config.principal(ctx)
	}
	if err := c.connect(ctx); err != nil {
		c.end(err)
		return err
	}
	go c.out.run()
	go c.read(r)
	c.dispatchAll()
	return c.finish(r)
}

// connection is one call of Serve.
type connection struct {
	*Server
	principal string

	ctx context.Context // ends with the input, or whatever ends the connection
	end context.CancelCauseFunc

	answers   context.Context // ends when nobody waits for answers any more
	noAnswers context.CancelFunc

	in       chan input
	out      *output
	upstream *link // nil where there is none

	running sync.WaitGroup // subscriptions and calls
	unsure  chan struct{}  // one for each listen request that is not answered yet
	crowded bool           // unsure was full for too long; the dispatcher's alone

	older   atomic.Bool // initialize was passed on: the client speaks an older revision
	mistook sync.Once   // logs that the server behind answers what is the hub's

	mu    sync.Mutex
	open  map[string]*listening // by the key of the id
	calls map[string]*call      // of the next function, likewise
	count int                   // of all calls
}

// input is a line, or why there is none.
type input struct {
	line []byte
	err  error
}

// read reads lines until the connection ends. It may stay inside a Read, so it
// touches nothing else.
func (c *connection) read(r io.Reader) {
	lines := newLines(r, c.config.maxLine)
	for {
		line, err := lines.next()
		select {
		case c.in <- input{line, err}:
		case <-c.ctx.Done():
			return
		}
		if err != nil && !errors.Is(err, errLineTooLong) {
			return
		}
	}
}

func (c *connection) dispatchAll() {
	for {
		select {
		case in := <-c.in:
			switch {
			case in.err == nil:
				c.dispatch(in.line)
			case errors.Is(in.err, errLineTooLong):
				c.refuse(nil, core.Meta{}, &core.Error{
					Code: core.CodeInvalidRequest, Message: "the line is too long", Refusal: core.RefusedTooLarge,
				})
			case errors.Is(in.err, io.EOF):
				c.end(errEndOfInput)
			default:
				c.end(fmt.Errorf("mcpstdio: reading: %w", in.err))
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// finish ends a connection whose dispatching is over, and returns why it ended.
func (c *connection) finish(r io.Reader) error {
	cause := context.Cause(c.ctx)
	atEnd := errors.Is(cause, errEndOfInput)
	patience := lastWrites
	if atEnd {
		patience = c.config.grace
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	if atEnd {
		select {
		case <-c.answered():
		case <-timer.C:
			timer.Reset(lastWrites)
		case <-c.answers.Done():
			timer.Reset(lastWrites)
		}
	}
	c.noAnswers()
	c.out.close(timer.C)
	if !atEnd {
		interrupt(r)
	}
	if err := c.disconnect(); errors.Is(cause, ErrUpstream) && err != nil {
		cause = fmt.Errorf("%w: %w", cause, err)
	}
	c.running.Wait()
	if atEnd {
		return nil
	}
	return cause
}

// answered returns a channel that is closed when everything that the client has
// asked for is answered.
func (c *connection) answered() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c.upstream != nil {
			c.upstream.finish()
		}
		c.running.Wait()
	}()
	return done
}

// interrupt ends what is going on in a reader or writer, where that is possible.
func interrupt(x any) {
	if closer, ok := x.(io.Closer); ok {
		_ = closer.Close() // it is abandoned in any case
	}
}
