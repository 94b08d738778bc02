// Requests and answers that are no stream.

package listentest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/core"
)

// The headers of MCP over HTTP, as Go spells them.
const (
	headerMethod  = "Mcp-Method"
	headerVersion = "Mcp-Protocol-Version"
)

// metaMember is a valid _meta member.
const metaMember = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// Call is one request in the making. It is a value: changing a copy leaves the
// original alone.
type Call struct {
	Method  string
	Host    string // empty: the server's address
	Header  http.Header
	Body    string
	Stream  io.Reader // a body in place of Body
	Chunked bool      // send Body without a Content-Length
}

// Post returns a POST as MCP clients send it: with the method of the body named
// in the header, or none there if mcpMethod is empty.
func Post(mcpMethod, body string) Call {
	c := Call{Method: http.MethodPost, Body: body, Header: http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/event-stream"},
		headerVersion:  {core.ProtocolVersion},
	}}
	if mcpMethod != "" {
		c.Header[headerMethod] = []string{mcpMethod}
	}
	return c
}

// Listen returns a valid listen request. id and filter are JSON.
func Listen(id, filter string) Call { return Post(core.MethodListen, ListenBody(id, filter)) }

// ListenBody returns the body of a valid listen request. id and filter are JSON.
func ListenBody(id, filter string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{` + metaMember +
		`,"notifications":` + filter + `}}`
}

// With returns the call with a header set to the values, or taken away if there
// are none.
func (c Call) With(name string, values ...string) Call {
	c.Header = maps.Clone(c.Header)
	delete(c.Header, http.CanonicalHeaderKey(name))
	if len(values) > 0 {
		c.Header[http.CanonicalHeaderKey(name)] = values
	}
	return c
}

// By returns the call with another HTTP method.
func (c Call) By(method string) Call {
	c.Method = method
	return c
}

// Saying returns the call with another body.
func (c Call) Saying(body string) Call {
	c.Body = body
	return c
}

// At returns the call with another Host header.
func (c Call) At(host string) Call {
	c.Host = host
	return c
}

func (c Call) request(ctx context.Context, url string) (*http.Request, error) {
	body := c.Stream
	switch {
	case body != nil:
	case c.Chunked:
		body = struct{ io.Reader }{strings.NewReader(c.Body)} // net/http knows the length of a strings.Reader
	default:
		body = strings.NewReader(c.Body)
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, url, body)
	if err != nil {
		return nil, err
	}
	req.Header = c.Header.Clone()
	if c.Host != "" {
		req.Host = c.Host
	}
	return req, nil
}

// Answer is a response that has ended.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Client sends requests to one server over connections of its own.
type Client struct {
	http      *http.Client
	transport *http.Transport
	url       string
	ctx       context.Context // ends with the test, or when it hangs
	dialed    chan net.Conn   // its connections, as it opened them
	reading   gate            // closed: it reads nothing more from any of them
}

// Send sends a request and returns the response as soon as its header has come.
func (c *Client) Send(ctx context.Context, call Call) (*http.Response, error) {
	req, err := call.request(ctx, c.url)
	if err != nil {
		return nil, err
	}
	return c.http.Do(req)
}

// Do sends a request and reads the response to its end. A stream fails the test.
func (c *Client) Do(tb testing.TB, call Call) Answer {
	tb.Helper()
	resp, err := c.Send(c.ctx, call)
	if err != nil {
		tb.Fatalf("no answer: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		tb.Fatal("the answer is a stream")
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatalf("the answer broke off after %q: %v", body, err)
	}
	return Answer{resp.StatusCode, resp.Header, body}
}

// wantRefusal is what is checked of an error answer.
type wantRefusal struct {
	status int
	code   int
	id     string // raw; empty: the answer has no id member
	says   string // a part of the message
	data   string // JSON; empty: the answer has no data member
}

// refused checks that the answer is the JSON-RPC error that was wanted and
// nothing else, and that nothing of it contains the secret.
func (a Answer) refused(tb testing.TB, want wantRefusal, secret string) {
	tb.Helper()
	if a.Status != want.status {
		tb.Errorf("status: got %d, want %d; body %s", a.Status, want.status, a.Body)
	}
	if got := a.Header.Values("Content-Type"); len(got) != 1 || got[0] != "application/json" {
		tb.Errorf("Content-Type: got %q, want application/json once", got)
	}
	if got, want := a.Header.Get("Content-Length"), strconv.Itoa(len(a.Body)); got != want {
		tb.Errorf("Content-Length: got %q, want %s", got, want)
	}
	a.silent(tb, secret)
	var envelope struct {
		Version json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if err := decodeStrict(a.Body, &envelope); err != nil || envelope.Error == nil || string(envelope.Version) != `"2.0"` {
		tb.Fatalf("the body is no JSON-RPC error: %v: %s", err, a.Body)
	}
	if envelope.Error.Code != want.code {
		tb.Errorf("code: got %d, want %d; body %s", envelope.Error.Code, want.code, a.Body)
	}
	if string(envelope.ID) != want.id {
		tb.Errorf("id: got %q, want %q; body %s", envelope.ID, want.id, a.Body)
	}
	if message := envelope.Error.Message; message == "" || len(message) > 200 || !strings.Contains(message, want.says) {
		tb.Errorf("message: got %q, want a short one with %q", message, want.says)
	}
	if got := string(envelope.Error.Data); got != want.data {
		tb.Errorf("data: got %q, want %q", got, want.data)
	}
}

// silent checks that nothing of the answer contains the secret, and that no
// header of sessions or of resumption is there.
func (a Answer) silent(tb testing.TB, secret string) {
	tb.Helper()
	if secret != "" {
		if bytes.Contains(a.Body, []byte(secret)) {
			tb.Errorf("the body echoes what was sent: %s", a.Body)
		}
		for name, values := range a.Header {
			if strings.Contains(name+strings.Join(values, ","), secret) {
				tb.Errorf("the header %s echoes what was sent: %q", name, values)
			}
		}
	}
	for _, name := range []string{"Mcp-Session-Id", "Last-Event-Id"} {
		if got := a.Header.Values(name); got != nil {
			tb.Errorf("%s: got %q, want none", name, got)
		}
	}
}

// is checks status and body of an answer.
func (a Answer) is(tb testing.TB, status int, body string) {
	tb.Helper()
	if a.Status != status || string(a.Body) != body {
		tb.Errorf("got %d %q, want %d %q", a.Status, a.Body, status, body)
	}
}

// decodeStrict decodes one JSON value that has no members but v's.
func decodeStrict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}
