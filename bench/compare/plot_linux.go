package main

// This file draws the plot: two panels as SVG, with nothing that a Markdown viewer would not show.

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/mcplisten/mcplisten/bench/server"
)

// series is one row's line.
type series struct {
	name   string
	points [][2]float64
}

// colours tell the rows apart for those who do not see all colours, too.
var colours = map[string]string{
	server.BareWrite: "#7f7f7f", server.BareNetHTTP: "#a6761d", server.Mcplisten: "#0072b2", server.McplistenLean: "#009e73", server.GoSDK: "#d55e00", server.MCPGo: "#cc79a7",
}

// plotted are the rows that are drawn: mcplisten's on other routers would lie on the same line.
func plotted() []string {
	return []string{server.BareWrite, server.BareNetHTTP, server.Mcplisten, server.McplistenLean, server.GoSDK, server.MCPGo}
}

func plot(r *results) string {
	collect := func(figure func(m *measured) float64) (all []series) {
		for _, name := range plotted() {
			line := series{name: name}
			for i := range r.sizes {
				if m := r.sizes[i].row(name); m != nil {
					if y := figure(m); !math.IsNaN(y) {
						line.points = append(line.points, [2]float64{float64(r.sizes[i].streams), y})
					}
				}
			}
			if len(line.points) > 0 {
				all = append(all, line)
			}
		}
		return all
	}
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 400" font-family="sans-serif" font-size="12" fill="#222">` + "\n")
	b.WriteString(`<rect width="960" height="400" fill="#fff"/>` + "\n")
	panel(&b, 70, "memory of an idle stream", "resident KB per stream", collect(func(m *measured) float64 { return m.idle.RSS / 1024 }))
	panel(&b, 550, "one change to all streams", "ms to the last client (median)", collect(func(m *measured) float64 { return median(m.last) }))
	b.WriteString("</svg>\n")
	return b.String()
}

// The panels' inner size, and where it begins from above.
const (
	panelWidth  = 290.0
	panelHeight = 290.0
	panelTop    = 50.0
)

func panel(b *strings.Builder, left float64, title, label string, all []series) {
	var right, top float64
	for _, s := range all {
		for _, p := range s.points {
			right, top = max(right, p[0]), max(top, p[1])
		}
	}
	stepX, stepY := step(right), step(top)
	right, top = stepX*max(math.Ceil(right/stepX), 1), stepY*max(math.Ceil(top/stepY), 1)
	x := func(v float64) float64 { return left + v/right*panelWidth }
	y := func(v float64) float64 { return panelTop + panelHeight - v/top*panelHeight }
	fmt.Fprintf(b, `<text x="%.0f" y="28" font-size="15" font-weight="bold">%s</text>`+"\n", left, html.EscapeString(title))
	for v := 0.0; v <= top*1.001; v += stepY {
		fmt.Fprintf(b, `<path d="M%.1f %.1fh%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, y(v), panelWidth, left-6, y(v)+4, tick(v))
	}
	for v := 0.0; v <= right*1.001; v += stepX {
		fmt.Fprintf(b, `<path d="M%.1f %.1fv5" stroke="#222"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			x(v), y(0), x(v), y(0)+19, tick(v))
	}
	fmt.Fprintf(b, `<path d="M%.1f %.1fv%.1fh%.1f" fill="none" stroke="#222"/>`+"\n", left, panelTop, panelHeight, panelWidth)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">open streams</text>`+"\n", left+panelWidth/2, y(0)+38)
	fmt.Fprintf(b, `<text transform="translate(%.1f %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", left-48, panelTop+panelHeight/2, html.EscapeString(label))
	labels := make([]float64, len(all)) // a line's name stands beside its end
	for i, s := range all {
		labels[i] = y(s.points[len(s.points)-1][1]) + 4
	}
	apart(labels)
	for i, s := range all {
		var path []string
		for _, p := range s.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(p[0]), y(p[1])))
		}
		colour := colours[s.name]
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colour)
		for _, p := range s.points {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x(p[0]), y(p[1]), colour)
		}
		end := s.points[len(s.points)-1]
		fmt.Fprintf(b, "\n"+`<text x="%.1f" y="%.1f" fill="%s">%s %s</text>`+"\n", x(end[0])+8, labels[i], colour, html.EscapeString(s.name), number(end[1]))
	}
}

// step returns a round distance of which about five reach as far as most.
func step(most float64) float64 {
	if most <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/5)))
	for _, f := range []float64{1, 2, 5, 10} {
		if most/(f*unit) <= 5 {
			return f * unit
		}
	}
	return 10 * unit
}

func tick(v float64) string {
	if v >= 10_000 {
		return number(v)
	}
	return fmt.Sprintf("%g", math.Round(v*1000)/1000)
}

// apart moves labels that would overlap away from each other, downwards from the highest.
func apart(at []float64) {
	const height = 14
	for range at {
		for i := range at {
			for j := range at {
				if i != j && at[i] <= at[j] && at[j]-at[i] < height && (at[i] < at[j] || i < j) {
					middle := (at[i] + at[j]) / 2
					at[i], at[j] = middle-height/2, middle+height/2
				}
			}
		}
	}
}
