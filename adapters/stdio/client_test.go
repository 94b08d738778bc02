// The tests' client: it writes lines, and records and checks every line that the
// server writes.

package mcpstdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	mcpstdio "github.com/mcplisten/mcplisten/adapters/stdio"
	"github.com/mcplisten/mcplisten/core"
)

// patience bounds waiting for something to happen. It is never waited for in full
// unless a test fails.
const patience = 20 * time.Second

// everything is what a hub of the tests delivers unless the test says otherwise.
var everything = core.Capabilities{
	ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true,
}

// newHub returns a hub that is checked to be empty when the test ends.
func newHub(tb testing.TB, config core.Config) *core.Hub {
	tb.Helper()
	if config.Capabilities == (core.Capabilities{}) {
		config.Capabilities = everything
	}
	hub, err := core.NewHub(config)
	if err != nil {
		tb.Fatalf("NewHub: %v", err)
	}
	tb.Cleanup(func() {
		if st := hub.Stats(); st.Open != 0 || st.Opening != 0 {
			tb.Errorf("at the end of the test %d subscriptions are open and %d are opening, want none", st.Open, st.Opening)
		}
	})
	return hub
}

func newServer(tb testing.TB, hub *core.Hub, options ...mcpstdio.Option) *mcpstdio.Server {
	tb.Helper()
	s, err := mcpstdio.New(hub, options...)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return s
}

// event is a line of the server's in short form: the id that it is about, as its
// bytes, and what it is: "ack FILTER", "tools", "prompts", "resources", "updated
// URI", "result" (of a subscription), "reply" (any other), "error CODE" or "other
// METHOD".
type event struct{ id, what string }

// client is the other end of a connection.
type client struct {
	tb  testing.TB
	out io.WriteCloser // to the server

	mu     sync.Mutex
	change *sync.Cond
	events []event
	lines  []string
	eof    bool
	gate   chan struct{} // where not nil, reading waits for it to be closed

	ended chan struct{}
	err   error // Serve's, once ended is closed
	stop  context.CancelFunc
}

// serve serves a client over pipes in memory, which block as the standard streams
// do and have no deadlines.
func serve(tb testing.TB, s *mcpstdio.Server) *client {
	tb.Helper()
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	return serveOn(tb, s, serverIn, serverOut, clientIn, clientOut)
}

// serveOn serves a client over the given ends. Both are closed when the test ends.
func serveOn(tb testing.TB, s *mcpstdio.Server, r io.Reader, w io.WriteCloser, in io.ReadCloser, out io.WriteCloser) *client {
	tb.Helper()
	return serveIn(tb, context.Background(), s, r, w, in, out)
}

func serveIn(tb testing.TB, ctx context.Context, s *mcpstdio.Server, r io.Reader, w io.WriteCloser, in io.ReadCloser, out io.WriteCloser) *client { //nolint:revive // as t.Context does, the test comes first
	tb.Helper()
	c := &client{tb: tb, out: out, ended: make(chan struct{})}
	c.change = sync.NewCond(&c.mu)
	ctx, c.stop = context.WithCancel(ctx)
	go func() {
		defer close(c.ended)
		c.err = s.Serve(ctx, r, w)
		_ = w.Close()
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(in)
	}()
	tb.Cleanup(func() {
		c.resume()
		_ = out.Close()
		<-c.ended
		_ = in.Close()
		<-read
		c.stop()
	})
	return c
}

func (c *client) read(in io.Reader) {
	r := bufio.NewReader(gated{c, in})
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			c.got(line)
		}
		if err != nil {
			c.mu.Lock()
			c.eof = true
			c.change.Broadcast()
			c.mu.Unlock()
			return
		}
	}
}

// gated lets a client stop reading.
type gated struct {
	c *client
	r io.Reader
}

func (g gated) Read(b []byte) (int, error) {
	g.c.mu.Lock()
	gate := g.c.gate
	g.c.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return g.r.Read(b)
}

// stall makes the client stop reading after the Read that is under way.
func (c *client) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate = make(chan struct{})
}

func (c *client) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate != nil {
		close(c.gate)
		c.gate = nil
	}
}

func (c *client) got(line string) {
	e := event{"", "batch"}
	if !strings.HasPrefix(line, "[") {
		e = brief(c.tb, line)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
	c.lines = append(c.lines, strings.TrimSuffix(line, "\n"))
	c.change.Broadcast()
}

// brief checks a line and returns its short form.
func brief(tb testing.TB, line string) event {
	tb.Helper()
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  struct {
			Meta          map[string]json.RawMessage `json:"_meta"`
			Notifications json.RawMessage            `json:"notifications"`
			URI           string                     `json:"uri"`
		} `json:"params"`
		Result *struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"result"`
		Error *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil || !strings.HasSuffix(line, "\n") || m.Version != "2.0" {
		tb.Errorf("not one whole JSON-RPC message: %q (%v)", line, err)
		return event{"", "broken"}
	}
	switch {
	case m.Error != nil:
		return event{string(m.ID), "error " + strconv.Itoa(m.Error.Code)}
	case m.Result != nil && m.Result.Meta[core.MetaSubscriptionID] != nil:
		if id := m.Result.Meta[core.MetaSubscriptionID]; string(id) != string(m.ID) {
			tb.Errorf("a result with id %s and subscription id %s", m.ID, id)
		}
		return event{string(m.ID), "result"}
	case m.Result != nil:
		return event{string(m.ID), "reply"}
	}
	id := string(m.Params.Meta[core.MetaSubscriptionID])
	switch m.Method {
	case core.MethodAcknowledged:
		return event{id, "ack " + string(m.Params.Notifications)}
	case core.MethodToolsListChanged:
		return event{id, "tools"}
	case core.MethodPromptsListChanged:
		return event{id, "prompts"}
	case core.MethodResourcesListChanged:
		return event{id, "resources"}
	case core.MethodResourceUpdated:
		return event{id, "updated " + m.Params.URI}
	default:
		return event{id, "other " + m.Method}
	}
}

// send writes a line.
func (c *client) send(line string) {
	c.tb.Helper()
	if _, err := io.WriteString(c.out, line+"\n"); err != nil {
		c.tb.Errorf("writing %.100q: %v", line, err)
	}
}

func (c *client) listen(id, filter string)          { c.send(listenText(id, filter)) }
func (c *client) cancel(id string)                  { c.send(cancelText(id)) }
func (c *client) request(id, method, params string) { c.send(requestText(id, method, params)) }

// ask sends a request for server/discover, and returns once it is answered, by
// whatever answer: everything sent before has been dispatched then.
func (c *client) ask(id string) event {
	c.tb.Helper()
	c.request(id, core.MethodDiscover, `{"_meta":`+validMeta+`}`)
	return c.awaitID(id)
}

// await waits until done says so of the events so far, or the output has ended.
func (c *client) await(what string, done func(events []event) bool) {
	c.tb.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		late = true
		c.change.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !done(c.events) {
		if late || c.eof {
			c.tb.Fatalf("%s did not come (end of output: %v); the last events are %q", what, c.eof, c.events[max(0, len(c.events)-20):])
		}
		c.change.Wait()
	}
}

// awaitEvent waits for an event.
func (c *client) awaitEvent(want event) {
	c.tb.Helper()
	c.await(fmt.Sprintf("%q", want), func(events []event) bool { return slices.Contains(events, want) })
}

// awaitLine waits for a line.
func (c *client) awaitLine(want string) {
	c.tb.Helper()
	c.await(want, func([]event) bool { return slices.Contains(c.lines, want) })
}

// awaitID waits for any event about an id and returns the newest one.
func (c *client) awaitID(id string) (got event) {
	c.tb.Helper()
	c.await("a message about "+id, func(events []event) bool {
		for _, e := range slices.Backward(events) {
			if e.id == id {
				got = e
				return true
			}
		}
		return false
	})
	return got
}

// about returns what the events about an id are.
func (c *client) about(id string) (got []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.id == id {
			got = append(got, e.what)
		}
	}
	return got
}

// take returns the events so far and forgets them.
func (c *client) take() []event {
	c.mu.Lock()
	defer c.mu.Unlock()
	events := c.events
	c.events, c.lines = nil, nil
	return events
}

// line returns the newest line about an id.
func (c *client) line(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range slices.Backward(c.events) {
		if e.id == id {
			return c.lines[i]
		}
	}
	return ""
}

// close ends the client's side and returns what Serve does.
func (c *client) close() error {
	_ = c.out.Close()
	return c.wait()
}

// wait waits for Serve to return.
func (c *client) wait() error {
	c.tb.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.ended:
		return c.err
	case <-timer.C:
		c.tb.Fatal("Serve does not return")
		return nil
	}
}

// wantAbout compares the events about an id with those expected.
func (c *client) wantAbout(id string, want ...string) {
	c.tb.Helper()
	if got := c.about(id); !slices.Equal(got, want) {
		c.tb.Errorf("about %s came\n\t%q\nwant\n\t%q", id, got, want)
	}
}

const (
	validMeta = `{"` + core.MetaProtocolVersion + `":"` + core.ProtocolVersion + `","` + core.MetaClientCapabilities + `":{}}`
	tools     = `{"toolsListChanged":true}`
	ackTools  = "ack " + tools
)

func listenText(id, filter string) string {
	return requestText(id, core.MethodListen, `{"_meta":`+validMeta+`,"notifications":`+filter+`}`)
}

func requestText(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}

func cancelText(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

// uriFilter is the filter for the given URIs.
func uriFilter(uris ...string) string {
	list, err := json.Marshal(uris)
	if err != nil {
		panic(err)
	}
	return `{"resourceSubscriptions":` + string(list) + `}`
}

func publish(tb testing.TB, hub *core.Hub, changes ...core.Change) {
	tb.Helper()
	if err := hub.Publish(context.Background(), changes...); err != nil {
		tb.Errorf("Publish(%v): %v", changes, err)
	}
}

// ends collects how subscriptions end.
type ends struct {
	mu   sync.Mutex
	list []core.End
}

func (e *ends) add(end core.End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, end)
}

// want checks how many subscriptions have ended, and that all did so alike.
func (e *ends) want(tb testing.TB, n int, reason core.Reason, graceful bool) {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) != n {
		tb.Errorf("%d subscriptions have ended, want %d", len(e.list), n)
	}
	for _, end := range e.list {
		if end.Reason != reason || end.Graceful != graceful {
			tb.Errorf("subscription %s ended as %q, graceful %v (%v), want %q, %v",
				end.Stream.ID, end.Reason, end.Graceful, end.Err, reason, graceful)
		}
	}
}

// bubble runs f under fake time, in parallel with other tests.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// advance lets fake time pass and everything happen that is due by then.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func wantError(tb testing.TB, err error, targets ...error) {
	tb.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			tb.Errorf("the error is %v, want one that is %v", err, target)
		}
	}
}
