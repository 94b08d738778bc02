//go:build unix

// The example as a client of its standard streams sees it. The official TypeScript
// client does the same in interop/stdio.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
	"go.uber.org/goleak"
)

// asServer in the environment makes the test binary the program, for the directory
// that it names.
const asServer = "STDIO_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asServer); dir != "" {
		if err := run(context.Background(), dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds waiting for something to happen. It is never waited for in full
// unless a test fails.
const patience = 30 * time.Second

// settled is for how long a test waits for what must not come. The SDK tells of a
// change after 10 ms without another.
const settled = 100 * time.Millisecond

type peer struct {
	t     *testing.T
	dir   string
	in    *io.PipeWriter
	lines chan string
	ended chan error
	stop  context.CancelFunc
}

func serve(t *testing.T, files ...string) *peer {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &peer{t: t, dir: dir, lines: make(chan string, 1000), ended: make(chan error, 1)}
	for _, name := range files {
		c.write(name, "new")
	}
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	c.in = in
	ctx, cancel := context.WithCancel(t.Context())
	c.stop = cancel
	go func() {
		c.ended <- run(ctx, dir, stdin, stdout)
		_ = stdout.Close()
	}()
	go func() {
		defer close(c.lines)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			c.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		for open := true; open; {
			_, open = <-c.lines
		}
		cancel()
	})
	return c
}

func (c *peer) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *peer) uri(name string) string { return "file://" + filepath.Join(c.dir, name) }

func (c *peer) request(id int, method string, params map[string]any) {
	c.t.Helper()
	params["_meta"] = map[string]any{core.MetaProtocolVersion: core.ProtocolVersion, core.MetaClientCapabilities: map[string]any{}}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		c.t.Fatal(err)
	}
}

// await reads lines until one holds all the parts, and returns it.
func (c *peer) await(parts ...string) string {
	c.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("the output ended before a line with %q", parts)
			}
			all := true
			for _, part := range parts {
				all = all && strings.Contains(line, part)
			}
			if all {
				return line
			}
		case <-timer.C:
			c.t.Fatalf("no line with %q", parts)
		}
	}
}

func TestListReadListen(t *testing.T) {
	t.Parallel()
	c := serve(t, "a.txt")
	c.request(1, core.MethodDiscover, map[string]any{})
	discovered := c.await(`"id":1`)
	if !strings.Contains(discovered, `"resources":{"listChanged":true,"subscribe":true}`) {
		t.Errorf("discovered: %s", discovered)
	}
	c.request(2, "resources/list", map[string]any{})
	c.await(`"id":2`, c.uri("a.txt"))
	c.request(3, core.MethodListen, map[string]any{"notifications": map[string]any{
		"resourcesListChanged": true, "resourceSubscriptions": []string{c.uri("a.txt")},
	}})
	c.await(core.MethodAcknowledged, `"io.modelcontextprotocol/subscriptionId":3`)
	c.write("a.txt", "changed")
	c.await(core.MethodResourceUpdated, c.uri("a.txt"))
	c.request(4, "resources/read", map[string]any{"uri": c.uri("a.txt")})
	c.await(`"id":4`, `"changed"`)
	c.write("b.txt", "new")
	c.await(core.MethodResourcesListChanged)
	c.request(5, "resources/list", map[string]any{})
	c.await(`"id":5`, c.uri("b.txt"))
	// A file that is not there cannot be listened to.
	c.request(6, core.MethodListen, map[string]any{"notifications": map[string]any{
		"resourceSubscriptions": []string{c.uri("none")},
	}})
	c.await(`"id":6`, "-32602")
	_ = c.in.Close()
	if err := <-c.ended; err != nil {
		t.Errorf("run: %v", err)
	}
}

// All that a client gets unasked is of a subscription. The SDK's server, behind, would
// tell every client of the list.
func TestNothingUnasked(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const id = `"io.modelcontextprotocol/subscriptionId":1`
	c.request(1, core.MethodListen, map[string]any{"notifications": map[string]any{"resourcesListChanged": true}})
	c.await(core.MethodAcknowledged, id)
	for i := range 3 {
		c.write(fmt.Sprint("new", i), "new")
		told := false
		for quiet := time.After(settled); quiet != nil || !told; {
			select {
			case line := <-c.lines:
				told = told || strings.Contains(line, core.MethodResourcesListChanged)
				if !strings.Contains(line, id) {
					t.Fatalf("of no subscription: %s", line)
				}
			case <-quiet:
				quiet = nil
			}
		}
	}
}

// An older client, which initializes and does not subscribe, is told of the list by
// the SDK's server.
func TestOlderClient(t *testing.T) {
	t.Parallel()
	c := serve(t)
	if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
		`"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`+"\n"+
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	c.await(`"id":1`, `"result"`)
	c.await(`"id":2`, `"result"`)
	c.write("a.txt", "new")
	if line := c.await(core.MethodResourcesListChanged); strings.Contains(line, "subscriptionId") {
		t.Errorf("an older client got %s", line)
	}
}

// Our own client follows the program without ever giving up a stream.
func TestFollowed(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server := client.Command(func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asServer+"="+dir, "GORACE=atexit_sleep_ms=0")
		return cmd
	})
	f, err := client.Follow(ctx, server, core.Filter{ResourcesListChanged: true},
		client.WithOnRetry(func(r client.Retry) { t.Errorf("a stream ended: %v", r.End) }))
	if err != nil {
		t.Fatal(err)
	}
	created := 0
	for n := range f.Notifications() {
		if n.Kind != client.Started && n.Kind != client.Resources {
			t.Errorf("got %v", n)
		}
		if created == 3 {
			f.Close()
			continue
		}
		created++
		<-time.After(settled)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(created)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if end := f.End(); end.Cause != client.Local || created != 3 {
		t.Errorf("after %d files it ended: %v", created, end)
	}
}

// A signal ends subscriptions with their result.
func TestGoodbye(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.request(1, core.MethodListen, map[string]any{"notifications": map[string]any{"resourcesListChanged": true}})
	c.await(core.MethodAcknowledged)
	c.stop()
	c.await(`"id":1`, `"resultType":"complete"`)
	if err := <-c.ended; err != nil {
		t.Errorf("run: %v", err)
	}
}
