// The server of a test: an endpoint on a socket, and what it tells of itself.

package listentest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// hang is when a test that waits in vain is given up. No test measures time by
// it.
const hang = time.Minute

// Protocol is the HTTP that client and server speak.
type Protocol string

// The protocols.
const (
	HTTP1 Protocol = "HTTP1"
	H2C   Protocol = "H2C" // HTTP/2 without TLS
	H2TLS Protocol = "H2TLS"
)

var protocols = []Protocol{HTTP1, H2C, H2TLS}

// Options say what a test needs of its server. The zero value is an endpoint
// that stands alone, delivers every kind and speaks HTTP/1.1.
type Options struct {
	Protocol Protocol
	Hub      core.Config // no capabilities: all of them
	HTTP     []mcphttp.Option
	Next     http.Handler
	Outer    func(http.Handler) http.Handler // a middleware around all
	Server   func(*http.Server)
	Conn     func(net.Conn) net.Conn // wraps each accepted connection
	Noise    bool                    // the server is expected to log
}

// Server is a running endpoint.
type Server struct {
	Hub     *core.Hub
	HTTP    *http.Server
	Options Options

	ctx  context.Context
	addr string
	ends chan core.End
	log  *buffer
	open sync.WaitGroup // connections
}

// allCapabilities is a server that delivers every kind.
var allCapabilities = core.Capabilities{
	ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true,
}

// start starts a server that ends with the test. At its end nothing may be left
// of any stream.
func (s suite) start(tb testing.TB, o Options) *Server {
	tb.Helper()
	if o.Hub.Capabilities == (core.Capabilities{}) {
		o.Hub.Capabilities = allCapabilities
	}
	srv := &Server{Options: o, ends: make(chan core.End, 4096), log: &buffer{}}
	o.Hub.OnEnd = func(e core.End) { srv.ends <- e }
	var err error
	if srv.Hub, err = core.NewHub(o.Hub); err != nil {
		tb.Fatalf("hub: %v", err)
	}
	handler := s.mount(tb, Endpoint{Hub: srv.Hub, Options: o.HTTP, Next: o.Next})
	if o.Outer != nil {
		handler = o.Outer(handler)
	}
	srv.HTTP = &http.Server{Handler: handler, ErrorLog: log.New(srv.log, "", 0), Protocols: new(http.Protocols)}
	srv.HTTP.Protocols.SetHTTP1(true)
	srv.HTTP.Protocols.SetHTTP2(true)
	srv.HTTP.Protocols.SetUnencryptedHTTP2(true)
	if o.Server != nil {
		o.Server(srv.HTTP)
	}
	srv.HTTP.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			srv.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			srv.open.Done()
		}
	}
	mcphttp.RegisterShutdown(srv.HTTP, srv.Hub)
	srv.serve(tb)
	return srv
}

func (srv *Server) serve(tb testing.TB) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	srv.addr = listener.Addr().String()
	if srv.Options.Conn != nil {
		listener = wrappingListener{listener, srv.Options.Conn}
	}
	if srv.Options.Protocol == H2TLS {
		srv.HTTP.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate(tb)}, MinVersion: tls.VersionTLS13}
	}
	var cancel context.CancelFunc
	srv.ctx, cancel = context.WithTimeout(context.Background(), hang)
	served := make(chan error, 1)
	go func() {
		if srv.Options.Protocol == H2TLS {
			served <- srv.HTTP.ServeTLS(listener, "", "")
		} else {
			served <- srv.HTTP.Serve(listener)
		}
	}()
	tb.Cleanup(func() {
		defer cancel()
		_ = srv.HTTP.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			tb.Errorf("the server ended with %v", err)
		}
		if err := srv.Hub.Shutdown(srv.ctx); err != nil {
			tb.Errorf("streams are left behind: %v", err)
		}
		srv.open.Wait() // net/http lingers half a second over some
		if n := len(srv.Hub.Streams()); n > 0 {
			tb.Errorf("%d streams are left in the index", n)
		}
		if text := srv.log.String(); text != "" && !srv.Options.Noise {
			tb.Errorf("the server logged: %s", text)
		}
	})
}

// client returns a client with connections of its own.
func (srv *Server) client(tb testing.TB) *Client {
	tb.Helper()
	c := &Client{dialed: make(chan net.Conn, 1024), ctx: srv.ctx, url: "http://" + srv.addr + Path}
	dialer := new(net.Dialer)
	c.transport = &http.Transport{
		DisableCompression: true,
		Protocols:          new(http.Protocols),
		HTTP2:              &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 16}, // soon full
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			c.dialed <- conn
			return gatedConn{conn, &c.reading, c.ctx}, nil
		},
	}
	switch srv.Options.Protocol {
	case H2C:
		c.transport.Protocols.SetUnencryptedHTTP2(true)
	case H2TLS:
		c.url = "https://" + srv.addr + Path
		c.transport.Protocols.SetHTTP2(true)
		pool := x509.NewCertPool()
		pool.AddCert(certificate(tb).Leaf)
		c.transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	default:
		c.transport.Protocols.SetHTTP1(true)
	}
	c.http = &http.Client{Transport: c.transport}
	tb.Cleanup(c.transport.CloseIdleConnections)
	return c
}

// gate is open until it is shut.
type gate struct{ shut atomic.Bool }

// gatedConn is read from only while its gate is open.
type gatedConn struct {
	net.Conn
	gate *gate
	ctx  context.Context
}

func (c gatedConn) Read(b []byte) (int, error) {
	if c.gate.shut.Load() {
		<-c.ctx.Done()
	}
	return c.Conn.Read(b)
}

// publish publishes changes, which cannot fail.
func (srv *Server) publish(tb testing.TB, changes ...core.Change) {
	tb.Helper()
	if err := srv.Hub.Publish(srv.ctx, changes...); err != nil {
		tb.Fatalf("publish: %v", err)
	}
}

// ended waits for the end of a stream, and fails unless it ended for the reason,
// and with its result if that reason says so.
func (srv *Server) ended(tb testing.TB, reason core.Reason) core.End {
	tb.Helper()
	select {
	case e := <-srv.ends:
		graceful := false
		switch reason {
		case core.Completed, core.MaxLifetime, core.GrantExpired, core.Revoked, core.Deadline, core.Shutdown:
			graceful = true
		}
		if e.Reason != reason || e.Graceful != graceful {
			tb.Errorf("the stream ended as %s, graceful %t (%v), want %s, graceful %t", e.Reason, e.Graceful, e.Err, reason, graceful)
		}
		return e
	case <-srv.ctx.Done():
		tb.Fatalf("no stream ended, want one to end as %s", reason)
		return core.End{}
	}
}

// end ends all streams from the server's side.
func (srv *Server) end(tb testing.TB, want int) {
	tb.Helper()
	if n := srv.Hub.EndWhere(func(core.StreamInfo) bool { return true }); n != want {
		tb.Fatalf("ended %d streams, want %d", n, want)
	}
}

// wrappingListener wraps each connection that it accepts.
type wrappingListener struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l wrappingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(conn), nil
}

// buffer is a log to look into.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// lines returns the lines that contain the text.
func (b *buffer) lines(text string) (found []string) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// certificate returns a certificate for the loopback address that signs itself.
func certificate(tb testing.TB) tls.Certificate {
	tb.Helper()
	cert, err := selfSigned()
	if err != nil {
		tb.Fatalf("certificate: %v", err)
	}
	return cert
}

var selfSigned = sync.OnceValues(func() (cert tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return cert, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
})
