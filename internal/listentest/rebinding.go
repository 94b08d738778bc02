// Host and Origin: what keeps a web page from a server on the same machine or
// behind the same name.

package listentest

import (
	"net"
	"net/http"
	"testing"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// publicConn looks as if it had come in on a public address.
type publicConn struct{ net.Conn }

func (publicConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

func public(c net.Conn) net.Conn { return publicConn{c} }

// guarded checks which values of a header let a listen request through.
func (s suite) guarded(t *testing.T, o Options, header string, values map[string]bool) {
	t.Helper()
	srv := s.start(t, o)
	client := srv.client(t)
	for value, ok := range values {
		call := Listen("7", everything)
		if header == "Host" {
			call = call.At(value)
		} else if value != "" {
			call = call.With(header, value)
		}
		discover := call.With(headerMethod, core.MethodDiscover).
			Saying(`{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{` + metaMember + `}}`)
		if !ok {
			want := wantRefusal{status: 403, code: core.CodeInvalidRequest, says: header}
			client.Do(t, call).refused(t, want, "evil")
			client.Do(t, discover).refused(t, want, "evil")
			continue
		}
		if stream, err := client.Listen(call); err != nil {
			t.Errorf("%s %q: %v", header, value, err)
		} else {
			stream.Close()
		}
		if answer := client.Do(t, discover); answer.Status != http.StatusOK {
			t.Errorf("%s %q: got %d %s, want 200", header, value, answer.Status, answer.Body)
		}
	}
}

func (s suite) hosts(t *testing.T) {
	t.Parallel()
	list := []mcphttp.Option{mcphttp.WithHosts("mcp.example.com", "Other.example.com:8443", "2001:db8::1")}
	for name, c := range map[string]struct {
		options Options
		hosts   map[string]bool
	}{
		"loopback": {Options{}, map[string]bool{
			"": true, "localhost": true, "LocalHost:1": true, "localhost.": true, "127.0.0.1": true, "127.8.8.8:80": true,
			"[::1]": true, "[::1]:8080": true, "app.localhost:3000": true,
			"evil.example": false, "evil.example:80": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
			"evil-localhost": false, "192.0.2.1": false, "0.0.0.0": false, "[::]": false, "mcp.example.com": false,
		}},
		"loopback, list": {Options{HTTP: list}, map[string]bool{
			"": true, "localhost": true, "mcp.example.com": true, "MCP.example.com:443": true, "mcp.example.com.": true,
			"other.example.com": true, "[2001:db8::1]:443": true,
			"evil.mcp.example.com": false, "example.com": false, "mcp.example.com.evil": false,
		}},
		"public": {Options{Conn: public}, map[string]bool{
			"": true, "mcp.example.com": true, "whatever": true,
		}},
		"public, list": {Options{Conn: public, HTTP: list}, map[string]bool{
			"mcp.example.com": true, "other.example.com": true, "localhost": false, "127.0.0.1": false, "evil.example": false,
		}},
		"over HTTP2": {Options{Protocol: H2C}, map[string]bool{
			"": true, "localhost:1": true, "evil.example": false,
		}},
		"over TLS": {Options{Protocol: H2TLS, Conn: public, HTTP: list}, map[string]bool{
			"mcp.example.com": true, "evil.example": false,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.guarded(t, c.options, "Host", c.hosts)
		})
	}
}

func (s suite) origins(t *testing.T) {
	t.Parallel()
	list := []mcphttp.Option{
		mcphttp.WithOrigins("https://app.example.com", "http://web.example.com:8080/"),
		mcphttp.WithOrigins("http://plain.example.com:80"),
	}
	loopback := map[string]bool{
		"": true, "http://localhost": true, "http://localhost:3000": true, "https://127.0.0.1:1": true, "http://[::1]:8080": true,
		"http://app.localhost": true,
		"null":                 false, "http://evil.example": false, "http://evil.example:80": false, "http://localhost.evil.example": false,
		"file://": false, "localhost": false, "evil://localhost": false, "http://192.0.2.1": false, "https://app.example.com": false,
		"http://": false, "://evil": false,
	}
	for name, c := range map[string]struct {
		options Options
		origins map[string]bool
	}{
		"loopback":   {Options{}, loopback},
		"over HTTP2": {Options{Protocol: H2C}, loopback},
		"loopback, list": {Options{HTTP: list}, map[string]bool{
			"": true, "https://app.example.com": true, "https://app.example.com:443": true, "http://web.example.com:8080": true,
			"http://plain.example.com": true, "HTTPS://App.Example.com": true,
			"http://app.example.com": false, "https://app.example.com:8443": false, "http://web.example.com": false,
			"http://web.example.com:80": false, "http://localhost": false, "http://127.0.0.1:3000": false, "null": false,
			"https://evil.app.example.com": false, "https://app.example.com.evil": false, "http://evil.example": false,
		}},
		"public": {Options{Conn: public}, map[string]bool{
			"": true, "http://localhost": false, "http://127.0.0.1": false, "http://192.0.2.1": false, "https://app.example.com": false, "null": false,
		}},
		"public, list": {Options{Conn: public, HTTP: list}, map[string]bool{
			"": true, "https://app.example.com": true, "http://localhost": false, "http://evil.example": false,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.guarded(t, c.options, "Origin", c.origins)
		})
	}
	t.Run("two", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{})
		client := srv.client(t)
		want := wantRefusal{status: 403, code: core.CodeInvalidRequest, says: "Origin"}
		client.Do(t, Listen("7", everything).With("Origin", "http://localhost", "http://evil.example")).refused(t, want, "evil")
		client.Do(t, Listen("7", everything).With("Origin", "http://localhost http://evil.example")).refused(t, want, "evil")
		client.Do(t, Listen("7", everything).With("Origin", "")).refused(t, want, "evil")
	})
}
