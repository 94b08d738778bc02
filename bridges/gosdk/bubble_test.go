// Streams in memory and in fake time, for what is about when something comes.

package gosdkbridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	gosdkbridge "github.com/mcplisten/mcplisten/bridges/gosdk"
	"github.com/mcplisten/mcplisten/core"
)

// record is a Conn that keeps what was written, and when.
type record struct {
	start time.Time

	mu   sync.Mutex
	said []said
}

type said struct {
	what string
	at   time.Duration
}

// WriteMessage keeps the message in short form.
func (r *record) WriteMessage(msg []byte) error {
	var m struct {
		Method string
		Params struct{ URI string }
		Result json.RawMessage
	}
	if err := json.Unmarshal(msg, &m); err != nil {
		return err
	}
	what := m.Method
	switch {
	case m.Result != nil:
		what = "result"
	case m.Params.URI != "":
		what += " " + m.Params.URI
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, said{what, time.Since(r.start)})
	return nil
}

func (r *record) WriteKeepAlive() error { return nil }
func (r *record) Flush() error          { return nil }

// all returns what was written, but the acknowledgment.
func (r *record) all() []said {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said[min(1, len(r.said)):])
}

// is fails unless exactly that was written, in any order.
func (r *record) is(t *testing.T, want ...string) {
	t.Helper()
	count := make(map[string]int)
	for _, s := range r.all() {
		count[s.what]++
	}
	for _, w := range want {
		count[w]--
	}
	for what, n := range count {
		switch {
		case n > 0:
			t.Errorf("%s: came %d times too often", what, n)
		case n < 0:
			t.Errorf("%s: %d times are missing", what, -n)
		}
	}
}

// inMemory opens a subscription, within a synctest bubble.
func inMemory(t *testing.T, hub *core.Hub, filter string) (*record, error) {
	t.Helper()
	return inMemoryUntil(context.Background(), t, hub, filter)
}

func inMemoryUntil(ctx context.Context, t *testing.T, hub *core.Hub, filter string) (*record, error) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":%s}}`, filter)
	msg, err := core.ParseMessage([]byte(body), hub.Limits())
	if err != nil {
		t.Fatal(err)
	}
	meta, err := msg.Meta()
	if err != nil {
		t.Fatal(err)
	}
	req, err := hub.ParseListen(msg, meta)
	if err != nil {
		t.Fatal(err)
	}
	r := &record{start: time.Now()}
	s, err := hub.Open(ctx, core.Opening{Request: req, Connect: func() (core.Conn, error) { return r, nil }})
	if err != nil {
		return nil, err
	}
	go s.Serve()
	return r, nil
}

func mustListen(t *testing.T, hub *core.Hub, filter string) *record {
	t.Helper()
	r, err := inMemory(t, hub, filter)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return r
}

// bubble runs a test in fake time with an attached server. All of it ends with the
// test.
func bubble(t *testing.T, h *handlers, config core.Config, test func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge), options ...gosdkbridge.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config.KeepAlive = -1
		server := newServer(h)
		bridge, err := gosdkbridge.Attach(server, config, options...)
		if err != nil {
			t.Fatalf("Attach: %v", err)
		}
		defer end(t, bridge)
		test(t, server, bridge)
	})
}

// end ends a bridge and its hub.
func end(t *testing.T, bridge *gosdkbridge.Bridge) {
	t.Helper()
	if err := bridge.Hub().Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := bridge.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// churn changes the tools every 5 ms, for d.
func churn(server *mcp.Server, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		addTool(server, "churning")
		<-time.After(5 * time.Millisecond)
	}
}

// While a list changes every 5 ms, the server by itself announces nothing: its
// debounce starts anew each time. Those who listen on the hub are told within the
// longest delay, again and again, and once more after the last change.
func TestSteadyChange(t *testing.T) {
	t.Parallel()
	const during = 3 * time.Second
	for _, tc := range []struct {
		name  string
		delay time.Duration
		least int
		most  int
	}{
		{"without looking, the SDK's debounce starves", time.Hour, 0, 0},
		{"by default", gosdkbridge.DefaultMaxDelay, 3, 9},
		{"sooner", 150 * time.Millisecond, 20, 60},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, &handlers{}, core.Config{}, func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge) {
				r := mustListen(t, bridge.Hub(), `{"toolsListChanged":true,"promptsListChanged":true}`)
				churn(server, during)
				got := r.all()
				if n := len(got); n < tc.least || n > tc.most {
					t.Errorf("%d notifications while the tools changed for %v, want %d to %d", n, during, tc.least, tc.most)
				}
				last := time.Duration(0)
				for _, s := range got {
					if s.what != tools {
						t.Errorf("got %q, want tools alone", s.what)
					}
					if s.at-last > tc.delay {
						t.Errorf("nothing from %v to %v, longer than %v", last, s.at, tc.delay)
					}
					last = s.at
				}
				if tc.least > 0 && during-last > tc.delay {
					t.Errorf("nothing from %v to %v, longer than %v", last, during, tc.delay)
				}

				over := time.Since(r.start)
				<-time.After(time.Minute)
				after := r.all()[len(got):]
				if len(after) != 1 || after[0].at < over || after[0].at > over+20*time.Millisecond {
					t.Errorf("after the last change at %v: %v, want one notification at once", over, after)
				}
			}, gosdkbridge.WithMaxDelay(tc.delay))
		})
	}
}

// A list that goes back and forth between two states, one of them empty, keeps
// changing like any other.
func TestBackAndForth(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		fresh, alone bool
	}{
		{name: "one tool object"},
		{name: "a new object each time", fresh: true},
		{name: "the only tool", fresh: true, alone: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, &handlers{}, core.Config{}, func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge) {
				r := mustListen(t, bridge.Hub(), `{"toolsListChanged":true}`)
				<-time.After(time.Second)
				if tc.alone {
					server.RemoveTools("first")
					<-time.After(time.Second)
				}
				before := len(r.all())
				tool := &mcp.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object"}`)}
				for range 500 { // 5 s
					if tc.fresh {
						another := *tool
						tool = &another
					}
					server.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						return &mcp.CallToolResult{}, nil
					})
					<-time.After(5 * time.Millisecond)
					server.RemoveTools("x")
					<-time.After(5 * time.Millisecond)
				}
				if n := len(r.all()) - before; n < 4 || n > 15 {
					t.Errorf("%d notifications of 5 s of changes, want 4 to 15", n)
				}
			})
		})
	}
}

// Looking at the lists tells nothing twice: not of a change that the server announces,
// wherever it falls between two looks, nor of one that was there before anybody
// listened.
func TestToldOnce(t *testing.T) {
	t.Parallel()
	bubble(t, &handlers{}, core.Config{}, func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge) {
		addTool(server, "before anybody listens")
		<-time.After(time.Minute)
		r := mustListen(t, bridge.Hub(), `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
		for i := range 100 { // at each millisecond of the time between two looks
			addTool(server, "second")
			addPrompt(server, "second")
			addResource(server, "test://second")
			<-time.After(time.Second + time.Millisecond)
			if got := r.all(); len(got) != 3*(i+1) {
				t.Fatalf("%d notifications of %d times three changes", len(got), i+1)
			}
		}
	}, gosdkbridge.WithMaxDelay(300*time.Millisecond))
}

// However many tools are added at once, it is one notification.
func TestManyToolsAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, &handlers{}, core.Config{}, func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge) {
		r := mustListen(t, bridge.Hub(), `{"toolsListChanged":true}`)
		addTools(server, 200)
		<-time.After(time.Minute)
		r.is(t, tools)
	})
}

// Two lists of which one keeps changing do not get in each other's way.
func TestSteadyBesideQuiet(t *testing.T) {
	t.Parallel()
	bubble(t, &handlers{}, core.Config{}, func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge) {
		quiet := mustListen(t, bridge.Hub(), `{"promptsListChanged":true,"resourcesListChanged":true}`)
		churn(server, time.Second)
		addPrompt(server, "second")
		churn(server, time.Second)
		quiet.is(t, prompts)
	})
}

// What the SDK's keep-alive asks of every session, the bridge answers.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := mcp.NewServer(&mcp.Implementation{Name: "test"}, &mcp.ServerOptions{KeepAlive: time.Second})
		addTool(server, "first")
		bridge, err := gosdkbridge.Attach(server, core.Config{KeepAlive: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer end(t, bridge)
		before := only(t, server)
		<-time.After(time.Minute)
		if after := only(t, server); after != before {
			t.Errorf("the bridge's session did not last")
		}
		if _, err := before.ListRoots(context.Background(), nil); err == nil { //nolint:staticcheck // deprecated, and servers still ask
			t.Errorf("the bridge's session listed roots")
		}
	})
}

// only returns the server's only session.
func only(t *testing.T, server *mcp.Server) *mcp.ServerSession {
	t.Helper()
	sessions := slices.Collect(server.Sessions())
	if len(sessions) != 1 {
		t.Fatalf("%d sessions, want one", len(sessions))
	}
	return sessions[0]
}
