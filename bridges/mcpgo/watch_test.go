// Watching: while a stream listens to a resource, the server knows of a subscriber.

package mcpgobridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	mcpgobridge "github.com/mcplisten/mcplisten/bridges/mcpgo"
	"github.com/mcplisten/mcplisten/core"
)

// TestI10_TheServerKnowsOfASubscriber, from the first stream to the last; and the
// application's own Watcher and Authorizer are asked as ever.
func TestI10_TheServerKnowsOfASubscriber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, accounts := newServer()
		own := &recorder{}
		b := attach(t, srv, core.Config{KeepAlive: -1, Watcher: own, Authorizer: core.AuthorizerFunc(
			func(_ context.Context, _ string, f core.Filter) (core.Grant, error) {
				own.note("authorize")
				if slices.Contains(f.ResourceSubscriptions, "notes://private") {
					return core.Grant{}, errors.New("no")
				}
				return core.Grant{Until: time.Now().Add(time.Hour)}, nil
			})})
		first := open(t, b.Hub(), core.Filter{ResourceSubscriptions: []string{notesA}})
		open(t, b.Hub(), core.Filter{ResourceSubscriptions: []string{notesA, notesB}})
		if got, want := accounts.of(notesA), []string{mcpgobridge.SessionID(b)}; !slices.Equal(got, want) {
			t.Errorf("subscribed on the server: %q, want %q", got, want)
		}
		if _, err := tryOpen(t, b.Hub(), core.Filter{ResourceSubscriptions: []string{"notes://private"}}); err == nil {
			t.Error("what the Authorizer refuses was allowed")
		}
		own.want(t, "authorize", "start "+notesA, "authorize", "start "+notesB, "authorize")
		advance(2 * time.Hour)
		if end := <-first.done; end.Reason != core.GrantExpired {
			t.Errorf("ended for %s, want grant_expired", end.Reason)
		}
		if a, b := accounts.of(notesA), accounts.of(notesB); len(a)+len(b) > 0 {
			t.Errorf("after the streams: subscribed are %q and %q", a, b)
		}
		own.sort()
		own.want(t, "stop "+notesA, "stop "+notesB)
	})
}

// TestI10_ASubscriptionThatTheServerRefuses is no stream, and what was begun is undone;
// so is one that the application's Watcher refuses.
func TestI10_ASubscriptionThatTheServerRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hooks := &server.Hooks{}
		hooks.AddOnRequestInitialization(func(_ context.Context, _ any, message any) error {
			if text, ok := message.(json.RawMessage); ok && bytes.Contains(text, []byte("notes://refused")) {
				return errors.New("a secret")
			}
			return nil
		})
		srv, accounts := newServer()
		srv.GetHooks().OnRequestInitialization = hooks.OnRequestInitialization
		own := &recorder{fail: "notes://unwatchable"}
		b := attach(t, srv, core.Config{KeepAlive: -1, Watcher: own})
		for _, uri := range []string{"notes://refused", "notes://unwatchable"} {
			_, err := tryOpen(t, b.Hub(), core.Filter{ResourceSubscriptions: []string{notesA, uri}})
			refused := (*core.Error)(nil)
			if !errors.As(err, &refused) || refused.Code != core.CodeInternalError || refused.Message != "a resource cannot be watched" {
				t.Errorf("%s: %+v, want the refusal that says nothing", uri, err)
			}
			synctest.Wait()
			if left := append(accounts.of(notesA), accounts.of(uri)...); len(left) > 0 {
				t.Errorf("%s: still subscribed are %q", uri, left)
			}
		}
		m := open(t, b.Hub(), core.Filter{ResourceSubscriptions: []string{notesA}})
		accounts.updated(notesA)
		m.want("another resource", resourceUpdated+notesA)
	})
}

// TestSessionsThatKnowTheirSubscriptions: the other way in which programs keep account
// is to ask each session.
func TestSessionsThatKnowTheirSubscriptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hooks := &server.Hooks{}
		var session server.ClientSession
		hooks.AddOnRegisterSession(func(_ context.Context, s server.ClientSession) { session = s })
		srv := server.NewMCPServer("s", "1", server.WithHooks(hooks), server.WithResourceCapabilities(true, true))
		b := attach(t, srv, core.Config{KeepAlive: -1})
		knows, ok := session.(server.SessionWithResourceSubscriptions)
		if !ok {
			t.Fatalf("the session is a %T", session)
		}
		tell := func(uri string) {
			if knows.IsSubscribedToResource(uri) {
				_ = srv.SendNotificationToSpecificClient(knows.SessionID(), mcp.MethodNotificationResourceUpdated, map[string]any{"uri": uri})
			}
		}
		m := open(t, b.Hub(), core.Filter{ResourceSubscriptions: []string{notesA}})
		tell(notesA)
		m.want("an update", resourceUpdated+notesA)
		if got := knows.SubscribedResources(); !slices.Equal(got, []string{notesA}) {
			t.Errorf("subscribed to %q", got)
		}
		b.Hub().EndWhere(func(core.StreamInfo) bool { return true })
		<-m.done
		synctest.Wait()
		if got := knows.SubscribedResources(); len(got) != 0 || knows.IsSubscribedToResource(notesA) {
			t.Errorf("after the stream, subscribed to %q", got)
		}
	})
}

// TestHooksFindTheListener: those of the server see the values of the listen request.
func TestHooksFindTheListener(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own := &recorder{}
		srv, _ := newServer()
		srv.GetHooks().AddAfterSubscribe(func(ctx context.Context, _ any, _ *mcp.SubscribeRequest, _ *mcp.EmptyResult) {
			own.note("subscribe", ctx.Value(password{}))
		})
		srv.GetHooks().AddAfterUnsubscribe(func(ctx context.Context, _ any, _ *mcp.UnsubscribeRequest, _ *mcp.EmptyResult) {
			own.note("unsubscribe", ctx.Value(password{}))
		})
		b := attach(t, srv, core.Config{KeepAlive: -1}, mcpgobridge.WithContext(context.WithValue(t.Context(), password{}, "the bridge's")))
		m := open(t, b.Hub(), core.Filter{ResourceSubscriptions: []string{notesA}})
		own.want(t, "subscribe the listener's")
		b.Hub().EndWhere(func(core.StreamInfo) bool { return true })
		<-m.done
		own.want(t, "unsubscribe the bridge's")
	})
}

// recorder records what a hub asks of its application.
type recorder struct {
	fail string // the URI that cannot be watched

	mu    sync.Mutex
	steps []string
}

func (r *recorder) note(step string, more ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range more {
		if s, ok := m.(string); ok {
			step += " " + s
		}
	}
	r.steps = append(r.steps, step)
}

func (r *recorder) Start(_ context.Context, uri string) error {
	if uri == r.fail {
		return errors.New("cannot")
	}
	r.note("start " + uri)
	return nil
}

func (r *recorder) Stop(uri string) { r.note("stop " + uri) }

// sort makes the order of what was done at once one that can be told.
func (r *recorder) sort() {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.steps)
}

func (r *recorder) want(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.steps, want) {
		t.Errorf("the application was asked %q, want %q", r.steps, want)
	}
	r.steps = nil
}
