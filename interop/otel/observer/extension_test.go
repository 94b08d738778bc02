// Notifications of extensions: counted and traced by their methods, which are the
// application's. Keys are clients' business, and nowhere.

package observer_test

import (
	"testing"
	"testing/synctest"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

func TestExtensions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const method, secret = "notifications/jobs", "secret-key"
		r := telemetry.New()
		hub := newHub(t, core.Config{KeepAlive: -1, Extensions: []core.Extension{
			{Family: core.Family{Member: "jobIds", Method: method, Key: "job"}, Public: true},
		}}, r.Observer(t, mcpotel.WithDeliverySpans(10, 10), mcpotel.WithURIRedaction(func(uri string) string { return uri })))
		s, resume := stalled(t, hub, telemetry.Listen{Filter: `{"toolsListChanged":true,"promptsListChanged":true,"other":["x"],"jobIds":["` + secret + `"]}`}, 0)
		job := core.ValueChanged(method, secret, map[string]string{"job": secret})
		publish(t, hub, job)
		publish(t, hub, core.ToolsListChanged(), job)
		resume()
		synctest.Wait()
		endAll(t, hub, nil)
		s.Wait(t)
		broken := &telemetry.Conn{Fault: on("message", 1, failing(core.ErrSlowClient))}
		s = telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{Filter: `{"jobIds":["` + secret + `"]}`, Conn: broken})
		publish(t, hub, job)
		s.Wait(t)

		m := r.Metrics(t)
		for _, want := range []struct {
			metric string
			n      float64
			of     []string
		}{
			{"mcplisten.published.notifications", 3, []string{"mcp.method.name", method}},
			{"mcplisten.published.notifications", 1, []string{"mcp.method.name", toolsChanged}},
			{"mcplisten.sent.notifications", 2, []string{"mcp.method.name", method}}, // the failed one included
			{"mcplisten.sent.notifications", 1, []string{"mcp.method.name", toolsChanged}},
			{"mcplisten.sent.notifications", 1, []string{"mcp.method.name", method, "error.type", "slow_client"}},
			{"mcplisten.coalesced.notifications", 1, []string{"mcp.method.name", method}},
			{"mcplisten.delivery.duration", 1, []string{"mcp.method.name", method}},
		} {
			if got := m.Sum(want.metric, want.of...); got != want.n {
				t.Errorf("%s of %v is %v, want %v: %v", want.metric, want.of, got, want.n, m[want.metric])
			}
		}
		if n := len(r.Ended("publish " + method)); n != 2 {
			t.Errorf("%d publishes of the extension alone were traced, want 2", n)
		}
		if n := len(r.Ended("publish")); n != 1 {
			t.Errorf("%d publishes of several methods were traced, want 1", n)
		}
		delivered := r.Ended(method)
		if len(delivered) != 2 || telemetry.Attributes(delivered[0])["mcp.method.name"] != method {
			t.Errorf("there are %d spans of deliveries, want 2", len(delivered))
		}
		for _, span := range r.Ended("subscriptions/listen")[:1] {
			for _, key := range []string{"mcplisten.requested", "mcplisten.honored"} {
				if got := telemetry.Attributes(span)[key].([]string); len(got) != 3 || got[2] != "jobIds" {
					t.Errorf("%s is %q", key, got)
				}
			}
		}
		if where := r.Holds(t, secret); where != "" {
			t.Errorf("a key is in %s", where)
		}
	})
}
