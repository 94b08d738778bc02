// The upstream: an MCP server that speaks lines itself. Messages that are not the
// hub's go to it, and its messages to the client, whole lines both ways.

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

// Upstream connects to the MCP server behind, once for each connection that is
// served. What is written is what the client sends, what is read what the client
// gets. ctx ends after the Close, and then only.
//
// At the end of the client's input CloseWrite is called, where there is such a
// method: once every request is answered, or after half of [WithGrace]. What the server
// then still says is read until that is over. Close is
// called in the end, maybe more than once and during other calls. It ends those, and
// returns when all that belongs to the upstream has ended.
type Upstream func(ctx context.Context) (io.ReadWriteCloser, error)

// link is the way to the upstream of one connection.
type link struct {
	c      *connection
	conn   io.ReadWriteCloser
	cancel context.CancelFunc // of its context

	queue  chan []byte  // to be written
	queued atomic.Int64 // bytes of it
	room   chan struct{}
	wrote  chan struct{} // closed after the last line was written
	read   chan struct{} // closed after the last line was read
	finish func()        // ends the queue, and waits for the last answers
	stuck  bool          // it does not read; the dispatcher's alone

	mu    sync.Mutex
	asked map[string]bool // by key of the id, requests without an answer: whether it is server/discover
	quiet chan struct{}   // closed when none is left; nil until somebody waits for that
}

const (
	// maxQueued is how many bytes wait for an upstream that does not read. Beyond
	// them, the client is not listened to for a while, and then refused.
	maxQueued = 4 << 20
	// maxQueuedLines is the same in lines.
	maxQueuedLines = 1024
	// maxStuck is for how long an upstream may read nothing while too much waits for
	// it. Whatever the client sends meanwhile, cancellations and its end among it, is
	// not seen.
	maxStuck = time.Second
	// maxAsked is of how many requests without an answer it is known that they have
	// none.
	maxAsked = 4096
)

// connect connects to the upstream, if there is one.
func (c *connection) connect(ctx context.Context) error {
	if c.config.upstream == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	conn, err := c.config.upstream(ctx)
	if err != nil {
		cancel()
		return fmt.Errorf("mcpstdio: connecting to the upstream: %w", err)
	}
	l := &link{
		c: c, conn: conn, cancel: cancel,
		queue: make(chan []byte, maxQueuedLines), room: make(chan struct{}, 1),
		wrote: make(chan struct{}), read: make(chan struct{}),
		asked: make(map[string]bool),
	}
	l.finish = sync.OnceFunc(func() {
		close(l.queue)
		<-l.wrote
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			l.awaitAnswers()
			_ = half.CloseWrite() // an upstream that has gone needs no end of input
			<-l.read
		}
	})
	c.upstream = l
	go l.write()
	go l.receive()
	return nil
}

// disconnect closes the upstream and waits for its end.
func (c *connection) disconnect() error {
	l := c.upstream
	if l == nil {
		return nil
	}
	err := l.conn.Close()
	l.cancel()
	l.finish()
	<-l.read
	return err
}

// pass queues a line for the upstream. It waits while too much is waiting already and
// the upstream reads, and refuses the line if that does not.
func (l *link) pass(ctx context.Context, line []byte, msg *core.Message) {
	if !l.awaitRoom(ctx, len(line)) {
		if ctx.Err() == nil {
			l.refuse(ctx, line, msg)
		}
		return
	}
	if msg != nil && msg.ID.Valid() {
		l.expect(msg)
	} else if msg != nil {
		if id, ok := msg.Cancels(); ok {
			l.answered(id.Key()) // a cancelled request has no answer
		}
	}
	l.queued.Add(int64(len(line)))
	l.queue <- append(line, '\n') // there is room, and nobody else fills it
}

// awaitRoom waits until there is room for a line of n bytes. It fails where ctx ends,
// or where the upstream has stopped reading.
func (l *link) awaitRoom(ctx context.Context, n int) bool {
	hasRoom := func() bool {
		queued := l.queued.Load()
		return len(l.queue) < cap(l.queue) && (queued == 0 || queued+int64(n) <= maxQueued)
	}
	if hasRoom() {
		l.stuck = false
		return true
	}
	if l.stuck {
		return false
	}
	patience := min(maxStuck, l.c.config.writeTimeout)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for !hasRoom() {
		select {
		case <-l.room:
			timer.Reset(patience)
		case <-ctx.Done():
			return false
		case <-timer.C:
			l.stuck = true
			l.c.config.log.Warn("mcpstdio: the upstream does not read: requests to it are refused")
			return false
		}
	}
	return true
}

// refuse answers what there is no room for, if it can have an answer.
func (l *link) refuse(ctx context.Context, line []byte, msg *core.Message) {
	switch {
	case msg != nil && msg.ID.Valid():
		l.c.out.post(ctx, errorLine(msg.ID, errTooManyCalls))
	case msg == nil && alike(line) == likeBatch:
		l.c.out.post(ctx, errorLine(core.ID{}, errTooManyCalls))
	}
}

// write writes what is queued. After a failure it only empties the queue.
func (l *link) write() {
	defer close(l.wrote)
	failed := false
	for line := range l.queue {
		if !failed {
			if _, err := l.conn.Write(line); err != nil {
				failed = true
				l.c.end(fmt.Errorf("%w: writing: %w", ErrUpstream, err))
			}
		}
		l.queued.Add(-int64(len(line) - 1))
		select {
		case l.room <- struct{}{}:
		default:
		}
	}
}

// receive passes the upstream's messages on to the client.
func (l *link) receive() {
	defer close(l.read)
	lines := newLines(l.conn, l.c.config.maxLine)
	noise := 0
	for {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			l.c.end(ErrUpstream)
			return
		case err != nil:
			l.c.end(fmt.Errorf("%w: reading: %w", ErrUpstream, err))
			return
		case !isMessage(line):
			if noise++; noise == 1 {
				l.c.config.log.Warn("mcpstdio: the upstream writes lines that are no messages: they are dropped")
			}
			continue
		}
		line, answers := l.c.screen(line)
		if line == nil {
			continue
		}
		if l.c.out.send(l.c.answers, append(l.corrected(line, answers), '\n'), func() { l.answered(answers...) }) != nil {
			l.c.out.report()
			return
		}
	}
}

func (l *link) expect(msg *core.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key := msg.ID.Key(); l.asked[key] || len(l.asked) < maxAsked {
		l.asked[key] = msg.Method == core.MethodDiscover
	}
}

// answered frees ids for other requests. As with subscriptions, that is in the turn
// of the write that answers.
func (l *link) answered(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		delete(l.asked, key)
	}
	l.noteQuiet()
}

// noteQuiet tells who waits for it that no answer is due. The lock must be held.
func (l *link) noteQuiet() {
	if l.quiet != nil && len(l.asked) == 0 {
		close(l.quiet)
		l.quiet = nil
	}
}

// awaitAnswers waits for the answers that are due: many servers drop them when their
// input ends.
func (l *link) awaitAnswers() {
	quiet := make(chan struct{})
	l.mu.Lock()
	l.quiet = quiet
	l.noteQuiet()
	l.mu.Unlock()
	timer := time.NewTimer(l.c.config.grace / 2)
	defer timer.Stop()
	select {
	case <-quiet:
	case <-timer.C:
	case <-l.read:
	case <-l.c.answers.Done():
	}
}

func (l *link) isAsked(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, asked := l.asked[key]
	return asked
}

// corrected returns a message for the client: as it is, unless it answers
// server/discover.
func (l *link) corrected(line []byte, answers []string) []byte {
	if len(answers) != 1 {
		return line
	}
	l.mu.Lock()
	isDiscover := l.asked[answers[0]]
	l.mu.Unlock()
	if !isDiscover {
		return line
	}
	return agree(line, l.c.hub.Capabilities())
}
