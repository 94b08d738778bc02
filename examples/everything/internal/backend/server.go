// The server: what it advertises, and how it is served.

package backend

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcplisten/mcplisten/core"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Publisher is where the server tells of its changes: the hub.
type Publisher interface {
	Publish(ctx context.Context, changes ...core.Change) error
}

// Server is an MCP server with something to show.
type Server struct {
	mcp       *mcp.Server
	publisher Publisher
	seal      seal

	mu      sync.Mutex
	spare   map[string]bool // the tool, prompt and resource that come and go: those that are there
	changes map[string]int  // how often change_resource changed a URI; only of resources that exist
}

// Capabilities are the notifications that the server's changes are published as,
// for the hub's configuration. What server/discover says must agree with it.
func Capabilities() core.Capabilities {
	return core.Capabilities{
		ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true,
	}
}

// New returns a server that publishes its changes to publisher.
func New(info core.Implementation, publisher Publisher) (*Server, error) {
	s := &Server{
		mcp: mcp.NewServer(&mcp.Implementation{Name: info.Name, Version: info.Version}, &mcp.ServerOptions{
			Capabilities: &mcp.ServerCapabilities{
				Completions: &mcp.CompletionCapabilities{},
				Logging:     &mcp.LoggingCapabilities{}, //nolint:staticcheck // deprecated, and in the conformance suite
				Tools:       &mcp.ToolCapabilities{ListChanged: true},
				Prompts:     &mcp.PromptCapabilities{ListChanged: true},
				Resources:   &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
			},
			CompletionHandler: complete,
		}),
		publisher: publisher,
		spare:     make(map[string]bool),
		changes:   make(map[string]int),
	}
	if err := s.seal.init(); err != nil {
		return nil, err
	}
	s.mcp.AddReceivingMiddleware(promiseOldClientsNothing)
	s.addTools()
	s.addInputTools()
	s.addPrompts()
	s.addResources()
	return s, nil
}

// Handler returns the server as an HTTP handler, closed to web pages of other
// origins than the given ones. hosts are the names by which it may be addressed
// beside loopback ones; without any, a server on loopback takes only those.
func (s *Server) Handler(origins, hosts []string) (http.Handler, error) {
	protection := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if err := protection.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	var handler http.Handler = mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s.mcp },
		&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: len(hosts) > 0},
	)
	if len(hosts) > 0 {
		handler = onlyHosts(hosts, handler)
	}
	return protection.Handler(handler), nil
}

// onlyHosts serves requests to loopback names and to the given ones.
func onlyHosts(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			name = host
		}
		ip := net.ParseIP(strings.Trim(name, "[]"))
		local := strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
		if !local && !slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, name) }) {
			http.Error(w, "the Host is not allowed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// promiseOldClientsNothing corrects the answer to initialize, with which clients
// of older revisions start: changes are told by subscriptions/listen alone, which
// they do not know.
func promiseOldClientsNothing(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if answer, ok := result.(*mcp.InitializeResult); ok && answer != nil {
			answer.Capabilities.Tools = &mcp.ToolCapabilities{}
			answer.Capabilities.Prompts = &mcp.PromptCapabilities{}
			answer.Capabilities.Resources = &mcp.ResourceCapabilities{}
		}
		return result, err
	}
}

// toggle calls add if the thing called name is not there, and remove if it is.
// The list is a different one afterwards either way.
func (s *Server) toggle(name string, add, remove func()) (verb string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare[name] = !s.spare[name]
	if s.spare[name] {
		add()
		return "added"
	}
	remove()
	return "removed"
}

// changed counts a change of a resource.
func (s *Server) changed(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(changeable, uri) {
		s.changes[uri]++
	}
}

// version says how often a resource was changed, for its contents.
func (s *Server) version(uri string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.Itoa(s.changes[uri])
}
