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

// Why there is nothing more to examine.
var (
	errUnreachable = errors.New("no answer from the server")
	errStopped     = errors.New("the server stopped answering")
	errRefused     = errors.New("the server refuses to open a stream")
)

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
	fate   state // what watch has seen so far
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

// patience is how long to wait before asking again a server that is at its limit:
// a stream that was closed here may still count there.
var patience = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond}

// send sends a request. The caller closes what comes back. Where nothing does, it
// sees whether the server is there at all.
func (c *checker) send(ctx context.Context, q request) (*raw, error) {
	if c.gone != nil {
		return nil, c.gone
	}
	r, err := c.try(ctx, q)
	waits := patience
	if c.limited {
		waits = waits[:1]
	}
	for _, wait := range waits {
		if err != nil || !r.limited() || ctx.Err() != nil {
			break
		}
		r.close()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		r, err = c.try(ctx, q)
	}
	if err != nil {
		c.look(ctx)
		return nil, err
	}
	c.limited = r.limited()
	return r, nil
}

// look sees whether the server still answers, after something that may come from
// its end. If not, nothing that follows would be true of its listen: nothing more
// is sent, and nothing more reported.
func (c *checker) look(ctx context.Context) {
	if c.gone != nil || ctx.Err() != nil {
		return
	}
	r, err := c.try(ctx, request{body: listenBody(`"check-there"`, "{}")})
	if err == nil {
		r.close()
		c.seen = true
		return
	}
	if ctx.Err() == nil {
		c.gone = err
		if c.seen {
			c.gone = fmt.Errorf("%w: %w", errStopped, err)
		}
	}
}

func (c *checker) try(ctx context.Context, q request) (*raw, error) {
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
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", core.ProtocolVersion)
	req.Header.Set("Mcp-Method", core.MethodListen)
	_ = c.access.each(func(name, value string) { // was checked
		if http.CanonicalHeaderKey(name) == "Host" {
			req.Host = value
			return
		}
		req.Header.Add(name, value)
	})
	if q.host != "" {
		req.Host = q.host
	}
	for name, value := range q.header {
		if value == "" {
			req.Header.Del(name)
		} else {
			req.Header.Set(name, value)
		}
	}
	start := time.Now()
	timer := time.AfterFunc(c.timeout, cancel)
	resp, err := c.http.Do(req)
	if err != nil {
		late := !timer.Stop()
		cancel()
		if late {
			return nil, fmt.Errorf("%w within %v", errUnreachable, c.timeout)
		}
		return nil, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	c.seen = true
	r := &raw{status: resp.StatusCode, header: resp.Header, took: time.Since(start), cancel: cancel}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && mediaType == "text/event-stream" {
		timer.Stop()
		r.stream = true
		r.events = make(chan sse.Event)
		go r.read(ctx, resp.Body)
		return r, nil
	}
	r.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxBody)) // until the timer ends
	timer.Stop()
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

// limited reports whether the server says that it has no room: this says nothing
// about what was sent.
func (r *raw) limited() bool {
	return r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
}

// refuses reports whether the server says no, and not just something else.
func (r *raw) refuses() bool {
	m := parseRPC(r.body)
	return r.status >= 400 || m.err != nil
}

// compressed returns the encoding of the answer, or nothing if there is none.
func (r *raw) compressed() string {
	encoding := strings.ToLower(strings.Join(r.header.Values("Content-Encoding"), ","))
	if encoding == "identity" {
		return ""
	}
	return encoding
}

// full reports a check as skipped if the server is at its limit.
func (c *checker) full(check string, r *raw) bool {
	if !r.limited() {
		return false
	}
	c.say(skip, check, "", "the server is at its limit: %s", r.describe())
	return true
}

// outcome says whether something came, or why not.
type outcome string

const (
	came  outcome = "came"
	ended outcome = "ended"
	late  outcome = "late"
)

// told says for people what an outcome without a message is.
func (o outcome) told() string {
	if o == late {
		return "sends nothing"
	}
	return string(o)
}

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

// goodbye reports whether a message ends the stream as it should be. The pages of
// the protocol disagree on which it is.
func (m *rpc) goodbye() bool { return m.result != nil || m.method == core.MethodCancelled }

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
