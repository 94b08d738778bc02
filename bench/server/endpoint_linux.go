package server

// This file is what the rows on net/http have in common: a handler on an http.Server, over one of three transports.

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// change is what is published.
type change struct {
	kind string // tools or resource
	uri  string // of a resource
}

const (
	toolsChange    = "tools"
	resourceChange = "resource"
)

var errKind = errors.New("server: this row does not publish changes of this kind")

// endpoint is one row's own part.
type endpoint struct {
	handler  http.Handler
	publish  func(ctx context.Context, c change) error
	streams  func() int                      // nil: as many as there are connections
	shutdown func(ctx context.Context) error // nil: nothing but the server's end
}

// httpRow is an endpoint on an http.Server as net/http makes it.
type httpRow struct {
	endpoint
	server http.Server
	conns  atomic.Int64
	secure bool
}

func newHTTPRow(e endpoint, transport string) (*httpRow, error) {
	h := &httpRow{endpoint: e, secure: transport != ""}
	h.server.Handler = e.handler
	h.server.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			h.conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			h.conns.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
	h.server.Protocols = new(http.Protocols)
	h.server.Protocols.SetHTTP1(transport != OverHTTP2)
	h.server.Protocols.SetHTTP2(transport == OverHTTP2)
	if h.secure {
		certificate, err := newCertificate()
		if err != nil {
			return nil, err
		}
		h.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	}
	return h, nil
}

func (h *httpRow) serve(l net.Listener) error {
	if h.secure {
		return h.server.ServeTLS(l, "", "")
	}
	return h.server.Serve(l)
}

func (h *httpRow) publish(ctx context.Context, c change) error { return h.endpoint.publish(ctx, c) }

func (h *httpRow) streams() int {
	if h.endpoint.streams != nil {
		return h.endpoint.streams()
	}
	return int(h.conns.Load())
}

func (h *httpRow) close(ctx context.Context) error {
	var err error
	if h.shutdown != nil {
		err = h.shutdown(ctx)
	}
	return errors.Join(err, h.server.Close())
}

// newCertificate makes one that nobody has to trust: it lives as long as the process.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("server: a key: %w", err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("server: a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// smallBuffers is a listener whose connections have a small send buffer, so that a client that does not read is felt at once.
type smallBuffers struct {
	net.Listener
	bytes int
}

// Accept returns the connection itself and no wrapper, which would cost memory.
func (s smallBuffers) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		err = tcp.SetWriteBuffer(s.bytes)
	}
	return c, err
}
