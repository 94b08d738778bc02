// Under load: publishers that wait for nobody, and clients that miss nothing.

package listentest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// heldConn is a connection whose write deadline passes when the test says so,
// and that tells whether a write is waiting.
type heldConn struct {
	net.Conn
	begun, done atomic.Int64 // writes
	armed       atomic.Bool
}

func (c *heldConn) Write(b []byte) (int, error) {
	c.begun.Add(1)
	defer c.done.Add(1)
	return c.Conn.Write(b)
}

func (c *heldConn) SetWriteDeadline(t time.Time) error {
	c.armed.Store(!t.IsZero())
	if !t.IsZero() {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// expire lets the deadline pass.
func (c *heldConn) expire() error { return c.Conn.SetWriteDeadline(time.Unix(1, 0)) }

// waiting reports whether the n-th write is under way.
func (c *heldConn) waiting() (n int64, ok bool) {
	n = c.begun.Load()
	return n, c.done.Load() < n
}

// stalledClient: one client has stopped reading, and a write to it waits. Beside
// it 99 stay current, no publish waits, and memory does not grow (I6, I7).
func (s suite) stalledClient(t *testing.T) {
	const clients = 99
	publishes := 60_000
	if raceDetector {
		publishes = 6_000
	}
	var held atomic.Pointer[heldConn]
	srv := s.start(t, Options{
		Hub: core.Config{KeepAlive: -1},
		Conn: func(c net.Conn) net.Conn {
			first := &heldConn{Conn: c}
			if held.CompareAndSwap(nil, first) {
				shrunk(c)
				return first
			}
			return c
		},
	})
	filter, bulky := bulk()
	lazy := srv.client(t).listen(t, Listen("0", strings.Replace(filter, "{", `{"toolsListChanged":true,`, 1)))
	client := srv.client(t)
	healthy := make([]*Stream, clients)
	for i := range healthy {
		healthy[i] = client.listen(t, Listen(fmt.Sprint(i+1), `{"toolsListChanged":true}`))
	}

	// Fill the stalled client's connection until one write waits, and still does
	// so when the kernel has found no more room for a while.
	conn := held.Load()
	clockwork := s.start(t, Options{Hub: core.Config{KeepAlive: 50 * time.Millisecond}})
	clock := clockwork.client(t).listen(t, Listen("0", everything))
	stalledAt := int64(-1)
	for {
		srv.publish(t, append(bulky, core.ToolsListChanged())...)
		healthy[0].expect(t, core.MethodToolsListChanged)
		n, waits := conn.waiting()
		if waits && n == stalledAt {
			break
		}
		if stalledAt = n; waits {
			clock.keptAlive(t, 10)
		}
	}

	began := time.Now()
	before := heap()
	var version atomic.Int64 // of what the notifications are about
	current := make(chan error, 1)
	go func() {
		current <- inParallel(clients, func(i int) error {
			for {
				if err := healthy[i].Expect(core.MethodToolsListChanged); err != nil {
					return err
				}
				// A client that is told fetches; this is what it gets.
				if version.Load() == int64(publishes) {
					return nil
				}
			}
		})
	}()
	for i := range publishes {
		version.Store(int64(i + 1))
		srv.publish(t, core.ToolsListChanged(), bulky[i%len(bulky)])
	}
	if n, ok := conn.waiting(); !ok || n != stalledAt {
		t.Errorf("a publish waited for the stalled client: its write %d came to an end meanwhile", stalledAt)
	}
	if err := <-current; err != nil {
		t.Errorf("a healthy client is not current: %v", err)
	}
	if n, ok := conn.waiting(); !ok || n != stalledAt || !conn.armed.Load() {
		t.Errorf("the client did not stay stalled: write %d waits: %t, %d was to", n, ok, stalledAt)
	}
	after := heap()
	t.Logf("heap: %d KB before, %d KB after %d publishes, which took %s", before>>10, after>>10, publishes, time.Since(began))
	if after > before+2<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}

	if err := conn.expire(); err != nil {
		t.Fatal(err)
	}
	if end := srv.ended(t, core.SlowClient); end.Stream.ID.String() != "0" {
		t.Errorf("the stream %s ended, want 0", end.Stream.ID)
	}
	lazy.Close()
	srv.end(t, clients)
	if err := inParallel(clients, func(i int) error {
		for {
			if _, err := healthy[i].Next(); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}); err != nil {
		t.Errorf("a healthy client's end: %v", err)
	}
}

// heap returns the bytes of live objects.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// ackFirst: streams open while eight goroutines publish without a pause; what
// comes first is the acknowledgment (I1). A stream checks that.
func (s suite) ackFirst(t *testing.T) {
	const streams, publishers = 400, 8
	srv := s.start(t, Options{})
	client := srv.client(t)
	var stop atomic.Bool
	var all sync.WaitGroup
	for range publishers {
		all.Go(func() {
			for !stop.Load() {
				_ = srv.Hub.Publish(srv.ctx, core.ToolsListChanged(), core.ResourceUpdated("file:///a"))
				runtime.Gosched()
			}
		})
	}
	err := inParallel(streams, func(i int) error {
		stream, err := client.Listen(Listen(fmt.Sprint(i), everything))
		if err != nil {
			return err
		}
		defer stream.Close()
		_, err = stream.Message()
		return err
	})
	stop.Store(true)
	all.Wait()
	if err != nil {
		t.Error(err)
	}
	for range streams {
		srv.ended(t, core.ClientClosed)
	}
}

// nothingLost: what is published once the acknowledgment was read arrives, and so
// does what is published once that arrived (I2).
func (s suite) nothingLost(t *testing.T) {
	const times, workers = 1000, 4
	for _, p := range []Protocol{HTTP1, H2C} {
		t.Run(string(p), func(t *testing.T) {
			srv := s.start(t, Options{Protocol: p, Hub: core.Config{KeepAlive: -1}})
			clients := make([]*Client, workers)
			for i := range clients {
				clients[i] = srv.client(t)
			}
			if err := inParallel(workers, func(i int) error {
				uri := fmt.Sprint("w:", i)
				for range times / 2 / workers {
					stream, err := clients[i].Listen(Listen("1", `{"resourceSubscriptions":["`+uri+`"]}`))
					if err != nil {
						return err
					}
					// From the second time on, the stream may still be busy with the last
					// delivery.
					for range 5 {
						if err := errors.Join(srv.Hub.Publish(srv.ctx, core.ResourceUpdated(uri)),
							stream.Expect("notifications/resources/updated "+uri)); err != nil {
							return err
						}
					}
					stream.Close()
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
}
