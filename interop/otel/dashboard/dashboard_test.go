// The dashboard asks for what there is, and shows all that there is.

package dashboard

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/interop/otel/internal/telemetry"
	mcpotel "github.com/mcplisten/mcplisten/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// series are the label names of each series, by its name, as Prometheus scrapes
// it: a histogram is three.
type series map[string]map[string]bool

// scrape runs a service through everything that can be measured and returns what
// a scrape of it has.
func scrape(t *testing.T) series {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		t.Fatalf("exporter: %v", err)
	}
	observer, err := mcpotel.New(mcpotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))))
	if err != nil {
		t.Fatalf("observer: %v", err)
	}
	live(t, observer)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	all := make(series)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			names := []string{family.GetName()}
			labels := map[string]bool{"job": true, "instance": true} // Prometheus adds these
			if metric.GetHistogram() != nil {
				labels["le"] = true
				names = []string{family.GetName() + "_bucket", family.GetName() + "_sum", family.GetName() + "_count"}
			}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = true
			}
			for _, name := range names {
				if all[name] == nil {
					all[name] = make(map[string]bool)
				}
				for label := range labels {
					all[name][label] = true
				}
			}
		}
	}
	return all
}

// live opens streams, publishes, refuses, keeps alive, and fails.
func live(t *testing.T, observer *mcpotel.Observer) {
	t.Helper()
	hub, err := core.NewHub(core.Config{Capabilities: telemetry.All, Observer: observer})
	if err != nil {
		t.Fatalf("hub: %v", err)
	}
	gate, broken := make(chan struct{}), errors.New("broken")
	conns := []*telemetry.Conn{
		{Fault: func(call string, flushes int) error { // reads late
			if call == "flush" && flushes == 1 {
				<-gate
			}
			return nil
		}},
		{Fault: func(call string, flushes int) error { // fails at the first delivery
			if call == "flush" && flushes == 1 {
				return broken
			}
			return nil
		}},
		{Fault: func(call string, _ int) error { // fails at a keep-alive
			if call == "keep-alive" {
				return broken
			}
			return nil
		}},
	}
	var streams []*telemetry.Stream
	for _, conn := range conns {
		streams = append(streams, telemetry.MustOpen(t.Context(), t, hub, telemetry.Listen{Conn: conn}))
	}
	for range 3 {
		if err := hub.Publish(t.Context(), core.ToolsListChanged()); err != nil {
			t.Fatalf("publish: %v", err)
		}
		synctest.Wait()
	}
	close(gate)
	<-time.After(core.DefaultKeepAlive)
	synctest.Wait()
	hub.Refuse(t.Context(), core.Refused{
		Method: core.MethodListen, Err: &core.Error{Code: core.CodeInternalError, Refusal: core.RefusedLimit},
	})
	if err := hub.Shutdown(t.Context()); err != nil {
		t.Fatalf("shutdown: %v", err)
	}
	for _, s := range streams {
		s.Wait(t)
	}
}

// dashboard is what is looked at of Grafana's format.
type dashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		Targets []struct {
			Expr   string `json:"expr"`
			Legend string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

var (
	// A selector: name{matchers}.
	selectors = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	matchers  = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"([^"]*)"`)
	grouping  = regexp.MustCompile(`by \(([^)]*)\)`)
	legends   = regexp.MustCompile(`\{\{([^}]*)\}\}`)
	names     = regexp.MustCompile(`\bmcp[a-z_]*`)
)

func TestDashboardNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		there := scrape(t)
		text, err := os.ReadFile("../../../otel/dashboard/mcplisten.json")
		if err != nil {
			t.Fatalf("dashboard: %v", err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("dashboard: %v", err)
		}
		shown := make(map[string]bool)
		for _, panel := range d.Panels {
			if len(panel.Targets) == 0 {
				t.Errorf("%s: the panel shows nothing", panel.Title)
			}
			for _, target := range panel.Targets {
				there.check(t, panel.Title, target.Expr, target.Legend)
				for _, found := range selectors.FindAllStringSubmatch(target.Expr, -1) {
					shown[found[1]] = true
				}
			}
		}
		for _, variable := range d.Templating.List {
			for _, name := range names.FindAllString(variable.Definition, -1) {
				if there[name] == nil {
					t.Errorf("a variable asks for %s, which there is not", name)
				}
			}
		}
		for name := range there {
			switch {
			case !strings.HasPrefix(name, "mcp"), strings.HasSuffix(name, "_sum"):
			case shown[name], shown[strings.TrimSuffix(name, "_count")+"_bucket"], shown[strings.TrimSuffix(name, "_bucket")+"_count"]:
			default:
				t.Errorf("no panel shows %s", name)
			}
		}
		if len(there) < 9 {
			t.Errorf("the exporter has %d series, want those of nine metrics: %v", len(there), there)
		}
	})
}

// check checks one query: its series, labels and words.
func (there series) check(t *testing.T, panel, expr, legend string) {
	t.Helper()
	found := selectors.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: the query %s selects nothing", panel, expr)
	}
	selected := make(map[string]bool)
	labels := make(map[string]bool)
	for _, selector := range found {
		name := selector[1]
		selected[name] = true
		if there[name] == nil {
			t.Errorf("%s: there is no series %s", panel, name)
		}
		for label := range there[name] {
			labels[label] = true
		}
		for _, matcher := range matchers.FindAllStringSubmatch(selector[2], -1) {
			label, value := matcher[1], matcher[2]
			if !there[name][label] {
				t.Errorf("%s: %s has no label %s", panel, name, label)
			}
			if label == "mcplisten_close_reason" && !slices.Contains(core.Reasons(), core.Reason(value)) {
				t.Errorf("%s: there is no close reason %q", panel, value)
			}
		}
	}
	for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ", ") {
			if !labels[label] {
				t.Errorf("%s: the series of %s have no label %q", panel, expr, label)
			}
		}
	}
	for _, in := range legends.FindAllStringSubmatch(legend, -1) {
		if !strings.Contains(expr, "("+in[1]) && !strings.Contains(expr, ", "+in[1]) {
			t.Errorf("%s: the legend shows %s, which the query does not keep", panel, in[1])
		}
	}
	for _, name := range names.FindAllString(expr, -1) { // one that stands without braces
		if !selected[name] && !labels[name] {
			t.Errorf("%s: %s is neither a series nor a label", panel, name)
		}
	}
}
