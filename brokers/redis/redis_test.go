// The contract on a real server, and what is Redis' own: connections that the
// client renews by itself, or that stand still, and the kinds of client.

package mcpredis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mcplisten/mcplisten/brokers/redis"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/core/brokertest"
)

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
	if _, err := mcpredis.New(nil, "a"); err == nil {
		t.Error("no client was accepted")
	}
	client := connect(t, "127.0.0.1:1")
	if _, err := mcpredis.New(client, ""); err == nil {
		t.Error("no prefix was accepted")
	}
	if _, err := mcpredis.New(client, "a"); err != nil {
		t.Errorf("with nobody at the client's address: %v", err)
	}
}

// receiving starts Receive and returns what the receiver is told.
func receiving(t *testing.T, b *mcpredis.Broker) (r *recorder, ended <-chan error) {
	t.Helper()
	r = &recorder{calls: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	over := make(chan struct{})
	go func() { defer close(over); done <- b.Receive(ctx, r) }()
	t.Cleanup(func() { cancel(); <-over })
	return r, done
}

// TestAConnectionThatTheClientRenews is a gap: the subscription is another one.
func TestAConnectionThatTheClientRenews(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b, admin := newBroker(t, connect(t, s.addr()), "e"), connect(t, s.addr())
	b.Check(20 * time.Millisecond)
	for range 5 {
		r, ended := receiving(t, b)
		r.await(t, "connected")
		if err := admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		// Either reading sees it first, and Receive returns; or the ping does, and
		// the client has subscribed again.
		select {
		case err := <-ended:
			if err == nil {
				t.Error("Receive returned nil")
			}
		case call := <-r.calls:
			if call != "connected" {
				t.Errorf("the receiver was told %q, want connected", call)
			}
		case <-time.After(30 * time.Second):
			t.Error("a killed connection was not noticed")
		}
	}
}

// TestAConnectionThatStandsStill is noticed by its silence.
func TestAConnectionThatStandsStill(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newProxy(t, s.addr())
	b := newBroker(t, connect(t, p.Addr()), "e")
	b.Check(100 * time.Millisecond)
	r, ended := receiving(t, b)
	r.await(t, "connected")
	select {
	case err := <-ended:
		t.Fatalf("with a server that is only quiet, Receive returned %v", err)
	case <-time.After(time.Second):
	}
	p.Stall()
	defer p.Mend()
	select {
	case err := <-ended:
		if !strings.Contains(fmt.Sprint(err), "silent") {
			t.Errorf("Receive returned %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it was not noticed")
	}
}

// TestSendHeedsItsContext where the server stands still.
func TestSendHeedsItsContext(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newProxy(t, s.addr())
	b := newBroker(t, connect(t, p.Addr()), "e")
	if err := b.Send(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	p.Stall()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := b.Send(ctx, []byte("x")); err == nil {
		t.Error("Send returned nil without an answer of the server")
	}
	if d := time.Since(start); d > 800*time.Millisecond {
		t.Errorf("Send took %v with a context of 100 ms", d)
	}
	p.Mend()
}

// TestSentinel: the master dies, its replica takes over, and the nodes hear each
// other again.
func TestSentinel(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	replica := startServer(t, "--replicaof", "127.0.0.1", fmt.Sprint(master.port))
	sentinel := startRedis(t, &redisServer{config: fmt.Sprintf("sentinel monitor m 127.0.0.1 %d 1\n"+
		"sentinel down-after-milliseconds m 300\nsentinel failover-timeout m 2000\n", master.port)})
	watching := redis.NewSentinelClient(&redis.Options{Addr: sentinel.addr()})
	t.Cleanup(func() { _ = watching.Close() })
	eventually(t, "the sentinel knows the replica", func() bool {
		replicas, err := watching.Replicas(t.Context(), "m").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
	var hubs [2]*core.Hub
	for i := range hubs {
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "m", SentinelAddrs: []string{sentinel.addr()}, DialTimeout: time.Second, ReadTimeout: time.Second,
		})
		hub, err := core.NewHub(core.Config{Broker: newBroker(t, client, "sentinel")})
		if err != nil {
			t.Fatal(err)
		}
		hubs[i] = hub
		t.Cleanup(func() {
			if err := hub.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			_ = client.Close()
		})
	}
	received := func() uint64 { return hubs[1].Stats().Broker.Received }
	hear := func(when string) {
		t.Helper()
		eventually(t, "connected "+when, func() bool { return hubs[0].Stats().Broker.Connected && hubs[1].Stats().Broker.Connected })
		before := received()
		if err := hubs[0].Publish(t.Context(), core.ToolsListChanged()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a change arrives "+when, func() bool { return received() > before })
	}
	hear("before the failover")
	master.stop(t)
	eventually(t, "the master is missed", func() bool { return !hubs[0].Stats().Broker.Connected && !hubs[1].Stats().Broker.Connected })
	eventually(t, "the replica is the master", func() bool {
		addr, err := watching.GetMasterAddrByName(t.Context(), "m").Result()
		return err == nil && len(addr) == 2 && addr[1] == fmt.Sprint(replica.port)
	})
	hear("after the failover")
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.After(40 * time.Second); !so(); {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			t.Fatalf("after 40 s, still not: %s", what)
		}
	}
}

// TestCluster: nodes at different masters of a Redis Cluster hear each other.
func TestCluster(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--cluster-enabled", "yes")
	admin := connect(t, s.addr())
	if err := admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	clusterClient := func() *redis.ClusterClient {
		c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.addr()}})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for late := time.After(30 * time.Second); ; {
		if info := admin.ClusterInfo(t.Context()).Val(); strings.Contains(info, "cluster_state:ok") {
			break
		}
		select {
		case <-late:
			t.Fatal("the cluster does not come up")
		case <-time.After(20 * time.Millisecond):
		}
	}
	from, to := newBroker(t, clusterClient(), "e"), newBroker(t, clusterClient(), "e")
	r, _ := receiving(t, to)
	r.await(t, "connected")
	if err := from.Send(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	r.await(t, "hello")
}

// recorder is a receiver whose calls can be waited for in their order.
type recorder struct {
	calls chan string

	mu   sync.Mutex
	list []string
}

func (r *recorder) Connected()         { r.call("connected") }
func (r *recorder) Disconnected()      { r.call("disconnected") }
func (r *recorder) Message(msg []byte) { r.call(string(msg)) }

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
			t.Fatalf("the receiver was not told %q, but %q", want, r.all())
		}
	}
}
