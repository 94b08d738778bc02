// A rolling restart: three nodes behind one address are replaced one after another
// while clients follow over HTTP and everything changes all the time.

package mcpnats_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// balancer gives each request to the next node that takes requests.
type balancer struct {
	next atomic.Int64

	mu    sync.Mutex
	nodes []*url.URL
}

func (b *balancer) set(nodes ...*url.URL) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes = nodes
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex() // golang.org/issue/40747
	b.mu.Lock()
	nodes := b.nodes
	b.mu.Unlock()
	to := nodes[int(b.next.Add(1))%len(nodes)]
	proxy := httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(to) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	proxy.ServeHTTP(w, r)
}

// rollingNode is one life of a node.
type rollingNode struct {
	hub *core.Hub
	srv *http.Server
	nc  *nats.Conn
	url *url.URL
}

func startNode(t *testing.T, addr string) *rollingNode {
	t.Helper()
	nc := connect(t, addr)
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ToolsListChanged: true, ResourceSubscriptions: true},
		Broker:       newBroker(t, nc, "rolling"), DrainSpread: 300 * time.Millisecond, GapSpread: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := mcphttp.New(hub)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &rollingNode{hub: hub, nc: nc, srv: &http.Server{Handler: handler}, url: &url.URL{Scheme: "http", Host: ln.Addr().String()}}
	mcphttp.RegisterShutdown(n.srv, hub)
	go func() { _ = n.srv.Serve(ln) }()
	for late := time.After(30 * time.Second); !hub.Stats().Broker.Connected; {
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatal("the node does not connect")
		}
	}
	return n
}

// stop ends a node as a deploy does.
func (n *rollingNode) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.hub.Shutdown(ctx); err != nil {
		t.Errorf("hub.Shutdown: %v", err)
	}
	if err := n.srv.Shutdown(ctx); err != nil {
		t.Errorf("srv.Shutdown: %v", err)
	}
	n.nc.Close()
}

const (
	rollingClients = 30
	rollingThings  = 5
)

// rollingClient keeps what its program would: the version of each thing when it
// last fetched it.
type rollingClient struct {
	follower *client.Follower
	fetched  [rollingThings]atomic.Int64
	started  chan struct{}
	relists  atomic.Int64
}

// TestRollingRestart: after each replacement, every client has fetched each thing after
// its last change: told of it, or listing anew after a gap.
func TestRollingRestart(t *testing.T) {
	s := startServer(t)
	nodes := make([]*rollingNode, 3)
	for i := range nodes {
		nodes[i] = startNode(t, s.addr())
	}
	balancer := new(balancer)
	balancer.set(nodes[0].url, nodes[1].url, nodes[2].url)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: balancer}
	go func() { _ = srv.Serve(front) }()
	defer srv.Close()

	// version is what a client would fetch.
	var version [rollingThings]atomic.Int64
	uris := make([]string, rollingThings)
	byURI := make(map[string]int)
	for i := range uris {
		uris[i] = fmt.Sprintf("thing:%d", i)
		byURI[uris[i]] = i
	}
	transport := &http.Transport{MaxConnsPerHost: 0}
	defer transport.CloseIdleConnections()
	clients := make([]*rollingClient, rollingClients)
	var consuming sync.WaitGroup
	for i := range clients {
		f, err := client.Follow(context.Background(), client.URL("http://"+front.Addr().String()+"/mcp"),
			core.Filter{ResourceSubscriptions: uris}, client.WithHTTPClient(&http.Client{Transport: transport}),
			client.WithBackoff(client.Backoff{First: 20 * time.Millisecond, Max: 200 * time.Millisecond}))
		if err != nil {
			t.Fatal(err)
		}
		c := &rollingClient{follower: f, started: make(chan struct{})}
		clients[i] = c
		consuming.Go(func() {
			for n := range f.Notifications() {
				switch n.Kind {
				case client.Started, client.Relist:
					for thing := range version {
						c.fetched[thing].Store(version[thing].Load())
					}
					if n.Kind == client.Relist {
						c.relists.Add(1)
					} else {
						close(c.started)
					}
				case client.Updated:
					thing := byURI[n.URI]
					c.fetched[thing].Store(version[thing].Load())
				}
			}
		})
	}
	for _, c := range clients {
		select {
		case <-c.started:
		case <-time.After(30 * time.Second):
			t.Fatal("a client does not start")
		}
	}

	publishes := 0
	for round := range 6 {
		// Everything changes all the time, published on whatever nodes serve.
		var mu sync.Mutex // guards nodes
		stop := make(chan struct{})
		var publishing sync.WaitGroup
		publishing.Go(func() {
			for ; ; publishes++ {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				mu.Lock()
				thing := publishes % rollingThings
				version[thing].Add(1)
				err := nodes[publishes%3].hub.Publish(context.Background(), core.ResourceUpdated(uris[thing]))
				mu.Unlock()
				if err != nil {
					t.Errorf("Publish: %v", err)
				}
			}
		})
		fresh := startNode(t, s.addr())
		mu.Lock()
		old := nodes[round%3]
		nodes[round%3] = fresh
		balancer.set(nodes[0].url, nodes[1].url, nodes[2].url)
		mu.Unlock()
		old.stop(t)
		close(stop)
		publishing.Wait()
		// Quiet now: whatever was missed will not be made up for by the next change.
		late := time.After(30 * time.Second)
		for i, c := range clients {
			for thing := range version {
				want := version[thing].Load()
				for c.fetched[thing].Load() != want {
					select {
					case <-time.After(5 * time.Millisecond):
					case <-late:
						t.Fatalf("round %d: client %d last fetched version %d of thing %d, which is at %d", round, i, c.fetched[thing].Load(), thing, want)
					}
				}
			}
		}
	}
	relists := int64(0)
	for _, c := range clients {
		relists += c.relists.Load()
		c.follower.Close()
	}
	consuming.Wait()
	t.Logf("%d clients, %d publishes, %d listed anew", rollingClients, publishes, relists)
	if relists < rollingClients {
		t.Errorf("%d clients came back %d times over two rolling restarts: that was none", rollingClients, relists)
	}
	for _, n := range nodes {
		n.stop(t)
	}
}
