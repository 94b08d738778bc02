package loadgen

// This file holds the streams: one epoll set, worked by whoever calls Open or Publish. Between calls nothing is read; what comes
// then waits in the kernel.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config says where to open streams, and how many.
type Config struct {
	URL     string        // the MCP endpoint, http://IPv4:PORT/PATH
	Streams int           // streams to hold
	Window  int           // streams being opened at a time; 64 if zero
	Trigger string        // URL that a POST is sent to for each publish
	Timeout time.Duration // limit for one Open, and for one Publish; a minute if zero
}

// Client holds the streams. It is not safe for concurrent use.
type Client struct {
	cfg     Config
	addr    syscall.SockaddrInet4
	head    string // the request up to its id
	tail    string // and from there
	sources []syscall.SockaddrInet4
	epoll   int
	conns   []conn
	events  []syscall.EpollEvent
	buf     []byte
	out     []byte
	http    *http.Client

	open   int // streams that have their acknowledgment
	failed int
	early  int
	extra  int
	lost   int // streams that ended during this round without the change
	fault  error
	start  time.Time
	times  []time.Duration // when each stream had the change of this round
}

// conn is one stream.
type conn struct {
	reader
	fd        int32
	connected bool
	acked     bool
	got       bool // the change of this round
	closed    bool
}

// idDigits is the width of the number in a request id, so that all requests have the same length.
const idDigits = 7

// MaxStreams is how many streams one client can number.
const MaxStreams = 10_000_000 - 1

func appendID(b []byte, i int) []byte {
	b = append(b, `"s-`...)
	digits := strconv.Itoa(i)
	for range idDigits - len(digits) {
		b = append(b, '0')
	}
	return append(append(b, digits...), '"')
}

// New returns a client that has no stream open yet.
func New(cfg Config) (*Client, error) {
	if cfg.Window <= 0 {
		cfg.Window = 64
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Streams < 1 || cfg.Streams > MaxStreams {
		return nil, fmt.Errorf("loadgen: %d streams: want 1 to %d", cfg.Streams, MaxStreams)
	}
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" {
		return nil, fmt.Errorf("loadgen: want an http:// URL, not %q", cfg.URL)
	}
	tcp, err := net.ResolveTCPAddr("tcp4", u.Host)
	if err != nil {
		return nil, fmt.Errorf("loadgen: %q needs an IPv4 address and a port: %w", cfg.URL, err)
	}
	c := &Client{
		cfg:    cfg,
		addr:   syscall.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(tcp.IP.To4())},
		conns:  make([]conn, cfg.Streams),
		events: make([]syscall.EpollEvent, 256),
		buf:    make([]byte, 16<<10),
		times:  make([]time.Duration, 0, cfg.Streams),
		http:   &http.Client{Timeout: cfg.Timeout},
	}
	if c.sources, err = sourceAddresses(tcp.IP, cfg.Streams); err != nil {
		return nil, err
	}
	before := `{"jsonrpc":"2.0","id":`
	after := `,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"loadgen","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},` +
		`"notifications":{"toolsListChanged":true}}}`
	length := len(before) + len(appendID(nil, 0)) + len(after)
	c.head = "POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host +
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream" +
		"\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen" +
		"\r\nContent-Length: " + strconv.Itoa(length) + "\r\n\r\n" + before
	c.tail = after
	if c.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("loadgen: epoll: %w", err)
	}
	return c, nil
}

// sourceAddresses returns as many loopback addresses as it takes to have a port for each stream, leaving a quarter of every
// address's ports to others. It returns none if the kernel's own choice is enough.
func sourceAddresses(server net.IP, streams int) ([]syscall.SockaddrInet4, error) {
	low, high := 32768, 60999
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		// What cannot be read leaves the kernel's defaults.
		_, _ = fmt.Sscan(string(b), &low, &high)
	}
	each := max((high-low+1)*3/4, 1)
	n := (streams + each - 1) / each
	switch {
	case n == 1:
		return nil, nil
	case !server.IsLoopback():
		return nil, fmt.Errorf("loadgen: %d streams need %d source addresses, and only a loopback server can be reached from several", streams, n)
	case n > 254:
		return nil, fmt.Errorf("loadgen: %d streams do not fit into the ports of 254 loopback addresses", streams)
	}
	all := make([]syscall.SockaddrInet4, n)
	for i := range all {
		all[i].Addr = [4]byte{127, 0, 0, byte(i + 1)}
	}
	return all, nil
}

// Open opens all streams and returns when each has its acknowledgment or has failed. Streams of an earlier Open must be closed.
func (c *Client) Open(ctx context.Context) Opened {
	if c.open != 0 {
		return Opened{Error: "loadgen: streams are open already"}
	}
	c.failed, c.early, c.fault = 0, 0, nil
	began := time.Now()
	last := began
	next := 0
	for done := 0; done < len(c.conns); {
		for next < len(c.conns) && next-done < c.cfg.Window {
			if err := c.dial(next); err != nil {
				c.fail(next, err)
			}
			next++
		}
		c.poll(100)
		if now := c.open + c.failed; now != done {
			done, last = now, time.Now()
		}
		if err := c.overdue(ctx, began); err != nil {
			c.fault = errors.Join(c.fault, err)
			break
		}
	}
	seconds := last.Sub(began).Seconds()
	o := Opened{Streams: c.open, Failed: len(c.conns) - c.open, Early: c.early, Seconds: seconds, Sources: max(len(c.sources), 1)}
	if seconds > 0 {
		o.PerSecond = float64(c.open) / seconds
	}
	if c.fault != nil {
		o.Error = c.fault.Error()
	}
	o.RSSBytes, o.CPUMicros = self()
	return o
}

// Publish sends the trigger request and returns when every open stream has the change, or the time limit has passed.
func (c *Client) Publish(ctx context.Context) Delivered {
	c.fault = nil
	for range 1000 { // what is left of earlier rounds, keep-alives among it, is no part of this one
		if c.poll(0) == 0 {
			break
		}
	}
	c.times, c.extra, c.lost = c.times[:0], 0, 0
	for i := range c.conns {
		c.conns[i].got = false
	}
	want := c.open
	answered := make(chan error, 1)
	var caller time.Duration
	c.start = time.Now()
	go func() {
		err := c.trigger(ctx)
		caller = time.Since(c.start)
		answered <- err
	}()
	for len(c.times)+c.lost < want {
		c.poll(100)
		if err := c.overdue(ctx, c.start); err != nil {
			c.fault = errors.Join(c.fault, err)
			break
		}
	}
	if err := <-answered; err != nil { // bounded by the time limit of c.http
		c.fault = errors.Join(c.fault, err)
	}
	d := Delivered{Streams: want, Got: len(c.times), Extra: c.extra, CallerMS: ms(caller)}
	if n := len(c.times); n > 0 {
		slices.Sort(c.times)
		d.MedianMS, d.P99MS, d.LastMS = ms(c.times[(n-1)/2]), ms(c.times[(n-1)*99/100]), ms(c.times[n-1])
	}
	if c.fault != nil {
		d.Error = c.fault.Error()
	}
	return d
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (c *Client) trigger(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.Trigger, nil)
	if err != nil {
		return fmt.Errorf("loadgen: publishing: %w", err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("loadgen: publishing: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end below; nothing is lost
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)); err != nil {
		return fmt.Errorf("loadgen: publishing: %w", err)
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("loadgen: the publish request was answered %s", res.Status)
	}
	return nil
}

func (c *Client) overdue(ctx context.Context, began time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if time.Since(began) > c.cfg.Timeout {
		return fmt.Errorf("loadgen: not done after %v", c.cfg.Timeout)
	}
	return nil
}

// Hangup closes all streams; the client can open them anew afterwards.
func (c *Client) Hangup() {
	for i := range c.conns {
		c.hangup(&c.conns[i])
		c.conns[i] = conn{closed: true}
	}
	c.open = 0
}

// Close hangs up and releases the client.
func (c *Client) Close() {
	c.Hangup()
	c.http.CloseIdleConnections()
	_ = syscall.Close(c.epoll) // nothing was written through it
}

func (c *Client) dial(i int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loadgen: socket: %w", err)
	}
	c.conns[i] = conn{fd: int32(fd)}
	// An abortive close leaves no port in TIME_WAIT, so that a later row of the same run finds all of them free.
	if err := syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}); err != nil {
		return fmt.Errorf("loadgen: linger: %w", err)
	}
	if len(c.sources) > 0 {
		const bindAddressNoPort = 24 // IP_BIND_ADDRESS_NO_PORT: the port is chosen by connect, per destination
		if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, bindAddressNoPort, 1); err != nil {
			return fmt.Errorf("loadgen: bind option: %w", err)
		}
		if err := syscall.Bind(fd, &c.sources[i%len(c.sources)]); err != nil {
			return fmt.Errorf("loadgen: bind: %w", err)
		}
	}
	if err := syscall.Connect(fd, &c.addr); err != nil && err != syscall.EINPROGRESS {
		return fmt.Errorf("loadgen: connect: %w", err)
	}
	event := syscall.EpollEvent{Events: syscall.EPOLLOUT, Fd: int32(i)}
	if err := syscall.EpollCtl(c.epoll, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("loadgen: epoll: %w", err)
	}
	return nil
}

// poll handles what is ready, waiting for it at most the given milliseconds, and returns how many streams that were.
func (c *Client) poll(wait int) int {
	n, err := syscall.EpollWait(c.epoll, c.events, wait)
	if err != nil {
		if err != syscall.EINTR {
			c.fault = errors.Join(c.fault, fmt.Errorf("loadgen: epoll: %w", err))
		}
		return 0
	}
	for _, event := range c.events[:n] {
		i := int(event.Fd) // the stream's number travels in this field
		cn := &c.conns[i]
		if cn.closed {
			continue
		}
		if !cn.connected {
			err = c.send(i)
		} else {
			err = c.receive(i)
		}
		if err != nil {
			c.fail(i, err)
		}
	}
	return n
}

func (c *Client) send(i int) error {
	cn := &c.conns[i]
	fd := int(cn.fd)
	if code, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR); err != nil || code != 0 {
		return fmt.Errorf("loadgen: connect: %w", errors.Join(err, syscall.Errno(code)))
	}
	c.out = append(c.out[:0], c.head...)
	c.out = append(appendID(c.out, i), c.tail...)
	if n, err := syscall.Write(fd, c.out); err != nil || n != len(c.out) {
		return fmt.Errorf("loadgen: sending the request: %d of %d bytes: %w", n, len(c.out), err)
	}
	cn.connected = true
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
	if err := syscall.EpollCtl(c.epoll, syscall.EPOLL_CTL_MOD, fd, &event); err != nil {
		return fmt.Errorf("loadgen: epoll: %w", err)
	}
	return nil
}

func (c *Client) receive(i int) error {
	cn := &c.conns[i]
	n, err := syscall.Read(int(cn.fd), c.buf)
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return nil
	case err != nil:
		return fmt.Errorf("loadgen: reading: %w", err)
	case n == 0:
		return errors.New("loadgen: the server closed the connection")
	}
	var bad error
	err = cn.feed(c.buf[:n], func(data []byte) {
		if err := c.message(cn, i, data); err != nil && bad == nil {
			bad = err
		}
	})
	if err == nil && bad == nil && cn.stage == atEnd {
		return errors.New("loadgen: the server closed the stream")
	}
	return errors.Join(err, bad)
}

func (c *Client) message(cn *conn, i int, data []byte) error {
	kind := classify(data)
	if kind == msgAck || kind == msgChange {
		var id [idDigits + 4]byte
		if !bytes.Contains(data, appendID(id[:0], i)) {
			return errors.New("loadgen: a message without the subscription's id")
		}
	}
	switch kind {
	case msgAck:
		if !cn.acked {
			cn.acked = true
			c.open++
		}
	case msgChange:
		switch {
		case !cn.acked:
			c.early++
			return errors.New("loadgen: a notification before the acknowledgment")
		case cn.got:
			c.extra++
		default:
			cn.got = true
			c.times = append(c.times, time.Since(c.start))
		}
	case msgEnd:
		return errors.New("loadgen: the server ended the stream")
	case msgOther:
	}
	return nil
}

// fail gives a stream up. A stream that was open no longer counts as such.
func (c *Client) fail(i int, err error) {
	cn := &c.conns[i]
	if c.fault == nil {
		c.fault = fmt.Errorf("stream %d: %w", i, err)
	}
	if cn.acked {
		c.open--
		if !cn.got {
			c.lost++
		}
	}
	c.failed++
	c.hangup(cn)
}

func (c *Client) hangup(cn *conn) {
	if cn.fd > 0 && !cn.closed {
		_ = syscall.Close(int(cn.fd)) // leaves the epoll set too; the linger option makes it abortive
	}
	cn.closed = true
	cn.part = nil
}

// self returns the load generator's own resident memory and processor time.
func self() (rss, cpuMicros int64) {
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64) // zero says that it is not known
			rss = pages * int64(os.Getpagesize())
		}
	}
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err == nil {
		cpuMicros = (ru.Utime.Nano() + ru.Stime.Nano()) / 1000
	}
	return rss, cpuMicros
}
