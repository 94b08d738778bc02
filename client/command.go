// A command: a server that is started, and spoken to over its standard streams.

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Command is the [Endpoint] of a server that is run as a child process and spoken
// to over its standard input and output. Each subscription has a process of its
// own, which ends with it; so [Follow] starts a new one after each end.
//
//	client.Command(func() *exec.Cmd { return exec.Command("server", "-v") })
//
// The function returns a command that is not started. Its Stdin and Stdout must
// not be set; where Stderr goes is its own matter.
type Command func() *exec.Cmd

// commandGrace is how long a process may take to end after its input did.
const commandGrace = 2 * time.Second

func (c Command) check() error {
	if c == nil {
		return errors.New("client: no command")
	}
	return nil
}

func (c Command) run(ctx context.Context, x *exchange) error {
	child, err := startChild(c())
	switch {
	case isHopeless(err):
		return dropped(ErrUnreachable, fmt.Errorf("%w: %w", ErrCommand, err))
	case err != nil:
		return dropped(ErrUnreachable, err)
	}
	p := NewPair(child, PairMaxMessage(x.maxMessage))
	err = p.run(ctx, x)
	_ = p.Close() // of the pair, which is this subscription's alone
	if failed := child.wait(); failed != nil && errors.Is(err, io.ErrUnexpectedEOF) {
		return dropped(nil, failed)
	}
	return err
}

// child is a running process as a pair of streams.
type child struct {
	io.ReadCloser                // its output
	in            io.WriteCloser // its input
	cmd           *exec.Cmd
	exited        chan struct{}
	err           error // after exited
}

// isHopeless reports whether a command that did not start never will. What the
// system is short of may come back.
func isHopeless(err error) bool {
	for _, hopeless := range []error{
		errNoCommand, exec.ErrNotFound, exec.ErrDot, fs.ErrNotExist, fs.ErrPermission, syscall.ENOEXEC, syscall.ENOTDIR,
	} {
		if errors.Is(err, hopeless) {
			return true
		}
	}
	return false
}

var errNoCommand = errors.New("the function returns nil")

func startChild(cmd *exec.Cmd) (*child, error) {
	if cmd == nil {
		return nil, errNoCommand
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe: Wait would close it while the last line is being read.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = commandGrace // for what its own children hold open
	}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	c := &child{ReadCloser: r, in: in, cmd: cmd, exited: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

func (c *child) Write(p []byte) (int, error) { return c.in.Write(p) }

// Close ends the child's input, which asks it to end.
func (c *child) Close() error { return c.in.Close() }

// wait waits until the process has ended, and makes it end where it does not. It
// returns an error for an exit of its own that was no success.
func (c *child) wait() error {
	defer c.ReadCloser.Close()
	timer := time.NewTimer(commandGrace)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		_ = c.cmd.Process.Kill()
		<-c.exited
		return nil
	}
	var exit *exec.ExitError
	if errors.As(c.err, &exit) {
		return fmt.Errorf("client: the command ended: %w", exit)
	}
	return nil
}
