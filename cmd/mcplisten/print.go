// Printing what arrives, for people or as JSON lines.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// printer prints one line for each thing. It is safe for concurrent use.
type printer struct {
	mu     sync.Mutex
	out    io.Writer
	asJSON bool
}

// line is one JSON line.
type line struct {
	Time    time.Time       `json:"time"`
	Event   string          `json:"event"` // started, relist, changed, retry, end
	Method  string          `json:"method,omitempty"`
	URI     string          `json:"uri,omitempty"`
	Honored *shownFilter    `json:"honored,omitempty"`
	LeftOut *shownFilter    `json:"leftOut,omitempty"`
	Cause   client.Cause    `json:"cause,omitempty"`
	Error   string          `json:"error,omitempty"`
	Status  int             `json:"status,omitempty"`
	Code    int             `json:"code,omitempty"`
	Rule    client.Rule     `json:"rule,omitempty"`
	Wait    float64         `json:"waitSeconds,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

type shownFilter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

func (p *printer) print(l line, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.Time = time.Now()
	if p.asJSON {
		encoded, _ := json.Marshal(l) // nothing in it can fail
		fmt.Fprintf(p.out, "%s\n", encoded)
		return
	}
	fmt.Fprintf(p.out, "%s  %s\n", l.Time.Format("15:04:05.000"), text)
}

func (p *printer) acknowledged(kind client.Kind, s source) {
	honored, left := s.Honored(), s.LeftOut()
	l := line{Event: kind.String(), Honored: shown(honored), LeftOut: shown(left)}
	text := "listening to " + describe(honored)
	if kind == client.Relist {
		text = "listening again to " + describe(honored) + "; changes may have been missed: list everything again"
	}
	if !left.Empty() {
		text += "; the server left out " + describe(left)
	}
	p.print(l, text)
}

func (p *printer) notification(n client.Notification) {
	what := map[client.Kind]string{
		client.Tools: "the list of tools changed", client.Prompts: "the list of prompts changed",
		client.Resources: "the list of resources changed", client.Updated: "changed: " + safe(n.URI),
	}[n.Kind]
	p.print(line{Event: "changed", Method: n.Kind.String(), URI: n.URI}, what)
}

func (p *printer) retry(r client.Retry) {
	l := ending(r.End)
	l.Event, l.Wait, l.Attempt = "retry", r.Wait.Seconds(), r.Attempt
	p.print(l, fmt.Sprintf("%s; again in %v", explain(r.End), r.Wait.Round(time.Millisecond)))
}

func (p *printer) end(e client.End) {
	l := ending(e)
	l.Event = "end"
	p.print(l, explain(e))
}

func ending(e client.End) line {
	l := line{Cause: e.Cause}
	if e.Err != nil {
		l.Error = e.Err.Error()
	}
	var refused *client.RefusedError
	if errors.As(e.Err, &refused) {
		l.Status, l.Code, l.Data = refused.Status, refused.Code, refused.Data
	}
	var violation *client.ViolationError
	if errors.As(e.Err, &violation) {
		l.Rule = violation.Rule
	}
	return l
}

// explain says for people why a stream ended.
func explain(e client.End) string {
	switch {
	case e.Cause == client.Graceful && e.Err == nil:
		return "the server ended the stream (graceful)"
	case e.Cause == client.Graceful:
		return "the server honors nothing of what was asked for"
	case e.Cause == client.Local:
		return "stopped"
	default:
		return safe(strings.TrimPrefix(e.Err.Error(), "client: "))
	}
}

func shown(f core.Filter) *shownFilter {
	if f.Empty() {
		return nil
	}
	return &shownFilter{f.ToolsListChanged, f.PromptsListChanged, f.ResourcesListChanged, f.ResourceSubscriptions}
}

// describe names what a filter lets through.
func describe(f core.Filter) string {
	var parts []string
	for _, part := range []struct {
		on   bool
		name string
	}{{f.ToolsListChanged, "tools"}, {f.PromptsListChanged, "prompts"}, {f.ResourcesListChanged, "resources"}} {
		if part.on {
			parts = append(parts, part.name)
		}
	}
	switch n := len(f.ResourceSubscriptions); {
	case n == 1:
		parts = append(parts, safe(f.ResourceSubscriptions[0]))
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d resources by URI", n))
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// safe quotes what a server sent if a terminal could take it for a command.
func safe(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	return strconv.Quote(s)
}
