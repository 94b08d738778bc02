// Dispatching: what is answered, refused, ignored, and passed on.

package mcpstdio_test

import (
	"context"
	"encoding/json"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	mcpstdio "github.com/mcplisten/mcplisten/adapters/stdio"
	"github.com/mcplisten/mcplisten/core"
)

// without removes a member from a listen request.
func without(member string) string {
	return strings.Replace(listenText("1", tools), member, "", 1)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	listen := listenText("1", tools)
	for name, test := range map[string]struct {
		line string
		want event
		same bool // whether there is a server behind or not
	}{
		"not JSON":             {"{", event{"", "error -32700"}, true},
		"not UTF-8":            {"\"\xff\"", event{"", "error -32700"}, true},
		"two messages":         {listen + listen, event{"", "error -32700"}, true},
		"two methods":          {`{"jsonrpc":"2.0","id":1,"method":"x","method":"subscriptions/listen"}`, event{"", "error -32600"}, true},
		"no version":           {without(`"jsonrpc":"2.0",`), event{"1", "error -32600"}, true},
		"no id":                {without(`"id":1,`), event{"", "error -32600"}, true},
		"null id":              {listenText("null", tools), event{"", "error -32600"}, true},
		"fractional id":        {listenText("1.5", tools), event{"", "error -32600"}, true},
		"long id":              {listenText(`"`+strings.Repeat("x", 1100)+`"`, tools), event{"", "error -32600"}, true},
		"no meta":              {requestText("1", core.MethodListen, `{"notifications":{}}`), event{"1", "error -32602"}, true},
		"no filter":            {requestText("1", core.MethodListen, `{"_meta":`+validMeta+`}`), event{"1", "error -32602"}, true},
		"bad filter":           {listenText("1", `{"toolsListChanged":1}`), event{"1", "error -32602"}, true},
		"version":              {strings.Replace(listen, core.ProtocolVersion, "2025-11-25", 1), event{"1", "error -32022"}, true},
		"params of two":        {strings.Replace(listen, `"notifications"`, `"notifications":{},"notifications"`, 1), event{"1", "error -32600"}, true},
		"batch":                {"[" + listen + "]", event{"", "error -32600"}, true},
		"empty batch":          {"[]", event{"", "error -32600"}, true},
		"text":                 {`"x"`, event{"", "error -32600"}, true},
		"null":                 {"null", event{"", "error -32600"}, true},
		"nothing":              {"{}", event{"", "error -32600"}, true},
		"too deep":             {strings.Repeat("[", 65) + strings.Repeat("]", 65), event{"", "error -32600"}, true},
		"too deep to listen":   {strings.Replace(listen, `"_meta"`, `"x":`+strings.Repeat("[", 65)+strings.Repeat("]", 65)+`,"_meta"`, 1), event{"", "error -32600"}, true},
		"too deep for the hub": {requestText("1", "x", `{"x":`+strings.Repeat("[", 65)+strings.Repeat("]", 65)+"}"), event{"", "error -32600"}, false},
		"version of a call":    {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, event{"1", "error -32600"}, true},
		"no method":            {`{"jsonrpc":"2.0","id":1}`, event{"1", "error -32600"}, true},
		"method is no string":  {`{"jsonrpc":"2.0","id":1,"method":7}`, event{"1", "error -32600"}, true},
		"params of a call":     {requestText("1", "ping", "7"), event{"1", "error -32600"}, true},
		"id of a call":         {requestText("1.5", "ping", "{}"), event{"", "error -32600"}, true},
		"null id of a call":    {requestText("null", "ping", "{}"), event{"", "error -32600"}, true},
		"unknown":              {requestText("1", "tools/list", "{}"), event{"1", "error -32601"}, false},
		"initialize":           {requestText("1", "initialize", "{}"), event{"1", "error -32601"}, false},
		"case":                 {requestText("1", "Subscriptions/Listen", "{}"), event{"1", "error -32601"}, false},
		"cancelled as a call":  {requestText("1", core.MethodCancelled, `{"requestId":1}`), event{"1", "error -32601"}, false},
		"discover":             {requestText("1", core.MethodDiscover, "{}"), event{"1", "error -32602"}, false},
		"discover's version":   {requestText("1", core.MethodDiscover, `{"_meta":`+strings.Replace(validMeta, core.ProtocolVersion, "1", 1)+`}`), event{"1", "error -32022"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newHub(t, core.Config{})
			c := serve(t, newServer(t, hub))
			c.send(test.line)
			c.awaitEvent(test.want)
			if strings.Contains(c.line(test.want.id), "2025") && name != "version" {
				t.Errorf("the answer repeats the request: %s", c.line(test.want.id))
			}
			c.listen(`"then"`, tools)
			c.awaitEvent(event{`"then"`, ackTools})
			refused := 0
			for _, n := range hub.Stats().Refused {
				refused += int(n)
			}
			if refused != 1 {
				t.Errorf("the hub was told of %d refusals, want 1", refused)
			}

			passed := make(chan string, 1)
			c = serve(t, newServer(t, hub, mcpstdio.WithNext(func(_ context.Context, msg []byte) []byte {
				passed <- string(msg)
				return []byte(`{"jsonrpc":"2.0","id":"next","result":{}}`)
			})))
			c.send(test.line)
			if test.same {
				c.awaitEvent(test.want)
			} else {
				c.awaitEvent(event{`"next"`, "reply"})
				if got := <-passed; got != test.line {
					t.Errorf("passed on was %s, want %s", got, test.line)
				}
			}
			if err := c.close(); err != nil || len(passed) != 0 {
				t.Errorf("Serve returned %v; passed on besides: %d", err, len(passed))
			}
		})
	}
}

// A response of the client's is passed on if a server could read it, and never
// answered.
func TestResponsesOfTheClient(t *testing.T) {
	t.Parallel()
	passed := make(chan string, 10)
	c := serve(t, newServer(t, newHub(t, core.Config{}), mcpstdio.WithNext(func(_ context.Context, msg []byte) []byte {
		passed <- string(msg)
		return nil
	})))
	good := []string{
		`{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":"7","error":{"code":1,"message":""}}`,
	}
	for _, line := range append([]string{
		`{"id":7,"result":{}}`, `{"jsonrpc":"2.0","result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","id":7,"error":7}`, `{"jsonrpc":"2.0","id":7,"method":null,"result":{}}`,
	}, good...) {
		c.send(line)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if got := c.take(); len(got) != 0 {
		t.Errorf("the answers are %q, want none", got)
	}
	close(passed)
	var got []string
	for line := range passed {
		got = append(got, line)
	}
	slices.Sort(got)
	slices.Sort(good)
	if !slices.Equal(got, good) {
		t.Errorf("passed on were %q, want %q", got, good)
	}
}

// Batches are for clients of older revisions.
func TestBatchAfterInitialize(t *testing.T) {
	t.Parallel()
	c := serve(t, newServer(t, newHub(t, core.Config{}), mcpstdio.WithNext(func(_ context.Context, msg []byte) []byte {
		if msg[0] == '[' {
			return []byte(`[{"jsonrpc":"2.0","id":2,"result":{}}]`)
		}
		return reply(msg, "{}")
	})))
	c.request("1", core.MethodInitialize, "{}")
	c.awaitEvent(event{"1", "reply"})
	batch := "[" + requestText("2", "ping", "{}") + `,{"jsonrpc":"2.0","id":3,"result":{}}]`
	if _, err := io.WriteString(c.out, batch+"\n[7]\n"); err != nil {
		t.Fatal(err)
	}
	c.awaitLine(`[{"jsonrpc":"2.0","id":2,"result":{}}]`)
	c.awaitEvent(event{"", "error -32600"})
}

// Notifications, responses and blank lines are not answered.
func TestIgnored(t *testing.T) {
	t.Parallel()
	c := serve(t, newServer(t, newHub(t, core.Config{})))
	for _, line := range []string{
		"", " \t\r", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"whatever"}`,
		`{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}}`,
	} {
		c.send(line)
	}
	c.ask("1")
	if got := c.take(); !slices.Equal(got, []event{{"1", "reply"}}) {
		t.Errorf("got %q", got)
	}
}

func TestDiscoverAlone(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{
		Capabilities: core.Capabilities{ToolsListChanged: true, ResourceSubscriptions: true},
		ServerInfo:   &core.Implementation{Name: "test", Version: "1"},
	})
	c := serve(t, newServer(t, hub))
	c.ask(`"<\u0061>"`)
	want := `{"jsonrpc":"2.0","id":"<\u0061>","result":{"resultType":"complete","supportedVersions":["2026-07-28"],` +
		`"capabilities":{"resources":{"subscribe":true},"tools":{"listChanged":true}},"ttlMs":300000,"cacheScope":"public",` +
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}}`
	if got := c.line(`"<\u0061>"`); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestInitializeNamesTheVersions(t *testing.T) {
	t.Parallel()
	c := serve(t, newServer(t, newHub(t, core.Config{})))
	c.request("1", "initialize", "{}")
	c.awaitEvent(event{"1", "error -32601"})
	var m struct {
		Error struct {
			Message string
			Data    struct{ Supported []string }
		}
	}
	if err := json.Unmarshal([]byte(c.line("1")), &m); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(m.Error.Message, core.ProtocolVersion) || !slices.Equal(m.Error.Data.Supported, core.SupportedVersions()) {
		t.Errorf("the error is %+v", m.Error)
	}
}

// A line over the limit is refused once, with bounded memory, and skipped; a line at
// the limit is not. It runs alone, since it looks at the heap.
func TestLongLines(t *testing.T) { //nolint:paralleltest // see above
	const limit = 1000
	hub := newHub(t, core.Config{})
	c := serve(t, newServer(t, hub, mcpstdio.WithMaxLine(limit)))
	discover := requestText("1", core.MethodDiscover, `{"_meta":`+validMeta+`}`)
	c.send(discover + strings.Repeat(" ", limit-len(discover)))
	c.awaitEvent(event{"1", "reply"})
	c.take()
	c.send(discover + strings.Repeat(" ", limit+1-len(discover)))
	c.awaitEvent(event{"", "error -32600"})

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	block := strings.Repeat("x", 1<<20)
	for range 200 {
		if _, err := io.WriteString(c.out, block); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2<<20 {
		t.Errorf("within a line of 200 MiB the heap grew by %d bytes", grown)
	}
	c.send(listenText("2", tools)) // the end of that line
	c.ask("3")
	if got, want := c.take(), []event{{"", "error -32600"}, {"", "error -32600"}, {"3", "reply"}}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := hub.Stats().Refused[core.RefusedTooLarge]; n != 2 {
		t.Errorf("%d refusals of that kind, want 2", n)
	}
}
