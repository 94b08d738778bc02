//go:build unix

// The example as a client of its standard streams sees it. The official TypeScript
// client does the same in interop/stdio.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waiting for something to happen. It is never waited for in full
// unless a test fails.
const patience = 30 * time.Second

type client struct {
	t     *testing.T
	dir   string
	in    *io.PipeWriter
	lines chan string
	ended chan error
	stop  context.CancelFunc
}

func serve(t *testing.T, files ...string) *client {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, dir: dir, lines: make(chan string, 1000), ended: make(chan error, 1)}
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

func (c *client) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) uri(name string) string { return "file://" + filepath.Join(c.dir, name) }

func (c *client) request(id int, method string, params map[string]any) {
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
func (c *client) await(parts ...string) string {
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
