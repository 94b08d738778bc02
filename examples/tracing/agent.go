// The agent: a client that listens, and reads a station again when it changed.

package main

import (
	"context"
	"fmt"
	"io"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

type agent struct {
	name   string
	stream *client.Stream
}

// listen opens a stream. Its trace context goes into params._meta, where MCP has
// a place for it: the server's span becomes a child of the agent's.
func listen(ctx context.Context, provider trace.TracerProvider, name, url string) (*agent, error) {
	ctx, span := provider.Tracer("tracing").Start(ctx, core.MethodListen, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	// The stream outlives the span, and ctx: the server ends it.
	stream, err := client.Listen(context.WithoutCancel(ctx), client.URL(url+"/mcp"),
		core.Filter{ResourceSubscriptions: []string{station("oslo"), station("bergen")}},
		client.WithTrace(func(ctx context.Context, set func(key, value string)) {
			carrier := propagation.MapCarrier{}
			propagation.TraceContext{}.Inject(ctx, carrier)
			for key, value := range carrier {
				set(key, value)
			}
		}))
	if err != nil {
		return nil, err
	}
	return &agent{name, stream}, nil
}

// work works until the server says goodbye.
func (a *agent) work(out io.Writer) {
	defer a.stream.Close()
	for n := range a.stream.Notifications() {
		_ = n // … the station is read again …
	}
	fmt.Fprintf(out, "%s: the stream ended: %v\n", a.name, a.stream.End())
}
