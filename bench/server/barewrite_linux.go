package server

// This file is the floor: no net/http and no goroutine per stream, only a descriptor and the id to splice. One thread on an epoll
// set accepts, answers and notices who went; a publish is one write(2) per stream.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

type bareWrite struct {
	listener int
	file     *os.File // owns listener
	epoll    int
	closing  atomic.Bool
	served   chan struct{} // closed when serve has returned

	mu   sync.Mutex
	open map[int]string // descriptor to request id; empty until the request was read
	out  []byte
}

const crlf2 = "\r\n\r\n"

func newBareWrite() (*bareWrite, error) {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("server: epoll: %w", err)
	}
	return &bareWrite{epoll: epoll, open: map[int]string{}, served: make(chan struct{})}, nil
}

func (b *bareWrite) serve(l net.Listener) error {
	defer close(b.served)
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return errors.New("server: no TCP listener")
	}
	var err error
	if b.file, err = tcp.File(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	b.listener = int(b.file.Fd())
	if err := errors.Join(syscall.SetNonblock(b.listener, true), b.watch(b.listener)); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	events := make([]syscall.EpollEvent, 256)
	buf := make([]byte, 16<<10)
	for !b.closing.Load() {
		n, err := syscall.EpollWait(b.epoll, events, 100)
		if err != nil && err != syscall.EINTR {
			return fmt.Errorf("server: epoll: %w", err)
		}
		for _, event := range events[:max(n, 0)] {
			if fd := int(event.Fd); fd == b.listener {
				b.accept()
			} else if err := b.read(fd, buf); err != nil {
				b.drop(fd)
			}
		}
	}
	return nil
}

func (b *bareWrite) watch(fd int) error {
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}
	return syscall.EpollCtl(b.epoll, syscall.EPOLL_CTL_ADD, fd, &event)
}

func (b *bareWrite) accept() {
	for range 64 { // then let the streams that came be answered
		fd, _, err := syscall.Accept4(b.listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.open[fd] = ""
		b.mu.Unlock()
		// net/http sets the same option.
		if err := errors.Join(syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1), b.watch(fd)); err != nil {
			b.drop(fd)
		}
	}
}

// read expects the whole request in one read, which it is from a load generator that sends it by one write.
func (b *bareWrite) read(fd int, buf []byte) error {
	n, err := syscall.Read(fd, buf)
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return nil
	case err != nil:
		return err
	case n == 0:
		return errors.New("gone")
	}
	head, body, ok := bytes.Cut(buf[:n], []byte(crlf2))
	if !ok || !bytes.HasPrefix(head, []byte("POST ")) {
		return errors.New("no request")
	}
	id, err := requestID(body)
	if err != nil || id == "" {
		return errors.Join(errors.New("no id"), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[fd] = id
	b.out = append(b.out[:0], "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked"+crlf2...)
	return b.write(fd, ackHead, id, ackTail)
}

// write appends one chunk to what is in out, and writes that. The caller holds mu.
func (b *bareWrite) write(fd int, head, id, tail string) error {
	b.out = strconv.AppendInt(b.out, int64(len(head)+len(id)+len(tail)), 16)
	b.out = append(b.out, "\r\n"...)
	b.out = append(append(append(b.out, head...), id...), tail...)
	b.out = append(b.out, "\r\n"...)
	n, err := syscall.Write(fd, b.out)
	if err == nil && n != len(b.out) {
		err = errors.New("short write")
	}
	return err
}

func (b *bareWrite) drop(fd int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, fd)
	_ = syscall.Close(fd) // it leaves the epoll set too
}

func (b *bareWrite) publish(_ context.Context, c change) error {
	if c.kind != toolsChange {
		return errKind
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for fd, id := range b.open {
		if id == "" {
			continue
		}
		b.out = b.out[:0]
		// A client that cannot take it is dropped by the loop once its connection ends; the load generator counts it as lost.
		_ = b.write(fd, changeHead, id, changeTail)
	}
	return nil
}

func (b *bareWrite) streams() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

func (b *bareWrite) close(context.Context) error {
	b.closing.Store(true)
	<-b.served // within one wait of the loop
	b.mu.Lock()
	defer b.mu.Unlock()
	for fd := range b.open {
		_ = syscall.Close(fd)
	}
	clear(b.open)
	return errors.Join(b.file.Close(), syscall.Close(b.epoll))
}
