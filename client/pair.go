// A pair of streams: newline-delimited JSON-RPC, as on a server's standard
// streams. All subscriptions share it, and each message is told apart by the id
// in it.

package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// Pair is the [Endpoint] of a server that is reached over a pair of byte streams:
// its standard streams, a Unix socket, a TCP connection. Any number of
// subscriptions share it. Its methods are safe for concurrent use.
type Pair struct {
	rw    io.ReadWriteCloser
	other func([]byte)
	limit int
	lines chan outgoing
	done  chan struct{} // closed with err set

	closing sync.Once
	mu      sync.Mutex
	byID    map[string]*pairStream
	err     error // why it ended
}

// pairStream is one subscription of a pair.
type pairStream struct {
	take func([]byte) (bool, error)
	over chan error // has room for one
}

// outgoing is a line to be written.
type outgoing struct {
	line    []byte
	written chan<- struct{} // closed then; may be nil
}

// PairOption sets one thing of a [Pair].
type PairOption func(*Pair)

// PairOther sets a function that gets each message that belongs to no open
// subscription: the rest of the traffic, and late messages of subscriptions that
// have ended. It must not block, and not keep the bytes. Without it they are
// discarded, but for one thing: a change that names no subscription at all then
// ends those that are open with a violation, since a server that does not say
// whom its changes are for would otherwise never be heard.
func PairOther(f func(message []byte)) PairOption {
	return func(p *Pair) { p.other = f }
}

// PairMaxMessage sets the longest line in bytes, 4 MiB by default.
func PairMaxMessage(bytes int) PairOption {
	return func(p *Pair) {
		if bytes > 0 {
			p.limit = bytes
		}
	}
}

// NewPair starts to read from rw, until its end or Close. A line that is not JSON
// or is too long ends the pair, since what it was cannot be known: a change may
// be lost.
func NewPair(rw io.ReadWriteCloser, options ...PairOption) *Pair {
	p := &Pair{
		rw:    rw,
		limit: DefaultMaxMessage,
		lines: make(chan outgoing),
		done:  make(chan struct{}),
		byID:  make(map[string]*pairStream),
	}
	for _, option := range options {
		if option != nil {
			option(p)
		}
	}
	go p.read()
	go p.write()
	return p
}

// Close closes the streams. Open subscriptions end as dropped.
func (p *Pair) Close() error { return p.fail(dropped(nil, ErrClosed)) }

// Send writes one message, for traffic of another kind that shares the pair.
func (p *Pair) Send(ctx context.Context, message []byte) error {
	line := append(bytes.TrimSpace(bytes.Clone(message)), '\n')
	if bytes.IndexByte(line[:len(line)-1], '\n') >= 0 {
		return errors.New("client: a message with a line break")
	}
	return p.send(ctx, outgoing{line: line})
}

func (p *Pair) send(ctx context.Context, o outgoing) error {
	select {
	case p.lines <- o:
		return nil
	case <-p.done:
		return p.reason()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *Pair) check() error {
	if p == nil {
		return errors.New("client: no pair")
	}
	return nil
}

func (p *Pair) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *Pair) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// fail ends the pair, once.
func (p *Pair) fail(err error) (closed error) {
	p.closing.Do(func() {
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(p.done)
		closed = p.rw.Close()
	})
	return closed
}

func (p *Pair) run(ctx context.Context, x *exchange) error {
	s := &pairStream{take: x.take, over: make(chan error, 1)}
	p.mu.Lock()
	p.byID[x.id] = s
	p.mu.Unlock()
	err := p.send(ctx, outgoing{line: append(x.body, '\n')})
	if err == nil {
		select {
		case err = <-s.over:
			if CauseOf(err) == Violation {
				p.cancel(x.id) // for the server it is still open
			}
			return err
		case <-p.done:
			err = p.reason()
		case <-ctx.Done():
			err = context.Cause(ctx)
			p.forget(x.id)
			p.cancel(x.id)
		}
	}
	p.forget(x.id)
	// Its last word may have come just before.
	select {
	case err = <-s.over:
	default:
	}
	return err
}

// forget makes what still comes for an id go the way of all other traffic. When
// it returns, take is not running.
func (p *Pair) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byID, id)
}

// cancelGrace is how long an end waits for the server to be told of it.
const cancelGrace = time.Second

// cancel tells the server that a subscription is not wanted any more. Where the
// server does not read, it is told when it does.
func (p *Pair) cancel(id string) {
	told := make(chan struct{})
	go func() {
		select {
		case p.lines <- outgoing{append(encodeCancelled(id), '\n'), told}:
		case <-p.done:
		}
	}()
	timer := time.NewTimer(cancelGrace)
	defer timer.Stop()
	select {
	case <-told:
	case <-p.done:
	case <-timer.C:
	}
}

// write writes lines: whole, one after another.
func (p *Pair) write() {
	for {
		select {
		case o := <-p.lines:
			if _, err := p.rw.Write(o.line); err != nil {
				_ = p.fail(dropped(nil, err))
				return
			}
			if o.written != nil {
				close(o.written)
			}
		case <-p.done:
			return
		}
	}
}

// read reads lines and gives each to its subscription.
func (p *Pair) read() {
	r := bufio.NewReader(p.rw)
	var line []byte
	for {
		chunk, err := r.ReadSlice('\n')
		line = append(line, chunk...)
		switch {
		case len(line) > p.limit+1:
			_ = p.fail(violation(TooLarge, "a line has more than %d bytes", p.limit))
			return
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			_ = p.fail(dropped(nil, io.ErrUnexpectedEOF))
			return
		case err != nil:
			_ = p.fail(dropped(nil, err))
			return
		}
		if message := bytes.TrimSpace(line); len(message) > 0 {
			if bad := p.dispatch(message); bad != nil {
				_ = p.fail(bad)
				return
			}
		}
		if line = line[:0]; cap(line) > maxKept {
			line = nil
		}
	}
}

// maxKept is the largest line buffer that is kept for the next line.
const maxKept = 64 << 10

func (p *Pair) dispatch(data []byte) *ViolationError {
	m, bad := parseMessage(data)
	if bad != nil && bad.Rule == NotJSON {
		return bad
	}
	p.mu.Lock()
	if _, isChange := kindOfMethod[m.method]; isChange && m.subscriptionID() == nil && p.other == nil {
		for id := range p.byID {
			p.give(id, data)
		}
	} else if bad == nil && p.byID[m.owner()] != nil {
		p.give(m.owner(), data)
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	if p.other != nil {
		p.other(data)
	}
	return nil
}

// give gives a message to an open subscription, with the lock held.
func (p *Pair) give(id string, data []byte) {
	s := p.byID[id]
	if over, err := s.take(data); over {
		s.over <- err
		delete(p.byID, id)
	}
}

// owner returns the id of the subscription that a message belongs to. A response
// goes to the request that it names.
func (m *message) owner() string {
	switch {
	case m.err != nil, m.result != nil:
		id, _ := text(m.id)
		return id
	case m.id != nil:
		return ""
	case m.method == core.MethodCancelled:
		id, _ := text(m.params["requestId"])
		return id
	default:
		id, _ := text(m.subscriptionID())
		return id
	}
}
