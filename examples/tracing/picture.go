// Pictures: traces as they were exported, drawn as SVG.

package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcplisten/mcplisten/core"
)

// maxKept bounds what a long run keeps for its pictures.
const maxKept = 2000

// keeper is an exporter that keeps the newest spans.
type keeper struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

// ExportSpans keeps the spans.
func (k *keeper) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans = append(k.spans, spans...)
	if over := len(k.spans) - maxKept; over > 0 {
		k.spans = slices.Delete(k.spans, 0, over)
	}
	return nil
}

// Shutdown does nothing.
func (*keeper) Shutdown(context.Context) error { return nil }

// draw draws the trace of the first stream and that of the last publish that
// reached all streams.
func (t *telemetry) draw(dir string) error {
	if dir == "" {
		return nil
	}
	var stream, published sdktrace.ReadOnlySpan
	deliveries := make(map[trace.TraceID]int)
	for _, s := range t.kept.spans {
		switch {
		case s.Name() == core.MethodListen && s.SpanKind() == trace.SpanKindServer && stream == nil:
			stream = s
		case s.Name() == core.MethodResourceUpdated:
			deliveries[s.SpanContext().TraceID()]++
			if deliveries[s.SpanContext().TraceID()] == 3 {
				published = s
			}
		}
	}
	if stream == nil || published == nil {
		return errors.New("there was no stream, or no publish to three streams")
	}
	return errors.Join(
		t.write(filepath.Join(dir, "stream.svg"), "The trace of one stream", stream),
		t.write(filepath.Join(dir, "publish.svg"), "The trace of one publish and its deliveries", published),
	)
}

// write draws the trace that a span is in, and the attributes of the span.
func (t *telemetry) write(path, title string, of sdktrace.ReadOnlySpan) error {
	p := picture{all: t.kept.spans, detail: of}
	for _, s := range t.kept.spans {
		if s.SpanContext().TraceID() == of.SpanContext().TraceID() {
			p.trace = append(p.trace, s)
		}
	}
	slices.SortFunc(p.trace, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	return os.WriteFile(path, []byte(p.svg(title)), 0o644) //nolint:gosec // a picture
}

// picture is one trace: a row for each span, children below their parent.
type picture struct {
	all, trace []sdktrace.ReadOnlySpan
	detail     sdktrace.ReadOnlySpan
	start, end time.Time
	b          strings.Builder
	y          int
}

const (
	width    = 1000
	margin   = 20
	rowStep  = 34
	lineStep = 20
	barsAt   = 420 // where the bars begin
	barsEnd  = 880
)

func (p *picture) svg(title string) string {
	p.start, p.end = p.trace[0].StartTime(), p.trace[0].EndTime()
	for _, s := range p.trace {
		if s.EndTime().After(p.end) {
			p.end = s.EndTime()
		}
	}
	p.y = 40
	p.text(margin, 15, "bold", "#24292f", title)
	p.text(barsAt+220, 12, "normal", "#57606a", "trace "+p.trace[0].SpanContext().TraceID().String())
	p.y += 34
	p.rows(trace.SpanID{}, 0)
	p.links()
	p.attributes()
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="Helvetica, Arial, sans-serif">
<rect width="100%%" height="100%%" fill="#ffffff"/>
%s</svg>
`, width, p.y+margin, p.b.String())
}

func (p *picture) text(x, size int, weight, color, text string) {
	fmt.Fprintf(&p.b, `<text x="%d" y="%d" font-size="%d" font-weight="%s" fill="%s">%s</text>`+"\n",
		x, p.y, size, weight, color, html.EscapeString(text))
}

// rows draws the spans below a parent; those without one in the trace are below
// the zero id.
func (p *picture) rows(parent trace.SpanID, depth int) {
	for _, s := range p.trace {
		above := s.Parent().SpanID()
		if !slices.ContainsFunc(p.trace, func(o sdktrace.ReadOnlySpan) bool { return o.SpanContext().SpanID() == above }) {
			above = trace.SpanID{}
		}
		if above == parent {
			p.row(s, depth, "")
			p.rows(s.SpanContext().SpanID(), depth+1)
		}
	}
}

var colors = map[trace.SpanKind]string{
	trace.SpanKindServer: "#0969da", trace.SpanKindClient: "#2da44e", trace.SpanKindProducer: "#bf8700", trace.SpanKindInternal: "#6e7781",
}

// row draws one span. A dashed one is of another trace.
func (p *picture) row(s sdktrace.ReadOnlySpan, depth int, dashes string) {
	at := func(t time.Time) float64 {
		share := float64(t.Sub(p.start)) / float64(max(1, p.end.Sub(p.start)))
		return barsAt + min(max(share, 0), 1)*(barsEnd-barsAt)
	}
	left, color := at(s.StartTime()), colors[s.SpanKind()]
	fmt.Fprintf(&p.b, `<line x1="%d" y1="%d" x2="%d" y2="%[2]d" stroke="#eaeef2"/>`+"\n", margin, p.y+17, width-margin)
	p.text(margin+depth*16, 13, "normal", "#24292f", s.Name())
	p.y += 12
	p.text(margin+depth*16, 10, "normal", color, serviceOf(s)+" · "+s.SpanKind().String())
	p.y -= 12
	fmt.Fprintf(&p.b, `<rect x="%.1f" y="%d" width="%.1f" height="14" rx="2" fill="%s" stroke="%[4]s" stroke-dasharray="%[5]s" fill-opacity="%[6]s"/>`+"\n",
		left, p.y-8, max(3, at(s.EndTime())-left), color, dashes, map[bool]string{true: "0.9", false: "0.15"}[dashes == ""])
	p.y += 3
	p.text(barsEnd+12, 12, "normal", "#57606a", rounded(s.EndTime().Sub(s.StartTime())))
	p.y += rowStep
}

// links draws the spans that those of the trace are linked to.
func (p *picture) links() {
	seen := make(map[trace.SpanID]bool)
	for _, s := range p.trace {
		for _, link := range s.Links() {
			for _, other := range p.all {
				id := other.SpanContext().SpanID()
				if id != link.SpanContext.SpanID() || seen[id] {
					continue
				}
				if len(seen) == 0 {
					p.y += 8
					p.text(margin, 12, "bold", "#57606a", "linked, in other traces")
					p.y += 24
				}
				seen[id] = true
				p.row(other, 0, "4 3")
			}
		}
	}
}

// attributes writes what the span in detail says, in two columns.
func (p *picture) attributes() {
	p.y += 10
	p.text(margin, 12, "bold", "#57606a", "attributes of "+p.detail.Name())
	p.y += lineStep + 2
	list := slices.Clone(p.detail.Attributes())
	half := (len(list) + 1) / 2
	for i := range half {
		for column, at := range []int{i, i + half} {
			if at < len(list) {
				x := margin + column*(width/2)
				p.text(x, 12, "normal", "#57606a", string(list[at].Key))
				p.text(x+240, 12, "normal", "#24292f", short(list[at].Value.String()))
			}
		}
		p.y += lineStep
	}
}

// short cuts a text to what fits into a column.
func short(text string) string {
	const most = 31
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// rounded returns a duration with three or four figures.
func rounded(d time.Duration) string {
	if d > time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}
