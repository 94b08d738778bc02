// The table of refusals: everything that is wrong with a request, and what
// exactly is answered.

package listentest

import (
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// secret is put wherever a request has room for something wrong. No answer may
// contain it.
const secret = "s3cr3t-41d0c2"

// nested returns arrays in arrays.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func (s suite) refusals(t *testing.T) {
	t.Parallel()
	const (
		parse, request, params = core.CodeParseError, core.CodeInvalidRequest, core.CodeInvalidParams
		mismatch, version      = core.CodeHeaderMismatch, core.CodeUnsupportedVersion
		notFound               = core.CodeMethodNotFound
		rest                   = `"method":"subscriptions/listen","params":{` + metaMember + `,"notifications":{"` + secret + `":1}}}`
		head                   = `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":`
		caps                   = `"io.modelcontextprotocol/clientCapabilities":{}`
		proto                  = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	)
	valid := Listen("7", `{"toolsListChanged":true,"`+secret+`":["`+secret+`"]}`)
	withID := func(id string) Call { return valid.Saying(`{"jsonrpc":"2.0","id":` + id + `,` + rest) }
	withParams := func(params string) Call { return valid.Saying(head + params + `}`) }
	withMeta := func(meta string) Call { return withParams(`{"_meta":` + meta + `,"notifications":{}}`) }
	withFilter := func(filter string) Call { return withParams(`{` + metaMember + `,"notifications":` + filter + `}`) }
	withVersion := func(v string) Call {
		return withMeta(`{"io.modelcontextprotocol/protocolVersion":"` + v + `",` + caps + `}`)
	}
	uris := func(n int) string {
		return `{"resourceSubscriptions":["` + secret + strings.Repeat(`","`+secret, n-1) + `"]}`
	}
	longURI := func(n int) string { return `{"resourceSubscriptions":["` + strings.Repeat("u", n) + `"]}` }

	srv := s.start(t, Options{})
	client := srv.client(t)
	for _, c := range []struct {
		name string
		call Call
		want wantRefusal // status 0: 400
	}{
		// No JSON-RPC request.
		{"empty body", valid.Saying(""), wantRefusal{code: parse}},
		{"no JSON", valid.Saying(secret), wantRefusal{code: parse}},
		{"half JSON", valid.Saying(head + `{"` + secret), wantRefusal{code: parse}},
		{"two values", valid.Saying(valid.Body + valid.Body), wantRefusal{code: parse}},
		{"not UTF-8", withID("\"\xff" + secret + `"`), wantRefusal{code: parse}},
		{"byte order mark", valid.Saying("\ufeff" + valid.Body), wantRefusal{code: parse}},
		{"batch", valid.Saying("[" + valid.Body + "]"), wantRefusal{code: request}},
		{"empty batch", valid.Saying("[]"), wantRefusal{code: request}},
		{"string", valid.Saying(`"` + secret + `"`), wantRefusal{code: request}},
		{"null", valid.Saying(`null`), wantRefusal{code: request}},
		{"empty object", valid.Saying(`{}`), wantRefusal{code: request}},
		{"no version", valid.Saying(`{"id":7,` + rest), wantRefusal{code: request, id: "7"}},
		{"wrong version", valid.Saying(`{"jsonrpc":"` + secret + `","id":7,` + rest), wantRefusal{code: request, id: "7"}},
		{"version as number", valid.Saying(`{"jsonrpc":2.0,"id":7,` + rest), wantRefusal{code: request, id: "7"}},
		{"names in capitals", valid.Saying(`{"JSONRPC":"2.0","id":7,` + rest), wantRefusal{code: request, id: "7"}},
		{"response", valid.Saying(`{"jsonrpc":"2.0","id":7,"result":{"x":"` + secret + `"}}`), wantRefusal{code: request, id: "7"}},
		{"error response", valid.Saying(`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"` + secret + `"}}`), wantRefusal{code: request, id: "7"}},
		{"no method", valid.Saying(`{"jsonrpc":"2.0","id":7,"params":{}}`), wantRefusal{code: request, id: "7"}},
		{"method as number", valid.Saying(`{"jsonrpc":"2.0","id":7,"method":7}`), wantRefusal{code: request, id: "7"}},
		{"params as string", withParams(`"` + secret + `"`), wantRefusal{code: request, id: "7"}},
		{"params null", withParams(`null`), wantRefusal{code: request, id: "7"}},

		// Ids. A listen without id is never a 202.
		{"no id", valid.Saying(`{"jsonrpc":"2.0",` + rest), wantRefusal{code: request}},
		{"id null", withID(`null`), wantRefusal{code: request}},
		{"id true", withID(`true`), wantRefusal{code: request}},
		{"id with fraction", withID(`1.5`), wantRefusal{code: request}},
		{"id with zero fraction", withID(`1.0`), wantRefusal{code: request}},
		{"id with exponent", withID(`1e3`), wantRefusal{code: request}},
		{"id with big exponent", withID(`1E3`), wantRefusal{code: request}},
		{"id object", withID(`{"` + secret + `":1}`), wantRefusal{code: request}},
		{"id array", withID(`[1]`), wantRefusal{code: request}},
		{"id too long", withID(`"` + strings.Repeat("i", 1023) + `"`), wantRefusal{code: request}},
		{"id of too many digits", withID(strings.Repeat("1", 1025)), wantRefusal{code: request}},

		// A name twice: two readers must not see two requests.
		{"id twice", valid.Saying(`{"jsonrpc":"2.0","id":7,"id":8,` + rest), wantRefusal{code: request}},
		{"method twice", valid.Saying(`{"method":"` + secret + `","jsonrpc":"2.0","id":7,` + rest), wantRefusal{code: request}},
		{"method twice, escaped", valid.Saying(`{"m\u0065thod":"` + secret + `","jsonrpc":"2.0","id":7,` + rest), wantRefusal{code: request}},
		{"unknown twice", valid.Saying(`{"` + secret + `":1,"` + secret + `":2,"jsonrpc":"2.0","id":7,` + rest), wantRefusal{code: request}},
		{"params member twice", withParams(`{` + metaMember + `,"notifications":{},"notifications":{}}`), wantRefusal{code: request, id: "7"}},
		{"_meta twice", withParams(`{` + metaMember + `,"notifications":{},"_\u006deta":{}}`), wantRefusal{code: request, id: "7"}},
		{"_meta member twice", withMeta(`{` + caps + `,` + proto + `,` + proto + `}`), wantRefusal{code: request, id: "7"}},
		{"filter member twice", withFilter(`{"toolsListChanged":true,"toolsListChanged":false}`), wantRefusal{code: request, id: "7"}},
		{"unknown filter member twice", withFilter(`{"` + secret + `":1,"` + secret + `":1}`), wantRefusal{code: request, id: "7"}},

		// Nesting.
		{"too deep", withMeta(`{` + caps + `,` + proto + `,"x":` + nested(62) + `}`), wantRefusal{code: request}},
		{"far too deep", valid.Saying(nested(300_000)), wantRefusal{code: request}},
		{"deep and broken", valid.Saying(strings.Repeat("[", 9_000)), wantRefusal{code: parse}},

		// _meta.
		{"no params", valid.Saying(`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen"}`), wantRefusal{code: params, id: "7"}},
		{"params array", withParams(`[]`), wantRefusal{code: params, id: "7"}},
		{"no _meta", withParams(`{"notifications":{}}`), wantRefusal{code: params, id: "7"}},
		{"_meta null", withMeta(`null`), wantRefusal{code: params, id: "7"}},
		{"_meta array", withMeta(`["` + secret + `"]`), wantRefusal{code: params, id: "7"}},
		{"no protocol version", withMeta(`{` + caps + `}`), wantRefusal{code: params, id: "7"}},
		{"protocol version null", withMeta(`{` + caps + `,"io.modelcontextprotocol/protocolVersion":null}`), wantRefusal{code: params, id: "7"}},
		{"protocol version number", withMeta(`{` + caps + `,"io.modelcontextprotocol/protocolVersion":20260728}`), wantRefusal{code: params, id: "7"}},
		{"protocol version too long", withVersion(strings.Repeat(secret, 9)), wantRefusal{code: params, id: "7"}},
		{"no client capabilities", withMeta(`{` + proto + `}`), wantRefusal{code: params, id: "7"}},
		{"client capabilities null", withMeta(`{` + proto + `,"io.modelcontextprotocol/clientCapabilities":null}`), wantRefusal{code: params, id: "7"}},
		{"client capabilities array", withMeta(`{` + proto + `,"io.modelcontextprotocol/clientCapabilities":[]}`), wantRefusal{code: params, id: "7"}},
		{"client capabilities true", withMeta(`{` + proto + `,"io.modelcontextprotocol/clientCapabilities":true}`), wantRefusal{code: params, id: "7"}},

		// Headers against the body.
		{"no method header", valid.With(headerMethod), wantRefusal{code: mismatch, id: "7", says: headerMethod}},
		{"other method header", valid.With(headerMethod, secret), wantRefusal{code: mismatch, id: "7", says: headerMethod}},
		{"method header in capitals", valid.With(headerMethod, "Subscriptions/Listen"), wantRefusal{code: mismatch, id: "7", says: headerMethod}},
		{"method header twice", valid.With(headerMethod, core.MethodListen, core.MethodListen), wantRefusal{code: mismatch, id: "7", says: headerMethod}},
		{"two method headers", valid.With(headerMethod, core.MethodListen, "tools/list"), wantRefusal{code: mismatch, id: "7", says: headerMethod}},
		{"method header as list", valid.With(headerMethod, core.MethodListen+", "+core.MethodListen), wantRefusal{code: mismatch, id: "7", says: headerMethod}},
		{"no version header", valid.With(headerVersion), wantRefusal{code: mismatch, id: "7", says: "MCP-Protocol-Version"}},
		{"empty version header", valid.With(headerVersion, ""), wantRefusal{code: mismatch, id: "7", says: "MCP-Protocol-Version"}},
		{"other version header", valid.With(headerVersion, secret), wantRefusal{code: mismatch, id: "7", says: "MCP-Protocol-Version"}},
		{"version header twice", valid.With(headerVersion, "2026-07-28", "2026-07-28"), wantRefusal{code: mismatch, id: "7", says: "MCP-Protocol-Version"}},

		// The version, after the headers.
		{"old version in the body", withVersion("2025-11-25"), wantRefusal{code: mismatch, id: "7", says: "MCP-Protocol-Version"}},
		{"old version without header", withVersion("2025-11-25").With(headerVersion), wantRefusal{code: mismatch, id: "7", says: "MCP-Protocol-Version"}},
		{"old version and other method", withVersion("2025-11-25").With(headerVersion, "2025-11-25").With(headerMethod), wantRefusal{code: mismatch, id: "7", says: headerMethod}},
		{"old version", withVersion("2025-11-25").With(headerVersion, "2025-11-25"), wantRefusal{code: version, id: "7",
			data: `{"supported":["2026-07-28"],"requested":"2025-11-25"}`}},
		{"old version and no filter", withVersion("1").With(headerVersion, "1").Saying(strings.ReplaceAll(withVersion("1").Body, `"notifications":{}`, `"x":1`)),
			wantRefusal{code: version, id: "7", data: `{"supported":["2026-07-28"],"requested":"1"}`}},

		// The filter.
		{"no filter", withParams(`{` + metaMember + `}`), wantRefusal{code: params, id: "7"}},
		{"filter null", withFilter(`null`), wantRefusal{code: params, id: "7"}},
		{"filter array", withFilter(`["` + secret + `"]`), wantRefusal{code: params, id: "7"}},
		{"filter true", withFilter(`true`), wantRefusal{code: params, id: "7"}},
		{"filter in capitals", withParams(`{` + metaMember + `,"Notifications":{}}`), wantRefusal{code: params, id: "7"}},
		{"tools null", withFilter(`{"toolsListChanged":null}`), wantRefusal{code: params, id: "7"}},
		{"tools string", withFilter(`{"toolsListChanged":"true"}`), wantRefusal{code: params, id: "7"}},
		{"prompts number", withFilter(`{"promptsListChanged":1}`), wantRefusal{code: params, id: "7"}},
		{"resources object", withFilter(`{"resourcesListChanged":{}}`), wantRefusal{code: params, id: "7"}},
		{"URIs null", withFilter(`{"resourceSubscriptions":null}`), wantRefusal{code: params, id: "7"}},
		{"URIs string", withFilter(`{"resourceSubscriptions":"` + secret + `"}`), wantRefusal{code: params, id: "7"}},
		{"URI null", withFilter(`{"resourceSubscriptions":["` + secret + `",null]}`), wantRefusal{code: params, id: "7"}},
		{"URI number", withFilter(`{"resourceSubscriptions":[1]}`), wantRefusal{code: params, id: "7"}},
		{"URI empty", withFilter(`{"resourceSubscriptions":[""]}`), wantRefusal{code: params, id: "7"}},
		{"URI of half a character", withFilter(`{"resourceSubscriptions":["\ud800"]}`), wantRefusal{code: params, id: "7"}},
		{"too many URIs", withFilter(uris(1001)), wantRefusal{code: params, id: "7"}},
		{"too long a URI", withFilter(longURI(2049)), wantRefusal{code: params, id: "7"}},

		// The rest.
		{"not acceptable", valid.With("Accept", "application/json;x="+secret), wantRefusal{status: 406, code: request, id: "7", says: "Accept"}},
		{"no JSON declared", valid.With("Content-Type", "text/"+secret), wantRefusal{status: 415, code: request, says: "Content-Type"}},
		{"foreign origin", valid.With("Origin", "http://"+secret), wantRefusal{status: 403, code: request, says: "Origin"}},
		{"foreign host", valid.At(secret), wantRefusal{status: 403, code: request, says: "Host"}},
		{"initialize", Post("initialize", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","x":"`+secret+`"}}`),
			wantRefusal{status: 404, code: notFound, id: "7", says: "2026-07-28", data: `{"supported":["2026-07-28"]}`}},
		{"unknown method", Post(secret, `{"jsonrpc":"2.0","id":7,"method":"`+secret+`"}`), wantRefusal{status: 404, code: notFound, id: "7"}},
		{"method in capitals", valid.Saying(strings.Replace(valid.Body, "subscriptions", "Subscriptions", 1)), wantRefusal{status: 404, code: notFound, id: "7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.want.status == 0 {
				c.want.status = 400
			}
			answer := client.Do(t, c.call.With("Mcp-Session-Id", secret).With("Last-Event-Id", secret))
			answer.refused(t, c.want, secret)
			if got := answer.Header.Values("Retry-After"); got != nil {
				t.Errorf("Retry-After: got %q, want none", got)
			}
		})
	}

	// What is just within the limits opens a stream, and the listen method may be
	// written with escapes.
	for name, call := range map[string]Call{
		"deep":           withMeta(`{` + caps + `,` + proto + `,"x":` + nested(61) + `}`),
		"many URIs":      withFilter(uris(1000)),
		"long URI":       withFilter(longURI(2048)),
		"long id":        withID(`"` + strings.Repeat("i", 1022) + `"`),
		"many digits":    withID(strings.Repeat("1", 1024)),
		"unknown member": valid,
		"escaped method": valid.Saying(strings.Replace(valid.Body, "subscriptions", `subscription\u0073`, 1)),
		"white space":    valid.Saying(" \r\n\t" + strings.ReplaceAll(valid.Body, `,`, "\t,\r\n ") + "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client.listen(t, call)
		})
	}
}

func (s suite) accept(t *testing.T) {
	t.Parallel()
	srv := s.start(t, Options{})
	client := srv.client(t)
	for _, c := range []struct {
		accept []string
		ok     bool
	}{
		{nil, true},
		{[]string{""}, true},
		{[]string{"", " "}, true},
		{[]string{"text/event-stream"}, true},
		{[]string{"application/json, text/event-stream"}, true},
		{[]string{"application/json,text/event-stream"}, true},
		{[]string{"application/json", "text/event-stream"}, true},
		{[]string{"TEXT/Event-Stream"}, true},
		{[]string{"*/*"}, true},
		{[]string{"text/*"}, true},
		{[]string{"text/html, */*;q=0.1"}, true},
		{[]string{"text/event-stream;q=0.001"}, true},
		{[]string{"text/event-stream ; q=1.000"}, true},
		{[]string{"text/event-stream;charset=utf-8"}, true},
		{[]string{"*/*;q=0, text/event-stream"}, true},
		{[]string{"text/*;q=0, text/event-stream;q=0.5"}, true},
		{[]string{"*/*;q=0, text/*"}, true},
		{[]string{",, text/event-stream ,"}, true},
		{[]string{"application/json"}, false},
		{[]string{"application/json", "text/html"}, false},
		{[]string{"text/event-stream;q=0"}, false},
		{[]string{"text/event-stream; q=0.000"}, false},
		{[]string{"text/event-stream;Q=0"}, false},
		{[]string{"text/event-stream;charset=utf-8;q=0"}, false},
		{[]string{"*/*;q=0"}, false},
		{[]string{"text/*;q=0"}, false},
		{[]string{"*/*, text/event-stream;q=0"}, false},
		{[]string{"text/event-stream;q=0, */*"}, false},
		{[]string{"text/*, text/event-stream;q=0"}, false},
		{[]string{"*/*", "text/*;q=0"}, false},
		{[]string{"text/event-streams"}, false},
		{[]string{"text/html, application/xhtml+xml"}, false},
	} {
		t.Run(strings.Join(c.accept, "|"), func(t *testing.T) {
			t.Parallel()
			call := Listen("7", everything).With("Accept", c.accept...)
			if c.ok {
				client.listen(t, call)
			} else {
				client.Do(t, call).refused(t, wantRefusal{status: 406, code: core.CodeInvalidRequest, id: "7", says: "Accept"}, "")
			}
		})
	}
}

func (s suite) contentType(t *testing.T) {
	t.Parallel()
	srv := s.start(t, Options{})
	client := srv.client(t)
	for _, c := range []struct {
		value []string
		ok    bool
	}{
		{[]string{"application/json"}, true},
		{[]string{"application/json; charset=utf-8"}, true},
		{[]string{"application/json;charset=UTF-8"}, true},
		{[]string{"Application/JSON"}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{"text/plain"}, false},
		{[]string{"text/plain; application/json"}, false},
		{[]string{"text/json"}, false},
		{[]string{"application/jsonp"}, false},
		{[]string{"application/x-www-form-urlencoded"}, false},
		{[]string{"multipart/form-data; boundary=x"}, false},
		{[]string{"json"}, false},
		{[]string{"text/plain", "application/json"}, false},
		{[]string{"application/json", "text/plain"}, false},
	} {
		t.Run(strings.Join(c.value, "|"), func(t *testing.T) {
			t.Parallel()
			call := Listen("7", everything).With("Content-Type", c.value...)
			if c.ok {
				client.listen(t, call)
			} else {
				client.Do(t, call).refused(t, wantRefusal{status: 415, code: core.CodeInvalidRequest, says: "Content-Type"}, "")
			}
		})
	}
}

func (s suite) bodyLimit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		const limit = 2000
		srv := s.start(t, Options{Protocol: p, HTTP: []mcphttp.Option{mcphttp.WithMaxBody(limit)}})
		client := srv.client(t)
		call := Listen("7", everything)
		fits := call.Saying(call.Body + strings.Repeat(" ", limit-len(call.Body)))
		over := call.Saying(fits.Body + " ")
		for range 2 {
			client.listen(t, fits)
			client.Do(t, over).refused(t, wantRefusal{status: 413, code: core.CodeInvalidRequest}, "")
			fits.Chunked, over.Chunked = true, true
		}
	})
	t.Run("default", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{})
		client := srv.client(t)
		call := Listen("7", everything)
		fits := call.Saying(call.Body + strings.Repeat(" ", mcphttp.DefaultMaxBody-len(call.Body)))
		client.listen(t, fits)
		client.Do(t, fits.Saying(fits.Body+" ")).refused(t, wantRefusal{status: 413, code: core.CodeInvalidRequest}, "")
	})
}
