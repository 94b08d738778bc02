// Watching: the server's handlers are called for the first subscriber of a resource
// and after the last one.

package gosdkbridge_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	gosdkbridge "github.com/mcplisten/mcplisten/bridges/gosdk"
	"github.com/mcplisten/mcplisten/core"
)

// cancellable is a stream that its client can end.
type cancellable struct {
	*record
	cancel context.CancelFunc
}

func openStream(t *testing.T, hub *core.Hub, filter string) cancellable {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := inMemoryUntil(ctx, t, hub, filter)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return cancellable{r, cancel}
}

func (c cancellable) end() { c.cancel(); synctest.Wait() }

func TestWatch(t *testing.T) {
	t.Parallel()
	h := &handlers{}
	bubble(t, h, core.Config{}, func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge) {
		is := func(want string) {
			t.Helper()
			if got := h.log(); got != want {
				t.Errorf("the handlers were called %s, want %s", got, want)
			}
		}
		hub := bridge.Hub()
		a := openStream(t, hub, `{"resourceSubscriptions":["test://a","test://b"]}`)
		is("[+test://a +test://b]")
		b := openStream(t, hub, `{"resourceSubscriptions":["test://a"]}`)
		openStream(t, hub, `{"toolsListChanged":true}`)
		is("[+test://a +test://b]")
		update(t, server, "test://a")
		update(t, server, "test://b")
		a.is(t, updated+"test://a", updated+"test://b")
		b.is(t, updated+"test://a")
		a.end()
		is("[+test://a +test://b -test://b]")
		update(t, server, "test://a")
		b.is(t, updated+"test://a", updated+"test://a")
		b.end()
		is("[+test://a +test://b -test://b -test://a]")
		openStream(t, hub, `{"resourceSubscriptions":["test://a"]}`)
		is("[+test://a +test://b -test://b -test://a +test://a]")
	})
	if got, want := h.log(), "[+test://a +test://b -test://b -test://a +test://a -test://a]"; got != want {
		t.Errorf("after the end the handlers were called %s, want %s", got, want)
	}
}

// A resource that the server's handler refuses, or panics at, refuses the whole
// request, in words that do not tell why; and nothing stays subscribed.
func TestWatchRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		fail func() error
	}{
		{"an error", func() error { return errors.New("secret") }},
		{"a panic", func() error { panic("secret") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := &handlers{fail: func(uri string) error {
				if uri == "test://b" {
					return tc.fail()
				}
				return nil
			}}
			bubble(t, h, core.Config{}, func(t *testing.T, server *mcp.Server, bridge *gosdkbridge.Bridge) {
				_, err := inMemory(t, bridge.Hub(), `{"resourceSubscriptions":["test://a","test://b"]}`)
				var refused *core.Error
				if !errors.As(err, &refused) || strings.Contains(refused.Message, "secret") {
					t.Errorf("Open: %v, want an error that does not tell", err)
				}
				if got := h.log(); got != "[+test://a -test://a]" {
					t.Errorf("the handlers were called %s", got)
				}
				r := mustListen(t, bridge.Hub(), `{"resourceSubscriptions":["test://a"]}`)
				update(t, server, "test://a")
				r.is(t, updated+"test://a")
			})
		})
	}
}

// A server without handlers for subscriptions has none. Where the application
// publishes updates itself, its clients can listen all the same.
func TestWatchWithoutHandlers(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
			addResource(server, uri)
			bridge, err := gosdkbridge.Attach(server, core.Config{Capabilities: core.Capabilities{ResourceSubscriptions: own}})
			if err != nil {
				t.Fatal(err)
			}
			defer end(t, bridge)
			r := mustListen(t, bridge.Hub(), `{"resourceSubscriptions":["`+uri+`"]}`)
			if err := bridge.Hub().Publish(t.Context(), core.ResourceUpdated(uri)); err != nil {
				t.Error(err)
			}
			if own {
				r.is(t, updated+uri)
			} else {
				r.is(t, "result")
			}
		})
	}
}

// watches is a Watcher of the application.
type watches struct {
	mu   sync.Mutex
	log  []string
	fail error
}

func (w *watches) Start(_ context.Context, uri string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, "+"+uri)
	return w.fail
}

func (w *watches) Stop(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, "-"+uri)
}

// The application's own Watcher is called as well, and may refuse.
func TestOwnWatcher(t *testing.T) {
	t.Parallel()
	h, w := &handlers{}, &watches{}
	bubble(t, h, core.Config{Watcher: w}, func(t *testing.T, _ *mcp.Server, bridge *gosdkbridge.Bridge) {
		s := openStream(t, bridge.Hub(), `{"resourceSubscriptions":["test://a"]}`)
		s.end()
		w.fail = errors.New("of a test")
		if _, err := inMemory(t, bridge.Hub(), `{"resourceSubscriptions":["test://b"]}`); err == nil {
			t.Error("the stream was opened, want a refusal")
		}
	})
	if got := strings.Join(w.log, " "); got != "+test://a -test://a +test://b" {
		t.Errorf("the watcher was called %s", got)
	}
	if got := h.log(); got != "[+test://a -test://a +test://b -test://b]" {
		t.Errorf("the handlers were called %s", got)
	}
}
