// Benchmarks: what a delivery costs on its way to a line.

package mcpstdio_test

import (
	"context"
	"io"
	"sync"
	"testing"

	"github.com/mcplisten/mcplisten/core"
)

// lineWriter tells of each write.
type lineWriter chan struct{}

func (w lineWriter) Write(b []byte) (int, error) { w <- struct{}{}; return len(b), nil }

var toolsChanged = []core.Change{core.ToolsListChanged()} // made once: what a caller allocates is not what is measured

// BenchmarkDelivery is a change until its line is written.
func BenchmarkDelivery(b *testing.B) {
	hub := newHub(b, core.Config{KeepAlive: -1})
	server := newServer(b, hub)
	r, w := io.Pipe()
	written := make(lineWriter, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ctx, r, written) })
	if _, err := io.WriteString(w, listenText("7", `{"toolsListChanged":true}`)+"\n"); err != nil {
		b.Fatal(err)
	}
	<-written // the acknowledgment
	b.ReportAllocs()
	for b.Loop() {
		_ = hub.Publish(ctx, toolsChanged...)
		<-written
	}
	cancel()
	_ = w.Close()
	serving.Wait()
}
