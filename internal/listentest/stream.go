// The listening side: reads a stream event by event and holds each message
// against the rules of the protocol.

package listentest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/core"
	mcptasks "github.com/mcplisten/mcplisten/extensions/tasks"
)

// Filter is the protocol's SubscriptionFilter.
type Filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	Tasks     []string `json:"taskIds,omitempty"` // of the tasks extension
}

func (f Filter) has(method string) bool {
	switch method {
	case core.MethodToolsListChanged:
		return f.Tools
	case core.MethodPromptsListChanged:
		return f.Prompts
	case core.MethodResourcesListChanged:
		return f.Resources
	default:
		return false
	}
}

// within reports whether everything in f is in other.
func (f Filter) within(other Filter) bool {
	for _, uri := range f.URIs {
		if !slices.Contains(other.URIs, uri) {
			return false
		}
	}
	for _, id := range f.Tasks {
		if !slices.Contains(other.Tasks, id) {
			return false
		}
	}
	return (!f.Tools || other.Tools) && (!f.Prompts || other.Prompts) && (!f.Resources || other.Resources)
}

// Event is one thing on a stream: a comment, the result, or a notification.
type Event struct {
	Comment string // with its colon
	Result  bool
	Method  string
	URI     string // of an updated resource
	Task    string // id and status
}

func (e Event) String() string {
	switch {
	case e.Comment != "":
		return "comment " + e.Comment
	case e.Result:
		return "result"
	case e.URI != "":
		return e.Method + " " + e.URI
	case e.Task != "":
		return e.Method + " " + e.Task
	default:
		return e.Method
	}
}

// checker reads server-sent events of one subscription. It fails at the first
// byte that should not be there.
type checker struct {
	r       *bufio.Reader
	id      string // raw, of the request
	asked   Filter
	honored Filter
	acked   bool
	ended   bool
}

// next returns the next event, or io.EOF where the stream ended after its
// result.
func (c *checker) next() (Event, error) {
	line, err := c.line()
	if errors.Is(err, io.EOF) && line == "" && c.ended {
		return Event{}, io.EOF
	}
	if err != nil {
		return Event{}, fmt.Errorf("the stream broke off after %q: %w", line, unexpected(err))
	}
	if blank, err := c.line(); err != nil || blank != "" {
		return Event{}, fmt.Errorf("%q is followed by %q and not by a blank line: %w", line, blank, unexpected(err))
	}
	if c.ended {
		return Event{}, fmt.Errorf("%q came after the result", line)
	}
	if strings.HasPrefix(line, ":") {
		if !c.acked {
			return Event{}, fmt.Errorf("%q came before the acknowledgment", line)
		}
		return Event{Comment: line}, nil
	}
	data, ok := strings.CutPrefix(line, "data: ")
	if !ok {
		return Event{}, fmt.Errorf("%q is neither a data line nor a comment", line)
	}
	e, err := c.message([]byte(data))
	if err != nil {
		return e, fmt.Errorf("%w: %s", err, data)
	}
	return e, nil
}

// line returns a line without its end, which is one line feed.
func (c *checker) line() (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return line, err
	}
	line = line[:len(line)-1]
	if strings.ContainsRune(line, '\r') {
		return line, errors.New("a carriage return")
	}
	return line, nil
}

// unexpected makes an error of an end that should not be there.
func unexpected(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type meta struct {
	SubscriptionID json.RawMessage      `json:"io.modelcontextprotocol/subscriptionId"`
	ServerInfo     *core.Implementation `json:"io.modelcontextprotocol/serverInfo"`
}

// message checks one JSON-RPC message.
func (c *checker) message(data []byte) (Event, error) {
	var envelope struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
		Result  json.RawMessage `json:"result"`
	}
	if err := decodeStrict(data, &envelope); err != nil {
		return Event{}, err
	}
	if envelope.Version != "2.0" {
		return Event{}, errors.New("no JSON-RPC 2.0")
	}
	if envelope.Method == "" {
		return Event{Result: true}, c.result(envelope.ID, envelope.Result)
	}
	e := Event{Method: envelope.Method}
	if e.Method == mcptasks.Family.Method {
		return c.task(e, envelope.Params)
	}
	var params struct {
		Meta          meta            `json:"_meta"`
		Notifications json.RawMessage `json:"notifications"`
		URI           string          `json:"uri"`
	}
	if err := decodeStrict(envelope.Params, &params); err != nil {
		return e, err
	}
	e.URI = params.URI
	isAck := e.Method == core.MethodAcknowledged
	switch {
	case envelope.ID != nil || envelope.Result != nil:
		return e, errors.New("a notification with an id or a result")
	case string(params.Meta.SubscriptionID) != c.id:
		return e, fmt.Errorf("the subscription id is %s, not %s", params.Meta.SubscriptionID, c.id)
	case isAck == c.acked:
		return e, errors.New("the acknowledgment is to come first, and once")
	case isAck != (params.Notifications != nil):
		return e, errors.New("the member notifications belongs into the acknowledgment only")
	case isAck:
		c.acked = true
		if err := decodeStrict(params.Notifications, &c.honored); err != nil {
			return e, err
		}
		if !c.honored.within(c.asked) {
			return e, errors.New("more is honored than was asked for")
		}
	case e.Method == core.MethodResourceUpdated:
		if !slices.Contains(c.honored.URIs, e.URI) {
			return e, errors.New("the resource was not asked for")
		}
	case e.URI != "":
		return e, errors.New("a list change with a URI")
	case !c.honored.has(e.Method):
		return e, errors.New("the notification was not asked for")
	}
	return e, nil
}

// task checks a notification of the tasks extension.
func (c *checker) task(e Event, raw json.RawMessage) (Event, error) {
	var params struct {
		Meta meta `json:"_meta"`
	}
	var task mcptasks.Task
	if err := errors.Join(json.Unmarshal(raw, &params), json.Unmarshal(raw, &task)); err != nil {
		return e, err
	}
	e.Task = task.ID + " " + string(task.Status)
	switch {
	case string(params.Meta.SubscriptionID) != c.id:
		return e, fmt.Errorf("the subscription id is %s, not %s", params.Meta.SubscriptionID, c.id)
	case !c.acked:
		return e, errors.New("the acknowledgment is to come first")
	case !slices.Contains(c.honored.Tasks, task.ID):
		return e, errors.New("the task was not asked for")
	}
	return e, nil
}

func (c *checker) result(id, raw json.RawMessage) error {
	var result struct {
		Type string `json:"resultType"`
		Meta meta   `json:"_meta"`
	}
	if err := decodeStrict(raw, &result); err != nil {
		return err
	}
	switch {
	case !c.acked:
		return errors.New("the result came before the acknowledgment")
	case result.Type != "complete":
		return errors.New("the result is not complete")
	case string(id) != c.id || string(result.Meta.SubscriptionID) != c.id:
		return fmt.Errorf("the ids are %s and %s, not %s", id, result.Meta.SubscriptionID, c.id)
	}
	c.ended = true
	return nil
}

// Stream is an open subscription, read by one goroutine.
type Stream struct {
	*checker
	Response *http.Response
	cancel   context.CancelFunc
}

// Open sends a listen request and returns its stream before anything of it was
// read. The caller closes it.
func (c *Client) Open(call Call) (*Stream, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	resp, err := c.Send(ctx, call) //nolint:bodyclose // Stream.Close does
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Stream{Response: resp, cancel: cancel}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		s.Close()
		return nil, fmt.Errorf("no stream: %s, %s: %s", resp.Status, resp.Header.Get("Content-Type"), body)
	}
	var asked struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			Notifications Filter `json:"notifications"`
		} `json:"params"`
	}
	if err := json.NewDecoder(strings.NewReader(call.Body)).Decode(&asked); err != nil {
		s.Close()
		return nil, fmt.Errorf("the request of the stream: %w", err)
	}
	s.checker = &checker{r: bufio.NewReader(resp.Body), id: string(bytes.TrimSpace(asked.ID)), asked: asked.Params.Notifications}
	return s, nil
}

// Listen opens a stream and reads its acknowledgment.
func (c *Client) Listen(call Call) (*Stream, error) {
	s, err := c.Open(call)
	if err != nil {
		return nil, err
	}
	if err := s.Expect(core.MethodAcknowledged); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Next returns the next event, or io.EOF at the clean end after the result.
func (s *Stream) Next() (Event, error) { return s.next() }

// Message returns the next event that is no comment.
func (s *Stream) Message() (Event, error) {
	for {
		if e, err := s.next(); err != nil || e.Comment == "" {
			return e, err
		}
	}
}

// Expect fails unless the next message is what the text says: an Event's String.
func (s *Stream) Expect(text string) error {
	e, err := s.Message()
	switch {
	case err != nil:
		return fmt.Errorf("got no message, want %s: %w", text, err)
	case e.String() != text:
		return fmt.Errorf("got %s, want %s", e, text)
	}
	return nil
}

// ExpectEnd fails unless the result comes next, and then a clean end.
func (s *Stream) ExpectEnd() error {
	if err := s.Expect("result"); err != nil {
		return err
	}
	if e, err := s.next(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("got %v and error %w, want the end of the stream", e, err)
	}
	return nil
}

// Close leaves the stream: over HTTP/1.1 the connection, over HTTP/2 the
// stream on it.
func (s *Stream) Close() {
	s.cancel()
	_ = s.Response.Body.Close()
}

// listen opens a stream for a test, which closes it at its end.
func (c *Client) listen(tb testing.TB, call Call) *Stream {
	tb.Helper()
	s, err := c.Listen(call)
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	tb.Cleanup(s.Close)
	return s
}

// expect reads messages and fails the test unless they are those.
func (s *Stream) expect(tb testing.TB, messages ...string) {
	tb.Helper()
	for _, text := range messages {
		if err := s.Expect(text); err != nil {
			tb.Fatal(err)
		}
	}
}

func (s *Stream) expectEnd(tb testing.TB) {
	tb.Helper()
	if err := s.ExpectEnd(); err != nil {
		tb.Fatal(err)
	}
}

// keptAlive reads n keep-alives: a clock that the stream itself drives.
func (s *Stream) keptAlive(tb testing.TB, n int) {
	tb.Helper()
	for range n {
		switch e, err := s.next(); {
		case err != nil:
			tb.Fatalf("got no keep-alive: %v", err)
		case e.Comment == "":
			tb.Fatalf("got %v, want a keep-alive", e)
		}
	}
}
