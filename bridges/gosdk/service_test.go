// What the tests run: a server of the SDK behind a hub, on each framework, and the
// clients that talk to it, over sockets.

package gosdkbridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	mcpchi "github.com/mcplisten/mcplisten/adapters/chi"
	mcpecho "github.com/mcplisten/mcplisten/adapters/echo"
	mcpgin "github.com/mcplisten/mcplisten/adapters/gin"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	gosdkbridge "github.com/mcplisten/mcplisten/bridges/gosdk"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// hang is when a test that waits in vain is given up.
const hang = time.Minute

// The short forms of what streams and clients are told.
const (
	tools     = core.MethodToolsListChanged
	prompts   = core.MethodPromptsListChanged
	resources = core.MethodResourcesListChanged
	updated   = core.MethodResourceUpdated + " "
)

// everything is the filter for all lists and some URIs.
func everything(uris ...string) core.Filter {
	return core.Filter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: uris}
}

// mounts put an endpoint, with the server behind it, on each framework.
var mounts = map[string]func(listen *mcphttp.Handler, next http.Handler) http.Handler{
	"nethttp": func(listen *mcphttp.Handler, next http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/mcp", listen.Middleware(next))
		return mux
	},
	"chi": func(listen *mcphttp.Handler, next http.Handler) http.Handler {
		r := chi.NewRouter()
		mcpchi.Mount(r, "/mcp", listen, mcpchi.WithNext(next))
		return r
	},
	"echo": func(listen *mcphttp.Handler, next http.Handler) http.Handler {
		e := echo.New()
		mcpecho.Mount(e, "/mcp", listen, mcpecho.WithNext(echo.WrapHandler(next)))
		return e
	},
	"gin": func(listen *mcphttp.Handler, next http.Handler) http.Handler {
		r := gin.New()
		mcpgin.Mount(r, "/mcp", listen, mcpgin.WithNext(gin.WrapH(next)))
		return r
	},
}

func init() { gin.SetMode(gin.ReleaseMode) }

// onEach runs a test on each framework.
func onEach(t *testing.T, test func(t *testing.T, framework string)) {
	t.Helper()
	for framework := range mounts {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			test(t, framework)
		})
	}
}

// handlers accept every subscription, and count them.
type handlers struct {
	mu      sync.Mutex
	calls   []string
	running map[string]int
	fail    func(uri string) error
}

func (h *handlers) subscribe(_ context.Context, r *mcp.SubscribeRequest) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail != nil {
		if err := h.fail(r.Params.URI); err != nil {
			return err
		}
	}
	if h.running == nil {
		h.running = make(map[string]int)
	}
	h.running[r.Params.URI]++
	h.calls = append(h.calls, "+"+r.Params.URI)
	return nil
}

func (h *handlers) unsubscribe(_ context.Context, r *mcp.UnsubscribeRequest) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running[r.Params.URI]--
	h.calls = append(h.calls, "-"+r.Params.URI)
	return nil
}

// log returns the calls so far.
func (h *handlers) log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprint(h.calls)
}

// newServer returns a server with a tool, a prompt, a resource, and handlers for
// subscriptions.
func newServer(h *handlers) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Title: "Test", Version: "1.2.3"}, &mcp.ServerOptions{
		SubscribeHandler: h.subscribe, UnsubscribeHandler: h.unsubscribe,
	})
	addTool(server, "first")
	addPrompt(server, "first")
	addResource(server, "test://first")
	return server
}

func addTool(server *mcp.Server, name string) {
	mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
}

// addTools adds many tools as quickly as can be.
func addTools(server *mcp.Server, many int) {
	for i := range many {
		server.AddTool(&mcp.Tool{Name: fmt.Sprintf("tool-%d", i), InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
	}
}

func addPrompt(server *mcp.Server, name string) {
	server.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
}

func read(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text"}}}, nil
}

func addResource(server *mcp.Server, uri string) {
	server.AddResource(&mcp.Resource{URI: uri, Name: uri}, read)
}

func update(t *testing.T, server *mcp.Server, uri string) {
	t.Helper()
	if err := server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
		t.Errorf("ResourceUpdated(%q): %v", uri, err)
	}
}

func attach(t *testing.T, server *mcp.Server, config core.Config, options ...gosdkbridge.Option) *gosdkbridge.Bridge {
	t.Helper()
	bridge, err := gosdkbridge.Attach(server, config, options...)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	t.Cleanup(func() { end(t, bridge) })
	return bridge
}

// service is a server of the SDK on a socket, with a hub in front.
type service struct {
	*httptest.Server
	server *mcp.Server
	bridge *gosdkbridge.Bridge
	url    string
}

// serve serves all revisions on one endpoint.
func serve(t *testing.T, framework string, server *mcp.Server, config core.Config) *service {
	t.Helper()
	older := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	return serveWith(t, framework, server, config, func(b *gosdkbridge.Bridge) http.Handler { return b.Handler(older, nil) })
}

func serveWith(
	t *testing.T, framework string, server *mcp.Server, config core.Config, next func(*gosdkbridge.Bridge) http.Handler,
) *service {
	t.Helper()
	bridge := attach(t, server, config)
	listen, err := mcphttp.New(bridge.Hub(), mcphttp.WithLegacyMethods())
	if err != nil {
		t.Fatalf("mcphttp.New: %v", err)
	}
	s := &service{Server: httptest.NewServer(mounts[framework](listen, next(bridge))), server: server, bridge: bridge}
	s.url = s.URL + "/mcp"
	t.Cleanup(func() {
		// The SDK's sessions end with their clients; its handler has no end of its own.
		for session := range server.Sessions() {
			_ = session.Close()
		}
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// told is what somebody was told, in the order in which it came.
type told struct {
	t    *testing.T
	name string
	c    chan string
}

func newTold(t *testing.T, name string) *told {
	return &told{t: t, name: name, c: make(chan string, 10_000)}
}

// next returns what came next.
func (s *told) next() string {
	s.t.Helper()
	select {
	case n, ok := <-s.c:
		if !ok {
			s.t.Fatalf("%s: has ended", s.name)
		}
		return n
	case <-time.After(hang):
		s.t.Fatalf("%s: nothing came", s.name)
		return ""
	}
}

// expect fails unless the next that come are the wanted ones, in any order.
func (s *told) expect(want ...string) {
	s.t.Helper()
	got := make([]string, len(want))
	for i := range want {
		got[i] = s.next()
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: got %q, want %q", s.name, got, want)
	}
}

// nothing fails if anything has come by now.
func (s *told) nothing() {
	s.t.Helper()
	select {
	case n, ok := <-s.c:
		if ok {
			s.t.Errorf("%s: got %q, want nothing", s.name, n)
		}
	default:
	}
}

// stream is a stream that this project's client holds.
type stream struct {
	*told
	*client.Stream
}

func (s *service) listen(t *testing.T, name string, filter core.Filter) *stream {
	t.Helper()
	opened, err := client.Listen(t.Context(), client.URL(s.url), filter, client.WithHTTPClient(httpClient(t)))
	if err != nil {
		t.Fatalf("%s: Listen: %v", name, err)
	}
	l := &stream{newTold(t, name), opened}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(l.c)
		for n := range opened.Notifications() {
			l.c <- n.String()
		}
	}()
	t.Cleanup(func() { opened.Close(); <-done })
	return l
}

// graceful fails unless the stream ends with its result, after nothing more.
func (s *stream) graceful() {
	s.t.Helper()
	select {
	case n, more := <-s.c:
		if more {
			s.t.Fatalf("%s: got %q, want the end", s.name, n)
		}
	case <-time.After(hang):
		s.t.Fatalf("%s: it has not ended", s.name)
	}
	if end := s.End(); end.Cause != client.Graceful {
		s.t.Errorf("%s: ended %v, want graceful", s.name, end)
	}
}

func httpClient(t *testing.T) *http.Client {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// sdkClient is the SDK's client.
type sdkClient struct {
	*told
	*mcp.ClientSession
	http *wire
}

// wire is a client's way to the server. It tells of each answer to a GET: then the
// server's own stream is there.
type wire struct {
	base http.RoundTripper
	gets chan int

	mu  sync.Mutex
	saw []string // METHOD STATUS
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.saw = append(w.saw, fmt.Sprintf("%s %d", r.Method, answer.StatusCode))
	w.mu.Unlock()
	if r.Method == http.MethodGet {
		w.gets <- answer.StatusCode
	}
	return answer, nil
}

// connect connects the SDK's client, which speaks the given revision; the newest one
// listens by itself, an older one holds the server's own stream.
func (s *service) connect(t *testing.T, name, revision string) *sdkClient {
	t.Helper()
	c := &sdkClient{told: newTold(t, name), http: &wire{base: httpClient(t).Transport, gets: make(chan int, 100)}}
	sdk := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1.0.0"}, &mcp.ClientOptions{
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { c.c <- tools },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { c.c <- prompts },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { c.c <- resources },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			c.c <- updated + r.Params.URI
		},
	})
	sdk.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == core.MethodAcknowledged { // there is no handler for it
				c.c <- method
			}
			return next(ctx, method, r)
		}
	})
	session, err := sdk.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: &http.Client{Transport: c.http}},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("%s: Connect: %v", name, err)
	}
	c.ClientSession = session
	t.Cleanup(func() { _ = session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Fatalf("%s: speaks %s, want %s", name, got, revision)
	}
	if revision >= core.ProtocolVersion {
		c.expect(core.MethodAcknowledged)
		return c
	}
	select {
	case status := <-c.http.gets:
		if status != http.StatusOK {
			t.Fatalf("%s: GET: status %d", name, status)
		}
	case <-time.After(hang):
		t.Fatalf("%s: there is no stream of the server", name)
	}
	return c
}

func (c *sdkClient) subscribe(uri string) {
	c.t.Helper()
	if err := c.Subscribe(c.t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
		c.t.Fatalf("%s: Subscribe: %v", c.name, err)
	}
	if c.InitializeResult().ProtocolVersion >= core.ProtocolVersion {
		c.expect(core.MethodAcknowledged)
	}
}

// listTools returns how many tools there are.
func (c *sdkClient) listTools() int {
	c.t.Helper()
	list, err := c.ListTools(c.t.Context(), nil)
	if err != nil {
		c.t.Fatalf("%s: ListTools: %v", c.name, err)
	}
	return len(list.Tools)
}
