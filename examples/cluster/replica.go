// A replica: the service as it runs on one node, and the proxy in front of all.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/internal/nodes"
)

type replica struct {
	name   string
	url    *url.URL
	hub    *core.Hub
	server *http.Server
	close  func() // of the broker's connection
}

// startReplica starts a replica with a connection to the broker of its own.
func startReplica(name, brokerURL string) (*replica, error) {
	broker, closing, err := nodes.Connect(brokerURL, "cluster")
	if err != nil {
		return nil, err
	}
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ToolsListChanged: true, ResourceSubscriptions: true},
		Broker:       broker,
		DrainSpread:  500 * time.Millisecond, // clients go to the other replicas, not all at once
	})
	if err != nil {
		closing()
		return nil, err
	}
	handler, err := mcphttp.New(hub)
	if err != nil {
		closing()
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		closing()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle("/status", mcphttp.Status(hub))
	r := &replica{
		name: name, url: &url.URL{Scheme: "http", Host: ln.Addr().String()}, hub: hub, close: closing,
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { _ = r.server.Serve(ln) }()
	if err := r.connected(10 * time.Second); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

// connected waits until the replica hears the others. A service may well start
// without that: what it missed until then is made up for.
func (r *replica) connected(limit time.Duration) error {
	for late := time.After(limit); !r.hub.Stats().Broker.Connected; {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			return fmt.Errorf("replica %s does not reach the broker", r.name)
		}
	}
	return nil
}

// stop ends the replica in the order that a deploy needs: the streams with their
// results and what other replicas must still be told, the server, the connection.
func (r *replica) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err := errors.Join(r.hub.Shutdown(ctx), r.server.Shutdown(ctx))
	r.close()
	return err
}

// roundRobin passes each request to the next replica.
type roundRobin struct {
	replicas []*replica
	next     atomic.Uint64
}

func (b *roundRobin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Else net/http closes the request's body when the answer begins, and where the
	// proxy is not done with it yet, that cuts the stream (golang.org/issue/40747).
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 has it, and refuses

	to := b.replicas[(b.next.Add(1)-1)%uint64(len(b.replicas))]
	proxy := httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(to.url) },
		FlushInterval: -1, // a stream: pass on what comes, at once
	}
	proxy.ServeHTTP(w, r)
}
