// Package mounttest tests how an endpoint sits in a framework: in a group of its
// router, behind the group's authentication, with the principal in the
// framework's own context. Package listentest tests what it answers there.
package mounttest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// Prefix is the prefix of the group, Path the endpoint's path in it.
const (
	Prefix = "/api/v1"
	Path   = "/mcp"
)

// hang is when a test that waits in vain is given up.
const hang = time.Minute

// Build mounts an endpoint of the hub at Path in a group with Prefix. The group's
// authentication calls [Authenticate], answers 401 where it fails, and leaves the
// principal in the framework's context, where the endpoint finds it. Other
// requests go to next.
type Build func(tb testing.TB, hub *core.Hub, next http.Handler) http.Handler

// Authenticate returns who sent a request.
func Authenticate(r *http.Request) (principal string, ok bool) {
	return strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// Run runs the tests.
func Run(t *testing.T, build Build) {
	t.Helper()
	t.Run("Group", func(t *testing.T) { group(t, build) })
	t.Run("Pooling", func(t *testing.T) { pooling(t, build) })
}

// service is a running server.
type service struct {
	*httptest.Server
	hub *core.Hub
	ctx context.Context
}

func start(t *testing.T, build Build) *service {
	t.Helper()
	hub, err := core.NewHub(core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}, KeepAlive: -1})
	if err != nil {
		t.Fatal(err)
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, "next: %s", body)
	})
	s := &service{Server: httptest.NewServer(build(t, hub, next)), hub: hub}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	s.ctx = ctx
	t.Cleanup(func() {
		cancel()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// do sends a request. Without a principal it is not authenticated.
func (s *service) do(method, mcpMethod, principal, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(s.ctx, method, s.URL+Prefix+Path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mcp-Protocol-Version", core.ProtocolVersion)
	req.Header.Set("Mcp-Method", mcpMethod)
	if principal != "" {
		req.Header.Set("Authorization", "Bearer "+principal)
	}
	return s.Client().Do(req)
}

// listen opens a stream and reads its first line.
func (s *service) listen(principal, id string) (*http.Response, string, error) {
	resp, err := s.do(http.MethodPost, core.MethodListen, principal,
		`{"jsonrpc":"2.0","id":"`+id+`","method":"subscriptions/listen","params":{"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`+
			`"notifications":{"toolsListChanged":true}}}`)
	if err != nil {
		return nil, "", err
	}
	var line []byte
	for b := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; line = append(line, b...) {
		if _, err := io.ReadFull(resp.Body, b); err != nil {
			_ = resp.Body.Close()
			return nil, "", fmt.Errorf("%s: %q: %w", resp.Status, line, err)
		}
	}
	return resp, string(line), nil
}

// group: every method is the group's first and then ours, and the principal is
// the one that the group found.
func group(t *testing.T, build Build) {
	t.Parallel()
	s := start(t, build)
	for _, method := range []string{"GET", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "POST"} {
		resp, err := s.do(method, core.MethodListen, "", "")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a token: got %s, want the group's 401", method, resp.Status)
		}
		if method == "POST" {
			continue
		}
		if resp, err = s.do(method, core.MethodListen, "alice", ""); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if allow := resp.Header.Values("Allow"); resp.StatusCode != http.StatusMethodNotAllowed || len(allow) != 1 || allow[0] != "POST" {
			t.Errorf("%s: got %s, Allow %q, want 405 and POST", method, resp.Status, allow)
		}
	}
	resp, line, err := s.listen("alice", "1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if !strings.Contains(line, core.MethodAcknowledged) {
		t.Errorf("got %s, want the acknowledgment", line)
	}
	if streams := s.hub.Streams(); len(streams) != 1 || streams[0].Principal != "alice" {
		t.Errorf("got the streams %+v, want one of alice", streams)
	}
}

// pooling: frameworks use their contexts again for other requests. Streams that
// are open meanwhile keep their own.
func pooling(t *testing.T, build Build) {
	t.Parallel()
	s := start(t, build)
	const clients, rounds = 8, 10
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for j := range rounds {
				principal := fmt.Sprintf("%d-%d", i, j)
				stream, line, err := s.listen(principal, principal)
				if err != nil {
					t.Errorf("listen: %v", err)
					return
				}
				if !strings.Contains(line, `"`+principal+`"`) {
					t.Errorf("stream %s got %s", principal, line)
				}
				resp, err := s.do(http.MethodPost, "tools/list", principal, principal)
				if err != nil {
					t.Errorf("next: %v", err)
					return
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if string(body) != "next: "+principal {
					t.Errorf("the next handler got %q, want the body %q", body, principal)
				}
				n := s.hub.EndWhere(func(info core.StreamInfo) bool {
					return info.Principal == principal && info.ID.String() == `"`+principal+`"`
				})
				if n != 1 {
					t.Errorf("%d streams are %s's with its id, want 1", n, principal)
				}
				rest, err := io.ReadAll(stream.Body)
				_ = stream.Body.Close()
				if err != nil || !strings.Contains(string(rest), `"result"`) {
					t.Errorf("stream %s ended with %q, %v, want its result", principal, rest, err)
				}
			}
		})
	}
	all.Wait()
}
