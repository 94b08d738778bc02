// A NATS server of the tests' own, which they can kill, and connections to it that
// they can cut.

package mcpnats_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/brokers/nats"
	"github.com/mcplisten/mcplisten/core/brokertest"
	"github.com/mcplisten/mcplisten/internal/cutproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// natsServer is a server that can stop and start again on its port.
type natsServer struct {
	options server.Options
	running *server.Server
}

func startServer(t *testing.T, change ...func(*server.Options)) *natsServer {
	t.Helper()
	s := &natsServer{options: server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}}
	for _, f := range change {
		f(&s.options)
	}
	s.start(t)
	t.Cleanup(func() { s.stop(t) })
	return s
}

func (s *natsServer) start(t *testing.T) {
	t.Helper()
	options := s.options
	running, err := server.NewServer(&options)
	if err != nil {
		t.Fatal(err)
	}
	running.Start()
	if !running.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	s.running = running
	s.options.Port = options.Port
}

func (s *natsServer) stop(*testing.T) {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

func (s *natsServer) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.options.Port) }

// connect returns a connection that is closed when the test ends.
func connect(t *testing.T, addr string, options ...nats.Option) *nats.Conn {
	t.Helper()
	options = append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)
	nc, err := nats.Connect("nats://"+addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func newBroker(t *testing.T, nc *nats.Conn, prefix string) *mcpnats.Broker {
	t.Helper()
	b, err := mcpnats.New(nc, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newProxy(t *testing.T, addr string) *cutproxy.Proxy {
	t.Helper()
	p, err := cutproxy.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// tests counts, so that each has endpoints of its own.
var tests atomic.Int64

// newCluster returns a server and nodes that each reach it through a proxy.
func newCluster(t *testing.T) brokertest.Cluster {
	t.Helper()
	s := startServer(t)
	run := tests.Add(1)
	return brokertest.Cluster{
		Node: func(t *testing.T, endpoint string) brokertest.Node {
			t.Helper()
			p := newProxy(t, s.addr())
			nc := connect(t, p.Addr())
			return brokertest.Node{
				Broker: newBroker(t, nc, fmt.Sprintf("test.%d.%s", run, endpoint)),
				Cut:    func(*testing.T) { p.Cut() },
				Mend:   func(*testing.T) { p.Mend() },
			}
		},
		Stop:  s.stop,
		Start: s.start,
	}
}
