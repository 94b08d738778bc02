// In front of another handler: what is not ours reaches it as it was sent, and
// what is ours never does.

package listentest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// watchedBody notes whether anybody read it.
type watchedBody struct {
	io.ReadCloser
	read bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.read = true
	return b.ReadCloser.Read(p)
}

// echo answers with the body that it got, and says what it was told of it.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = append(body, fmt.Sprintf(" and then %T", err)...)
	}
	w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
	w.WriteHeader(http.StatusMultiStatus)
	_, _ = w.Write(body)
}

// nextUnread: where the header says that a request is not ours, its body reaches
// the next handler while it is still being sent.
func (s suite) nextUnread(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		entered := make(chan bool, 1)
		srv := s.start(t, Options{
			Protocol: p,
			HTTP:     []mcphttp.Option{mcphttp.WithMaxBody(10)},
			Outer: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.Body = &watchedBody{ReadCloser: r.Body}
					next.ServeHTTP(w, r)
				})
			},
			Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, ok := r.Body.(*watchedBody)
				entered <- ok && !body.read
				echo(w, r)
			}),
		})
		client := srv.client(t)
		for name, call := range map[string]Call{
			"other method":       Post("tools/list", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`),
			"empty header":       Post("", `{"method":"x"}`).With(headerMethod, ""),
			"two other methods":  Post("", `{"method":"x"}`).With(headerMethod, "a", "b"),
			"listen in the body": Listen("7", everything).With(headerMethod, "tools/list"),
			"no JSON":            Post("tools/list", strings.Repeat("\x00\xff", 5000)).With("Content-Type", "x/y"),
			"foreign page":       Post("tools/list", "{}").With("Origin", "http://evil.example").With("Accept", "x/y"),
		} {
			half := len(call.Body) / 2
			r, w := io.Pipe()
			call.Stream = r
			unread := make(chan bool, 1)
			go func() {
				_, _ = io.WriteString(w, call.Body[:half])
				select {
				case was := <-entered:
					unread <- was
				case <-srv.ctx.Done():
				}
				_, _ = io.WriteString(w, call.Body[half:])
				_ = w.Close()
			}()
			answer := client.Do(t, call)
			answer.is(t, http.StatusMultiStatus, call.Body)
			if got := answer.Header.Get("X-Length"); got != "-1" {
				t.Errorf("%s: the length is %s, want -1", name, got)
			}
			if !receive(t, srv, unread) {
				t.Errorf("%s: the body was touched before the next handler got it", name)
			}
		}
	})
}

// nextIntact: where only the body tells that a request is not ours, the next
// handler gets every byte of it.
func (s suite) nextIntact(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		const limit = 300
		srv := s.start(t, Options{
			Protocol: p, Next: http.HandlerFunc(echo), HTTP: []mcphttp.Option{mcphttp.WithMaxBody(limit)},
		})
		client := srv.client(t)
		long := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"` + strings.Repeat("x", 3*limit) + `"}`
		for name, body := range map[string]string{
			"empty":            "",
			"not JSON":         "\x00\xff {",
			"half JSON":        `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"`,
			"batch":            `[` + ListenBody("1", "{}") + `]`,
			"initialize":       `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
			"other method":     "\r\n" + `{ "id" : 1 , "method" : "tools/list" }` + "\r\n\r\n",
			"notification":     `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7}}`,
			"response":         `{"jsonrpc":"2.0","id":1,"result":{"method":"subscriptions/listen"}}`,
			"capitals":         `{"jsonrpc":"2.0","id":1,"METHOD":"subscriptions/listen"}`,
			"nested":           `{"jsonrpc":"2.0","id":1,"method":"x","params":{"method":"subscriptions/listen"}}`,
			"twice further in": `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}`,
			"at the limit":     long[:limit],
			"over the limit":   long[:limit+1],
			"far over":         long,
			"listen, far over": ListenBody("7", `{}`) + strings.Repeat(" ", limit),
			"over, not JSON":   strings.Repeat("\xfe", 50*limit),
			"deep":             nested(140),
		} {
			call := Post("", body).With("Content-Type", "application/x-"+strconv.Itoa(len(body)))
			answer := client.Do(t, call)
			answer.is(t, http.StatusMultiStatus, body)
			if got, want := answer.Header.Get("X-Length"), strconv.Itoa(len(body)); got != want {
				t.Errorf("%s: the length is %s, want %s", name, got, want)
			}
			call.Chunked = true
			answer = client.Do(t, call)
			answer.is(t, http.StatusMultiStatus, body)
			if got := answer.Header.Get("X-Length"); got != "-1" && body != "" {
				t.Errorf("%s, chunked: the length is %s, want -1", name, got)
			}
		}
	})
}

// nextNotCalled: what is a listen request, or may be read as one, is answered
// here.
func (s suite) nextNotCalled(t *testing.T) {
	t.Parallel()
	srv := s.start(t, Options{Next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the next handler was called")
	})})
	client := srv.client(t)
	client.listen(t, Listen("7", everything))

	other := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + metaMember + `}}`
	twice := func(first, second string) string {
		return `{"jsonrpc":"2.0","id":7,` + first + `,` + second + `,"params":{` + metaMember + `,"notifications":{}}}`
	}
	mismatch := wantRefusal{status: 400, code: core.CodeHeaderMismatch, id: "7", says: headerMethod}
	invalid := wantRefusal{status: 400, code: core.CodeInvalidRequest}
	for name, c := range map[string]struct {
		call Call
		want wantRefusal
	}{
		"listen without header":      {Listen("7", everything).With(headerMethod), mismatch},
		"two headers":                {Listen("7", everything).With(headerMethod, core.MethodListen, "tools/list"), mismatch},
		"two headers, other first":   {Listen("7", everything).With(headerMethod, "tools/list", core.MethodListen), mismatch},
		"listen in the header alone": {Post(core.MethodListen, other), mismatch},
		"discover under listen":      {Post(core.MethodListen, strings.Replace(other, "tools/list", core.MethodDiscover, 1)), mismatch},
		"method twice":               {Post("", twice(`"method":"tools/list"`, `"method":"subscriptions/listen"`)), invalid},
		"method twice, listen first": {Post("", twice(`"method":"subscriptions/listen"`, `"method":"tools/list"`)), invalid},
		"method twice, escaped":      {Post("", twice(`"method":"tools/list"`, `"metho\u0064":"subscriptions/listen"`)), invalid},
		"method twice, with header":  {Post(core.MethodListen, twice(`"method":"tools/list"`, `"method":"subscriptions/listen"`)), invalid},
		"no JSON under listen":       {Post(core.MethodListen, "{"), wantRefusal{status: 400, code: core.CodeParseError}},
		"batch under listen":         {Post(core.MethodListen, "["+other+"]"), invalid},
		"notification under listen":  {Post(core.MethodListen, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`), wantRefusal{status: 400, code: core.CodeHeaderMismatch}},
		"listen with a bad id":       {Post("", ListenBody("1.5", "{}")), invalid},
		"listen without id":          {Post("", strings.Replace(ListenBody("7", "{}"), `"id":7,`, "", 1)), wantRefusal{status: 400, code: core.CodeHeaderMismatch}},
		"listen from a foreign page": {Listen("7", everything).With(headerMethod).With("Origin", "http://evil.example"), wantRefusal{status: 403, code: core.CodeInvalidRequest, says: "Origin"}},
		"listen of no JSON type":     {Listen("7", everything).With(headerMethod).With("Content-Type", "text/plain"), wantRefusal{status: 415, code: core.CodeInvalidRequest}},
		"listen with escapes":        {Post("", strings.Replace(ListenBody("7", "{}"), "/listen", `\/\u006cisten`, 1)), mismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client.Do(t, c.call).refused(t, c.want, "evil")
		})
	}
}

// brokenBodies: a body that ends in an error does so for the next handler too,
// and is an error answer where it is ours.
func (s suite) brokenBodies(t *testing.T) {
	t.Parallel()
	limited := func(next http.Handler) http.Handler { return http.MaxBytesHandler(next, 100) }
	t.Run("a middleware's limit, in front", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{Next: http.HandlerFunc(echo), Outer: limited})
		client := srv.client(t)
		body := strings.Repeat("0123456789", 20)
		client.Do(t, Post("", body)).is(t, http.StatusMultiStatus, body[:100]+" and then *http.MaxBytesError")
		client.Do(t, Listen("7", everything)).refused(t, wantRefusal{status: 413, code: core.CodeInvalidRequest}, "")
	})
	t.Run("a middleware's limit, alone", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{Outer: limited})
		srv.client(t).Do(t, Listen("7", everything)).refused(t, wantRefusal{status: 413, code: core.CodeInvalidRequest}, "")
	})
	head := "POST " + Path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
	t.Run("half a body, in front", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{Next: http.HandlerFunc(echo)})
		srv.raw(t, head+"\r\n"+`{"half`).is(t, http.StatusMultiStatus, `{"half and then *errors.errorString`)
	})
	t.Run("half a body, ours", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{Next: http.HandlerFunc(echo)})
		srv.raw(t, head+"Mcp-Method: subscriptions/listen\r\n\r\n"+`{"half`).refused(t,
			wantRefusal{status: 400, code: core.CodeParseError}, "half")
	})
	t.Run("half a body, alone", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{})
		srv.raw(t, head+"\r\n"+ListenBody("7", everything)).refused(t, wantRefusal{status: 400, code: core.CodeParseError}, "file:")
	})
}

// raw sends bytes, closes its side of the connection and reads the answer.
func (srv *Server) raw(tb testing.TB, request string) Answer {
	tb.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(srv.ctx, "tcp", srv.addr)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, request)
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = errors.Join(err, tcp.CloseWrite())
	}
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		tb.Fatalf("no answer: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatalf("the answer broke off after %q: %v", body, err)
	}
	return Answer{resp.StatusCode, resp.Header, body}
}
