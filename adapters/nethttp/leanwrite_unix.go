//go:build unix

// Writing without waiting: most writes find room in the socket's buffer, and need no
// deadline, whose setting and clearing costs as much as everything else around the
// system call.

package mcphttp

import (
	"net"
	"sync"
	"syscall"
)

// rawConn returns how to write to c without waiting; nil where that would go around
// something. It goes by the very type: what embeds one may do more with what is
// written.
func rawConn(c net.Conn) syscall.RawConn {
	var raw syscall.RawConn
	switch c := c.(type) {
	case *net.TCPConn:
		raw, _ = c.SyscallConn()
	case *net.UnixConn:
		raw, _ = c.SyscallConn()
	}
	return raw
}

// attempt is one write. Attempts are pooled, with the function that needs them bound
// once, so that a write allocates nothing.
type attempt struct {
	b     []byte
	n     int
	err   error
	write func(fd uintptr) (done bool)
}

var attempts = sync.Pool{New: func() any {
	a := new(attempt)
	a.write = func(fd uintptr) bool {
		for {
			a.n, a.err = syscall.Write(int(fd), a.b)
			if a.err != syscall.EINTR {
				return true
			}
		}
	}
	return a
}}

// writeNow writes as much of b as there is room for. It fails where the connection
// does.
func writeNow(raw syscall.RawConn, b []byte) (n int, err error) {
	if raw == nil {
		return 0, nil
	}
	a := attempts.Get().(*attempt)
	a.b, a.n, a.err = b, 0, nil
	err = raw.Write(a.write)
	if err == nil && a.err != syscall.EAGAIN {
		err = a.err
	}
	n = max(0, a.n)
	a.b = nil
	attempts.Put(a)
	return n, err
}
