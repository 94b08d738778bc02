// What the metrics are: names, units, buckets, and no word in them that somebody
// else chose.

package observer_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

// TestMetricsAreAsDocumented: there are these instruments, and each is in
// docs/observability.md.
func TestMetricsAreAsDocumented(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		o, err := mcpotel.New(mcpotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		hub := newHub(t, core.Config{}, o)
		s, resume := stalled(t, hub, telemetry.Listen{Filter: everything}, 0)
		publish(t, hub, core.ToolsListChanged())
		publish(t, hub, core.ToolsListChanged())
		resume()
		<-time.After(core.DefaultKeepAlive)
		synctest.Wait()
		endAll(t, hub, nil)
		s.Wait(t)
		hub.Refuse(t.Context(), core.Refused{Err: &core.Error{Refusal: core.RefusedOrigin}})

		var data metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &data); err != nil {
			t.Fatalf("collect: %v", err)
		}
		got := make(map[string]string)
		for _, scope := range data.ScopeMetrics {
			for _, m := range scope.Metrics {
				got[m.Name] = describe(m)
				if m.Description == "" {
					t.Errorf("%s has no description", m.Name)
				}
			}
		}
		want := map[string]string{
			"mcp.server.operation.duration":     "histogram s [0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 30 60 120 300]",
			"mcplisten.stream.active":           "up-down counter {stream}",
			"mcplisten.stream.duration":         "histogram s [1 5 15 30 60 300 900 1800 3600 7200 14400 43200 86400]",
			"mcplisten.published.notifications": "counter {notification}",
			"mcplisten.sent.notifications":      "counter {notification}",
			"mcplisten.coalesced.notifications": "counter {notification}",
			"mcplisten.delivery.duration":       "histogram s [0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30]",
			"mcplisten.sent.keepalives":         "counter {keepalive}",
			"mcplisten.refused.requests":        "counter {request}",
		}
		docs, err := os.ReadFile("../../../docs/observability.md")
		if err != nil {
			t.Fatalf("docs: %v", err)
		}
		for name := range want {
			if !strings.Contains(string(docs), "| `"+name+"` |") {
				t.Errorf("the docs do not list %s", name)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("the metrics are\n%v,\nwant\n%v", got, want)
		}
	})
}

func describe(m metricdata.Metrics) string {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		if data.IsMonotonic {
			return "counter " + m.Unit
		}
		return "up-down counter " + m.Unit
	case metricdata.Histogram[float64]:
		return fmt.Sprintf("histogram %s %v", m.Unit, data.DataPoints[0].Bounds)
	default:
		return fmt.Sprintf("%T", m.Data)
	}
}

// TestDeliveryDuration: of what is coalesced, the oldest publish counts.
func TestDeliveryDuration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := telemetry.New()
		hub := newHub(t, core.Config{KeepAlive: -1}, r.Observer(t))
		s, resume := stalled(t, hub, telemetry.Listen{Filter: everything}, 0)
		<-time.After(time.Millisecond)
		for range 3 {
			publish(t, hub, core.ToolsListChanged())
			<-time.After(time.Second)
		}
		resume()
		endAll(t, hub, nil)
		s.Wait(t)
		for _, p := range r.Metrics(t)["mcplisten.delivery.duration"] {
			if p.Is("mcp.method.name", toolsChanged) && (p.Count != 1 || p.Value != 3) {
				t.Errorf("%d deliveries took %v s, want one of 3 s", p.Count, p.Value)
			}
		}
		if got := r.Metrics(t).Sum("mcplisten.delivery.duration", "mcp.method.name", toolsChanged); got != 1 {
			t.Errorf("%v deliveries were timed, want 1", got)
		}
	})
}

// foreign is text of somebody else's, as it may come in a URI.
func foreign(r *rand.Rand) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&'()*+,;=%éß世"
	runes := []rune(letters)
	var b strings.Builder
	b.WriteString("x-")
	for range 12 + r.IntN(20) {
		b.WriteRune(runes[r.IntN(len(runes))])
	}
	return b.String()
}

// TestNothingForeignInNames: whatever URIs, ids, versions and methods clients and
// applications choose, no span's name and no metric contains one.
func TestNothingForeignInNames(t *testing.T) {
	t.Parallel()
	for range 30 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			nothingForeign(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func nothingForeign(t *testing.T, random *rand.Rand) {
	t.Helper()
	r := telemetry.New()
	hub := newHub(t, core.Config{MaxStreams: 3}, r.Observer(t, mcpotel.WithDeliverySpans(100, 100)))
	var uris, other []string
	for range 5 {
		uris = append(uris, foreign(random))
		other = append(other, foreign(random))
	}
	filter := `{"resourceSubscriptions":` + quoteAll(uris) + `,` + quote(other[0]) + `:` + quoteAll(uris) + `}`
	var streams []*telemetry.Stream
	for range 5 { // two are refused
		s, err := telemetry.Open(t.Context(), t, hub, telemetry.Listen{
			ID: quote(other[1]), Filter: filter, Meta: map[string]any{other[2]: uris[0]},
		})
		if err == nil {
			streams = append(streams, s)
		}
	}
	for range 20 {
		publish(t, hub, core.ResourceUpdated(uris[random.IntN(len(uris))]), core.ResourceUpdated(foreign(random)))
	}
	refuse(t, hub, other)
	endAll(t, hub, nil)
	for _, s := range streams {
		s.Wait(t)
	}
	if len(streams) != 3 || len(r.Ended("subscriptions/listen")) < 5+3 {
		t.Fatalf("there are %d streams and %d spans of listen requests, want 3 and more", len(streams), len(r.Ended("subscriptions/listen")))
	}
	for _, text := range slices.Concat(uris, other) {
		if where := r.Holds(t, text); where != "" {
			t.Errorf("%q is in %s", text, where)
		}
	}
	for _, span := range r.Spans.Ended() {
		for key, value := range telemetry.Attributes(span) {
			for _, uri := range uris {
				if strings.Contains(fmt.Sprint(value), uri) {
					t.Errorf("without a redaction, the URI %q is in %s of a span", uri, key)
				}
			}
		}
	}
}

// refuse makes an endpoint refuse requests that have foreign text in every place
// that there is.
func refuse(t *testing.T, hub *core.Hub, texts []string) {
	t.Helper()
	handler, err := mcphttp.New(hub)
	if err != nil {
		t.Fatalf("handler: %v", err)
	}
	body := telemetry.Listen{ID: quote(texts[0])}.Body(t)
	for _, change := range []func(string) string{
		func(s string) string { return strings.Replace(s, core.ProtocolVersion, "%s", 1) },
		func(s string) string { return strings.Replace(s, `"`+core.MethodListen+`"`, "%s", 1) },
		func(s string) string { return strings.Replace(s, `"method"`, "%s:1,\"method\"", 1) },
		func(s string) string { return s[:len(s)-1] + "%s" },
	} {
		for _, text := range texts {
			changed := change(body)
			quoted := quote(text)
			if strings.Contains(changed, `"%s"`) {
				quoted = strings.Trim(quoted, `"`)
			}
			request := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/mcp",
				strings.NewReader(strings.Replace(changed, "%s", quoted, 1)))
			request.Host = "127.0.0.1"
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Mcp-Method", core.MethodListen)
			request.Header.Set("Mcp-Protocol-Version", strings.ToValidUTF8(text, ""))
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code < 400 {
				t.Fatalf("the request %q was answered with %d, want a refusal", changed, answer.Code)
			}
		}
	}
}

func quote(s string) string { return quoteAll([]string{s})[1 : len(quoteAll([]string{s}))-1] }

func quoteAll(list []string) string {
	var b strings.Builder
	for i, s := range list {
		b.WriteByte("[,"[min(i, 1)])
		b.WriteByte('"')
		b.WriteString(s) // none has what JSON escapes
		b.WriteByte('"')
	}
	b.WriteByte(']')
	return b.String()
}
