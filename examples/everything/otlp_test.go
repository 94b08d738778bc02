// What arrives at an OTLP endpoint by the time that the program has ended.

package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/mcplisten/mcplisten/core"
)

// collector is an OTLP/HTTP endpoint.
type collector struct {
	mu      sync.Mutex
	spans   map[string][]map[string]string // attributes of the spans, by name
	metrics map[string]bool
	failed  error
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.failed = err
		return
	}
	switch r.URL.Path {
	case "/v1/traces":
		var request collectortrace.ExportTraceServiceRequest
		c.failed = proto.Unmarshal(body, &request)
		for _, of := range request.GetResourceSpans() {
			for _, scope := range of.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					attributes := make(map[string]string)
					for _, a := range span.GetAttributes() {
						attributes[a.GetKey()] = a.GetValue().GetStringValue()
					}
					c.spans[span.GetName()] = append(c.spans[span.GetName()], attributes)
				}
			}
		}
	case "/v1/metrics":
		var request collectormetrics.ExportMetricsServiceRequest
		c.failed = proto.Unmarshal(body, &request)
		for _, of := range request.GetResourceMetrics() {
			for _, scope := range of.GetScopeMetrics() {
				for _, m := range scope.GetMetrics() {
					c.metrics[m.GetName()] = true
				}
			}
		}
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty answer: all was taken
}

// TestShutdownExportsEverything: streams that SIGTERM ended are in the backend,
// though no batch and no reading was due.
func TestShutdownExportsEverything(t *testing.T) {
	t.Parallel()
	backend := &collector{spans: make(map[string][]map[string]string), metrics: make(map[string]bool)}
	server := httptest.NewServer(backend)
	defer server.Close()
	p := start(t, "-otlp", server.URL)
	const streams = 3
	for range streams {
		s := p.Listen(t, all)
		s.Expect(t, core.MethodAcknowledged)
		defer s.Close() //nolint:gocritic // at the end of the test
	}
	p.publish(t, "kind=tools")
	p.stop()
	backend.mu.Lock()
	defer backend.mu.Unlock()
	if backend.failed != nil {
		t.Fatalf("what was exported cannot be read: %v", backend.failed)
	}
	ended := backend.spans[core.MethodListen]
	if len(ended) != streams {
		t.Errorf("%d streams were exported, want %d", len(ended), streams)
	}
	for _, attributes := range ended {
		if got := attributes["mcplisten.close_reason"]; got != string(core.Shutdown) {
			t.Errorf("a stream was exported with the close reason %q, want shutdown", got)
		}
	}
	for name, want := range map[string]int{
		core.MethodAcknowledged: streams, "publish " + core.MethodToolsListChanged: 1, core.MethodToolsListChanged: streams,
	} {
		if got := len(backend.spans[name]); got != want {
			t.Errorf("%d spans %s were exported, want %d", got, name, want)
		}
	}
	for _, name := range []string{"mcplisten.stream.active", "mcplisten.stream.duration", "mcplisten.delivery.duration"} {
		if !backend.metrics[name] {
			t.Errorf("the metric %s was not exported: %v", name, backend.metrics)
		}
	}
}

func TestNoTelemetryByDefault(t *testing.T) {
	t.Parallel()
	none, err := newTelemetry("")
	if err != nil || none.observer != nil {
		t.Errorf("without -otlp there is the observer %v, %v, want none", none.observer, err)
	}
	if err := none.shutdown(context.Background()); err != nil {
		t.Errorf("nothing to shut down: %v", err)
	}
}
