// The guard, in tables: hosts and origins in every spelling, on every kind of
// listener. The adapters' common tests ask it over sockets.

package mcphttp_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

// ownAddr is the address of a listener with a type of its own.
type ownAddr string

func (ownAddr) Network() string  { return "own" }
func (a ownAddr) String() string { return string(a) }

// guarded asks for a stream and returns the status and the error's message.
func guarded(t *testing.T, h http.Handler, local net.Addr, host string, origins ...string) (status int, body string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, listentest.Path, strings.NewReader(listentest.ListenBody("7", "{}")))
	r.Header = listentest.Listen("7", "{}").Header.Clone()
	r.Host = host
	for _, origin := range origins {
		r.Header.Add("Origin", origin)
	}
	if local != nil {
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func newHandler(t *testing.T, options ...mcphttp.Option) *mcphttp.Handler {
	t.Helper()
	h, err := mcphttp.New(newHub(t, core.Config{}), options...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var (
	onLoopback4 = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	onLoopback6 = &net.TCPAddr{IP: net.IPv6loopback, Port: 8080}
	onPublic    = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}
)

func TestGuardHosts(t *testing.T) {
	t.Parallel()
	plain := newHandler(t)
	listed := newHandler(t, mcphttp.WithHosts("mcp.example.com", "*.Apps.Example.com", "xn--bcher-kva.example", "[2001:db8::1]:8443", "192.0.2.7"))
	const yes, no = http.StatusOK, http.StatusForbidden
	for _, test := range []struct {
		h     http.Handler
		local net.Addr
		host  string
		want  int
	}{
		// A loopback listener, by default: every name of the machine itself.
		{plain, onLoopback4, "localhost", yes},
		{plain, onLoopback4, "LOCALHOST.:8080", yes},
		{plain, onLoopback4, "app.localhost", yes},
		{plain, onLoopback4, "127.0.0.1:8080", yes},
		{plain, onLoopback4, "127.1.2.3", yes},
		{plain, onLoopback4, "[::1]", yes},
		{plain, onLoopback6, "[::1]:8080", yes},
		{plain, onLoopback6, "[::ffff:127.0.0.1]:8080", yes},
		{plain, onLoopback6, "localhost", yes},
		{plain, onLoopback4, "", no},
		{plain, onLoopback4, "localhost..", no},
		{plain, onLoopback4, "mylocalhost", no},
		{plain, onLoopback4, "localhost.example", no},
		{plain, onLoopback4, "127.0.0.1.example", no},
		{plain, onLoopback4, "127.0.0.1:80:80", no},
		{plain, onLoopback4, "2130706433", no},
		{plain, onLoopback4, "0.0.0.0", no},
		{plain, onLoopback4, "[::]:8080", no},
		{plain, onLoopback4, "192.0.2.1", no},
		{plain, onLoopback4, "mcp.example.com", no},
		// The same where the listener has addresses of its own.
		{plain, ownAddr("127.0.0.1:8080"), "evil.example", no},
		{plain, ownAddr("[::1]:8080"), "evil.example", no},
		{plain, ownAddr("127.0.0.1:8080"), "localhost", yes},
		{plain, ownAddr("192.0.2.1:80"), "whatever", yes},
		{plain, &net.UnixAddr{Name: "/run/mcp.sock", Net: "unix"}, "whatever", yes}, // no name leads there
		{plain, nil, "whatever", yes},
		// Any other listener, by default: its names are its operator's affair.
		{plain, onPublic, "whatever.example", yes},
		{plain, onPublic, "", yes},
		// A list: those names, and the machine's own on a loopback listener.
		{listed, onLoopback4, "mcp.example.com", yes},
		{listed, onLoopback4, "MCP.Example.COM.:443", yes},
		{listed, onLoopback4, "localhost:8080", yes},
		{listed, onPublic, "mcp.example.com:443", yes},
		{listed, onPublic, "localhost", no},
		{listed, onPublic, "", no},
		{listed, onPublic, "example.com", no},
		{listed, onPublic, "x.mcp.example.com", no},
		{listed, onPublic, "mcp.example.com.evil.example", no},
		{listed, onPublic, "a.apps.example.com", yes},
		{listed, onPublic, "A.B.apps.example.com:1", yes},
		{listed, onPublic, "apps.example.com", no},
		{listed, onPublic, "evilapps.example.com", no},
		{listed, onPublic, ".apps.example.com", no},
		{listed, onPublic, "XN--BCHER-KVA.example", yes},
		{listed, onPublic, "bücher.example", no}, // no client sends it so
		{listed, onPublic, "[2001:db8::1]", yes},
		{listed, onPublic, "[2001:DB8::1]:443", yes},
		{listed, onPublic, "[2001:db8::2]", no},
		{listed, onPublic, "192.0.2.7:8080", yes},
		{listed, onPublic, "192.0.2.70", no},
	} {
		status, body := guarded(t, test.h, test.local, test.host)
		if status != test.want || status == no && !strings.Contains(body, "the Host is not allowed") {
			t.Errorf("host %q on %v: %d %s, want %d", test.host, test.local, status, body, test.want)
		}
	}
}

func TestGuardOrigins(t *testing.T) {
	t.Parallel()
	plain := newHandler(t)
	listed := newHandler(t, mcphttp.WithOrigins(
		"https://app.example.com", "http://web.example.com:8080/", "https://*.Apps.example.com", "https://*.dev.example.com:8443",
		"https://xn--bcher-kva.example", "http://[2001:db8::1]:3000", "chrome-extension://abcdef",
	))
	const yes, no = http.StatusOK, http.StatusForbidden
	for _, test := range []struct {
		h       http.Handler
		local   net.Addr
		origins []string
		want    int
	}{
		{plain, onLoopback4, nil, yes},
		{plain, onPublic, nil, yes},
		{plain, onLoopback4, []string{"http://localhost:5173"}, yes},
		{plain, onLoopback4, []string{"https://[::1]:1"}, yes},
		{plain, onLoopback4, []string{"null"}, no},
		{plain, onLoopback4, []string{"NULL"}, no},
		{plain, onLoopback4, []string{""}, no},
		{plain, onLoopback4, []string{"https://evil.example"}, no},
		{plain, onLoopback4, []string{"file://localhost"}, no},
		{plain, onLoopback4, []string{"http://localhost@evil.example"}, no},
		{plain, onLoopback4, []string{"http://localhost:5173", "https://evil.example"}, no},
		{plain, onPublic, []string{"http://localhost:5173"}, no}, // of the visitor's machine
		{plain, onPublic, []string{"https://mcp.example.com"}, no},

		{listed, onPublic, nil, yes},
		{listed, onPublic, []string{"https://app.example.com"}, yes},
		{listed, onPublic, []string{"https://APP.example.com:443"}, yes},
		{listed, onPublic, []string{"https://app.example.com."}, yes},
		{listed, onPublic, []string{"https://app.example.com:8443"}, no},
		{listed, onPublic, []string{"http://app.example.com"}, no},
		{listed, onPublic, []string{"http://app.example.com:443"}, no},
		{listed, onPublic, []string{"https://example.com"}, no},
		{listed, onPublic, []string{"https://app.example.com.evil.example"}, no},
		{listed, onPublic, []string{"https://evil.example/https://app.example.com"}, no},
		{listed, onPublic, []string{"https://app.example.com/"}, no}, // browsers send none
		{listed, onPublic, []string{"https://app.example.com https://evil.example"}, no},
		{listed, onPublic, []string{"http://web.example.com:8080"}, yes},
		{listed, onPublic, []string{"http://web.example.com"}, no},
		{listed, onPublic, []string{"https://a.apps.example.com"}, yes},
		{listed, onPublic, []string{"https://A.B.APPS.example.com"}, yes},
		{listed, onPublic, []string{"https://apps.example.com"}, no},
		{listed, onPublic, []string{"https://evilapps.example.com"}, no},
		{listed, onPublic, []string{"http://a.apps.example.com"}, no},
		{listed, onPublic, []string{"https://a.apps.example.com:8443"}, no},
		{listed, onPublic, []string{"https://a.dev.example.com:8443"}, yes},
		{listed, onPublic, []string{"https://a.dev.example.com"}, no},
		{listed, onPublic, []string{"https://XN--BCHER-KVA.example"}, yes},
		{listed, onPublic, []string{"http://[2001:DB8::1]:3000"}, yes},
		{listed, onPublic, []string{"http://[2001:db8::1]"}, no},
		{listed, onPublic, []string{"chrome-extension://abcdef"}, yes},
		{listed, onPublic, []string{"chrome-extension://other"}, no},
		{listed, onPublic, []string{"null"}, no},
		{listed, onLoopback4, []string{"http://localhost:5173"}, no}, // the list replaces the default
	} {
		status, body := guarded(t, test.h, test.local, "localhost", test.origins...)
		if status != test.want || status == no && !strings.Contains(body, "the Origin is not allowed") {
			t.Errorf("origins %q on %v: %d %s, want %d", test.origins, test.local, status, body, test.want)
		}
	}
}

// TestGuardNamesTheFailedCheck: the Host's, where both fail.
func TestGuardNamesTheFailedCheck(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	status, body := guarded(t, h, onLoopback4, "evil.example", "https://evil.example")
	if status != http.StatusForbidden || !strings.Contains(body, "the Host is not allowed") || strings.Contains(body, "evil") {
		t.Errorf("got %d %s, want 403 that names the Host and repeats nothing", status, body)
	}
}

// TestGuardRefusesListsThatNeverMatch: a mistake in a list is found at the start
// and not by the first client.
func TestGuardRefusesListsThatNeverMatch(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	for name, option := range map[string]mcphttp.Option{
		"origin in another script": mcphttp.WithOrigins("https://bücher.example"),
		"origin that is any":       mcphttp.WithOrigins("https://*"),
		"origin of no domain":      mcphttp.WithOrigins("https://*."),
		"origin with two stars":    mcphttp.WithOrigins("https://*.*.example.com"),
		"origin with a star in it": mcphttp.WithOrigins("https://app-*.example.com"),
		"origin null":              mcphttp.WithOrigins("null"),
		"host in another script":   mcphttp.WithHosts("bücher.example"),
		"host that is any":         mcphttp.WithHosts("*"),
		"host of no domain":        mcphttp.WithHosts("*."),
		"host with a dot":          mcphttp.WithHosts(".example.com"),
		"host with a path":         mcphttp.WithHosts("example.com/mcp"),
		"host with a space":        mcphttp.WithHosts("a.example b.example"),
	} {
		if h, err := mcphttp.New(hub, option); h != nil || err == nil {
			t.Errorf("%s: got %v, want an error", name, err)
		} else if !strings.HasPrefix(err.Error(), "mcphttp: ") {
			t.Errorf("%s: the error is %q, want the package's name first", name, fmt.Sprint(err))
		}
	}
}
