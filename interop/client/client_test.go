// The client against other people's servers: each end is what it is said to be.

// Package interop holds the tests of mcplisten's client against the servers of
// the official Go and TypeScript SDKs and of mcp-go.
package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// nodeModules names the folder in which server.mjs finds its packages. Without it
// the TypeScript server is left out.
const nodeModules = "MCPLISTEN_INTEROP_NODE"

const hang = time.Minute

// sdk is a server and what is known of it.
type sdk struct {
	name    string
	command func(args ...string) *exec.Cmd
	stdio   bool

	updates  bool         // delivers what it acknowledges of resources
	untagged bool         // its changes over standard streams name no subscription
	end      client.Cause // of a stream that the server ends; empty: now this, now that
	nothing  client.Cause // of a stream that honors nothing
}

func sdks(t *testing.T) []sdk {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "server")
	if out, err := exec.Command("go", "build", "-o", binary, "./server").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	goServer := func(name string) func(...string) *exec.Cmd {
		return func(args ...string) *exec.Cmd {
			return exec.Command(binary, append([]string{"-sdk", name}, args...)...)
		}
	}
	all := []sdk{
		{name: "mcplisten", command: goServer("mcplisten"), updates: true, end: client.Graceful, nothing: client.Graceful},
		// The result of go-sdk races with the end of its connection.
		{name: "gosdk", command: goServer("gosdk"), stdio: true, updates: true, nothing: client.Graceful},
		// Over HTTP mcp-go acknowledges resources and delivers no update of them, and
		// closes without a result. Over standard streams its changes name no
		// subscription.
		{name: "mcpgo", command: goServer("mcpgo"), stdio: true, untagged: true, end: client.Dropped, nothing: client.Graceful},
	}
	if modules := os.Getenv(nodeModules); modules != "" {
		script, err := os.ReadFile("server.mjs")
		if err == nil {
			// Node looks for packages beside the script.
			err = os.WriteFile(filepath.Join(modules, "server.mjs"), script, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sdk{
			name: "typescript", stdio: true, updates: true, end: client.Graceful, nothing: client.Graceful,
			command: func(args ...string) *exec.Cmd {
				for i, a := range args {
					args[i] = strings.TrimPrefix(a, "-")
				}
				return exec.Command("node", append([]string{filepath.Join(modules, "server.mjs")}, args...)...)
			},
		})
	}
	return all
}

// running is a server over HTTP.
type running struct {
	tb  testing.TB
	url client.URL
	adm string
	cmd *exec.Cmd
}

func (s sdk) start(tb testing.TB) *running {
	tb.Helper()
	cmd := s.command()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatalf("%s: %v", s.name, err)
	}
	r := &running{tb: tb, cmd: cmd}
	tb.Cleanup(r.kill)
	lines := bufio.NewScanner(out)
	line := func(prefix string) string {
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), prefix) {
			tb.Fatalf("%s says %q, want %q", s.name, lines.Text(), prefix)
		}
		return strings.TrimPrefix(lines.Text(), prefix)
	}
	r.url = client.URL(line("listening on "))
	r.adm = line("admin on ")
	return r
}

func (r *running) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

func (r *running) admin(path string) {
	r.tb.Helper()
	resp, err := http.Post(r.adm+path, "", nil) //nolint:gosec // our own server
	if err != nil {
		r.tb.Fatalf("%s: %v", path, err)
	}
	_ = resp.Body.Close()
}

func testContext(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	tb.Cleanup(cancel)
	return ctx
}

var filter = core.Filter{ToolsListChanged: true, PromptsListChanged: true, ResourceSubscriptions: []string{"file:///a"}}

// next returns what is yielded next.
func next(tb testing.TB, s *client.Stream) client.Notification {
	tb.Helper()
	for n := range s.Notifications() {
		return n
	}
	tb.Fatalf("the stream has ended: %v", s.End())
	return client.Notification{}
}

func TestServers(t *testing.T) {
	t.Parallel()
	for _, server := range sdks(t) {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			r := server.start(t)
			listen := func(f core.Filter, options ...client.Option) *client.Stream {
				t.Helper()
				options = append(options, client.WithKeepAlive(0))
				s, err := client.Listen(ctx, r.url, f, options...)
				for range 20 { // mcp-go now and then answers with the result at once, where the stream before has just been closed
					if v := (*client.ViolationError)(nil); server.name != "mcpgo" || !errors.As(err, &v) || v.Rule != client.BeforeAck {
						break
					}
					s, err = client.Listen(ctx, r.url, f, options...)
				}
				if err != nil {
					t.Fatalf("Listen: %s: %v", client.CauseOf(err), err)
				}
				return s
			}

			s := listen(filter)
			if got := s.LeftOut(); !got.PromptsListChanged || got.ToolsListChanged || len(got.ResourceSubscriptions) > 0 {
				t.Errorf("left out: %+v, want prompts", got)
			}
			r.admin("/publish?kind=tools")
			if n := next(t, s); n.Kind != client.Tools {
				t.Errorf("got %v, want tools", n)
			}
			if server.updates {
				r.admin("/publish?kind=updated&uri=file:///a")
				if n := next(t, s); n.Kind != client.Updated || n.URI != "file:///a" {
					t.Errorf("got %v, want file:///a", n)
				}
			}
			s.Close()
			if end := s.End(); end.Cause != client.Local || !errors.Is(end.Err, client.ErrClosed) {
				t.Errorf("closed here: %v", end)
			}

			s = listen(core.Filter{PromptsListChanged: true})
			if end := s.End(); end.Cause != server.nothing || !s.Honored().Empty() {
				t.Errorf("nothing honored: %v, want %s", end, server.nothing)
			}

			wire := &recorder{}
			s = listen(filter, client.WithHTTPClient(&http.Client{Transport: wire}))
			r.admin("/end")
			want := client.Dropped
			end := s.End()
			if wire.contains(`"resultType"`) {
				want = client.Graceful
			}
			if end.Cause != want || server.end != "" && end.Cause != server.end {
				t.Errorf("ended by the server: %v, on the wire it was %s, want %s", end, want, server.end)
			}

			if server.name != "typescript" { // its handler is closed for good
				s = listen(filter)
				r.admin("/cut")
				if end := s.End(); end.Cause != client.Dropped {
					t.Errorf("cut: %v", end)
				}
				_, err := client.Listen(ctx, r.url, filter)
				if client.CauseOf(err) != client.Dropped || !errors.Is(err, client.ErrUnreachable) {
					t.Errorf("nobody listens any more: %v", err)
				}
			}
		})
	}
}

// recorder keeps what comes over the wire.
type recorder struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.bytes.Reset() // what is asked for again counts anew
	r.mu.Unlock()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		resp.Body = &recorded{resp.Body, r}
	}
	return resp, err
}

func (r *recorder) contains(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.bytes.Bytes(), []byte(text))
}

type recorded struct {
	io.ReadCloser
	to *recorder
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	r.to.bytes.Write(p[:n])
	return n, err
}

// A server that is killed is a drop, after which Follow tries again.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, server := range sdks(t) {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			r := server.start(t)
			retries := make(chan client.Retry, 2)
			f, err := client.Follow(testContext(t), r.url, filter,
				client.WithBackoff(client.Backoff{First: time.Millisecond, Max: time.Hour}),
				client.WithOnRetry(func(retry client.Retry) {
					if len(retries) < cap(retries) {
						retries <- retry
					}
				}))
			if err != nil {
				t.Fatal(err)
			}
			for n := range f.Notifications() {
				if n.Kind == client.Started {
					break
				}
			}
			r.kill()
			if first := <-retries; first.End.Cause != client.Dropped || errors.Is(first.End.Err, client.ErrUnreachable) {
				t.Errorf("killed: %v", first.End)
			}
			if second := <-retries; !errors.Is(second.End.Err, client.ErrUnreachable) {
				t.Errorf("and gone: %v", second.End)
			}
			f.Close()
		})
	}
}

func TestStdio(t *testing.T) {
	t.Parallel()
	for _, server := range sdks(t) {
		if !server.stdio {
			continue
		}
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			s, err := client.Listen(testContext(t), client.Command(func() *exec.Cmd { return server.command("-stdio") }),
				core.Filter{ToolsListChanged: true})
			if err != nil {
				t.Fatalf("Listen: %s: %v", client.CauseOf(err), err)
			}
			if server.untagged {
				var violation *client.ViolationError
				if end := s.End(); !errors.As(end.Err, &violation) || violation.Rule != client.WrongID {
					t.Errorf("got %v, want a violation of %s", end, client.WrongID)
				}
				return
			}
			got := []client.Kind{next(t, s).Kind, next(t, s).Kind}
			if !slices.Equal(got, []client.Kind{client.Tools, client.Tools}) {
				t.Errorf("got %v", got)
			}
			s.Close()
			if end := s.End(); end.Cause != client.Local {
				t.Errorf("got %v", end)
			}
		})
	}
}
