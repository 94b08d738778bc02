// The black-box tests of internal/listentest, with somebody between the server and
// the adapter who looks at all that is answered.

// Package schema holds every message of the black-box tests, on all four
// frameworks, against the protocol's JSON Schema and its rules in prose.
package schema

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	mcpchi "github.com/mcplisten/mcplisten/adapters/chi"
	mcpecho "github.com/mcplisten/mcplisten/adapters/echo"
	mcpgin "github.com/mcplisten/mcplisten/adapters/gin"
	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

// all is the environment variable that asks for this test: the black-box tests run
// with each adapter as well, and take a while.
const all = "MCPLISTEN_SCHEMA"

// mounts are the frameworks.
var mounts = map[string]func(mcp *mcphttp.Handler, next http.Handler) http.Handler{
	"nethttp": func(mcp *mcphttp.Handler, next http.Handler) http.Handler {
		var endpoint http.Handler = mcp
		if next != nil {
			endpoint = mcp.Middleware(next)
		}
		mux := http.NewServeMux()
		mux.Handle(listentest.Path, endpoint)
		return mux
	},
	"chi": func(mcp *mcphttp.Handler, next http.Handler) http.Handler {
		var opts []mcpchi.Option
		if next != nil {
			opts = append(opts, mcpchi.WithNext(next))
		}
		r := chi.NewRouter()
		mcpchi.Mount(r, listentest.Path, mcp, opts...)
		return r
	},
	"echo": func(mcp *mcphttp.Handler, next http.Handler) http.Handler {
		var opts []mcpecho.Option
		if next != nil {
			opts = append(opts, mcpecho.WithNext(echo.WrapHandler(next)))
		}
		e := echo.New()
		mcpecho.Mount(e, listentest.Path, mcp, opts...)
		return e
	},
	"gin": func(mcp *mcphttp.Handler, next http.Handler) http.Handler {
		var opts []mcpgin.Option
		if next != nil {
			opts = append(opts, mcpgin.WithNext(gin.WrapH(next)))
		}
		e := gin.New()
		mcpgin.Mount(e, listentest.Path, mcp, opts...)
		return e
	},
}

// wanted are the definitions that each framework's run must have met.
var wanted = []string{
	"SubscriptionsListenRequest", "SubscriptionsAcknowledgedNotification", "ToolListChangedNotification",
	"PromptListChangedNotification", "ResourceListChangedNotification", "ResourceUpdatedNotification",
	"SubscriptionsListenResultResponse", "DiscoverResultResponse", "JSONRPCErrorResponse", "ParseError", "InvalidRequestError",
	"MethodNotFoundError", "InvalidParamsError", "InternalError", "HeaderMismatchError", "UnsupportedProtocolVersionError",
	"MissingRequiredClientCapabilityError", taskNotification,
}

func TestEveryMessage(t *testing.T) {
	if os.Getenv(all) == "" {
		t.Skipf("%s is not set: see .ci/interop/schema.sh", all)
	}
	gin.SetMode(gin.ReleaseMode)
	for _, framework := range []string{"nethttp", "chi", "echo", "gin"} {
		t.Run(framework, func(t *testing.T) {
			d, err := newDefinitions()
			if err != nil {
				t.Fatal(err)
			}
			w := &watcher{definitions: d}
			listentest.Run(t, func(tb testing.TB, e listentest.Endpoint) http.Handler {
				tb.Helper()
				mcp, err := mcphttp.New(e.Hub, e.Options...)
				if err != nil {
					tb.Fatalf("New: %v", err)
				}
				next := e.Next
				if next != nil {
					next = foreign(next)
				}
				return w.watch(tb.Name(), mounts[framework](mcp, next))
			})
			t.Cleanup(func() { w.report(t, framework) }) // after what runs in parallel
		})
	}
}

// watcher looks at exchanges. It is safe for concurrent use.
type watcher struct {
	definitions *definitions

	mu        sync.Mutex
	exchanges int
	foreign   int
	wrong     []string
}

type foreignKey struct{}

// foreign marks what somebody else answers.
func foreign(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mark, ok := r.Context().Value(foreignKey{}).(*bool); ok {
			*mark = true
		}
		next.ServeHTTP(w, r)
	})
}

func (w *watcher) watch(test string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var passed bool
		out := &copied{ResponseWriter: rw, status: http.StatusOK}
		in := &read{ReadCloser: r.Body}
		r = r.WithContext(context.WithValue(r.Context(), foreignKey{}, &passed))
		r.Body = in
		defer func() {
			w.saw(test, passed, exchange{
				request: in.seen, status: out.status, contentType: rw.Header().Get("Content-Type"), body: out.seen, cut: out.cut,
			})
		}()
		next.ServeHTTP(out, r)
	})
}

func (w *watcher) saw(test string, passed bool, x exchange) {
	var err error
	if !passed {
		err = x.check(w.definitions)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if passed {
		w.foreign++
		return
	}
	w.exchanges++
	if err != nil {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: %.300s: %v", test, x.request, err))
	}
}

func (w *watcher) report(t *testing.T, framework string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		t.Errorf("%d exchanges are wrong, the first of them:\n%s", len(w.wrong), strings.Join(w.wrong[:min(len(w.wrong), 5)], "\n"))
	}
	met, messages := w.definitions.met, 0
	for _, name := range wanted {
		if met[name] == 0 {
			t.Errorf("no %s was seen", name)
		}
	}
	for name, n := range met {
		if strings.HasSuffix(name, "Notification") || strings.HasSuffix(name, "Response") {
			messages += n
		}
	}
	names := slices.Sorted(maps.Keys(met))
	for _, name := range names {
		t.Logf("%6d %s", met[name], name)
	}
	t.Logf("figures: %s: %d messages in %d exchanges, %d wrong", framework, messages, w.exchanges, len(w.wrong))
}

// copied is a response writer that keeps what was written. It has all that a wrapper
// has to have, or the writes of a stream would go past it.
type copied struct {
	http.ResponseWriter
	status int
	seen   []byte
	cut    bool
}

func (c *copied) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// FlushError is what http.ResponseController and the adapters call.
func (c *copied) FlushError() error { return http.NewResponseController(c.ResponseWriter).Flush() }

// Flush is what frameworks call.
func (c *copied) Flush() { _ = c.FlushError() }

func (c *copied) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *copied) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.seen = append(c.seen, b[:n]...)
	c.cut = c.cut || err != nil
	return n, err
}

// read is a request's body that keeps what was read.
type read struct {
	io.ReadCloser
	seen []byte
}

func (r *read) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.seen = append(r.seen, b[:n]...)
	return n, err
}

// What the checks find, and that they do not find fault with what is right.
func TestChecks(t *testing.T) {
	t.Parallel()
	const (
		request = `{"jsonrpc":"2.0","id":9007199254740993,"method":"subscriptions/listen","params":{"_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},` +
			`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["u:1"],"taskIds":["t:1"]}}}`
		ofID  = `"_meta":{"io.modelcontextprotocol/subscriptionId":9007199254740993}`
		ack   = `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + ofID + `,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["u:1"]}}}` + "\n\n"
		tools = `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{` + ofID + `}}` + "\n\n"
		upd   = `data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{` + ofID + `,"uri":"u:1"}}` + "\n\n"
		tasks = `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + ofID + `,"notifications":{"taskIds":["t:1"]}}}` + "\n\n"
		task  = `data: {"jsonrpc":"2.0","method":"notifications/tasks","params":{` + ofID + `,"taskId":"t:1","status":"completed","createdAt":"2026-07-28T10:30:00Z","lastUpdatedAt":"2026-07-28T10:30:00.5+02:00","ttlMs":null,"result":{}}}` + "\n\n"
		end   = `data: {"jsonrpc":"2.0","id":9007199254740993,"result":{"resultType":"complete",` + ofID + `}}` + "\n\n"
		beat  = ":\n\n"
	)
	stream := func(body string) exchange {
		return exchange{request: []byte(request), status: 200, contentType: "text/event-stream", body: []byte(body)}
	}
	answer := func(status int, body string) exchange {
		return exchange{request: []byte(request), status: status, contentType: "application/json", body: []byte(body)}
	}
	less := func(what string) func(string) string {
		return func(s string) string { return strings.Replace(s, what, "", 1) }
	}
	for name, c := range map[string]struct {
		x    exchange
		says string // empty: all is well
	}{
		"good":               {stream(ack + beat + tools + upd + end), ""},
		"open":               {stream(ack), ""},
		"no ack":             {stream(tools + end), "comes first, and once"},
		"two acks":           {stream(ack + ack), "comes first, and once"},
		"result first":       {stream(end), "before the acknowledgment"},
		"comment first":      {stream(beat + ack), "before the acknowledgment"},
		"nothing":            {stream(""), "without an acknowledgment"},
		"after the result":   {stream(ack + end + beat), "follows the result"},
		"rounded id":         {stream(strings.Replace(ack, "0993", "0992", 1)), "the subscription id is 9007199254740992"},
		"id as text":         {stream(ack + strings.Replace(end, `"id":9007199254740993`, `"id":"9007199254740993"`, 1)), "the result's id"},
		"no id":              {stream(less(ofID)(tools)), "the subscription id is"},
		"no meta in result":  {stream(ack + less(","+ofID)(end)), "no SubscriptionsListenResultResponse"},
		"no result type":     {stream(ack + less(`"resultType":"complete",`)(end)), "no SubscriptionsListenResultResponse"},
		"no jsonrpc":         {stream(ack + less(`"jsonrpc":"2.0",`)(tools)), "no ToolListChangedNotification"},
		"no uri":             {stream(ack + less(`,"uri":"u:1"`)(upd)), "no ResourceUpdatedNotification"},
		"another resource":   {stream(ack + strings.Replace(upd, "u:1", "u:2", 1)), "not honored"},
		"not asked for":      {stream(strings.Replace(ack, "u:1", "u:2", 1)), "more is honored"},
		"honored no boolean": {stream(strings.Replace(ack, `"toolsListChanged":true`, `"toolsListChanged":1`, 1)), "cannot unmarshal"},
		"a task":             {stream(tasks + task + end), ""},
		"another task":       {stream(tasks + strings.Replace(task, "t:1", "t:2", 1)), "not honored"},
		"a task not asked":   {stream(strings.Replace(tasks, "t:1", "t:2", 1)), "more is honored"},
		"no ttlMs":           {stream(tasks + less(`"ttlMs":null,`)(task)), "no TaskStatusNotification"},
		"no result in it":    {stream(tasks + less(`,"result":{}`)(task)), "no TaskStatusNotification"},
		"working, a result":  {stream(tasks + strings.Replace(task, "completed", "working", 1)), "no TaskStatusNotification"},
		"no time":            {stream(tasks + strings.Replace(task, "2026-07-28T10:30:00Z", "today", 1)), "no TaskStatusNotification"},
		"unknown status":     {stream(tasks + strings.Replace(task, "completed", "done", 1)), "no TaskStatusNotification"},
		"an event field":     {stream("event: message\n" + ack), "more or less than one data line"},
		"half an event":      {stream(ack + "data: {"), "a part of an event"},
		"unknown":            {stream(ack + `data: {"jsonrpc":"2.0","method":"ping"}` + "\n\n"), "no notification of a subscription"},
		"error":              {answer(400, `{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32602,"message":"m"}}`), ""},
		"other id":           {answer(400, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"m"}}`), "was answered with 7"},
		"no message":         {answer(400, `{"jsonrpc":"2.0","error":{"code":-32602}}`), "no JSONRPCErrorResponse"},
		"other code":         {answer(400, `{"jsonrpc":"2.0","error":{"code":-1,"message":"m"}}`), "not of the protocol"},
		"version, no data":   {answer(400, `{"jsonrpc":"2.0","error":{"code":-32022,"message":"m"}}`), "no UnsupportedProtocolVersionError"},
		"capability":         {answer(400, `{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{"extensions":{"a/b":{}}}}}}`), ""},
		"capability, none":   {answer(400, `{"jsonrpc":"2.0","error":{"code":-32021,"message":"m","data":{}}}`), "no MissingRequiredClientCapabilityError"},
		"a result":           {answer(200, `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`), "answered with a result"},
		"text":               {exchange{status: 404, contentType: "text/plain", body: []byte("no")}, "Content-Type"},
		"body of a 202":      {exchange{status: 202, body: []byte("no")}, "with a body"},
	} {
		d, err := newDefinitions()
		if err != nil {
			t.Fatal(err)
		}
		err = c.x.check(d)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
	bad := exchange{request: []byte(less(`"jsonrpc":"2.0",`)(request)), contentType: "text/event-stream", body: []byte(ack)}
	if d, err := newDefinitions(); errors.Join(err, bad.check(d)) == nil {
		t.Error("a request that is none was streamed to")
	}
}
