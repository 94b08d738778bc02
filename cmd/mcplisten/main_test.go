// The command as a whole: what it prints and with which code it exits.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// childMode makes the test binary a server on its standard streams.
const childMode = "MCPLISTEN_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		child()
		return
	}
	settle = 100 * time.Millisecond
	// The default HTTP client of package client keeps connections.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// output is written by one goroutine and read by another.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
	on func(text string) // called after each write
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	n, err := o.b.Write(p)
	text := o.b.String()
	o.mu.Unlock()
	if o.on != nil {
		o.on(text)
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func testContext(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// serve serves a hub, behind what wrap makes of its handler.
func serve(tb testing.TB, config core.Config, wrap func(http.Handler) http.Handler) (*core.Hub, string) {
	tb.Helper()
	if config.Capabilities == (core.Capabilities{}) {
		config.Capabilities = core.Capabilities{ToolsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true}
	}
	hub, err := core.NewHub(config)
	if err != nil {
		tb.Fatal(err)
	}
	var handler http.Handler
	handler, err = mcphttp.New(hub)
	if err != nil {
		tb.Fatal(err)
	}
	if wrap != nil {
		handler = wrap(handler)
	}
	srv := httptest.NewServer(handler)
	tb.Cleanup(func() {
		_ = hub.Shutdown(context.Background())
		srv.Close()
	})
	return hub, srv.URL
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args     []string
		code     int
		out, err string
	}{
		{nil, exitUsage, "", "mcplisten check URL"},
		{[]string{"help"}, exitOK, "Exit codes", ""},
		{[]string{"--help"}, exitOK, "Exit codes", ""},
		{[]string{"dance"}, exitUsage, "", `there is no "dance"`},
		{[]string{"listen", "--help"}, exitOK, "-no-follow", ""},
		{[]string{"check", "-h"}, exitOK, "-trigger", ""},
		{[]string{"listen"}, exitUsage, "", "a URL or --command is needed"},
		{[]string{"listen", "http://a", "--command", "b"}, exitUsage, "", "not both"},
		{[]string{"listen", "http://a", "http://b"}, exitUsage, "", "one URL"},
		{[]string{"listen", "--command", "'"}, exitUsage, "", "within a quote"},
		{[]string{"listen", "ftp://a"}, exitUsage, "", "no http or https URL"},
		{[]string{"listen", "ftp://a", "--no-follow"}, exitUsage, "", "no http or https URL"},
		{[]string{"listen", "http://a", "--header", "x"}, exitUsage, "", "K:V"},
		{[]string{"listen", "http://a", "--header", "Mcp-Method: x"}, exitUsage, "", "cannot set"},
		{[]string{"listen", "http://a", "--nonsense"}, exitUsage, "", "nonsense"},
		{[]string{"listen", "http://a", "--header", "Bad Name: x"}, exitUsage, "", "no name of a header"},
		{[]string{"listen", "http://a", "--header", "X: a\nb"}, exitUsage, "", "line break"},
		{[]string{"listen", "http://a", "--header", "Host: a b"}, exitUsage, "", "no host"},
		{[]string{"listen", "http://a", "--token", "a\nb"}, exitUsage, "", "line break"},
		{[]string{"listen", "http://a", "--no-follow", "--token", "a\nb"}, exitUsage, "", "line break"},
		{[]string{"version"}, exitOK, "mcplisten ", ""},
		{[]string{"--version"}, exitOK, " go1", ""},
		{[]string{"check", ":::"}, exitUsage, "", "no http or https URL"},
		{[]string{"check", "ftp://x"}, exitUsage, "", "no http or https URL"},
		{[]string{"check", "localhost:9/mcp"}, exitUsage, "", "no http or https URL"},
		{[]string{"check", "http://a", "--header", "Bad Name: x"}, exitUsage, "", "no name of a header"},
		{[]string{"check", "http://a", "--token", "a\nb"}, exitUsage, "", "line break"},
		{[]string{"check"}, exitUsage, "", "a URL is needed"},
		{[]string{"check", "http://a", "--wait", "-1s"}, exitUsage, "", "not negative"},
		{[]string{"check", "http://a", "--header", ":"}, exitUsage, "", "K:V"},
	}
	for _, tt := range tests {
		var out, errs output
		if code := run(testContext(t), tt.args, &out, &errs); code != tt.code {
			t.Errorf("%q: exit code %d, want %d", tt.args, code, tt.code)
		}
		if !strings.Contains(out.String(), tt.out) || !strings.Contains(errs.String(), tt.err) || (tt.err == "") != (errs.String() == "") {
			t.Errorf("%q: printed %q and %q, want %q and %q", tt.args, out.String(), errs.String(), tt.out, tt.err)
		}
	}
}

func TestListenOnce(t *testing.T) {
	t.Parallel()
	hub, url := serve(t, core.Config{}, nil)
	ctx := testContext(t)
	out := &output{}
	var once sync.Once
	out.on = func(text string) {
		if strings.Contains(text, "started") {
			once.Do(func() { _ = hub.Publish(ctx, core.ResourceUpdated("file:///a")) })
		}
	}
	var errs output
	code := run(ctx, []string{"listen", "--json", url, "--tools", "--prompts", "--resource", "file:///a", "--once"}, out, &errs)
	if code != exitOK || errs.String() != "" {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
	var lines []line
	for text := range strings.Lines(out.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		lines = append(lines, l)
	}
	if len(lines) != 2 || lines[0].Event != "started" || lines[1].Event != "changed" {
		t.Fatalf("got %s", out.String())
	}
	if h, l := lines[0].Honored, lines[0].LeftOut; !h.Tools || h.Prompts || !slices.Equal(h.URIs, []string{"file:///a"}) || !l.Prompts || l.Tools {
		t.Errorf("honored %+v, left out %+v", h, l)
	}
	if l := lines[1]; l.Method != core.MethodResourceUpdated || l.URI != "file:///a" || l.Time.IsZero() {
		t.Errorf("got %+v", l)
	}
}

// A stream that ends is opened again, and Ctrl-C is a good end.
func TestListenFollows(t *testing.T) {
	t.Parallel()
	hub, url := serve(t, core.Config{}, nil)
	ctx, cancel := context.WithCancel(testContext(t))
	out := &output{}
	var once sync.Once
	out.on = func(text string) {
		if strings.Contains(text, "list everything again") {
			cancel()
		} else if strings.Contains(text, "listening to tools, resources; the server left out prompts") {
			once.Do(func() { hub.EndWhere(func(core.StreamInfo) bool { return true }) })
		}
	}
	var errs output
	if code := run(ctx, []string{"listen", url}, out, &errs); code != exitOK {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	for _, want := range []string{"(graceful); again in ", "listening again to tools, resources", "stopped"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
}

func TestListenEnds(t *testing.T) {
	t.Parallel()
	answer := func(status int, contentType, body string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	const nobody = "http://127.0.0.1:1/mcp" // a port that no other test's server gets
	_, graceful := serve(t, core.Config{MaxLifetime: time.Millisecond}, nil)
	_, nothing := serve(t, core.Config{Capabilities: core.Capabilities{PromptsListChanged: true}}, nil)
	_, token := serve(t, core.Config{MaxLifetime: time.Millisecond}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("X-A") != "b: c" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	tests := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"graceful", []string{graceful, "--no-follow"}, exitOK, "graceful"},
		{"token and header", []string{token, "--no-follow", "--token", "secret", "--header", "X-A: b: c"}, exitOK, "graceful"},
		{"no token", []string{token}, exitRefused, "401"},
		{"refused", []string{answer(404, "application/json", `{"jsonrpc":"2.0","error":{"code":-32601,"message":"\u001b[31mno"}}`)}, exitRefused, `\x1b[31mno`},
		{"refused, no-follow", []string{answer(503, "text/plain", "x"), "--no-follow"}, exitRefused, "503"},
		{"dropped", []string{nobody, "--no-follow"}, exitDropped, "no answer"},
		{"broken", []string{answer(200, "text/html", "x"), "--no-follow"}, exitViolation, "not_a_stream"},
		{"nothing", []string{nothing, "--tools"}, exitNothing, "honors nothing"},
		{"nothing, no-follow", []string{nothing, "--tools", "--no-follow"}, exitNothing, "listening to nothing; the server left out tools"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out, errs output
			code := run(testContext(t), append([]string{"listen"}, tt.args...), &out, &errs)
			if code != tt.code || !strings.Contains(out.String(), tt.says) {
				t.Errorf("exit code %d, want %d; printed %q and %q, want %q", code, tt.code, out.String(), errs.String(), tt.says)
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("an escape sequence was printed: %q", out.String())
			}
		})
	}
}

// A server that honors nothing may hold the stream: there is nothing to wait for.
func TestListenHeldForNothing(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+
			string(m.ID)+`},"notifications":{}}}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	for _, flag := range []string{"--no-follow", "--once"} {
		var out, errs output
		if code := run(testContext(t), []string{"listen", srv.URL, flag}, &out, &errs); code != exitNothing || !strings.Contains(out.String(), "honors nothing") {
			t.Errorf("%s: exit code %d; printed %q and %q", flag, code, out.String(), errs.String())
		}
	}
}

// Both parts ask for the host that is given.
func TestHost(t *testing.T) {
	t.Parallel()
	_, url := serve(t, core.Config{MaxLifetime: 20 * time.Millisecond}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.Host {
			case "example.test":
				r.Host = "localhost"
			case "mcplisten-check.invalid":
			default:
				w.WriteHeader(http.StatusMisdirectedRequest)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	for _, args := range [][]string{{"listen", url, "--no-follow"}, {"check", url, "--wait", "0"}} {
		var out, errs output
		if code := run(testContext(t), append(args, "--header", "host: example.test"), &out, &errs); code != exitOK {
			t.Errorf("%q: exit code %d; printed %q and %q", args, code, out.String(), errs.String())
		}
	}
}

// full is a device without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestOutputFails(t *testing.T) {
	t.Parallel()
	_, url := serve(t, core.Config{}, nil)
	for _, args := range [][]string{
		{"help"}, {"version"}, {"listen", "--help"}, {"listen", url}, {"listen", url, "--once", "--json"}, {"listen", url, "--no-follow"}, {"check", url},
	} {
		var errs output
		if code := run(testContext(t), args, full{}, &errs); code != exitOutput || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%q: exit code %d, %q", args, code, errs.String())
		}
	}
}

// There is no point in trying again what does not exist.
func TestListenNoSuchCommand(t *testing.T) {
	t.Parallel()
	notToRun := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notToRun, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"mcplisten-no-such-binary", "./no-such-binary", "'" + notToRun + "'"} {
		var out, errs output
		code := run(testContext(t), []string{"listen", "--command", command}, &out, &errs)
		if code != exitDropped || !strings.Contains(out.String(), "the command cannot be run") || strings.Contains(out.String(), "again in") {
			t.Errorf("%s: exit code %d; printed %q and %q", command, code, out.String(), errs.String())
		}
	}
}

// child acknowledges what it is asked for, and says goodbye.
func child() {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			Notifications json.RawMessage `json:"notifications"`
		} `json:"params"`
	}
	_ = json.NewDecoder(os.Stdin).Decode(&m)
	say := func(text string) {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "ID", string(m.ID)), "FILTER", string(m.Params.Notifications))
		_, _ = io.WriteString(os.Stdout, text+"\n")
	}
	say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":FILTER}}`)
	say(`{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`)
}

func TestListenCommand(t *testing.T) {
	t.Setenv(childMode, "1")
	var out, errs output
	code := run(testContext(t), []string{"listen", "--command", "'" + os.Args[0] + "' --stdio", "--no-follow"}, &out, &errs)
	if code != exitOK || !strings.Contains(out.String(), "listening to tools, prompts, resources") || !strings.Contains(out.String(), "graceful") {
		t.Errorf("exit code %d; printed %q and %q", code, out.String(), errs.String())
	}
}

func TestSplitCommand(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		"a":                   {"a"},
		"  a  b\tc ":          {"a", "b", "c"},
		`a 'b c' "d e"f`:      {"a", "b c", "d ef"},
		`a\ b '\' "\"" ''`:    {"a b", `\`, `"`, ""},
		`node server.js --x=`: {"node", "server.js", "--x="},
		``:                    nil,
		`a 'b`:                nil,
		`a \`:                 nil,
	} {
		got, err := splitCommand(in)
		if !slices.Equal(got, want) || (want == nil) != (err != nil) {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
}
