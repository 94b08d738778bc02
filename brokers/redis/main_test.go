// A Redis server of the tests' own, which they can kill, and clients whose
// connections to it they can cut.

package mcpredis_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/brokers/redis"
	"github.com/mcplisten/mcplisten/core/brokertest"
	"github.com/mcplisten/mcplisten/internal/cutproxy"
)

var (
	full     = flag.Bool("full", false, "run the outages with 3,000 streams, 1,000 publishes and 5 s without the broker")
	required = flag.Bool("require-redis", false, "fail instead of skipping where there is no redis-server")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// redisServer is a redis-server that can be killed and started again on its port.
type redisServer struct {
	binary string
	port   int
	args   []string
	config string // of a sentinel; empty for a server
	cmd    *exec.Cmd
}

// startServer starts a server on a port of loopback that was free a moment ago.
func startServer(t *testing.T, args ...string) *redisServer {
	t.Helper()
	return startRedis(t, &redisServer{args: args})
}

func startRedis(t *testing.T, s *redisServer) *redisServer {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		if *required {
			t.Fatal("there is no redis-server in the PATH")
		}
		t.Skip("there is no redis-server in the PATH: this is not tested")
	}
	s.binary = binary
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.port = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		if s.tryStart(t) {
			t.Cleanup(func() { s.stop(t) })
			return s
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

// tryStart starts the server, and reports whether it serves.
func (s *redisServer) tryStart(t *testing.T) bool {
	t.Helper()
	args := append([]string{"--bind", "127.0.0.1", "--port", fmt.Sprint(s.port), "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, s.args...)
	if s.config != "" {
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		if err := os.WriteFile(file, []byte(s.config), 0o600); err != nil {
			t.Fatal(err)
		}
		args = []string{file, "--bind", "127.0.0.1", "--port", fmt.Sprint(s.port), "--sentinel"}
	}
	s.cmd = exec.Command(s.binary, args...)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(exited) }()
	late := time.After(10 * time.Second)
	for {
		conn, err := net.DialTimeout("tcp", s.addr(), time.Second)
		if err == nil {
			_ = conn.Close()
			select {
			case <-exited: // somebody else has the port
				return false
			default:
				return true
			}
		}
		select {
		case <-exited:
			return false
		case <-late:
			_ = s.cmd.Process.Kill()
			<-exited
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *redisServer) start(t *testing.T) {
	t.Helper()
	if !s.tryStart(t) {
		t.Fatal("redis-server does not start again on its port")
	}
}

// stop kills the server, by its process.
func (s *redisServer) stop(t *testing.T) {
	t.Helper()
	_ = s.cmd.Process.Kill()
	late := time.After(10 * time.Second)
	for {
		conn, err := net.DialTimeout("tcp", s.addr(), time.Second)
		if err != nil {
			return
		}
		_ = conn.Close()
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			t.Fatal("redis-server is still there")
		}
	}
}

func (s *redisServer) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// connect returns a client that is closed when the test ends.
func connect(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: time.Second, DialerRetries: 1})
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("closing the client: %v", err)
		}
	})
	return c
}

func newBroker(t *testing.T, client redis.UniversalClient, prefix string) *mcpredis.Broker {
	t.Helper()
	b, err := mcpredis.New(client, prefix)
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
			client := connect(t, p.Addr())
			return brokertest.Node{
				Broker: newBroker(t, client, fmt.Sprintf("test:%d:%s", run, endpoint)),
				Cut:    func(*testing.T) { p.Cut() },
				Mend:   func(*testing.T) { p.Mend() },
			}
		},
		Stop:  s.stop,
		Start: s.start,
	}
}
