package main

// This file is the process under test: one framework, two nodes of one endpoint with a broker between them, nothing else. What it
// is asked comes over its standard input, so that no connection of the asking is among those that are counted.

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/bench/internal/openfiles"
	"github.com/mcplisten/mcplisten/core"
)

// The nodes of a server process.
const (
	nodeA = iota // exact URIs, a maximum lifetime
	nodeB        // sub-resources, no maximum lifetime
	nodes
)

// node is one hub and its listener.
type node struct {
	hub      *core.Hub
	app      *application
	server   *http.Server
	listener net.Listener
}

// service is the whole of a server process.
type service struct {
	mount mount
	nodes [nodes]*node
	admin *http.Server
}

// serveOptions configures a server process.
type serveOptions struct {
	mount   string
	seed    uint64
	streams int // that each node takes
}

// addresses is the first line that a server process says.
type addresses struct {
	Nodes [nodes]string `json:"nodes"`
	Admin string        `json:"admin"`
}

// figures are what a server process holds, and what it has done since its start.
type figures struct {
	Goroutines int               `json:"goroutines"`
	HeapBytes  uint64            `json:"heap_bytes"` // in use, after a collection
	OpenFiles  int               `json:"open_files"`
	Streams    int               `json:"streams"`
	Held       core.Held         `json:"held"`     // of all hubs
	Unsent     int               `json:"unsent"`   // changes that wait for the broker
	Watching   int64             `json:"watching"` // watches of the application
	Delivered  uint64            `json:"delivered"`
	Closed     map[string]uint64 `json:"closed"`
	Refused    map[string]uint64 `json:"refused"`
	Unflushed  uint64            `json:"unflushed"`
	Gaps       uint64            `json:"gaps"`
}

// runServer is the server process: it answers each line of its input with one of its output, until that ends.
func runServer(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var o serveOptions
	flags := flag.NewFlagSet("soak server", flag.ContinueOnError)
	flags.StringVar(&o.mount, "mount", "nethttp", "framework")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of all decisions")
	flags.IntVar(&o.streams, "streams", 60, "streams that each node takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := openfiles.Raise(4 * o.streams); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := newService(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	// Nobody may listen before the nodes know each other: to a node that comes, whatever was published before is a gap.
	if err := s.connected(ctx); err != nil {
		return err
	}
	a, err := s.start(ctx)
	if err != nil {
		return err
	}
	return answer(in, out, a, func(command string) (any, error) {
		switch command {
		case "figures":
			return s.figures()
		case "shutdown":
			cancel() // the operator has gone home
			return nil, s.shutdown()
		default:
			return nil, fmt.Errorf("soak server: no command %q", command)
		}
	})
}

func newService(ctx context.Context, o serveOptions) (*service, error) {
	s := new(service)
	for _, m := range mounts() {
		if m.name == o.mount {
			s.mount = m
		}
	}
	if s.mount.serve == nil {
		return nil, fmt.Errorf("soak server: no mount %q", o.mount)
	}
	broker := new(core.LocalBroker)
	for i := range s.nodes {
		n, err := newNode(s.mount, i, o, broker)
		if err != nil {
			return nil, err
		}
		s.nodes[i] = n
		go operate(ctx, n.hub, newChance(o.seed, uint64(100+i)), i == nodeB)
	}
	return s, nil
}

func newNode(m mount, i int, o serveOptions, broker core.Broker) (*node, error) {
	app := &application{chance: newChance(o.seed, uint64(i))}
	config := core.Config{
		Capabilities: core.Capabilities{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true},
		KeepAlive:    keepAlive, MaxStreams: o.streams, MaxStreamsPerPrincipal: perPrincipal, MaxOpening: 16,
		Limits:      core.Limits{MaxURIs: maxURIs},
		DrainSpread: drainSpread, GapSpread: gapSpread,
		Authorizer: app, Watcher: app, Observer: observer{}, OnEnd: app.ended, Broker: broker,
	}
	switch i {
	case nodeA:
		config.MaxLifetime = maxLifetime
	case nodeB:
		config.Matcher = core.SubResources{}
	}
	hub, err := core.NewHub(config)
	if err != nil {
		return nil, fmt.Errorf("soak server: %w", err)
	}
	options := append([]mcphttp.Option{
		mcphttp.WithWriteTimeout(writeTimeout), mcphttp.WithMaxBody(maxBody), mcphttp.WithPrincipal(principalOf),
	}, m.options...)
	h, err := mcphttp.New(hub, options...)
	if err != nil {
		return nil, fmt.Errorf("soak server: %w", err)
	}
	n := &node{hub: hub, app: app, server: &http.Server{
		Handler: withDeadlines(m.serve(h)), ReadHeaderTimeout: 5 * time.Second,
		ErrorLog: noLog(),
	}}
	mcphttp.RegisterShutdown(n.server, hub)
	if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("soak server: %w", err)
	}
	return n, nil
}

// withDeadlines lets a request ask for a context that ends, as a timeout middleware makes one for all.
func withDeadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerDeadline) != "" {
			ctx, cancel := context.WithTimeout(r.Context(), deadlineLife)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// smallBuffers is a listener whose connections hold little that is unsent, so that a client that does not read shows soon.
type smallBuffers struct{ net.Listener }

const sendBuffer = 8 << 10

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // a connection that is gone already will say so elsewhere
	}
	return c, err
}

// connected waits until the nodes receive from each other.
func (s *service) connected(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, n := range s.nodes {
		for !n.hub.Stats().Broker.Connected {
			if !pause(ctx, 10*time.Millisecond) {
				return errors.New("soak server: the broker did not connect")
			}
		}
	}
	pause(ctx, gapSpread)
	return nil
}

func (s *service) start(ctx context.Context) (a addresses, err error) {
	for i, n := range s.nodes {
		go func() { _ = n.server.Serve(smallBuffers{n.listener}) }() // until it is shut down
		a.Nodes[i] = "http://" + n.listener.Addr().String() + endpointPath
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return a, fmt.Errorf("soak server: %w", err)
	}
	s.admin = &http.Server{Handler: http.HandlerFunc(s.publish), ReadHeaderTimeout: 5 * time.Second, ErrorLog: noLog(),
		BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = s.admin.Serve(l) }()
	a.Admin = "http://" + l.Addr().String() + "/"
	return a, nil
}

// publication is a publish as the client asks for it.
type publication struct {
	Node    int           `json:"node"`
	To      []string      `json:"to,omitempty"`     // principals; none means everybody
	Prefix  string        `json:"prefix,omitempty"` // or those whose names start with it
	Changes []core.Change `json:"changes"`
	Times   int           `json:"times"`
}

func (p *publication) audience() core.Audience {
	switch {
	case p.Prefix != "":
		return core.PrincipalPrefix(p.Prefix)
	case len(p.To) > 0:
		return core.Principals(p.To...)
	default:
		return core.Audience{}
	}
}

// publish publishes what a request asks for, and answers once the last Publish has returned.
func (s *service) publish(w http.ResponseWriter, r *http.Request) {
	var p publication
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || p.Node < 0 || p.Node >= nodes {
		http.Error(w, "no publication", http.StatusBadRequest)
		return
	}
	for range p.Times {
		if err := s.nodes[p.Node].hub.PublishTo(r.Context(), p.audience(), p.Changes...); err != nil {
			http.Error(w, "not published", http.StatusInternalServerError)
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *service) figures() (figures, error) {
	f := figures{Closed: make(map[string]uint64), Refused: make(map[string]uint64)}
	for _, n := range s.nodes {
		st := n.hub.Stats()
		f.Streams += st.Open
		f.Held = sumHeld(f.Held, st.Held)
		f.Unsent += st.Broker.Unsent
		f.Gaps += st.Broker.Gaps
		f.Unflushed += st.Unflushed
		f.Watching += n.app.watching.Load()
		f.Delivered += n.app.delivered.Load()
		for reason, count := range st.Closed {
			f.Closed[string(reason)] += count
		}
		for refusal, count := range st.Refused {
			f.Refused[string(refusal)] += count
		}
	}
	runtime.GC()
	runtime.GC() // what is pooled goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.HeapBytes, f.Goroutines = m.HeapAlloc, runtime.NumGoroutine()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return f, fmt.Errorf("soak server: %w", err)
	}
	f.OpenFiles = len(open) - 1 // but the folder itself
	return f, nil
}

func sumHeld(a, b core.Held) core.Held {
	return core.Held{
		Registered: a.Registered + b.Registered, Releasing: a.Releasing + b.Releasing, URIs: a.URIs + b.URIs,
		Watches: a.Watches + b.Watches, Principals: a.Principals + b.Principals, LimitKeys: a.LimitKeys + b.LimitKeys,
		Deadlines: a.Deadlines + b.Deadlines,
	}
}

// shutdown ends the service as a deploy does: the hubs first, then the servers.
func (s *service) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.hub.Shutdown(ctx), n.server.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

func (s *service) close() {
	for _, n := range s.nodes {
		if n != nil {
			_ = n.server.Close()
		}
	}
	if s.admin != nil {
		_ = s.admin.Close()
	}
}

// answer speaks the line protocol of the processes: a first line unasked, then one for each command, each a value or an error.
func answer(in io.Reader, out io.Writer, first any, do func(command string) (any, error)) error {
	say := func(value any, err error) error {
		r := reply{}
		if err != nil {
			r.Error = err.Error()
		} else if r.Value, err = json.Marshal(value); err != nil {
			return fmt.Errorf("soak: %w", err)
		}
		return json.NewEncoder(out).Encode(r)
	}
	if err := say(first, nil); err != nil {
		return err
	}
	return lines(in, func(line string) error {
		value, err := do(strings.TrimSpace(line))
		return say(value, err)
	})
}
