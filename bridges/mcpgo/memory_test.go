// Streams in memory, for tests in a bubble of fake time.

package mcpgobridge_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// memory is a stream whose client reads everything.
type memory struct {
	t    *testing.T
	done chan core.End

	mu   sync.Mutex
	told []string
}

func (m *memory) WriteMessage(msg []byte) error {
	var n struct {
		Method string
		Params struct{ URI string }
	}
	if err := json.Unmarshal(msg, &n); err != nil {
		m.t.Errorf("not JSON: %s", msg)
	}
	said := n.Method
	switch {
	case n.Params.URI != "":
		said += " " + n.Params.URI
	case said == "":
		said = "result"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, said)
	return nil
}
func (*memory) WriteKeepAlive() error { return nil }
func (*memory) Flush() error          { return nil }

// take returns what was told since the last time, in order of the alphabet.
func (m *memory) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := m.told
	m.told = nil
	slices.Sort(told)
	return told
}

func tryOpen(t *testing.T, hub *core.Hub, filter core.Filter) (*memory, error) {
	t.Helper()
	notifications := map[string]any{}
	for name, asked := range map[string]bool{
		"toolsListChanged": filter.ToolsListChanged, "promptsListChanged": filter.PromptsListChanged, "resourcesListChanged": filter.ResourcesListChanged,
	} {
		if asked {
			notifications[name] = true
		}
	}
	if len(filter.ResourceSubscriptions) > 0 {
		notifications["resourceSubscriptions"] = filter.ResourceSubscriptions
	}
	for member, keys := range filter.Keys {
		notifications[member] = keys
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": core.MethodListen, "params": map[string]any{
		"_meta":         map[string]any{core.MetaProtocolVersion: core.ProtocolVersion, core.MetaClientCapabilities: map[string]any{}},
		"notifications": notifications,
	}})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := core.ParseMessage(text, hub.Limits())
	if err != nil {
		t.Fatal(err)
	}
	meta, err := msg.Meta()
	if err != nil {
		t.Fatal(err)
	}
	request, err := hub.ParseListen(msg, meta)
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{t: t, done: make(chan core.End, 1)}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), password{}, "the listener's"))
	sub, err := hub.Open(ctx, core.Opening{Request: request, Connect: func() (core.Conn, error) { return m, nil }})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() { m.done <- sub.Serve() }()
	t.Cleanup(cancel)
	return m, nil
}

func open(t *testing.T, hub *core.Hub, filter core.Filter) *memory {
	t.Helper()
	m, err := tryOpen(t, hub, filter)
	if err != nil {
		t.Fatalf("a listen request was refused: %v", err)
	}
	synctest.Wait()
	if got := m.take(); len(got) == 0 || got[0] != "notifications/subscriptions/acknowledged" {
		t.Fatalf("the stream begins with %q", got)
	}
	return m
}

// want checks what was told since the last time.
func (m *memory) want(why string, want ...string) {
	m.t.Helper()
	synctest.Wait()
	slices.Sort(want)
	if got := m.take(); !slices.Equal(got, want) {
		m.t.Errorf("%s: told %q, want %q", why, got, want)
	}
}

// advance lets fake time pass.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// counter counts publishes, and holds them up where it is told to.
type counter struct {
	mu        sync.Mutex
	publishes int
	gate      chan struct{} // where not nil, publishes wait for it to be closed
}

func (*counter) Accepted(context.Context, core.Accepted) core.StreamObserver { return nil }
func (*counter) Refused(context.Context, core.Refused)                       {}

func (c *counter) Publishing(context.Context, []core.Change) (any, func()) {
	c.mu.Lock()
	c.publishes++
	gate := c.gate
	c.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return nil, nil
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.publishes
}

// hold holds up publishes until release is called.
func (c *counter) hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gate := make(chan struct{})
	c.gate = gate
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gate = nil
		close(gate)
	}
}
