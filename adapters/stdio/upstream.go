// The upstream: an MCP server that speaks lines itself. Messages that are not the
// hub's go to it, and its messages to the client, whole lines both ways.

package mcpstdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/mcplisten/mcplisten/core"
)

// Upstream connects to the MCP server behind, once for each connection that is
// served. What is written is what the client sends, what is read what the client
// gets. ctx ends after the Close, and then only.
//
// At the end of the client's input CloseWrite is called, where there is such a
// method, and the server's last answers are read until [WithGrace] is over. Close is
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

	mu        sync.Mutex
	discovers map[string]struct{} // keys of requests for server/discover without an answer
}

const (
	// maxQueued is how many bytes wait for an upstream that does not read. Beyond
	// them, the client is not listened to any more.
	maxQueued = 1 << 20
	// maxQueuedLines is the same in lines.
	maxQueuedLines = 256
	// maxDiscovers is how many requests for server/discover may be unanswered.
	maxDiscovers = 1000
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
		discovers: make(map[string]struct{}),
	}
	l.finish = sync.OnceFunc(func() {
		close(l.queue)
		<-l.wrote
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
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

// pass queues a line for the upstream. It waits while too much is waiting already.
func (l *link) pass(ctx context.Context, line []byte, msg *core.Message) {
	for l.queued.Load() > 0 && l.queued.Load()+int64(len(line)) > maxQueued {
		select {
		case <-l.room:
		case <-ctx.Done():
			return
		}
	}
	if msg != nil && msg.ID.Valid() && msg.Method == core.MethodDiscover {
		l.expectDiscover(msg.ID)
	}
	l.queued.Add(int64(len(line)))
	select {
	case l.queue <- append(line, '\n'):
	case <-ctx.Done():
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
		if l.c.out.send(l.c.answers, append(l.corrected(line), '\n'), nil) != nil {
			l.c.out.report()
			return
		}
	}
}

func (l *link) expectDiscover(id core.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.discovers) < maxDiscovers {
		l.discovers[id.Key()] = struct{}{}
	}
}

// corrected returns a message for the client: as it is, unless it answers
// server/discover.
func (l *link) corrected(line []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.discovers) == 0 {
		return line
	}
	var m struct {
		ID     json.RawMessage  `json:"id"`
		Method *json.RawMessage `json:"method"`
	}
	if json.Unmarshal(line, &m) != nil || m.Method != nil {
		return line
	}
	id, err := core.ParseID(m.ID)
	if err != nil {
		return line
	}
	if _, asked := l.discovers[id.Key()]; !asked {
		return line
	}
	delete(l.discovers, id.Key())
	return agree(line, l.c.hub.Capabilities())
}
