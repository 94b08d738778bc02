// Child processes: an MCP server that is a program of its own as the upstream.

package mcpstdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// DefaultPatience is how long a child process is waited for at each step of its end.
const DefaultPatience = 5 * time.Second

// Command returns an upstream that is a child process: newCommand makes its command,
// with neither standard input nor output set, once for each connection. What it
// writes to its standard error goes to that of this process, unless the command says
// otherwise.
//
// The child is ended as MCP has it: its input is closed; if it is still there after
// a while it gets SIGTERM, and after another while it is killed. A while is the
// command's WaitDelay, or 5 s if that is zero. ctx ends when all that is over.
func Command(newCommand func(ctx context.Context) *exec.Cmd) Upstream {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		return startChild(newCommand(ctx))
	}
}

// child is a child process and our ends of the pipes to it.
type child struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *os.File
	patience time.Duration

	exited chan struct{}
	err    error // once exited is closed
	close  func() error
}

func startChild(cmd *exec.Cmd) (*child, error) {
	if cmd.Stdout != nil {
		return nil, errors.New("mcpstdio: the command's standard output is set")
	}
	in, err := cmd.StdinPipe() // fails where the standard input is set
	if err != nil {
		return nil, err
	}
	// A pipe of exec's is closed as soon as the child exits, with what is in it.
	out, stdout, err := os.Pipe()
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	defer stdout.Close()
	cmd.Stdout = stdout
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	c := &child{cmd: cmd, in: in, out: out, patience: cmd.WaitDelay, exited: make(chan struct{})}
	if c.patience == 0 {
		c.patience = DefaultPatience
	}
	c.close = sync.OnceValue(c.end)
	if err := cmd.Start(); err != nil {
		_ = in.Close()
		_ = out.Close()
		return nil, err
	}
	go c.wait()
	return c, nil
}

// outlived is how long the output of a child that has exited is read, if somebody
// else, a child of its own, has it still open.
const outlived = time.Second

func (c *child) wait() {
	c.err = c.cmd.Wait()
	_ = c.out.SetReadDeadline(time.Now().Add(outlived))
	close(c.exited)
}

// Read reads from the child's standard output.
func (c *child) Read(b []byte) (int, error) {
	n, err := c.out.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}

// Write writes to the child's standard input.
func (c *child) Write(b []byte) (int, error) { return c.in.Write(b) }

// CloseWrite closes the child's standard input.
func (c *child) CloseWrite() error { return c.in.Close() }

// Close ends the child and waits for its exit. It returns how that failed, if the
// child did not have to be made to.
func (c *child) Close() error { return c.close() }

func (c *child) end() error {
	_ = c.in.Close() // it may be closed already
	made := !c.exits() && (c.cmd.Process.Signal(syscall.SIGTERM) != nil || !c.exits())
	if made {
		_ = c.cmd.Process.Kill() // fails where it has exited
	}
	<-c.exited
	_ = c.out.Close()
	if made {
		return fmt.Errorf("mcpstdio: the command had to be killed")
	}
	return c.err
}

// exits waits for the child's exit, for as long as it has patience.
func (c *child) exits() bool {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	}
}
