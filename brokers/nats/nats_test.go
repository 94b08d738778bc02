// The contract on a real server, and what is NATS' own: permissions, payload
// limits, connections that stand still or die at the worst moment.

package mcpnats_test

import (
	"context"
	"errors"
	"flag"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/mcplisten/mcplisten/brokers/nats"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/core/brokertest"
)

var full = flag.Bool("full", false, "run the outages with 3,000 streams, 1,000 publishes and 5 s without the broker")

func TestContract(t *testing.T) { brokertest.Run(t, newCluster) }

func TestOutage(t *testing.T) {
	for name, alone := range map[string]bool{"of the server": false, "of one node": true} {
		t.Run(name, func(t *testing.T) {
			load := brokertest.Load{Alone: alone}
			if *full {
				load.Streams, load.Publishes, load.Away, load.GapSpread = 3000, 1000, 5*time.Second, core.DefaultGapSpread
			}
			brokertest.Outage(t, newCluster(t), load)
		})
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	nc := connect(t, startServer(t).addr())
	for _, prefix := range []string{"", ".", "a.", ".a", "a..b", "a.*", "a.>", "a b", "a\nb"} {
		if _, err := mcpnats.New(nc, prefix); err == nil {
			t.Errorf("the prefix %q was accepted", prefix)
		}
	}
	if _, err := mcpnats.New(nil, "a"); err == nil {
		t.Error("no connection was accepted")
	}
	if _, err := mcpnats.New(nc, "mcplisten.orders_1-x"); err != nil {
		t.Error(err)
	}
}

// TestSendWithoutAConnection fails at once, and leaves nothing that is sent later.
func TestSendWithoutAConnection(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newProxy(t, s.addr())
	nc, other := connect(t, p.Addr()), connect(t, s.addr())
	got, err := other.SubscribeSync("e.changes")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(); err != nil {
		t.Fatal(err)
	}
	b := newBroker(t, nc, "e")
	p.Cut()
	eventually(t, "not connected", func() bool { return !nc.IsConnected() })
	start := time.Now()
	if err := b.Send(t.Context(), []byte("lost")); err == nil {
		t.Error("Send returned nil without a connection")
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("it took %v", d)
	}
	p.Mend()
	eventually(t, "connected again", nc.IsConnected)
	if err := b.Send(t.Context(), []byte("sent")); err != nil {
		t.Fatal(err)
	}
	if m, err := got.NextMsg(5 * time.Second); err != nil || string(m.Data) != "sent" {
		t.Errorf("got %q (%v), want only what was sent with a connection", m.Data, err)
	}
}

// TestAConnectionThatDiesDuringASend: the message went into it and may be lost, and
// whatever the next connection says is no confirmation.
func TestAConnectionThatDiesDuringASend(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newProxy(t, s.addr())
	nc, other := connect(t, p.Addr()), connect(t, s.addr())
	got, err := other.SubscribeSync("e.changes")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(); err != nil {
		t.Fatal(err)
	}
	b := newBroker(t, nc, "e")
	lost := 0
	for range 20 {
		p.Stall()
		out := nc.Stats().OutMsgs
		sent := make(chan error, 1)
		go func() { sent <- b.Send(context.Background(), []byte("m")) }()
		for nc.Stats().OutMsgs == out {
			runtime.Gosched()
		}
		p.Cut()
		p.Mend()
		err := <-sent
		eventually(t, "connected again", nc.IsConnected)
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := other.Flush(); err != nil {
			t.Fatal(err)
		}
		came, _, pendingErr := got.Pending()
		if pendingErr != nil {
			t.Fatal(pendingErr)
		}
		if came == 0 {
			lost++
		}
		if err == nil && came == 0 {
			t.Fatal("Send returned nil, and the message did not come")
		}
		for range came {
			_, _ = got.NextMsg(time.Second)
		}
	}
	if lost == 0 {
		t.Error("no message was lost: this tested nothing")
	}
}

// TestNotPermitted: the server tells of a missing permission in passing only.
func TestNotPermitted(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(o *server.Options) {
		allow := func(publish, subscribe string) *server.Permissions {
			return &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{publish}}, Subscribe: &server.SubjectPermission{Allow: []string{subscribe}}}
		}
		o.Users = []*server.User{
			{Username: "reads", Password: "x", Permissions: allow("other", "e.changes")},
			{Username: "writes", Password: "x", Permissions: allow("e.changes", "other")},
		}
	})
	reads := newBroker(t, connect(t, s.addr(), nats.UserInfo("reads", "x")), "e")
	writes := newBroker(t, connect(t, s.addr(), nats.UserInfo("writes", "x")), "e")
	if err := reads.Send(t.Context(), []byte("x")); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("Send without the permission: %v", err)
	}
	if err := writes.Send(t.Context(), []byte("x")); err != nil {
		t.Errorf("Send with the permission: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r := newRecorder()
	if err := writes.Receive(ctx, r); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("Receive without the permission: %v", err)
	}
	if calls := r.all(); len(calls) != 0 {
		t.Errorf("the receiver was told %q", calls)
	}
}

func TestTooLargeForTheServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(o *server.Options) { o.MaxPayload = 1000 })
	nc := connect(t, s.addr())
	b := newBroker(t, nc, "e")
	if err := b.Send(t.Context(), make([]byte, 1001)); !errors.Is(err, core.ErrMessageTooLarge) {
		t.Errorf("1,001 bytes for a server that takes 1,000: %v", err)
	}
	if err := b.Send(t.Context(), make([]byte, 1000)); err != nil {
		t.Errorf("1,000 bytes: %v", err)
	}
}

// TestAHubThatIsTooSlow: what the client library drops for it is a gap.
func TestAHubThatIsTooSlow(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	to, from := newBroker(t, connect(t, s.addr()), "e"), connect(t, s.addr())
	r := newRecorder()
	r.gate = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = to.Receive(ctx, r) }()
	r.await(t, "connected")
	for range 10_000 {
		if err := from.Publish("e.changes", []byte("m")); err != nil {
			t.Fatal(err)
		}
	}
	if err := from.Flush(); err != nil {
		t.Fatal(err)
	}
	r.await(t, "m") // it holds up the first one
	// The others wait, or are dropped by now: the server has sent them all, and
	// the flush of the receiving connection comes behind them.
	if err := to.Flush(); err != nil {
		t.Fatal(err)
	}
	close(r.gate)
	r.await(t, "disconnected")
	r.await(t, "connected")
	cancel()
	<-done
}

// TestAReconnectThatNobodySaw: while the hub was busy with a message, the connection
// was lost and came back.
func TestAReconnectThatNobodySaw(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newProxy(t, s.addr())
	nc, other := connect(t, p.Addr()), connect(t, s.addr())
	b := newBroker(t, nc, "e")
	r := newRecorder()
	r.gate = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = b.Receive(ctx, r) }()
	r.await(t, "connected")
	if err := other.Publish("e.changes", []byte("m")); err != nil {
		t.Fatal(err)
	}
	r.await(t, "m")
	status := nc.StatusChanged(nats.CONNECTED)
	p.Cut()
	p.Mend()
	select {
	case <-status:
	case <-time.After(30 * time.Second):
		t.Fatal("the connection does not come back")
	}
	if err := nc.Flush(); err != nil { // it is connected once this returns
		t.Fatal(err)
	}
	close(r.gate)
	r.await(t, "disconnected")
	r.await(t, "connected")
	cancel()
	<-done
}

// busy is a receiver that takes its time when it is first told of a connection.
type busy struct {
	*recorder
	once sync.Once
	gate chan struct{}
}

func (r *busy) Connected() {
	r.recorder.Connected()
	r.once.Do(func() { <-r.gate })
}

// TestAReconnectWhileBusy: the state changes twice before it is looked at again, and
// once more after it. All of it is noticed at once, and not with the next check.
func TestAReconnectWhileBusy(t *testing.T) {
	t.Parallel()
	p := newProxy(t, startServer(t).addr())
	nc := connect(t, p.Addr())
	b := newBroker(t, nc, "e")
	b.Check(time.Hour, time.Minute)
	r := &busy{recorder: newRecorder(), gate: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = b.Receive(ctx, r) }()
	r.await(t, "connected")
	p.Cut()
	p.Mend()
	eventually(t, "the connection comes back", func() bool { return nc.Stats().Reconnects == 1 && nc.IsConnected() })
	if err := nc.Flush(); err != nil { // it has told of it once this returns
		t.Fatal(err)
	}
	close(r.gate)
	r.await(t, "disconnected")
	r.await(t, "connected")
	p.Cut()
	p.Mend()
	r.await(t, "disconnected")
	r.await(t, "connected")
	cancel()
	<-done
}

// TestAConnectionThatStandsStill is noticed, whatever the pings of the
// application's connection are.
func TestAConnectionThatStandsStill(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newProxy(t, s.addr())
	b := newBroker(t, connect(t, p.Addr()), "e")
	b.Check(100*time.Millisecond, 200*time.Millisecond)
	r := newRecorder()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = b.Receive(ctx, r) }()
	r.await(t, "connected")
	p.Stall()
	r.await(t, "disconnected")
	p.Mend()
	r.await(t, "connected")
	cancel()
	<-done
}

// recorder is a receiver whose calls can be waited for in their order.
type recorder struct {
	calls chan string
	gate  chan struct{} // nil: none; messages wait for it to be closed

	mu   sync.Mutex
	list []string
}

func newRecorder() *recorder { return &recorder{calls: make(chan string, 20_000)} }

func (r *recorder) Connected()    { r.call("connected") }
func (r *recorder) Disconnected() { r.call("disconnected") }
func (r *recorder) Message(msg []byte) {
	r.call(string(msg))
	if r.gate != nil {
		<-r.gate
	}
}

func (r *recorder) call(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, name)
	r.calls <- name
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list
}

func (r *recorder) await(t *testing.T, want string) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case got := <-r.calls:
			if got == want {
				return
			}
		case <-late:
			list := strings.Join(r.all(), " ")
			t.Fatalf("the receiver was not told %q, but %.300s", want, list)
		}
	}
}
