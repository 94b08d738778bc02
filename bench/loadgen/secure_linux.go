package loadgen

// This file is the client for https: a goroutine per stream, on a TLS connection of its own or as a stream of a shared HTTP/2
// connection. What they read goes through one channel to whoever calls pump.

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

type secure struct {
	requests []*request
	config   *tls.Config
	http2    []*http.Transport // each for so many streams; none over HTTP/1.1
	sink     func(arrival)
	came     chan arrival
	running  sync.WaitGroup
	cancels  []context.CancelFunc // of each stream

	mu    sync.Mutex
	conns []net.Conn // of HTTP/2: a transport keeps those that have been in use till now
}

// perConnection is how many streams share an HTTP/2 connection. A server should allow as many (RFC 9113, section 6.5.2).
const perConnection = 100

func newSecure(cfg Config, requests []*request, sink func(arrival)) *secure {
	s := &secure{
		requests: requests,
		config:   &tls.Config{InsecureSkipVerify: cfg.Insecure, MinVersion: tls.VersionTLS12},
		sink:     sink,
		came:     make(chan arrival, 1024),
		cancels:  make([]context.CancelFunc, cfg.Streams),
	}
	if cfg.HTTP2 {
		for range (cfg.Streams + perConnection - 1) / perConnection {
			// Without the limit, requests that begin at the same time each begin a connection.
			t := &http.Transport{TLSClientConfig: s.config, DialContext: s.connect, MaxConnsPerHost: 1, Protocols: new(http.Protocols)}
			t.Protocols.SetHTTP2(true)
			s.http2 = append(s.http2, t)
		}
	}
	return s
}

func (s *secure) sources() int { return 1 }

func (s *secure) connect(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, address)
	if err == nil {
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
	}
	return c, err
}

func (s *secure) dial(i int) error {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancels[i] = cancel
	tell := func(a arrival) {
		a.stream = i
		select {
		case s.came <- a:
		case <-ctx.Done():
		}
	}
	s.running.Go(func() {
		r := s.requests[i%len(s.requests)]
		var err error
		if len(s.http2) > 0 {
			err = s.overHTTP2(ctx, i, r, tell)
		} else {
			err = s.overTLS(ctx, i, r, tell)
		}
		if err == nil {
			err = errors.New("loadgen: the server closed the stream")
		}
		tell(arrival{err: err})
	})
	return nil
}

// read reads a stream to its end.
func read(i int, from io.Reader, p *reader, tell func(arrival)) error {
	buf := make([]byte, 2048)
	for {
		n, err := from.Read(buf)
		at := time.Now()
		var bad error
		fed := p.feed(buf[:n], func(data []byte) {
			kind, err := check(i, data)
			if err != nil && bad == nil {
				bad = err
			}
			if bad == nil {
				tell(arrival{kind: kind, at: at})
			}
		})
		if err := errors.Join(fed, bad); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) || p.stage == atEnd {
			return nil
		}
		if err != nil {
			return fmt.Errorf("loadgen: reading: %w", err)
		}
	}
}

func (s *secure) overTLS(ctx context.Context, i int, r *request, tell func(arrival)) error {
	dialer := tls.Dialer{NetDialer: &net.Dialer{KeepAlive: -1}, Config: s.config}
	c, err := dialer.DialContext(ctx, "tcp4", r.url.Host)
	if err != nil {
		return fmt.Errorf("loadgen: connecting: %w", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // to end the reading is all that it is for
	defer stop()
	if _, err := c.Write(r.appendBody([]byte(r.head), i)); err != nil {
		return fmt.Errorf("loadgen: sending the request: %w", err)
	}
	return read(i, c, new(reader), tell)
}

func (s *secure) overHTTP2(ctx context.Context, i int, r *request, tell func(arrival)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url.String(), bytes.NewReader(r.appendBody(nil, i)))
	if err != nil {
		return fmt.Errorf("loadgen: %w", err)
	}
	req.Header = r.header
	res, err := s.http2[i/perConnection].RoundTrip(req)
	if err != nil {
		return fmt.Errorf("loadgen: connecting: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("loadgen: the server answered %q", res.Status)
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return errNoStream
	}
	return read(i, res.Body, &reader{stage: inPlain}, tell)
}

func (s *secure) pump(wait time.Duration) (int, error) {
	n := 0
	for {
		select {
		case a := <-s.came:
			s.sink(a)
			if n++; n < 1024 {
				continue
			}
			return n, nil
		default:
		}
		if n > 0 || wait <= 0 {
			return n, nil
		}
		limit := time.NewTimer(wait)
		select {
		case a := <-s.came:
			limit.Stop()
			s.sink(a)
			n++
		case <-limit.C:
			return 0, nil
		}
	}
}

func (s *secure) stall(int) error {
	return errors.New("loadgen: stalled streams are for plain HTTP")
}

func (s *secure) hangup(i int) {
	if s.cancels[i] != nil {
		s.cancels[i]()
		s.cancels[i] = nil
	}
}

func (s *secure) settle() {
	s.running.Wait()
	for len(s.came) > 0 {
		<-s.came
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close() // nobody uses it any more
	}
	s.conns = nil
}

func (s *secure) close() {}
