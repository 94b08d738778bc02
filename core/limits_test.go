// Limits and policies: who is refused at a limit, what an authorizer decides,
// whom a change is for, and switching listening off.

package core_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// TestTheNewcomerIsRefusedAtALimit, and a healthy stream is never thrown out.
func TestTheNewcomerIsRefusedAtALimit(t *testing.T) {
	t.Parallel()
	tenant := func(principal string) string { key, _, _ := strings.Cut(principal, "/"); return key }
	tests := []struct {
		name    string
		config  core.Config
		open    []string // principals
		refused map[string]core.Refusal
		welcome []string
	}{
		{"in all", core.Config{MaxStreams: 3}, []string{"a", "b", ""}, map[string]core.Refusal{"a": core.RefusedLimit, "c": core.RefusedLimit, "": core.RefusedLimit}, nil},
		{
			"per principal", core.Config{MaxStreamsPerPrincipal: 2}, []string{"a", "a", "b", "", "", ""},
			map[string]core.Refusal{"a": core.RefusedPrincipalLimit}, []string{"b", "", "c"},
		},
		{
			"share", core.Config{MaxStreams: 10, MaxShare: 0.2}, []string{"a", "a", "b"},
			map[string]core.Refusal{"a": core.RefusedPrincipalLimit}, []string{"b", "", "c"},
		},
		{"a share of less than one", core.Config{MaxStreams: 10, MaxShare: 0.01}, []string{"a"}, map[string]core.Refusal{"a": core.RefusedPrincipalLimit}, []string{"b"}},
		{"a share that is no round number", core.Config{MaxStreams: 10, MaxShare: 0.3}, []string{"a", "a", "a"}, map[string]core.Refusal{"a": core.RefusedPrincipalLimit}, nil},
		{
			"the smaller of two", core.Config{MaxStreams: 10, MaxShare: 0.5, MaxStreamsPerPrincipal: 1}, []string{"a"},
			map[string]core.Refusal{"a": core.RefusedPrincipalLimit}, []string{"b"},
		},
		{
			"per tenant", core.Config{MaxStreamsPerPrincipal: 2, LimitKey: tenant}, []string{"x/a", "x/b", "/c", "/d", "/e"},
			map[string]core.Refusal{"x/c": core.RefusedPrincipalLimit, "x/a": core.RefusedPrincipalLimit}, []string{"y/a", "/c", ""},
		},
		{"in all before per principal", core.Config{MaxStreams: 1, MaxStreamsPerPrincipal: 1}, []string{"a"}, map[string]core.Refusal{"a": core.RefusedLimit}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, test.config)
				streams := make([]*stream, len(test.open))
				for i, name := range test.open {
					streams[i] = listen(t, hub, strconv.Itoa(i), allLists, principal(name))
				}
				for name, want := range test.refused {
					_, err := tryListen(t, hub, "9", allLists, principal(name))
					e := refusalOf(t, err, core.CodeInternalError, want)
					if !errors.Is(err, core.ErrLimit) || e.RetryAfter <= 0 {
						t.Errorf("%q is refused with %v and RetryAfter %v, want ErrLimit and advice", name, err, e.RetryAfter)
					}
				}
				for _, name := range test.welcome {
					listen(t, hub, "10", allLists, principal(name)).close()
				}
				for i, s := range streams {
					synctest.Wait()
					if len(s.all()) != 2 {
						t.Errorf("stream %d got %q at a limit, want its acknowledgment alone", i, s.all())
					}
				}
				// A place that is given back is free.
				streams[0].close()
				listen(t, hub, "11", allLists, principal(test.open[0])).close()
			})
		})
	}
}

func TestMaxOpening(t *testing.T) {
	t.Parallel()
	blocked := func(block chan struct{}) map[string]core.Config {
		return map[string]core.Config{
			"in the authorizer": {Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
				<-block
				return core.Grant{}, nil
			})},
			"in the watcher": {Watcher: watcherFunc(func(context.Context, string) error { <-block; return nil })},
		}
	}
	for name := range blocked(nil) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				block := make(chan struct{})
				config := blocked(block)[name]
				config.MaxOpening = 2
				hub := newHub(t, config)
				opened := make(chan *stream)
				for i := range 2 {
					go func() { opened <- listen(t, hub, strconv.Itoa(i), uriFilter(strconv.Itoa(i))) }()
				}
				synctest.Wait()
				_, err := tryListen(t, hub, "2", uriFilter("2"))
				wantRefusal(t, err, core.CodeInternalError, core.RefusedOpening)
				if !errors.Is(err, core.ErrLimit) {
					t.Errorf("refused with %v, want ErrLimit", err)
				}
				close(block)
				first, second := <-opened, <-opened
				// Open streams are not being opened.
				third := listen(t, hub, "3", uriFilter("3"))
				for _, s := range []*stream{first, second, third} {
					s.close()
				}
				if got := hub.Stats(); got.Opening != 0 || got.Open != 0 || got.Refused[core.RefusedOpening] != 1 {
					t.Errorf("the statistics are %+v, want one refused and nothing open", got)
				}
			})
		})
	}
}

func TestAuthorizerDecides(t *testing.T) {
	t.Parallel()
	own := &core.Error{Code: -32001, Message: "sign in first"}
	named := &core.Error{Code: -32001, Message: "later", Refusal: core.RefusedLimit}
	tests := []struct {
		name    string
		decide  func() (core.Grant, error)
		code    int
		refusal core.Refusal
		message string
	}{
		{"any error", func() (core.Grant, error) { return core.Grant{}, errors.New(marker) }, core.CodeInvalidRequest, core.RefusedAuth, "not allowed"},
		{"its own", func() (core.Grant, error) { return core.Grant{}, own }, -32001, core.RefusedAuth, "sign in first"},
		{"its own with a word", func() (core.Grant, error) { return core.Grant{}, named }, -32001, core.RefusedLimit, "later"},
		{"a panic", func() (core.Grant, error) { panic(marker) }, core.CodeInternalError, core.RefusedPanic, "internal error"},
		{"a grant that has expired", func() (core.Grant, error) { return core.Grant{Until: time.Now()}, nil }, core.CodeInvalidRequest, core.RefusedAuth, "not allowed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWatcher(t)
				hub := newHub(t, core.Config{Watcher: w, Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
					return test.decide()
				})})
				_, err := tryListen(t, hub, "1", listAndURI)
				if e := refusalOf(t, err, test.code, test.refusal); e.Message != test.message {
					t.Errorf("refused with %q, want %q", e.Message, test.message)
				}
				wantSteps(t, w.take())
			})
		})
	}
	t.Run("what it sees", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var who string
			var asked core.Filter
			hub := newHub(t, core.Config{
				Capabilities: core.Capabilities{ToolsListChanged: true},
				Authorizer: core.AuthorizerFunc(func(_ context.Context, principal string, f core.Filter) (core.Grant, error) {
					who, asked = principal, f
					return core.Grant{Principal: "tenant/" + principal}, nil
				}),
			})
			listen(t, hub, "1", listAndURI, principal("alice"))
			if who != "alice" || !asked.ToolsListChanged || len(asked.ResourceSubscriptions) != 1 {
				t.Errorf("the authorizer saw %q and %+v, want alice and all that was asked for", who, asked)
			}
			if got := hub.Streams()[0].Principal; got != "tenant/alice" {
				t.Errorf("the stream is %q's, want the principal of the grant", got)
			}
		})
	})
	t.Run("a client that leaves meanwhile", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			hub := newHub(t, core.Config{Authorizer: core.AuthorizerFunc(func(ctx context.Context, _ string, _ core.Filter) (core.Grant, error) {
				<-ctx.Done()
				return core.Grant{}, ctx.Err()
			})})
			ctx, leave := context.WithCancel(context.Background())
			time.AfterFunc(time.Second, leave)
			_, err := tryListen(t, hub, "1", allLists, inContext(func(context.Context) context.Context { return ctx }))
			wantRefusal(t, err, core.CodeInternalError, core.RefusedCanceled)
		})
	})
}

func TestPublishToAnAudience(t *testing.T) {
	t.Parallel()
	everybody := []string{"", "a", "a", "b", "t/a", "t/b"}
	tests := []struct {
		name string
		to   core.Audience
		want []int
	}{
		{"everybody", core.Audience{}, []int{0, 1, 2, 3, 4, 5}},
		{"one", core.Principals("a"), []int{1, 2}},
		{"two, one of them twice", core.Principals("b", "a", "b"), []int{1, 2, 3}},
		{"nobody", core.Principals(), nil},
		{"the empty name", core.Principals(""), nil},
		{"an unknown name", core.Principals("c"), nil},
		{"a tenant", core.PrincipalPrefix("t/"), []int{4, 5}},
		{"every principal", core.PrincipalPrefix(""), []int{1, 2, 3, 4, 5}},
	}
	for _, matcher := range []core.Matcher{nil, core.SubResources{}} {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					hub := newHub(t, core.Config{Matcher: matcher, KeepAlive: -1})
					streams := make([]*stream, len(everybody))
					for i, name := range everybody {
						streams[i] = listen(t, hub, strconv.Itoa(i), `{"toolsListChanged":true,"resourceSubscriptions":["/r","/r/s"]}`, principal(name))
					}
					listen(t, hub, "99", `{"promptsListChanged":true}`, principal("a")) // its own filter counts
					synctest.Wait()
					for _, s := range streams {
						s.take()
					}
					for _, change := range []core.Change{core.ToolsListChanged(), core.ResourceUpdated("/r"), core.ResourceUpdated("/r/s/t")} {
						if err := hub.PublishTo(context.Background(), test.to, change); err != nil {
							t.Errorf("PublishTo: %v", err)
						}
						synctest.Wait()
					}
					told := []string{"tools", "flush", "updated /r", "flush"}
					if matcher != nil {
						told = append(told, "updated /r/s/t", "flush")
					}
					want := make(map[int]bool)
					for _, i := range test.want {
						want[i] = true
					}
					for i, s := range streams {
						if test.to.Includes(everybody[i]) != want[i] {
							t.Errorf("the audience includes %q: %v, want %v", everybody[i], !want[i], want[i])
						}
						if want[i] {
							wantSteps(t, s.take(), told...)
						} else {
							wantSteps(t, s.take())
						}
					}
					for _, info := range hub.Streams() {
						if info.Coalesced != 0 {
							t.Errorf("stream %s: %d changes were coalesced, want 0", info.ID, info.Coalesced)
						}
					}
				})
			})
		}
	}
}

func TestModes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{Mode: core.ModeComplete, Watcher: newWatcher(t)})
		s := listen(t, hub, "1", listAndURI)
		wantEnd(t, s.wait(), core.Completed, true)
		wantSteps(t, s.all(), "ack {}", "flush", "result", "flush")
		if hub.Capabilities() != (core.Capabilities{}) {
			t.Errorf("a hub that serves nothing claims %+v", hub.Capabilities())
		}
		hub.SetMode(core.ModeServe)
		if hub.Capabilities() != everything || hub.Mode() != core.ModeServe {
			t.Errorf("a hub that serves again claims %+v in mode %v", hub.Capabilities(), hub.Mode())
		}
		s = listen(t, hub, "2", listAndURI)
		hub.SetMode(core.Mode(77)) // ignored
		hub.SetMode(core.ModeServe)
		advance(time.Minute)
		if len(hub.Streams()) != 1 {
			t.Error("a mode that changes nothing ended a stream")
		}
		hub.SetMode(core.ModeNotFound)
		wantEnd(t, s.wait(), core.Completed, true)
		_, _, err := parse(hub, listenText("3", validMeta, allLists))
		wantRefusal(t, err, core.CodeMethodNotFound, core.RefusedMethod)
	})
	for _, mode := range []core.Mode{-1, 3} {
		if _, err := core.NewHub(core.Config{Mode: mode}); err == nil {
			t.Errorf("a hub with mode %d was made, want an error", mode)
		}
	}
}

func TestStatsCount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		hub := newHub(t, core.Config{MaxStreams: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		a, b := listen(t, hub, "1", allLists), listen(t, hub, "2", allLists)
		for range 5 {
			_, err := tryListen(t, hub, "3", allLists)
			wantRefusal(t, err, core.CodeInternalError, core.RefusedLimit)
			advance(time.Second)
		}
		hub.Refuse(context.Background(), core.Refused{Err: &core.Error{Refusal: core.RefusedOrigin}})
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "limit") {
			t.Errorf("a burst of refusals wrote %q, want one line", log.String())
		}
		advance(time.Minute)
		_, _ = tryListen(t, hub, "3", allLists)
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("a second burst: %q, want a second line", log.String())
		}
		a.close()
		got := hub.Stats()
		if got.Open != 1 || !maps.Equal(got.Refused, map[core.Refusal]uint64{core.RefusedLimit: 6, core.RefusedOrigin: 1}) ||
			!maps.Equal(got.Closed, map[core.Reason]uint64{core.ClientClosed: 1}) {
			t.Errorf("the statistics are %+v, want 1 open, 6 refused at the limit, 1 for its origin, 1 left", got)
		}
		got.Refused[core.RefusedLimit] = 0 // a copy
		if hub.Stats().Refused[core.RefusedLimit] != 6 {
			t.Error("the statistics can be changed from outside")
		}
		b.close()
	})
}

func TestServerInfoIsInTheResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		info := &core.Implementation{Name: `a "server"`, Version: "1.2"}
		hub := newHub(t, core.Config{ServerInfo: info})
		if hub.ServerInfo() != info {
			t.Errorf("ServerInfo is %v, want what was configured", hub.ServerInfo())
		}
		var result string
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		sub, err := hub.Open(ctx, core.Opening{
			Request: request(t, hub, "1", "{}"),
			Connect: func() (core.Conn, error) { return lastMessage{&result}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		sub.Serve()
		want := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1,` +
			`"io.modelcontextprotocol/serverInfo":{"name":"a \"server\"","version":"1.2"}}}}`
		if result != want {
			t.Errorf("the result is\n\t%s\nwant\n\t%s", result, want)
		}
	})
}

// lastMessage is a Conn that keeps the last message.
type lastMessage struct{ text *string }

func (m lastMessage) WriteMessage(msg []byte) error { *m.text = string(msg); return nil }
func (lastMessage) WriteKeepAlive() error           { return nil }
func (lastMessage) Flush() error                    { return nil }

// TestAnUndeclaredKindIsSaidOnce: publishing what nobody can ask for is no error,
// but the log says so, once for each kind.
func TestAnUndeclaredKindIsSaidOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	hub := newHub(t, core.Config{
		Capabilities: core.Capabilities{ToolsListChanged: true},
		Logger:       slog.New(slog.NewTextHandler(&log, nil)),
	})
	for range 3 {
		publish(t, hub, core.ToolsListChanged(), core.PromptsListChanged(), core.ResourceUpdated("a:"))
	}
	for method, want := range map[string]int{
		core.MethodToolsListChanged: 0, core.MethodPromptsListChanged: 1, core.MethodResourceUpdated: 1,
	} {
		if got := strings.Count(log.String(), method); got != want {
			t.Errorf("the log names %s %d times, want %d:\n%s", method, got, want, &log)
		}
	}
}
