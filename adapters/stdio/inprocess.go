// In process: an MCP server of this process as the upstream, over pipes in memory.

package mcpstdio

import (
	"context"
	"io"
)

// InProcess returns an upstream that is a server of this process: run serves conn,
// newline-delimited JSON-RPC, until that ends, and closes it. With the official Go
// SDK, whose server it puts behind the hub:
//
//	mcpstdio.InProcess(func(ctx context.Context, conn io.ReadWriteCloser) error {
//		return server.Run(ctx, &mcp.IOTransport{Reader: conn, Writer: conn})
//	})
//
// run gets a goroutine of its own for each connection. Its error is that of the
// connection if it returns before the client's end. ctx ends when the connection is
// closed; run must return then.
func InProcess(run func(ctx context.Context, conn io.ReadWriteCloser) error) Upstream {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		ctx, cancel := context.WithCancel(ctx)
		toServer, fromClient := io.Pipe()
		toClient, fromServer := io.Pipe()
		near := &inProcess{pipeEnd: pipeEnd{toClient, fromClient}, cancel: cancel, done: make(chan struct{})}
		go func() {
			defer close(near.done)
			far := pipeEnd{toServer, fromServer}
			defer far.Close()
			near.err = run(ctx, far)
		}()
		return near, nil
	}
}

// inProcess is our end of the pipes to a server in this process.
type inProcess struct {
	pipeEnd
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of run, once done is closed
}

// Close ends the server, waits for it and returns its error.
func (p *inProcess) Close() error {
	_ = p.pipeEnd.Close() // of a pipe, it never fails
	p.cancel()
	<-p.done
	return p.err
}

// pipeEnd is one end of a pair of pipes.
type pipeEnd struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func (p pipeEnd) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p pipeEnd) Write(b []byte) (int, error) { return p.w.Write(b) }

// CloseWrite tells the other end that nothing more is written.
func (p pipeEnd) CloseWrite() error { return p.w.Close() }

// Close closes both directions.
func (p pipeEnd) Close() error {
	_ = p.r.Close()
	return p.w.Close()
}
