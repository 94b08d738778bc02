// A stream of a test: a hub's subscription without a transport, whose client is
// the test.

package telemetry

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// All are the capabilities of a hub that delivers every kind.
var All = core.Capabilities{
	ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true,
}

// Listen is a listen request.
type Listen struct {
	ID      string         // JSON; 1 by default
	Filter  string         // JSON; the list of tools by default
	Meta    map[string]any // beside what every request has
	Arrival core.Arrival
	Conn    *Conn // one that works by default
}

// Body returns the request as JSON.
func (l Listen) Body(tb testing.TB) string {
	tb.Helper()
	if l.ID == "" {
		l.ID = "1"
	}
	if l.Filter == "" {
		l.Filter = `{"toolsListChanged":true}`
	}
	meta := map[string]any{core.MetaProtocolVersion: core.ProtocolVersion, core.MetaClientCapabilities: map[string]any{}}
	maps.Copy(meta, l.Meta)
	encoded, err := json.Marshal(meta)
	if err != nil {
		tb.Fatalf("meta: %v", err)
	}
	return `{"jsonrpc":"2.0","id":` + l.ID + `,"method":"` + core.MethodListen +
		`","params":{"_meta":` + string(encoded) + `,"notifications":` + l.Filter + `}}`
}

// Stream is an open subscription.
type Stream struct {
	Conn *Conn
	end  chan core.End
}

// Open opens a subscription, which is served until it ends. It returns the error
// of a refusal.
func Open(ctx context.Context, tb testing.TB, hub *core.Hub, l Listen) (*Stream, error) {
	tb.Helper()
	msg, err := core.ParseMessage([]byte(l.Body(tb)), hub.Limits())
	if err != nil {
		tb.Fatalf("message: %v", err)
	}
	meta, err := msg.Meta()
	if err != nil {
		tb.Fatalf("meta: %v", err)
	}
	request, err := hub.ParseListen(msg, meta)
	if err != nil {
		tb.Fatalf("request: %v", err)
	}
	s := &Stream{Conn: l.Conn, end: make(chan core.End, 1)}
	if s.Conn == nil {
		s.Conn = &Conn{}
	}
	sub, err := hub.Open(ctx, core.Opening{
		Request: request, Arrival: l.Arrival, Connect: func() (core.Conn, error) { return s.Conn, nil },
	})
	if err != nil {
		return nil, err
	}
	go func() {
		defer func() {
			if p := recover(); p != nil { // the Conn's
				s.end <- core.End{Reason: core.Panicked}
			}
		}()
		s.end <- sub.Serve()
	}()
	return s, nil
}

// MustOpen opens a subscription that may not be refused.
func MustOpen(ctx context.Context, tb testing.TB, hub *core.Hub, l Listen) *Stream {
	tb.Helper()
	s, err := Open(ctx, tb, hub, l)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	return s
}

// Wait waits for the end.
func (s *Stream) Wait(tb testing.TB) core.End {
	tb.Helper()
	select {
	case e := <-s.end:
		return e
	case <-time.After(time.Minute):
		tb.Fatal("the stream has not ended")
		return core.End{}
	}
}

// Conn is a client. Its zero value reads everything at once.
type Conn struct {
	// Fault, if not nil, is asked before each call: it may fail, block or panic.
	// flushes is how many flushes there were before.
	Fault func(call string, flushes int) error

	mu      sync.Mutex
	flushes int
	bytes   int
}

func (c *Conn) step(call string, bytes int) error {
	c.mu.Lock()
	flushes := c.flushes
	c.mu.Unlock()
	if c.Fault != nil {
		if err := c.Fault(call, flushes); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += bytes
	if call == "flush" {
		c.flushes++
	}
	return nil
}

// WriteMessage counts the message.
func (c *Conn) WriteMessage(msg []byte) error { return c.step("message", len(msg)) }

// WriteKeepAlive writes nothing.
func (c *Conn) WriteKeepAlive() error { return c.step("keep-alive", 0) }

// Flush counts.
func (c *Conn) Flush() error { return c.step("flush", 0) }

// Bytes returns how many bytes of messages were written.
func (c *Conn) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
