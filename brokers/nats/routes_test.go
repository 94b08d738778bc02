// A cluster of NATS servers that lose each other: every client stays connected to
// its own, and what is published meanwhile is gone without a word.

package mcpnats_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mcplisten/mcplisten/core"
)

// heard is a client in memory, and the methods that it was notified of.
type heard struct {
	mu      sync.Mutex
	methods []string
}

func (h *heard) WriteMessage(msg []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, rest, _ := strings.Cut(string(msg), `"method":"`)
	method, _, _ := strings.Cut(rest, `"`)
	h.methods = append(h.methods, method)
	return nil
}
func (h *heard) WriteKeepAlive() error { return nil }
func (h *heard) Flush() error          { return nil }

func (h *heard) count(method string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.methods {
		if m == method {
			n++
		}
	}
	return n
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.After(30 * time.Second); !so(); {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			t.Fatalf("after 30 s, still not: %s", what)
		}
	}
}

func newHub(t *testing.T, addr string) *core.Hub {
	t.Helper()
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ToolsListChanged: true, PromptsListChanged: true},
		Broker:       newBroker(t, connect(t, addr), "routes"), GapSpread: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	eventually(t, "connected", func() bool { return hub.Stats().Broker.Connected })
	return hub
}

func TestServersThatLoseEachOther(t *testing.T) {
	t.Parallel()
	clustered := func(o *server.Options) {
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoAdvertise: true}
	}
	first := startServer(t, clustered)
	between := newProxy(t, first.running.ClusterAddr().String())
	second := startServer(t, clustered, func(o *server.Options) {
		o.Routes = []*url.URL{{Scheme: "nats-route", Host: between.Addr()}}
	})
	routed := func() bool { return first.running.NumRoutes() > 0 && second.running.NumRoutes() > 0 }
	eventually(t, "the servers find each other", routed)

	here, there := newHub(t, first.addr()), newHub(t, second.addr())
	client := new(heard)
	listen(t, there, client)
	publish := func(change core.Change) {
		t.Helper()
		if err := here.Publish(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	publish(core.ToolsListChanged())
	eventually(t, "a change comes over the route", func() bool { return client.count(core.MethodToolsListChanged) > 0 })

	between.Cut()
	eventually(t, "the servers have lost each other", func() bool { return first.running.NumRoutes() == 0 && second.running.NumRoutes() == 0 })
	sent, received, told := here.Stats().Broker.Sent, there.Stats().Broker.Received, client.count(core.MethodPromptsListChanged)
	publish(core.PromptsListChanged())
	eventually(t, "the server takes the change", func() bool { return here.Stats().Broker.Sent > sent })
	if st := there.Stats().Broker; !st.Connected || st.Received != received {
		t.Fatal("the change was not lost in silence: this tests nothing")
	}
	between.Mend()
	eventually(t, "the servers find each other again", routed)
	publish(core.ToolsListChanged())
	eventually(t, "the change that was lost is made up for", func() bool { return client.count(core.MethodPromptsListChanged) > told })
}

// listen opens a stream for tools and prompts.
func listen(t *testing.T, hub *core.Hub, conn core.Conn) {
	t.Helper()
	text := `{"jsonrpc":"2.0","id":1,"method":"` + core.MethodListen + `","params":{"_meta":{"` + core.MetaProtocolVersion + `":"` +
		core.ProtocolVersion + `","` + core.MetaClientCapabilities + `":{}},"notifications":{"toolsListChanged":true,"promptsListChanged":true}}}`
	msg, err := core.ParseMessage([]byte(text), hub.Limits())
	if err != nil {
		t.Fatal(err)
	}
	meta, err := msg.Meta()
	if err != nil {
		t.Fatal(err)
	}
	req, err := hub.ParseListen(msg, meta)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	sub, err := hub.Open(ctx, core.Opening{Request: req, Connect: func() (core.Conn, error) { return conn, nil }})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); sub.Serve() }()
	t.Cleanup(func() { cancel(); <-served })
}
