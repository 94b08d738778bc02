// The services of the tests: a server as its owner wrote it, behind the hub on each
// framework, and its clients of both eras.

package mcpgobridge_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	mcpchi "github.com/mcplisten/mcplisten/adapters/chi"
	mcpecho "github.com/mcplisten/mcplisten/adapters/echo"
	mcpgin "github.com/mcplisten/mcplisten/adapters/gin"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	mcpgobridge "github.com/mcplisten/mcplisten/bridges/mcpgo"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// hang is how long a test waits for what must come.
const hang = 30 * time.Second

const (
	path   = "/mcp"
	notesA = "notes://a"
	notesB = "notes://b"
)

// frameworks mount an endpoint in front of a server's handler.
var frameworks = map[string]func(listen *mcphttp.Handler, next http.Handler) http.Handler{
	"nethttp": func(listen *mcphttp.Handler, next http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(path, listen.Middleware(next))
		return mux
	},
	"chi": func(listen *mcphttp.Handler, next http.Handler) http.Handler {
		r := chi.NewRouter()
		mcpchi.Mount(r, path, listen, mcpchi.WithNext(next))
		return r
	},
	"echo": func(listen *mcphttp.Handler, next http.Handler) http.Handler {
		e := echo.New()
		mcpecho.Mount(e, path, listen, mcpecho.WithNext(echo.WrapHandler(next)))
		return e
	},
	"gin": func(listen *mcphttp.Handler, next http.Handler) http.Handler {
		e := gin.New()
		mcpgin.Mount(e, path, listen, mcpgin.WithNext(gin.WrapH(next)))
		return e
	},
}

func init() { gin.SetMode(gin.ReleaseMode) }

// newServer returns a server that keeps account of its subscribers as mcp-go leaves it
// to its users: with hooks.
func newServer(options ...server.ServerOption) (*server.MCPServer, *accounts) {
	hooks := &server.Hooks{}
	accounts := &accounts{sessions: make(map[string][]string)}
	hooks.AddAfterSubscribe(func(ctx context.Context, _ any, r *mcp.SubscribeRequest, _ *mcp.EmptyResult) {
		accounts.add(r.Params.URI, server.ClientSessionFromContext(ctx).SessionID())
	})
	hooks.AddAfterUnsubscribe(func(ctx context.Context, _ any, r *mcp.UnsubscribeRequest, _ *mcp.EmptyResult) {
		accounts.remove(r.Params.URI, server.ClientSessionFromContext(ctx).SessionID())
	})
	srv := server.NewMCPServer("notes", "1", append([]server.ServerOption{
		server.WithHooks(hooks), server.WithToolCapabilities(true), server.WithPromptCapabilities(true),
		server.WithResourceCapabilities(true, true),
	}, options...)...)
	accounts.server = srv
	return srv, accounts
}

// accounts are who is subscribed to what.
type accounts struct {
	server *server.MCPServer

	mu       sync.Mutex
	sessions map[string][]string // by URI
}

func (a *accounts) add(uri, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[uri] = append(a.sessions[uri], id)
}

func (a *accounts) remove(uri, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[uri] = slices.DeleteFunc(a.sessions[uri], func(s string) bool { return s == id })
}

func (a *accounts) of(uri string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.sessions[uri])
}

// updated tells the subscribers of a resource, one by one.
func (a *accounts) updated(uri string) {
	for _, id := range a.of(uri) {
		_ = a.server.SendNotificationToSpecificClient(id, mcp.MethodNotificationResourceUpdated, map[string]any{"uri": uri})
	}
}

func attach(t *testing.T, srv *server.MCPServer, config core.Config, options ...mcpgobridge.Option) *mcpgobridge.Bridge {
	t.Helper()
	b, err := mcpgobridge.Attach(srv, config, options...)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		if err := b.Hub().Shutdown(ctx); err != nil {
			t.Errorf("the hub's Shutdown: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// serve serves a server behind its bridge, and returns the endpoint.
func serve(t *testing.T, framework string, srv *server.MCPServer, b *mcpgobridge.Bridge) string {
	t.Helper()
	listen, err := mcphttp.New(b.Hub(), mcphttp.WithLegacyMethods())
	if err != nil {
		t.Fatal(err)
	}
	next := server.NewStreamableHTTPServer(srv, server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	web := httptest.NewServer(frameworks[framework](listen, next))
	t.Cleanup(func() {
		_ = next.Shutdown(context.Background())
		_ = b.Hub().Shutdown(context.Background())
		web.Close()
	})
	return web.URL + path
}

func newHTTPClient(t *testing.T) *http.Client {
	t.Helper()
	network := &http.Transport{}
	t.Cleanup(network.CloseIdleConnections)
	return &http.Client{Transport: network}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	return ctx
}

// everything is a filter for all lists and the notes.
var everything = core.Filter{
	ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
	ResourceSubscriptions: []string{notesA, notesB},
}

// listener is a modern client, ours.
type listener struct {
	t      *testing.T
	stream *client.Stream
	told   chan client.Notification
}

func listen(t *testing.T, url string, filter core.Filter) *listener {
	t.Helper()
	s, err := client.Listen(testContext(t), client.URL(url), filter, client.WithHTTPClient(newHTTPClient(t)))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	l := &listener{t: t, stream: s, told: make(chan client.Notification)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(l.told)
		for n := range s.Notifications() {
			select {
			case l.told <- n:
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() { s.Close(); <-done })
	return l
}

// want expects the next notifications, and by the next call that there was no other.
func (l *listener) want(why string, wanted ...client.Notification) {
	l.t.Helper()
	for _, w := range wanted {
		select {
		case got, open := <-l.told:
			if !open {
				l.t.Fatalf("%s: the stream has ended (%s), want %v", why, l.stream.End(), w)
			}
			if got != w {
				l.t.Fatalf("%s: told %v, want %v", why, got, w)
			}
		case <-time.After(hang):
			l.t.Fatalf("%s: told nothing, want %v", why, w)
		}
	}
}

// peer is mcp-go's client: an older one with the server's own stream, or a modern one.
type peer struct {
	t      *testing.T
	client *mcpgoclient.Client
	told   chan string
}

func connect(t *testing.T, url, version string, options ...transport.StreamableHTTPCOption) *peer {
	t.Helper()
	options = append(options, transport.WithHTTPBasicClient(newHTTPClient(t)), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	c, err := mcpgoclient.NewStreamableHttpClient(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	p := &peer{t: t, client: c, told: make(chan string, 1000)}
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		said := n.Method
		if uri, ok := n.Params.AdditionalFields["uri"].(string); ok {
			said += " " + uri
		}
		p.told <- said
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatalf("start: %v", err)
	}
	request := mcp.InitializeRequest{}
	request.Params.ProtocolVersion = version
	request.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
	result, err := c.Initialize(testContext(t), request)
	if err != nil || result.ProtocolVersion != version {
		t.Fatalf("initialize: %+v, %v, want %s", result, err, version)
	}
	return p
}

func (p *peer) want(why string, wanted ...string) {
	p.t.Helper()
	for _, w := range wanted {
		for got := hello; got == hello; { // see settle
			select {
			case got = <-p.told:
			case <-time.After(hang):
				p.t.Fatalf("%s: told nothing, want %q", why, w)
			}
			if got != hello && got != w {
				p.t.Fatalf("%s: told %q, want %q", why, got, w)
			}
		}
	}
}

const (
	toolsChanged     = mcp.MethodNotificationToolsListChanged
	promptsChanged   = mcp.MethodNotificationPromptsListChanged
	resourcesChanged = mcp.MethodNotificationResourcesListChanged
	resourceUpdated  = mcp.MethodNotificationResourceUpdated + " "
)

func noTool(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return nil, errors.New("not called")
}

func noPrompt(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return nil, errors.New("not called")
}

func noResource(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	return nil, errors.New("not called")
}

func addTool(srv *server.MCPServer, name string) { srv.AddTool(mcp.NewTool(name), noTool) }

func toolNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("tool-%d", i)
	}
	return names
}

// jobs is an extension of the application's own.
var jobs = core.Family{Member: "jobIds", Method: "notifications/jobs", Key: "job"}

// publishJob publishes that a job has changed.
func publishJob(t *testing.T, b *mcpgobridge.Bridge, key string) {
	t.Helper()
	if err := b.Hub().Publish(t.Context(), core.ValueChanged(jobs.Method, key, map[string]string{jobs.Key: key})); err != nil {
		t.Fatal(err)
	}
}
