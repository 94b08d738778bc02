// Output: the one place that writes. All of a connection share its writer, so
// whole lines pass through one goroutine: a write that blocks holds up that
// goroutine alone, and whoever waits for it can give up.

package mcpstdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// errOver is what a write after the connection's end fails with. The client has
// gone, or counts as gone.
var errOver = fmt.Errorf("mcpstdio: the connection is over: %w", io.ErrClosedPipe)

// maxPosted is how many small answers may wait while nobody reads. Beyond them, the
// client is not listened to any more, and given up if nothing gets out for as long as
// one write may take.
const maxPosted = 64

type output struct {
	w        io.Writer
	deadline deadliner // nil where w has none
	timeout  time.Duration
	failed   func(error) // told of a write that failed

	jobs chan job
	over chan struct{} // closed when nothing is written any more
	did  atomic.Int64  // jobs that are done

	mu      sync.Mutex
	writing bool // in a call of w
	closed  bool // over is closed
	err     error
}

type deadliner interface{ SetWriteDeadline(t time.Time) error }

// job is one write.
type job struct {
	ctx   context.Context // where that has ended before the write, there is none
	lines []byte          // whole lines
	claim func()          // if not nil, called just before the write: nothing comes between
	done  chan error      // gets the outcome; nil where nobody waits
}

func newOutput(w io.Writer, timeout time.Duration, failed func(error)) *output {
	o := &output{w: w, timeout: timeout, failed: failed, jobs: make(chan job, maxPosted), over: make(chan struct{})}
	o.deadline, _ = w.(deadliner)
	return o
}

// run does the writing. It returns after the output was closed.
func (o *output) run() {
	for {
		select {
		case j := <-o.jobs:
			err := o.do(j)
			o.did.Add(1)
			if j.done != nil {
				j.done <- err
			} else {
				o.report()
			}
		case <-o.over:
			return
		}
	}
}

// do writes, unless the job's context has ended. That is asked here, where nothing
// can come in between: once a subscription is cancelled nothing of it is written.
func (o *output) do(j job) error {
	if err := o.begin(j.ctx); err != nil {
		return err
	}
	if j.claim != nil {
		j.claim()
	}
	var err error
	if len(j.lines) > 0 {
		err = o.write(j.lines)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = false
	if err != nil {
		o.err = err // a part of a line may be out: there is no going on
	}
	return err
}

func (o *output) begin(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil:
		return o.err
	case o.closed:
		return errOver
	case ctx.Err() != nil:
		return ctx.Err()
	}
	o.writing = true
	return nil
}

// report ends the connection if a write has failed. Who waits for a write reports
// when it has dealt with the error: a subscription whose context ended before that
// would take the failure for the client's own end.
func (o *output) report() {
	o.mu.Lock()
	err := o.err
	o.mu.Unlock()
	if err != nil {
		o.failed(err)
	}
}

func (o *output) write(lines []byte) error {
	if o.deadline != nil && o.deadline.SetWriteDeadline(time.Now().Add(o.timeout)) != nil {
		o.deadline = nil
	}
	_, err := o.w.Write(lines)
	if o.deadline != nil {
		_ = o.deadline.SetWriteDeadline(time.Time{}) // whoever writes after Serve shall not meet it
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("mcpstdio: writing: %w: %w", core.ErrSlowClient, err)
	default:
		return fmt.Errorf("mcpstdio: writing: %w", err)
	}
}

// send writes whole lines and waits until they are written. It fails where ctx ends
// before the write began, or the output is closed. The caller must call report after
// that.
func (o *output) send(ctx context.Context, lines []byte, claim func()) error {
	done := make(chan error, 1)
	select {
	case o.jobs <- job{ctx, lines, claim, done}:
	case <-ctx.Done():
		return ctx.Err()
	case <-o.over:
		return o.gone()
	}
	select {
	case err := <-done:
		return err
	case <-o.over:
		return o.gone()
	}
}

// gone returns why nothing is written any more.
func (o *output) gone() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	return errOver
}

// post writes a line and does not wait, unless many are waiting already. Where then
// nothing gets out for as long as one write may take, it gives the client up: it may
// have closed its side long ago, and nobody would notice.
func (o *output) post(ctx context.Context, line []byte) {
	j := job{ctx: context.WithoutCancel(ctx), lines: line}
	select {
	case o.jobs <- j:
		return
	default:
	}
	timer := time.NewTimer(o.timeout)
	defer timer.Stop()
	for did := o.did.Load(); ; {
		select {
		case o.jobs <- j:
			return
		case <-ctx.Done():
			return
		case <-o.over:
			return
		case <-timer.C:
		}
		now := o.did.Load()
		if now == did {
			o.giveUp()
			return
		}
		did = now
		timer.Reset(o.timeout)
	}
}

// giveUp ends the connection of a client that does not read.
func (o *output) giveUp() {
	o.mu.Lock()
	if o.err == nil {
		o.err = fmt.Errorf("mcpstdio: writing: %w", core.ErrSlowClient)
	}
	o.mu.Unlock()
	o.report()
}

// close writes what is waiting to be written, but for no longer than patience, and
// closes the output. A write that is under way is interrupted where it can be.
func (o *output) close(patience <-chan time.Time) {
	done := make(chan error, 1)
	select {
	case o.jobs <- job{ctx: context.Background(), done: done}:
		select {
		case <-done:
		case <-patience:
		}
	case <-patience:
	}
	o.mu.Lock()
	o.closed = true
	stuck := o.writing
	o.mu.Unlock()
	close(o.over)
	if stuck {
		interrupt(o.w)
	}
}
