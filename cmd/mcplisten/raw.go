// Raw streams: a request that is as right or as wrong as a check wants it, and
// what comes back, byte for byte.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/sse"
)

var errUnreachable = errors.New("no answer from the server")

// request is one request of a check. The zero value of a field is what is right.
type request struct {
	method string
	body   string
	header map[string]string // "" takes a header away
	host   string
}

// listenBody returns a listen request with the given raw id and filter. An empty
// id leaves it out.
func listenBody(id, filter string) string {
	member := ""
	if id != "" {
		member = `"id":` + id + `,`
	}
	return `{"jsonrpc":"2.0",` + member + `"method":"subscriptions/listen","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"` + core.ProtocolVersion + `",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"mcplisten check","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}},"notifications":` + filter + `}}`
}

// raw is an answer: a stream, or a body that was read.
type raw struct {
	status int
	header http.Header
	stream bool
	body   []byte // of what is no stream
	took   time.Duration

	events chan sse.Event // closed at the end of the stream
	cancel context.CancelFunc
}

func (r *raw) close() {
	r.cancel()
	for r.stream {
		if _, open := <-r.events; !open {
			return
		}
	}
}

const (
	maxBody  = 64 << 10
	maxEvent = 4 << 20
)

// send sends a request. The caller closes what comes back.
func (c *checker) send(ctx context.Context, q request) (*raw, error) {
	ctx, cancel := context.WithCancel(ctx)
	method := q.method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(q.body))
	if err != nil {
		cancel()
		return nil, err
	}
	req.Host = q.host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", core.ProtocolVersion)
	req.Header.Set("Mcp-Method", core.MethodListen)
	_ = c.access.each(req.Header.Set) // was checked
	for name, value := range q.header {
		if value == "" {
			req.Header.Del(name)
		} else {
			req.Header.Set(name, value)
		}
	}
	start := time.Now()
	patience := time.AfterFunc(c.timeout, cancel)
	resp, err := c.http.Do(req)
	if err != nil {
		late := !patience.Stop()
		cancel()
		if late {
			return nil, fmt.Errorf("%w within %v", errUnreachable, c.timeout)
		}
		return nil, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	r := &raw{status: resp.StatusCode, header: resp.Header, took: time.Since(start), cancel: cancel}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && mediaType == "text/event-stream" {
		patience.Stop()
		r.stream = true
		r.events = make(chan sse.Event)
		go r.read(ctx, resp.Body)
		return r, nil
	}
	r.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxBody)) // until the patience ends
	patience.Stop()
	_ = resp.Body.Close()
	return r, nil
}

func (r *raw) read(ctx context.Context, body io.ReadCloser) {
	defer close(r.events)
	defer body.Close()
	events := sse.NewReader(body, maxEvent)
	for {
		e, err := events.Next()
		if err != nil {
			return
		}
		e.Data = append([]byte(nil), e.Data...)
		select {
		case r.events <- e:
		case <-ctx.Done():
			return
		}
	}
}

// outcome says whether something came, or why not.
type outcome string

const (
	came  outcome = "came"
	ended outcome = "ended"
	late  outcome = "late"
)

// next waits for the next event of any kind.
func (r *raw) next(d time.Duration) (sse.Event, outcome) {
	if !r.stream {
		return sse.Event{}, ended
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case e, open := <-r.events:
		if !open {
			return e, ended
		}
		return e, came
	case <-timer.C:
		return sse.Event{}, late
	}
}

// message waits for the next event with data.
func (r *raw) message(d time.Duration) (rpc, outcome) {
	until := time.Now().Add(d)
	for {
		e, o := r.next(time.Until(until))
		if o != came {
			return rpc{}, o
		}
		if !e.Comment && len(e.Data) > 0 {
			return parseRPC(e.Data), came
		}
	}
}

// rpc is a message as far as checks look into it.
type rpc struct {
	text   string
	id     string // raw
	method string
	subID  string // raw: of the params or of the result
	filter map[string]json.RawMessage
	uri    string
	result map[string]json.RawMessage
	err    *rpcError
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func parseRPC(data []byte) rpc {
	m := rpc{text: string(data)}
	members := object(data)
	m.id = string(members["id"])
	_ = json.Unmarshal(members["method"], &m.method)
	params := object(members["params"])
	_ = json.Unmarshal(params["uri"], &m.uri)
	m.filter = object(params["notifications"])
	m.result = object(members["result"])
	meta := object(params["_meta"])
	if m.result != nil {
		meta = object(m.result["_meta"])
	}
	m.subID = string(meta[core.MetaSubscriptionID])
	if raw := members["error"]; raw != nil {
		m.err = &rpcError{}
		if json.Unmarshal(raw, m.err) != nil {
			m.err = nil
		}
	}
	return m
}

func object(raw []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(raw, &members) // nil for what is no object
	return members
}

func (m *rpc) isAck() bool { return m.method == core.MethodAcknowledged }

// honored returns the filter of an acknowledgment.
func (m *rpc) honored() core.Filter {
	on := func(name string) bool { return string(m.filter[name]) == "true" }
	f := core.Filter{
		ToolsListChanged: on("toolsListChanged"), PromptsListChanged: on("promptsListChanged"), ResourcesListChanged: on("resourcesListChanged"),
	}
	_ = json.Unmarshal(m.filter["resourceSubscriptions"], &f.ResourceSubscriptions)
	return f
}

// within reports whether f asks for nothing that other does not.
func within(f, other core.Filter) bool {
	for _, uri := range f.ResourceSubscriptions {
		found := false
		for _, o := range other.ResourceSubscriptions {
			found = found || o == uri
		}
		if !found {
			return false
		}
	}
	return (!f.ToolsListChanged || other.ToolsListChanged) && (!f.PromptsListChanged || other.PromptsListChanged) &&
		(!f.ResourcesListChanged || other.ResourcesListChanged)
}

// describe says in a few words what came back.
func (r *raw) describe() string {
	if r.stream {
		return "opened a stream"
	}
	text := fmt.Sprintf("%d", r.status)
	switch m := parseRPC(r.body); {
	case m.err != nil:
		text += fmt.Sprintf(", error %d", m.err.Code)
	case m.result != nil:
		text += ", a result"
	case len(r.body) == 0:
		text += ", no body"
	default:
		text += ", no JSON-RPC: " + short(string(r.body))
	}
	return text
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return s
}
