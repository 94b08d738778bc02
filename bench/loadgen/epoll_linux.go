package loadgen

// This file is the client for plain HTTP/1.1: one epoll set, worked by whoever calls pump.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

type epoll struct {
	requests []*request // stream i has the one of i modulo their number
	addrs    []syscall.SockaddrInet4
	from     []syscall.SockaddrInet4 // source addresses; none for the kernel's choice
	stalling func(i int) bool
	sink     func(arrival)
	set      int
	conns    []conn
	events   []syscall.EpollEvent
	buf      []byte
	out      []byte
}

// conn is one connection.
type conn struct {
	reader
	fd        int32
	connected bool
	closed    bool
}

func newEpoll(cfg Config, requests []*request, sink func(arrival)) (*epoll, error) {
	e := &epoll{
		requests: requests,
		stalling: func(i int) bool { return i >= cfg.Streams-cfg.Stall },
		sink:     sink,
		conns:    make([]conn, cfg.Streams),
		events:   make([]syscall.EpollEvent, 256),
		buf:      make([]byte, 16<<10),
	}
	loopback := true
	for _, r := range requests {
		tcp, err := net.ResolveTCPAddr("tcp4", r.url.Host)
		if err != nil {
			return nil, fmt.Errorf("loadgen: %q needs an IPv4 address and a port: %w", r.url, err)
		}
		loopback = loopback && tcp.IP.IsLoopback()
		e.addrs = append(e.addrs, syscall.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(tcp.IP.To4())})
	}
	var err error
	if e.from, err = sourceAddresses(loopback, (cfg.Streams+len(requests)-1)/len(requests)); err != nil {
		return nil, err
	}
	if e.set, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("loadgen: epoll: %w", err)
	}
	return e, nil
}

// sourceAddresses returns as many loopback addresses as it takes to have a port for each stream to one server, leaving a quarter of
// every address's ports to others. It returns none if the kernel's own choice is enough.
func sourceAddresses(loopback bool, streams int) ([]syscall.SockaddrInet4, error) {
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
	case !loopback:
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

func (e *epoll) sources() int { return max(len(e.from), 1) }

func (e *epoll) dial(i int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loadgen: socket: %w", err)
	}
	e.conns[i] = conn{fd: int32(fd)}
	// An abortive close leaves no port in TIME_WAIT, so that a later row of the same run finds all of them free.
	if err := syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}); err != nil {
		return fmt.Errorf("loadgen: linger: %w", err)
	}
	if e.stalling(i) { // what is not read shall fill up soon
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096); err != nil {
			return fmt.Errorf("loadgen: receive buffer: %w", err)
		}
	}
	if len(e.from) > 0 {
		const bindAddressNoPort = 24 // IP_BIND_ADDRESS_NO_PORT: the port is chosen by connect, per destination
		if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, bindAddressNoPort, 1); err != nil {
			return fmt.Errorf("loadgen: bind option: %w", err)
		}
		if err := syscall.Bind(fd, &e.from[i/len(e.addrs)%len(e.from)]); err != nil {
			return fmt.Errorf("loadgen: bind: %w", err)
		}
	}
	if err := syscall.Connect(fd, &e.addrs[i%len(e.addrs)]); err != nil && err != syscall.EINPROGRESS {
		return fmt.Errorf("loadgen: connect: %w", err)
	}
	event := syscall.EpollEvent{Events: syscall.EPOLLOUT, Fd: int32(i)}
	if err := syscall.EpollCtl(e.set, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("loadgen: epoll: %w", err)
	}
	return nil
}

func (e *epoll) pump(wait time.Duration) (int, error) {
	n, err := syscall.EpollWait(e.set, e.events, int(wait.Milliseconds()))
	if err != nil {
		if err == syscall.EINTR {
			return 0, nil
		}
		return 0, fmt.Errorf("loadgen: epoll: %w", err)
	}
	for _, event := range e.events[:n] {
		i := int(event.Fd) // the stream's number travels in this field
		c := &e.conns[i]
		if c.closed {
			continue
		}
		if !c.connected {
			err = e.send(i)
		} else {
			err = e.receive(i)
		}
		if err != nil {
			e.sink(arrival{stream: i, err: err})
		}
	}
	return n, nil
}

func (e *epoll) send(i int) error {
	c := &e.conns[i]
	fd := int(c.fd)
	if code, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR); err != nil || code != 0 {
		return fmt.Errorf("loadgen: connect: %w", errors.Join(err, syscall.Errno(code)))
	}
	r := e.requests[i%len(e.requests)]
	e.out = r.appendBody(append(e.out[:0], r.head...), i)
	if n, err := syscall.Write(fd, e.out); err != nil || n != len(e.out) {
		return fmt.Errorf("loadgen: sending the request: %d of %d bytes: %w", n, len(e.out), err)
	}
	c.connected = true
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
	if err := syscall.EpollCtl(e.set, syscall.EPOLL_CTL_MOD, fd, &event); err != nil {
		return fmt.Errorf("loadgen: epoll: %w", err)
	}
	return nil
}

func (e *epoll) receive(i int) error {
	c := &e.conns[i]
	n, err := syscall.Read(int(c.fd), e.buf)
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return nil
	case err != nil:
		return fmt.Errorf("loadgen: reading: %w", err)
	case n == 0:
		return errors.New("loadgen: the server closed the connection")
	}
	at := time.Now()
	var bad error
	err = c.feed(e.buf[:n], func(data []byte) {
		kind, err := check(i, data)
		if err != nil && bad == nil {
			bad = err
		}
		if bad == nil {
			e.sink(arrival{stream: i, kind: kind, at: at})
		}
	})
	if err == nil && bad == nil && c.stage == atEnd {
		return errors.New("loadgen: the server closed the stream")
	}
	return errors.Join(err, bad)
}

func (e *epoll) stall(i int) error {
	if err := syscall.EpollCtl(e.set, syscall.EPOLL_CTL_DEL, int(e.conns[i].fd), &syscall.EpollEvent{}); err != nil {
		return fmt.Errorf("loadgen: epoll: %w", err)
	}
	return nil
}

func (e *epoll) hangup(i int) {
	c := &e.conns[i]
	if c.fd > 0 && !c.closed {
		_ = syscall.Close(int(c.fd)) // leaves the epoll set too; the linger option makes it abortive
	}
	c.closed = true
	c.part = nil
}

func (e *epoll) settle() {} // what is closed has left the epoll set

func (e *epoll) close() { _ = syscall.Close(e.set) } // nothing was written through it
