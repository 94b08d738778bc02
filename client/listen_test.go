// One subscription against our own server, over real sockets.

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

func TestListen(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{Capabilities: core.Capabilities{ToolsListChanged: true, ResourceSubscriptions: true}, Matcher: core.SubResources{}})
	ctx := testContext(t)
	asked := core.Filter{ToolsListChanged: true, PromptsListChanged: true, ResourceSubscriptions: []string{"file:///dir", "file:///b"}}
	s, err := client.Listen(ctx, serve(t, hub), asked, httpClient(t))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	honored := core.Filter{ToolsListChanged: true, ResourceSubscriptions: []string{"file:///dir", "file:///b"}}
	if got := s.Honored(); !reflect.DeepEqual(got, honored) {
		t.Errorf("honored: got %+v, want %+v", got, honored)
	}
	if got, want := s.LeftOut(), (core.Filter{PromptsListChanged: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("left out: got %+v, want %+v", got, want)
	}
	_ = hub.Publish(ctx, core.ToolsListChanged(), core.ResourceUpdated("file:///dir/x"), core.ResourceUpdated("file:///b"), core.PromptsListChanged())
	_ = hub.Shutdown(ctx) // what is pending is delivered before the result
	want := []client.Notification{
		{Kind: client.Tools}, {Kind: client.Updated, URI: "file:///b"}, {Kind: client.Updated, URI: "file:///dir/x"},
	}
	got := collect(s)
	slices.SortFunc(got, func(a, b client.Notification) int { return strings.Compare(a.String(), b.String()) })
	slices.SortFunc(want, func(a, b client.Notification) int { return strings.Compare(a.String(), b.String()) })
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if end := s.End(); end != (client.End{Cause: client.Graceful}) {
		t.Errorf("the end is %v, want graceful", end)
	}
	s.Close() // late, and harmless
}

// The same over HTTP/2, where a stream is reset and no connection is closed.
func TestListenHTTP2(t *testing.T) {
	t.Parallel()
	ended := make(chan core.End, 2)
	hub := newHub(t, core.Config{OnEnd: func(e core.End) { ended <- e }})
	handler, err := mcphttp.New(hub)
	if err != nil {
		t.Fatal(err)
	}
	abort := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the request came over %s", r.Proto)
		}
		if r.Header.Get("X-Abort") == "" {
			handler.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer panic(http.ErrAbortHandler) // after the stream was open
		defer cancel()
		go func() {
			<-abort
			cancel()
		}()
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	ctx := testContext(t)
	listen := func(options ...client.Option) *client.Stream {
		s, err := client.Listen(ctx, client.URL(srv.URL), allLists, append(options, client.WithHTTPClient(srv.Client()))...)
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		return s
	}
	s := listen()
	_ = hub.Publish(ctx, core.ToolsListChanged())
	for range s.Notifications() {
		break
	}
	s.Close()
	if e := <-ended; e.Reason != core.ClientClosed || s.End().Cause != client.Local {
		t.Errorf("closed here: %s there, %v here", e.Reason, s.End())
	}
	s = listen(client.WithHeader("X-Abort", "1"))
	close(abort)
	if end := s.End(); end.Cause != client.Dropped {
		t.Errorf("reset: %v", end)
	}
	s = listen()
	_ = hub.Shutdown(ctx)
	if end := s.End(); end.Cause != client.Graceful {
		t.Errorf("shut down: %v", end)
	}
}

func TestListenEmptyFilter(t *testing.T) {
	t.Parallel()
	s, err := client.Listen(testContext(t), serve(t, newHub(t, core.Config{})), core.Filter{}, httpClient(t))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	if got := collect(s); len(got) > 0 || s.End().Cause != client.Graceful || !s.Honored().Empty() {
		t.Errorf("got %v, %v, honored %+v", got, s.End(), s.Honored())
	}
}

// A consumer that is busy gets each thing once.
func TestBusyConsumer(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	ctx := testContext(t)
	uris := make([]string, 300)
	for i := range uris {
		uris[i] = fmt.Sprintf("file:///%d", i)
	}
	filter := allLists
	filter.ResourceSubscriptions = uris
	s, err := client.Listen(ctx, serve(t, hub), filter, httpClient(t))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	for range 20 {
		_ = hub.Publish(ctx, core.ToolsListChanged(), core.PromptsListChanged(), core.ResourcesListChanged())
		for _, uri := range uris {
			_ = hub.Publish(ctx, core.ResourceUpdated(uri))
		}
	}
	_ = hub.Shutdown(ctx)
	if end := s.End(); end.Cause != client.Graceful {
		t.Fatalf("the end is %v", end)
	}
	got := collect(s)
	seen := make(map[client.Notification]bool)
	for _, n := range got {
		seen[n] = true
	}
	if len(got) != len(uris)+3 || len(seen) != len(got) {
		t.Errorf("got %d notifications, %d of them different, want %d", len(got), len(seen), len(uris)+3)
	}
}

func TestLocalEnds(t *testing.T) {
	t.Parallel()
	own := errors.New("own cause")
	deadline := func(ctx context.Context) (context.Context, func()) {
		return context.WithTimeout(ctx, 50*time.Millisecond)
	}
	tests := []struct {
		name string
		make func(context.Context) (context.Context, func())
		end  func(*client.Stream)
		want error
	}{
		{"close", nil, func(s *client.Stream) { s.Close() }, client.ErrClosed},
		{"deadline", deadline, nil, context.DeadlineExceeded},
		{"cancel with a cause", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(own) }
		}, nil, own},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan core.End, 1)
			hub := newHub(t, core.Config{OnEnd: func(e core.End) { ended <- e }})
			ctx, cancel := testContext(t), func() {}
			if tt.make != nil {
				ctx, cancel = tt.make(ctx)
			}
			s, err := client.Listen(ctx, serve(t, hub), allLists, httpClient(t))
			if err != nil {
				t.Fatalf("Listen: %v", err)
			}
			_ = hub.Publish(ctx, core.ToolsListChanged())
			for range s.Notifications() {
				break
			}
			if tt.end != nil {
				tt.end(s)
			} else if tt.name != "deadline" {
				cancel()
			}
			end := s.End()
			if end.Cause != client.Local || !errors.Is(end.Err, tt.want) || client.CauseOf(end.Err) != client.Local {
				t.Errorf("got %v, want local with %v", end, tt.want)
			}
			cancel()
			if e := <-ended; e.Reason != core.ClientClosed {
				t.Errorf("the server saw %s", e.Reason)
			}
		})
	}
}

// The Timeout of an http.Client is one for whole responses: it must not cut.
func TestClientTimeoutDoesNotCut(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	given := &http.Client{Transport: transport, Timeout: time.Nanosecond}
	s, err := client.Listen(testContext(t), serve(t, hub), allLists, client.WithHTTPClient(given))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	s.Close()
	if given.Timeout != time.Nanosecond {
		t.Error("the client that was given has changed")
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	type seen struct {
		header http.Header
		meta   map[string]any
	}
	requests := make(chan seen, 1)
	endpoint := byHandBody(t, func(w http.ResponseWriter, r *http.Request, id string, params map[string]any) {
		meta, _ := params["_meta"].(map[string]any)
		requests <- seen{r.Header.Clone(), meta}
		say(w, id, toolsAck, goodbye)
	})
	type key struct{}
	ctx := context.WithValue(testContext(t), key{}, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	s, err := client.Listen(ctx, endpoint, toolsFilter, httpClient(t),
		client.WithHeader("X-Tenant", "blue"),
		client.WithTokenSource(func(context.Context) (string, error) { return "secret", nil }),
		client.WithClientInfo(core.Implementation{Name: "test", Version: "1"}),
		client.WithClientCapabilities(map[string]any{"sampling": struct{}{}}),
		client.WithMeta("com.example/shard", "7"),
		client.WithTrace(func(ctx context.Context, set func(k, v string)) { set("traceparent", ctx.Value(key{}).(string)) }),
		client.WithLogger(slog.New(slog.DiscardHandler)),
		nil,
	)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer s.Close()
	got := <-requests
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Method": "subscriptions/listen",
		"Mcp-Protocol-Version": "2026-07-28", "X-Tenant": "blue", "Authorization": "Bearer secret", "Accept-Encoding": "identity",
	} {
		if values := got.header[name]; !slices.Equal(values, []string{want}) {
			t.Errorf("%s: got %q, want %q", name, values, want)
		}
	}
	want := map[string]any{
		core.MetaProtocolVersion:    core.ProtocolVersion,
		core.MetaClientCapabilities: map[string]any{"sampling": map[string]any{}},
		core.MetaClientInfo:         map[string]any{"name": "test", "version": "1"},
		"com.example/shard":         "7",
		"traceparent":               ctx.Value(key{}),
	}
	if !reflect.DeepEqual(got.meta, want) {
		t.Errorf("_meta: got %v, want %v", got.meta, want)
	}
}

func TestUnusable(t *testing.T) {
	t.Parallel()
	const url = client.URL("http://127.0.0.1:1/mcp")
	tests := []struct {
		name     string
		endpoint client.Endpoint
		filter   core.Filter
		option   client.Option
	}{
		{"no URL", client.URL("127.0.0.1:8080"), allLists, nil},
		{"another scheme", client.URL("ftp://example.com"), allLists, nil},
		{"no host", client.URL("http:///mcp"), allLists, nil},
		{"control character", client.URL("http://a\x00"), allLists, nil},
		{"no command", client.Command(nil), allLists, nil},
		{"empty URI", url, core.Filter{ResourceSubscriptions: []string{""}}, nil},
		{"URI that is no text", url, core.Filter{ResourceSubscriptions: []string{"a\xff"}}, nil},
		{"extensions", url, core.Filter{Extensions: map[string]json.RawMessage{"taskIds": nil}}, nil},
		{"ack timeout", url, allLists, client.WithAckTimeout(0)},
		{"message limit", url, allLists, client.WithMaxMessage(-1)},
		{"backoff", url, allLists, client.WithBackoff(client.Backoff{First: time.Hour, Max: time.Second})},
		{"capabilities", url, allLists, client.WithClientCapabilities([]int{1})},
		{"_meta", url, allLists, client.WithMeta("x", func() {})},
		{"_meta of the protocol", url, allLists, client.WithMeta(core.MetaProtocolVersion, "2025-11-25")},
		{"header of the protocol", url, allLists, client.WithHeader("mcp-method", "tools/list")},
	}
	for _, tt := range tests {
		if _, err := client.Listen(testContext(t), tt.endpoint, tt.filter, tt.option); err == nil || !strings.HasPrefix(err.Error(), "client: ") {
			t.Errorf("%s: Listen returned %v", tt.name, err)
		}
		if _, err := client.Follow(testContext(t), tt.endpoint, tt.filter, tt.option); err == nil {
			t.Errorf("%s: Follow returned no error", tt.name)
		}
	}
	if _, err := client.Follow(testContext(t), url, core.Filter{}); err == nil {
		t.Error("Follow took an empty filter")
	}
}
