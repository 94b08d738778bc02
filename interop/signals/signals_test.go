// A real process and its signals: what Go's own tests, which run the server in their
// own process, cannot show.

// Package signals tests the end of examples/everything by SIGTERM, with curl and
// with a client that does not read.
package signals

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/interop/internal/program"
)

const (
	acknowledged = "notifications/subscriptions/acknowledged"
	toolsChanged = "notifications/tools/list_changed"
)

func body(filter string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},` +
		`"notifications":` + filter + `}}`
}

// headers are those of a listen request.
var headers = []string{
	"Content-Type: application/json", "Accept: application/json, text/event-stream",
	"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen",
}

// curl is a running curl.
type curl struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string
	exited chan error
}

func startCurl(t *testing.T, args ...string) *curl {
	t.Helper()
	c := &curl{t: t, cmd: exec.Command("curl", append([]string{"-sS", "--no-buffer", "--max-time", "60"}, args...)...),
		lines: make(chan string, 1000), exited: make(chan error, 1)}
	for _, h := range headers {
		c.cmd.Args = append(c.cmd.Args, "-H", h)
	}
	c.cmd.Stderr = t.Output()
	out, err := program.Spawn(c.cmd)
	if err != nil {
		t.Fatalf("curl: %v", err)
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			if line := s.Text(); line != "" && !strings.HasPrefix(line, ":") {
				c.lines <- line
			}
		}
	}()
	go func() { c.exited <- c.cmd.Wait() }()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		c.exited <- <-c.exited
	})
	return c
}

func (c *curl) expect(what string) {
	c.t.Helper()
	select {
	case line := <-c.lines:
		if !strings.Contains(line, what) {
			c.t.Fatalf("curl prints %q, want %s", line, what)
		}
	case <-time.After(program.Hang):
		c.t.Fatalf("curl does not print %s", what)
	}
}

// ends expects the end of curl, with success and without another line.
func (c *curl) ends() {
	c.t.Helper()
	select {
	case err := <-c.exited:
		c.exited <- err
		if line, more := <-c.lines; err != nil || more {
			c.t.Errorf("curl ends with %v, after %q", err, line)
		}
	case <-time.After(program.Hang):
		c.t.Fatal("curl does not end")
	}
}

func TestCurl(t *testing.T) {
	t.Parallel()
	cert, key, _ := program.Certificate(t)
	for _, framework := range program.Frameworks {
		for protocol, c := range map[string]struct{ flags, args []string }{
			"HTTP1": {nil, []string{"--http1.1"}},
			"H2C":   {[]string{"-h2c"}, []string{"--http2-prior-knowledge"}},
			"H2TLS": {[]string{"-tls-cert", cert, "-tls-key", key}, []string{"--http2", "--cacert", cert}},
		} {
			t.Run(framework+" "+protocol, func(t *testing.T) {
				t.Parallel()
				p := program.Start(t, append(c.flags, "-framework", framework, "-keepalive", "300ms")...)
				listen := func() *curl {
					t.Helper()
					c := startCurl(t, append(c.args, "-d", body(`{"toolsListChanged":true}`), p.URL)...)
					c.expect(acknowledged)
					return c
				}
				one, two, gone := listen(), listen(), listen()
				p.Publish("kind=tools")
				for _, c := range []*curl{one, two, gone} {
					c.expect(toolsChanged)
				}
				_ = gone.cmd.Process.Kill()
				p.Until("curl has gone", func(s program.Stats) bool { return s.Streams == 2 && s.Closed["client_closed"] == 1 })

				get := startCurl(t, append(c.args, "-o", "/dev/null", "-w", "%{http_code} %header{allow} %{http_version}\n", p.URL)...)
				version := map[bool]string{true: "1.1", false: "2"}[protocol == "HTTP1"]
				get.expect("405 POST " + version)
				get.ends()

				p.Signal(syscall.SIGTERM)
				for _, c := range []*curl{one, two} {
					c.expect(`"result"`)
					c.ends()
				}
				p.Exited()
			})
		}
	}
}

// A client that does not read delays the end by no more than the write timeout, and
// nobody else's at all.
func TestNotReading(t *testing.T) {
	t.Parallel()
	const writeTimeout = 6 * time.Second
	for _, framework := range program.Frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			p := program.Start(t, "-framework", framework, "-write-timeout", writeTimeout.String())
			var uris []string
			for i := range 400 {
				uris = append(uris, fmt.Sprintf("u:%d:%s", i, strings.Repeat("x", 2000)))
			}
			lazy := dialLazy(t, p, uris)
			reading := startCurl(t, "-d", body(`{"toolsListChanged":true}`), p.URL)
			reading.expect(acknowledged)
			for range 12 { // 10 MB: more than the kernel takes for a connection
				publishAll(t, p, uris)
			}

			began := time.Now()
			p.Signal(syscall.SIGTERM)
			reading.expect(`"result"`)
			reading.ends()
			prompt := time.Since(began)
			p.Exited()
			took := time.Since(began)
			t.Logf("figures: %s: others had their result after %.2f s, exit after %.2f s (write timeout %v)",
				framework, prompt.Seconds(), took.Seconds(), writeTimeout)
			if prompt > writeTimeout/2 {
				t.Errorf("the reading client's end took %v", prompt)
			}
			if took > writeTimeout+3*time.Second {
				t.Errorf("the exit took %v, with a write timeout of %v", took, writeTimeout)
			}
			rest, _ := io.ReadAll(lazy)
			if strings.Contains(string(rest), `"result"`) {
				t.Errorf("the client that did not read got a result: it was not stalled, %d bytes", len(rest))
			}
		})
	}
}

// dialLazy opens a stream, reads its acknowledgment, and nothing more.
func dialLazy(t *testing.T, p *program.Program, uris []string) net.Conn {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		ctlErr := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
		if ctlErr != nil {
			return ctlErr
		}
		return err
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	text := body(`{"resourceSubscriptions":["` + strings.Join(uris, `","`) + `"]}`)
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\n%s\r\nContent-Length: %d\r\n\r\n%s",
		p.Addr, strings.Join(headers, "\r\n"), len(text), text)
	if err != nil {
		t.Fatal(err)
	}
	seen := make([]byte, 0, 4<<10)
	for !strings.Contains(string(seen), acknowledged) {
		n, err := conn.Read(seen[len(seen):cap(seen)])
		if seen = seen[:len(seen)+n]; err != nil {
			t.Fatalf("%q, %v", seen, err)
		}
	}
	return conn
}

// publishAll publishes an update of each URI, over one connection.
func publishAll(t *testing.T, p *program.Program, uris []string) {
	t.Helper()
	for _, uri := range uris {
		resp, err := http.Post(p.Admin+"/publish?kind=updated&uri="+url.QueryEscape(uri), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}
