// The examples of docs/policies.md and README.md that need HTTP.

package mcphttp_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

// directory stands for what a service knows of its users.
type directory struct{}

func (directory) Session(user string) (expires time.Time, ok bool) {
	return time.Now().Add(time.Hour), user != ""
}

func (directory) MayRead(user, uri string) bool {
	return strings.HasPrefix(uri, "file:///"+user+"/")
}

func (directory) Active(context.Context, string) error { return nil }

var users directory

func authorize(_ context.Context, user string, filter core.Filter) (core.Grant, error) {
	expires, ok := users.Session(user)
	if !ok {
		return core.Grant{}, mcphttp.Deny(http.StatusUnauthorized, `Bearer realm="docs"`)
	}
	for _, uri := range filter.ResourceSubscriptions {
		if !users.MayRead(user, uri) { // whether there is such a resource is not asked
			return core.Grant{}, mcphttp.Deny(http.StatusForbidden, "")
		}
	}
	return core.Grant{
		Until:   expires,
		Recheck: func(ctx context.Context) error { return users.Active(ctx, user) },
	}, nil
}

// ask sends a listen request and prints the answer.
func printAnswer(h http.Handler, user, filter string) {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(listentest.ListenBody("7", filter)))
	r.Header = listentest.Listen("7", filter).Header
	r.Header.Set("User", user)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"), strings.TrimSpace(w.Body.String()))
}

func ExampleDeny() {
	hub, err := core.NewHub(core.Config{
		Capabilities: core.Capabilities{ResourceSubscriptions: true},
		Authorizer:   core.AuthorizerFunc(authorize),
	})
	if err != nil {
		log.Fatal(err)
	}
	mcp, err := mcphttp.New(hub, mcphttp.WithPrincipal(func(r *http.Request) string { return r.Header.Get("User") }))
	if err != nil {
		log.Fatal(err)
	}
	printAnswer(mcp, "", `{"resourceSubscriptions":["file:///bob/salaries"]}`)
	printAnswer(mcp, "alice", `{"resourceSubscriptions":["file:///bob/salaries"]}`)
	printAnswer(mcp, "alice", `{"resourceSubscriptions":["file:///bob/no-such-file"]}`)
	// Output:
	// 401 Bearer realm="docs" {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"not allowed"}}
	// 403  {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"not allowed"}}
	// 403  {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"not allowed"}}
}

type userKey struct{}

func ExampleWithPrincipal() {
	hub, err := core.NewHub(core.Config{})
	if err != nil {
		log.Fatal(err)
	}
	listen, err := mcphttp.New(hub, mcphttp.WithPrincipal(func(r *http.Request) string {
		user, _ := r.Context().Value(userKey{}).(string) // where your authentication put it
		return user
	}))
	if err != nil {
		log.Fatal(err)
	}
	http.NewServeMux().Handle("/mcp", listen)
	// Output:
}

func ExampleHandler_Middleware() {
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}})
	if err != nil {
		log.Fatal(err)
	}
	listen, err := mcphttp.New(hub)
	if err != nil {
		log.Fatal(err)
	}
	server := http.NotFoundHandler() // the MCP server that you have
	mux := http.NewServeMux()
	srv := &http.Server{Addr: "127.0.0.1:8080", Handler: mux, ReadHeaderTimeout: time.Second}

	mux.Handle("/mcp", listen.Middleware(server))
	mcphttp.RegisterShutdown(srv, hub)

	if err := srv.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
}

// Draining keeps the listener open until the last stream has ended, so that
// newcomers are told when to come back.
func Example_drain() {
	hub, err := core.NewHub(core.Config{DrainSpread: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Second}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := hub.Shutdown(ctx); err != nil { // newcomers get 503 and Retry-After
		log.Print(err)
	}
	if err := srv.Shutdown(ctx); err != nil { // only then are they not answered at all
		log.Print(err)
	}
	fmt.Println("streams left:", hub.Stats().Open)
	// Output: streams left: 0
}

// Of lean streams, only hub.Shutdown waits for the end.
func ExampleWithLeanStreams() {
	hub, err := core.NewHub(core.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		log.Fatal(err)
	}
	listen, err := mcphttp.New(hub, mcphttp.WithLeanStreams())
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{Handler: listen, ReadHeaderTimeout: time.Second}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := hub.Shutdown(ctx); err != nil { // newcomers get 503 and Retry-After
		log.Print(err)
	}
	if err := srv.Shutdown(ctx); err != nil { // only then are they not answered at all
		log.Print(err)
	}
	fmt.Println("streams left:", hub.Stats().Open)
	// Output: streams left: 0
}

func ExampleWithOrigins() {
	hub, err := core.NewHub(core.Config{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = mcphttp.New(hub,
		mcphttp.WithOrigins("https://app.example.com", "https://*.preview.example.com", "http://localhost:5173"),
		mcphttp.WithHosts("mcp.example.com"),
	)
	fmt.Println(err)
	_, err = mcphttp.New(hub, mcphttp.WithOrigins("*"))
	fmt.Println(err)
	// Output:
	// <nil>
	// mcphttp: an allowed origin is not of the form scheme://host or scheme://host:port, in ASCII
}

func ExampleStatus() {
	hub, err := core.NewHub(core.Config{
		MaxStreams: 1000,
		Logger:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		log.Fatal(err)
	}
	admin := http.NewServeMux() // on an internal address, or behind authentication

	admin.Handle("GET /listening", mcphttp.Status(hub, mcphttp.StatusPrincipals()))

	w := httptest.NewRecorder()
	admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/listening?format=json", http.NoBody))
	fmt.Print(w.Body)
	// Output: {"open":0,"opening":0,"shown":0,"streams":[],"refused":{},"closed":{},"unflushed":0}
}
