// Jaeger: started on loopback ports that are free, with traces in memory.

package jaeger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const config = `
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [jaeger_storage_exporter]
  telemetry:
    metrics:
      level: none
    logs:
      level: warn
extensions:
  jaeger_query:
    storage:
      traces: memory
    http:
      endpoint: %[1]s
    grpc:
      endpoint: 127.0.0.1:0
  jaeger_storage:
    backends:
      memory:
        memory:
          max_traces: 10000
receivers:
  otlp:
    protocols:
      http:
        endpoint: %[2]s
exporters:
  jaeger_storage_exporter:
    trace_storage: memory
`

// server is a running Jaeger.
type server struct {
	query, otlp string // URLs
}

// start starts Jaeger and waits until it answers.
func start(ctx context.Context, t *testing.T) *server {
	t.Helper()
	binary := os.Getenv("MCPLISTEN_JAEGER")
	if binary == "" {
		t.Skip("Jaeger is not built: bash .ci/interop/otel.sh does that and runs this test; or set MCPLISTEN_JAEGER to its binary")
	}
	query, otlp := freeAddress(t), freeAddress(t)
	file := filepath.Join(t.TempDir(), "jaeger.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, query, otlp), 0o600); err != nil {
		t.Fatalf("config: %v", err)
	}
	ctx, stop := context.WithCancel(ctx)
	var log lockedBuffer
	jaeger := exec.CommandContext(ctx, binary, "--config", file)
	jaeger.Stdout, jaeger.Stderr = &log, &log
	if err := jaeger.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- jaeger.Wait() }()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Logf("Jaeger said:\n%s", log.String())
		}
		http.DefaultClient.CloseIdleConnections()
	})
	s := &server{query: "http://" + query, otlp: "http://" + otlp}
	await(ctx, t, "Jaeger's answer", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("Jaeger ended with %v:\n%s", err, log.String())
		default:
		}
		_, err := s.get(ctx, "/api/services")
		return err == nil
	})
	return s
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// await waits until there is what it is called for.
func await(ctx context.Context, t *testing.T, what string, there func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// get asks the query API.
func (s *server) get(ctx context.Context, path string) (body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.query+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return body, err
}

// span is one of the query API's.
type span struct {
	TraceID    string `json:"traceID"`
	SpanID     string `json:"spanID"`
	Name       string `json:"operationName"`
	Duration   int64  `json:"duration"` // µs
	References []struct {
		Type    string `json:"refType"` // CHILD_OF the parent, FOLLOWS_FROM a link
		TraceID string `json:"traceID"`
		SpanID  string `json:"spanID"`
	} `json:"references"`
	Tags []struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	} `json:"tags"`
}

// tag returns an attribute, nil where there is none.
func (s *span) tag(key string) any {
	for _, t := range s.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return nil
}

// refers reports whether the span has a reference of the type to another one.
func (s *span) refers(refType, traceID, spanID string) bool {
	for _, r := range s.References {
		if r.Type == refType && r.TraceID == traceID && r.SpanID == spanID {
			return true
		}
	}
	return false
}

// trace returns the spans of a trace that are there by now.
func (s *server) trace(ctx context.Context, t *testing.T, id string) []span {
	t.Helper()
	return s.spans(ctx, t, "/api/traces/"+id)
}

// search returns the spans of the traces that have one with the name and tags.
func (s *server) search(ctx context.Context, t *testing.T, service, name string, tags map[string]string) []span {
	t.Helper()
	encoded, err := json.Marshal(tags)
	if err != nil {
		t.Fatalf("tags: %v", err)
	}
	query := url.Values{"service": {service}, "operation": {name}, "tags": {string(encoded)}, "limit": {"1000"}}
	return s.spans(ctx, t, "/api/traces?"+query.Encode())
}

func (s *server) spans(ctx context.Context, t *testing.T, path string) (all []span) {
	t.Helper()
	body, err := s.get(ctx, path)
	if err != nil {
		return nil // not there yet
	}
	var answer struct {
		Data []struct {
			Spans []span `json:"spans"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%s: %v: %s", path, err, body)
	}
	for _, trace := range answer.Data {
		all = append(all, trace.Spans...)
	}
	return all
}

func named(spans []span, name string) (found []span) {
	for _, s := range spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// one returns the only span with a name.
func one(t *testing.T, spans []span, name string) span {
	t.Helper()
	found := named(spans, name)
	if len(found) != 1 {
		t.Fatalf("%d spans are named %s, want 1: %+v", len(found), name, spans)
	}
	return found[0]
}

// lockedBuffer is a log to look into.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
