// Package cutproxy is a TCP proxy between a program and a server, for tests: it can
// cut the connections that go through it, or let them stand still.
package cutproxy

import (
	"context"
	"io"
	"net"
	"sync"
)

// Proxy passes connections on to one address.
type Proxy struct {
	target   string
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex
	state state
	moved *sync.Cond // the state changed; on mu
	conns map[net.Conn]struct{}
}

type state int

const (
	passing state = iota
	cut           // connections are closed as they come
	stalled       // connections stay, and nothing goes through
	finished
)

// New returns a proxy to the target on a loopback port that the system picks.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, conns: make(map[net.Conn]struct{})}
	p.moved = sync.NewCond(&p.mu)
	p.done.Go(p.accept)
	return p, nil
}

// Addr returns the proxy's address.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections, and all that come until Mend.
func (p *Proxy) Cut() { p.set(cut) }

// Stall lets nothing through until Mend, and closes nothing.
func (p *Proxy) Stall() { p.set(stalled) }

// Mend lets connections through again.
func (p *Proxy) Mend() { p.set(passing) }

// Close ends the proxy.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.set(finished)
	p.done.Wait()
}

func (p *Proxy) set(s state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == finished {
		return
	}
	p.state = s
	p.moved.Broadcast()
	if s == cut || s == finished {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}

// keep notes a connection, unless it is to be closed at once.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == cut || p.state == finished {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// wait waits while the proxy is stalled.
func (p *Proxy) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.state == stalled {
		p.moved.Wait()
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(c) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	if !p.keep(client) {
		return
	}
	defer p.forget(client)
	p.wait()
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
	if err != nil || !p.keep(server) {
		return
	}
	defer p.forget(server)
	var both sync.WaitGroup
	for _, way := range [2][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			defer way[0].Close()
			defer way[1].Close()
			p.pass(way[0], way[1])
		})
	}
	both.Wait()
}

func (p *Proxy) pass(from io.Reader, to io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.wait()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
