package main

// This file turns the figures into Markdown. A time says little by itself on a shared machine, so each is also given as a ratio to
// the rows that it is to be compared with, round by round.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcplisten/mcplisten/bench/server"
)

type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// paragraph writes a paragraph, or a heading.
func (p *page) paragraph(format string, args ...any) { p.line(format+"\n", args...) }

// table writes a table; a paragraph comes before it and after it.
func (p *page) table(head string, rows [][]string) {
	columns := strings.Split(head, "|")
	p.line("| %s |", strings.Join(columns, " | "))
	p.line("|%s", strings.Repeat("---|", len(columns)))
	for _, cells := range rows {
		p.line("| %s |", strings.Join(cells, " | "))
	}
	p.line("")
}

func report(r *results, plotName string) string {
	p := new(page)
	p.paragraph("# How it compares")
	p.paragraph("Written by `%s`, which measures all of this in one run. How it is measured is said at the end.", r.command)
	p.paragraph("%s, %d CPUs, %d MB, %s, %s; commit %s; %s, %.0f minutes.", r.machine.cpu, r.machine.cpus, r.machine.memoryMB, r.machine.kernel,
		r.machine.goVersion, r.machine.commit, r.began.UTC().Format("2006-01-02 15:04 MST"), r.took.Minutes())
	if len(r.machine.versions) > 0 {
		p.paragraph("Beside it: %s.", strings.Join(r.machine.versions, ", "))
	}
	if plotName != "" && len(r.sizes) > 1 {
		p.paragraph("![memory per stream, and time to the last client, against the number of streams](%s)", plotName)
	}
	p.gates(r)
	at := r.at()
	for i := range r.sizes {
		p.size(&r.sizes[i])
		if &r.sizes[i] == at {
			p.ratios(at, []string{server.BareWrite, server.BareNetHTTP, server.GoSDK, server.MCPGo})
		}
	}
	if r.limit != "" {
		p.paragraph("The largest number is what this machine takes; what bounds it is %s.", r.limit)
	}
	p.bursts(r)
	p.uris(r)
	p.besides(r)
	p.stalledReaders(r)
	for i := range r.secure {
		p.size(&r.secure[i])
		p.ratios(&r.secure[i], []string{server.BareNetHTTP + r.secure[i].transport, server.GoSDK + r.secure[i].transport, server.MCPGo + r.secure[i].transport})
	}
	p.faults(r)
	p.method(r)
	return p.String()
}

func (p *page) gates(r *results) {
	p.paragraph("## Targets")
	var rows [][]string
	for _, g := range gates(r) {
		verdict := "**no**"
		switch {
		case g.figure == "":
			g.figure, verdict = none, "not measured"
		case g.met:
			verdict = "yes"
		}
		rows = append(rows, []string{g.what, g.target, g.figure, verdict})
	}
	p.table("|target|measured|met", rows)
}

func kb(bytes float64) string { return number(bytes / 1024) }

func (p *page) size(s *sized) {
	switch s.transport {
	case server.OverTLS:
		p.paragraph("## %d streams over TLS", s.streams)
		p.line("HTTP/1.1 over TLS 1.3, with a load generator of its own: times compare with each other and with nothing above.")
	case server.OverHTTP2:
		p.paragraph("## %d streams over HTTP/2", s.streams)
		p.line("HTTP/2 over TLS 1.3, 100 streams on each connection, with a load generator of its own: times" +
			" compare with each other and with nothing above.")
	default:
		p.line("## %d streams", s.streams)
	}
	p.line("")
	var memory, change [][]string
	for _, m := range s.rows {
		memory = append(memory, []string{m.row, kb(m.idle.RSS), kb(m.idle.Heap), kb(m.idle.Stack), fmt.Sprintf("%.2f", m.idle.Goroutines), kb(m.after.RSS),
			spread(m.rates), spread(m.openCPU)})
		lost := "0"
		if m.lost+m.more > 0 {
			lost = fmt.Sprintf("%d lost, %d twice, of %d", m.lost, m.more, m.deliveries)
		}
		change = append(change, []string{m.row, spread(m.cpu), number(median(m.allocs)), spread(m.caller), spread(m.median), spread(m.p99), spread(m.last), lost})
	}
	p.paragraph("An idle stream, and opening all of them:")
	p.table("|resident KB|heap KB|stack KB|goroutines|resident KB after the changes|opened per second|server CPU µs per open", memory)
	p.paragraph("One change to all of them:")
	p.table("|server CPU µs per delivery|allocations per delivery|caller ms|median client ms|99th percentile ms|last client ms|not delivered once", change)
}

func (p *page) ratios(s *sized, bases []string) {
	var rows [][]string
	for _, m := range s.rows {
		if slices.Contains(bases, m.row) {
			continue
		}
		for _, name := range bases {
			base := s.row(name)
			if base == nil {
				continue
			}
			rows = append(rows, []string{m.row + " / " + name, number(m.idle.RSS / base.idle.RSS), number(median(over(m.cpu, base.cpu))),
				number(median(over(m.median, base.median))), number(median(over(m.last, base.last))), number(median(over(m.rates, base.rates)))})
		}
	}
	if len(rows) == 0 {
		return
	}
	p.paragraph("Ratios, medians of those of each round (less is better, but for the last column):")
	p.table("|resident memory|CPU per delivery|median client|last client|opened per second", rows)
}

func (p *page) bursts(r *results) {
	if len(r.burst) == 0 {
		return
	}
	p.paragraph("## A burst of 100 changes")
	p.paragraph("%d streams, 100 changes of the tools list one right after the other. A change says that a list is stale, so one notification after the"+
		" last change is all that a client needs; each more is one more fetch.", r.settings.burstStreams)
	var rows [][]string
	for _, b := range r.burst {
		rows = append(rows, []string{b.row, fmt.Sprintf("%d / %d / %d", b.fewest, b.middle, b.most), fmt.Sprint(b.stale), spread(b.calls), spread(b.last), spread(b.cpu)})
	}
	p.table("|notifications per stream, fewest / median / most|streams not told after the last change|caller ms, all 100|ms from the last change to the last notification|server CPU µs per stream", rows)
}

func (p *page) uris(r *results) {
	if len(r.uri) == 0 {
		return
	}
	p.paragraph("## One URI, one subscriber")
	p.paragraph("A change of a resource that one stream has subscribed to, with no other stream open and among %d that have each subscribed to a"+
		" resource of their own. Up to %d changes in each of %d rounds, one after the other.", r.settings.beside, r.settings.uriPublishes, r.settings.uriRounds)
	var rows [][]string
	for _, u := range r.uri {
		if u.never != "" {
			rows = append(rows, []string{u.row, u.never, none, none, none})
			continue
		}
		rows = append(rows, []string{u.row, spread(u.alone), spread(u.among), number(median(over(u.among, u.alone))), spread(u.caller)})
	}
	p.table("|alone, ms to the subscriber|among the others, ms|ratio|caller ms, among the others", rows)
}

func (p *page) besides(r *results) {
	if len(r.beside) == 0 {
		return
	}
	p.paragraph("## Other requests on the same endpoint")
	p.paragraph("`tools/list` from %d clients, each one request after the other, with no stream open and beside %d idle ones. The rows differ in what"+
		" answers the request: it is each row's ratio that says something.", besideConnections, r.settings.beside)
	var rows [][]string
	for _, b := range r.beside {
		rows = append(rows, []string{b.row, spread(b.alone), spread(b.among), number(median(over(b.alone, b.among))), spread(b.p99)})
	}
	p.table("|requests per second, none open|beside the streams|slower by|99th percentile ms, beside the streams", rows)
}

func (p *page) stalledReaders(r *results) {
	if len(r.stalled) == 0 {
		return
	}
	p.paragraph("## A reader that reads nothing")
	p.paragraph("%d streams, one of which is not read from; %d changes, in lots of %d with %v in between; socket buffers of %d bytes.",
		stalledStreams, r.settings.stalledPublishes, stalledLot, stalledPause, stalledBuffer)
	const mb = 1 << 20
	var rows [][]string
	for _, s := range r.stalled {
		rows = append(rows, []string{s.row, number(s.longest), number(s.calls), fmt.Sprintf("%d of %d", s.healthy-s.stale, s.healthy),
			fmt.Sprintf("%d to %d", s.fewest, s.most), number(s.last), fmt.Sprintf("%+.1f", s.peak/mb), fmt.Sprintf("%+.1f", s.afterwards/mb)})
	}
	p.table("|slowest publish ms|all publishes ms|other streams told after the last change|notifications on each|ms from the last change to the last notification|memory MB, at the most|memory MB, afterwards", rows)
}

func (p *page) faults(r *results) {
	if len(r.faults) == 0 {
		return
	}
	p.paragraph("## What went wrong")
	for _, f := range r.faults {
		p.line("- %s, %s: %s", f.Scenario, f.Row, strings.ReplaceAll(f.Text, "\n", "; "))
	}
	p.line("")
}

func (p *page) method(r *results) {
	p.paragraph("## How it is measured")
	p.line("- Each row is a server process with a load generator process of its own, over loopback on the same CPUs. All rows of a table are alive at" +
		" the same time and take turns, round by round; a time is the median over the rounds, with the least and the greatest in brackets. A ratio of" +
		" times is the median of the ratios of each round.")
	if len(r.sizes) > 0 && len(r.sizes[0].rows) > 0 {
		p.line("- %d changes to all; all streams opened %d times (twice at most above %d streams). The load generator takes %.0f MB for one row with %d streams.",
			r.settings.rounds, r.settings.opens, gateSize, r.sizes[len(r.sizes)-1].rows[0].loadRSS/(1<<20), r.sizes[len(r.sizes)-1].streams)
	}
	p.line("- KB is 1,024 bytes. Memory is the server's own, of the first streams of a fresh process after a collection, less what the process took"+
		" without a stream; the kernel's sockets come on top. Idle since it was opened, for %v; and idle after all changes.", r.settings.idle)
	p.line("- Times count from just before the publish call in the server until the client's read has returned. The caller's time is that of the call; in the"+
		" row %s it has the writing in it. With go-sdk the 10 ms are part of it for which it waits for more changes.", server.BareWrite)
	p.line("- CPU is the server process's, user and system, from before a publish until the last client has it, by the number of deliveries; allocations" +
		" likewise, with the few hundred that taking the figures costs.")
	p.line("- `bare-write` is a descriptor per stream on an epoll set and one write(2) per delivery; `bare-nethttp` a handler that waits on a channel. Neither" +
		" has limits, deadlines, keep-alives, checks or filters. The others have the settings that their documentation comes to by default, but for the limit" +
		" of streams; `mcplisten-otel` has the OpenTelemetry SDK with batching, and an exporter that drops all. A change is a tool registered anew with go-sdk" +
		" and mcp-go, and `hub.Publish` with mcplisten.")
}
