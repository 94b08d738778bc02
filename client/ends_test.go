// How a subscription ends: servers that break each of the rules, that refuse in
// each of the ways, and that go away.

package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// listen opens a subscription and returns what it yielded and how it ended,
// before its acknowledgment or after it.
func listen(tb testing.TB, endpoint client.Endpoint, options ...client.Option) ([]client.Notification, client.End) {
	tb.Helper()
	s, err := client.Listen(testContext(tb), endpoint, toolsFilter, append(options, httpClient(tb))...)
	if err != nil {
		return nil, client.End{Cause: client.CauseOf(err), Err: err}
	}
	return collect(s), s.End()
}

func TestViolations(t *testing.T) {
	t.Parallel()
	note := func(method, uri string) string {
		return `{"jsonrpc":"2.0","method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"uri":"` + uri + `"}}`
	}
	ack := func(filter string) string {
		return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":` + filter + `}}`
	}
	foreign := func(m string) string { return strings.ReplaceAll(m, idPlace, `"other"`) }
	tests := []struct {
		name     string
		messages []string
		want     client.Rule
		yielded  int
	}{
		{"notification first", []string{toolsNote, toolsAck}, client.BeforeAck, 0},
		{"result first", []string{goodbye}, client.BeforeAck, 0},
		{"ack of another id", []string{foreign(toolsAck)}, client.WrongID, 0},
		{"ack without id", []string{strings.ReplaceAll(toolsAck, `"io.modelcontextprotocol/subscriptionId":ID`, "")}, client.WrongID, 0},
		{"notification of another id", []string{toolsAck, foreign(toolsNote)}, client.WrongID, 0},
		{"notification without id", []string{toolsAck, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, client.WrongID, 0},
		{"result of another id", []string{toolsAck, foreign(goodbye)}, client.WrongID, 0},
		{"result of another subscription", []string{toolsAck, strings.Replace(goodbye, `d":ID`, `d":"other"`, 1)}, client.WrongID, 0},
		{"error of another id", []string{`{"jsonrpc":"2.0","id":"other","error":{"code":-32603,"message":"x"}}`}, client.WrongID, 0},
		{"id as number", []string{strings.ReplaceAll(toolsAck, idPlace, "1")}, client.WrongID, 0},
		{"second ack", []string{toolsAck, toolsNote, toolsAck}, client.SecondAck, 1},
		{"kind that was not honored", []string{toolsAck, note(core.MethodPromptsListChanged, "")}, client.Unrequested, 0},
		{"unknown kind", []string{toolsAck, note("notifications/message", "")}, client.Unrequested, 0},
		{"kind in another case", []string{toolsAck, note("notifications/Tools/list_changed", "")}, client.Unrequested, 0},
		{"another URI", []string{toolsAck, note(core.MethodResourceUpdated, "file:///ab")}, client.Unrequested, 0},
		{"URI above", []string{toolsAck, note(core.MethodResourceUpdated, "file:///")}, client.Unrequested, 0},
		{"no URI", []string{toolsAck, note(core.MethodResourceUpdated, "")}, client.Malformed, 0},
		{"after the result", []string{toolsAck, toolsNote, goodbye, toolsNote}, client.AfterResult, 1},
		{"two results", []string{toolsAck, goodbye, goodbye}, client.AfterResult, 0},
		{"error after the result", []string{toolsAck, goodbye, `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"x"}}`}, client.AfterResult, 0},
		{"not JSON", []string{toolsAck, "hello"}, client.NotJSON, 0},
		{"not UTF-8", []string{toolsAck, "\"\xff\""}, client.NotJSON, 0},
		{"two values", []string{toolsAck + toolsNote}, client.NotJSON, 0},
		{"batch", []string{"[" + toolsAck + "]"}, client.Malformed, 0},
		{"null", []string{"null"}, client.Malformed, 0},
		{"no version", []string{strings.Replace(toolsAck, `"jsonrpc":"2.0",`, "", 1)}, client.Malformed, 0},
		{"version in another case", []string{strings.Replace(toolsAck, `"jsonrpc"`, `"JSONRPC"`, 1)}, client.Malformed, 0},
		{"method that is no string", []string{toolsAck, `{"jsonrpc":"2.0","method":1}`}, client.Malformed, 0},
		{"params that are no object", []string{toolsAck, `{"jsonrpc":"2.0","method":"x","params":[]}`}, client.Malformed, 0},
		{"request of the server", []string{toolsAck, `{"jsonrpc":"2.0","id":1,"method":"ping"}`}, client.Malformed, 0},
		{"result and error", []string{toolsAck, `{"jsonrpc":"2.0","id":ID,"result":{},"error":{}}`}, client.Malformed, 0},
		{"neither", []string{toolsAck, `{"jsonrpc":"2.0","id":ID}`}, client.Malformed, 0},
		{"result that is no object", []string{toolsAck, `{"jsonrpc":"2.0","id":ID,"result":null}`}, client.Malformed, 0},
		{"result that is not complete", []string{toolsAck, strings.Replace(goodbye, "complete", "input_required", 1)}, client.Malformed, 0},
		{"error without code", []string{`{"jsonrpc":"2.0","id":ID,"error":{"message":"x"}}`}, client.Malformed, 0},
		{"error without message", []string{`{"jsonrpc":"2.0","id":ID,"error":{"code":1}}`}, client.Malformed, 0},
		{"ack without filter", []string{strings.Replace(toolsAck, `"notifications":`, `"other":`, 1)}, client.BadAck, 0},
		{"ack of more", []string{ack(`{"toolsListChanged":true,"promptsListChanged":true}`)}, client.BadAck, 0},
		{"ack of more URIs", []string{ack(`{"resourceSubscriptions":["file:///a","file:///b"]}`)}, client.BadAck, 0},
		{"ack with a flag that is none", []string{ack(`{"toolsListChanged":"true"}`)}, client.BadAck, 0},
		{"ack with null", []string{ack(`{"toolsListChanged":null}`)}, client.BadAck, 0},
		{"ack with URIs that are none", []string{ack(`{"resourceSubscriptions":"file:///a"}`)}, client.BadAck, 0},
		{"large", []string{toolsAck, `"` + strings.Repeat("x", 5000) + `"`}, client.TooLarge, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			endpoint := byHand(t, func(w http.ResponseWriter, r *http.Request, id string) {
				say(w, id, tt.messages...)
				<-r.Context().Done() // it is the client that ends this
			})
			got, end := listen(t, endpoint, client.WithMaxMessage(5000))
			var v *client.ViolationError
			if end.Cause != client.Violation || !errors.As(end.Err, &v) || v.Rule != tt.want {
				t.Fatalf("got %v, want a violation of %s", end, tt.want)
			}
			if len(got) != tt.yielded {
				t.Errorf("yielded %v, want %d", got, tt.yielded)
			}
		})
	}
}

// What a server may do, and servers do.
func TestTolerated(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stream string
	}{
		{"plain", "data: " + toolsAck + "\n\ndata: " + toolsNote + "\n\ndata: " + goodbye + "\n\n"},
		{"CRLF, names, ids, comments", ": hi\r\n\r\nevent: message\r\nid: 1\r\ndata: " + toolsAck + "\r\n\r\n:\r\ndata: " + toolsNote + "\r\n\r\ndata: " + goodbye + "\r\n\r\n"},
		{"priming event", "id: 1\nretry: 5\ndata:\n\ndata: " + toolsAck + "\n\ndata: " + toolsNote + "\n\ndata: " + goodbye + "\n\n"},
		{"ping", "event: ping\ndata: {}\n\ndata: " + toolsAck + "\n\nevent: ping\ndata: now\n\ndata: " + toolsNote + "\n\ndata: " + goodbye + "\n\n"},
		{"message of another name", "event: mcp\ndata: " + toolsAck + "\n\nevent: tools\ndata: " + toolsNote + "\n\ndata: " + goodbye + "\n\n"},
		{"several lines", "data: " + strings.ReplaceAll(toolsAck, ",", ",\ndata: ") + "\n\ndata: " + toolsNote + "\n\ndata: " + goodbye + "\n\n"},
		{"result without its subscription and type", "data: " + toolsAck + "\n\ndata: " + toolsNote + "\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}\n\n"},
		{"goodbye of the other page", "data: " + toolsAck + "\n\ndata: " + toolsNote + "\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":ID}}\n\n"},
		{"comment after the result", "data: " + toolsAck + "\n\ndata: " + toolsNote + "\n\ndata: " + goodbye + "\n\n: bye\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			endpoint := byHand(t, func(w http.ResponseWriter, _ *http.Request, id string) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				_, _ = io.WriteString(w, strings.ReplaceAll(tt.stream, idPlace, id))
			})
			got, end := listen(t, endpoint)
			if end.Cause != client.Graceful || len(got) != 1 || got[0].Kind != client.Tools {
				t.Errorf("got %v, %v", got, end)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	const plain, jsonType = "text/plain", "application/json"
	fail := func(code string) string {
		return `{"jsonrpc":"2.0","id":ID,"error":{"code":` + code + `,"message":"no"}}`
	}
	tests := []struct {
		name        string
		status      int
		contentType string
		retryAfter  string
		body        string
		want        client.RefusedError
		permanent   bool
	}{
		{"no such method", 404, jsonType, "", fail("-32601"), client.RefusedError{Status: 404, Code: -32601, Message: "no"}, true},
		{"no such method, with 200", 200, jsonType, "", fail("-32601"), client.RefusedError{Status: 200, Code: -32601, Message: "no"}, true},
		{"no such method, come back", 503, jsonType, "5", fail("-32601"), client.RefusedError{Status: 503, Code: -32601, Message: "no", RetryAfter: 5 * time.Second}, true},
		{"full", 503, jsonType, "7", fail("-32603"), client.RefusedError{Status: 503, Code: -32603, Message: "no", RetryAfter: 7 * time.Second}, false},
		{"full, with 200", 200, jsonType, "", fail("-32603"), client.RefusedError{Status: 200, Code: -32603, Message: "no"}, false},
		{"too many", 429, plain, "1", "slow down", client.RefusedError{Status: 429, Message: "slow down", RetryAfter: time.Second}, false},
		{"invalid params", 400, jsonType, "", fail("-32602"), client.RefusedError{Status: 400, Code: -32602, Message: "no"}, true},
		{"invalid params, with 200", 200, jsonType, "", fail("-32602"), client.RefusedError{Status: 200, Code: -32602, Message: "no"}, true},
		{"without the id", 400, jsonType, "", strings.Replace(fail("-32700"), `"id":ID,`, "", 1), client.RefusedError{Status: 400, Code: -32700, Message: "no"}, true},
		{"with a null id", 400, jsonType, "", strings.Replace(fail("-32700"), `ID`, "null", 1), client.RefusedError{Status: 400, Code: -32700, Message: "no"}, true},
		{"data", 400, jsonType, "", strings.Replace(fail("-32022"), `"no"`, `"no","data":{"supported":["x"]}`, 1), client.RefusedError{Status: 400, Code: -32022, Message: "no", Data: []byte(`{"supported":["x"]}`)}, true},
		{"unauthorized", 401, plain, "", "", client.RefusedError{Status: 401, Challenge: "Bearer"}, true},
		{"forbidden", 403, "text/html", "", "<html>", client.RefusedError{Status: 403, Message: "<html>", Challenge: "Bearer"}, true},
		{"bad gateway", 502, "text/html", "", "<html>", client.RefusedError{Status: 502, Message: "<html>"}, false},
		{"not modified", 304, plain, "", "", client.RefusedError{Status: 304}, true},
		{"an error that is none", 400, jsonType, "", `{"error":"x"}`, client.RefusedError{Status: 400, Message: `{"error":"x"}`}, true},
		{"error in a stream", 200, "text/event-stream", "", "data: " + fail("-32000") + "\n\n", client.RefusedError{Status: 200, Code: -32000, Message: "no"}, false},
		{"error after the ack", 200, "text/event-stream", "", "data: " + toolsAck + "\n\ndata: " + fail("-32603") + "\n\n", client.RefusedError{Status: 200, Code: -32603, Message: "no", Acknowledged: true}, false},
		{"long", 500, plain, "", strings.Repeat("x", 1<<20), client.RefusedError{Status: 500, Message: strings.Repeat("x", 200) + "…"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			endpoint := byHand(t, func(w http.ResponseWriter, _ *http.Request, id string) {
				w.Header().Set("Content-Type", tt.contentType)
				w.Header().Set("WWW-Authenticate", "Bearer")
				if tt.retryAfter != "" {
					w.Header().Set("Retry-After", tt.retryAfter)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, strings.ReplaceAll(tt.body, idPlace, id))
			})
			_, end := listen(t, endpoint)
			var got *client.RefusedError
			if end.Cause != client.Refused || !errors.As(end.Err, &got) {
				t.Fatalf("got %v, want a refusal", end)
			}
			if got.Error() != tt.want.Error() || string(got.Data) != string(tt.want.Data) || got.Challenge != tt.want.Challenge || got.Acknowledged != tt.want.Acknowledged {
				t.Errorf("got %+v, want %+v", *got, tt.want)
			}
			if got.Permanent() != tt.permanent {
				t.Errorf("permanent: got %t, want %t", got.Permanent(), tt.permanent)
			}
		})
	}
}

func TestNotAStream(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		status      int
		contentType string
		body        string
		want        client.Rule
	}{
		{"accepted", 202, "", "", client.NotAStream},
		{"no content", 204, "", "", client.NotAStream},
		{"a page", 200, "text/html", "<html>", client.NotAStream},
		{"no type", 200, "", "", client.NotAStream},
		{"a result and no stream", 200, "application/json", goodbye, client.BeforeAck},
		{"an ack and no stream", 200, "application/json", toolsAck, client.NotAStream},
		{"nothing", 200, "application/json", "", client.NotJSON},
		{"too much", 200, "application/json", strings.Repeat(" ", 2000), client.TooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			endpoint := byHand(t, func(w http.ResponseWriter, _ *http.Request, id string) {
				w.Header()["Content-Type"] = nil
				if tt.contentType != "" {
					w.Header().Set("Content-Type", tt.contentType)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, strings.ReplaceAll(tt.body, idPlace, id))
			})
			_, end := listen(t, endpoint, client.WithMaxMessage(1000))
			var v *client.ViolationError
			if end.Cause != client.Violation || !errors.As(end.Err, &v) || v.Rule != tt.want {
				t.Errorf("got %v, want a violation of %s", end, tt.want)
			}
		})
	}
}

func TestDrops(t *testing.T) {
	t.Parallel()
	const nobody = client.URL("http://127.0.0.1:1/mcp") // a port that no other test's server gets
	hijacked := func(after string) client.URL {
		return byHand(t, func(w http.ResponseWriter, _ *http.Request, id string) {
			if after != "" {
				say(w, id, after)
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		})
	}
	tests := []struct {
		name     string
		endpoint client.URL
		want     error
	}{
		{"nobody listens", nobody, client.ErrUnreachable},
		{"no answer", hijacked(""), client.ErrUnreachable},
		{"cut after the ack", hijacked(toolsAck), io.ErrUnexpectedEOF},
		{"handler returns", byHand(t, func(w http.ResponseWriter, _ *http.Request, id string) { say(w, id, toolsAck) }), io.ErrUnexpectedEOF},
		{"result without its end", byHand(t, func(w http.ResponseWriter, _ *http.Request, id string) {
			say(w, id, toolsAck)
			_, _ = io.WriteString(w, "data: "+strings.ReplaceAll(goodbye, idPlace, id)+"\n")
		}), io.ErrUnexpectedEOF},
		{"handler panics", byHand(t, func(w http.ResponseWriter, _ *http.Request, id string) {
			say(w, id, toolsAck)
			panic(http.ErrAbortHandler)
		}), io.ErrUnexpectedEOF},
		{"no ack", byHand(t, func(w http.ResponseWriter, r *http.Request, id string) {
			say(w, id)
			<-r.Context().Done()
		}), client.ErrNoAck},
		{"no headers", byHand(t, func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() }), client.ErrNoAck},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			patience := hang
			if errors.Is(tt.want, client.ErrNoAck) {
				patience = 50 * time.Millisecond
			}
			_, end := listen(t, tt.endpoint, client.WithAckTimeout(patience))
			if end.Cause != client.Dropped || !errors.Is(end.Err, client.ErrDropped) || !errors.Is(end.Err, tt.want) {
				t.Errorf("got %v, want dropped with %v", end, tt.want)
			}
		})
	}
}

func TestTokenSourceFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	endpoint := byHand(t, func(http.ResponseWriter, *http.Request, string) { t.Error("a request without token") })
	_, end := listen(t, endpoint, client.WithTokenSource(func(context.Context) (string, error) { return "", broken }))
	if end.Cause != client.Dropped || !errors.Is(end.Err, client.ErrToken) || !errors.Is(end.Err, broken) {
		t.Errorf("got %v", end)
	}
}

func TestEndString(t *testing.T) {
	t.Parallel()
	for want, end := range map[string]client.End{
		"graceful":      {Cause: client.Graceful},
		"local: closed": {Cause: client.Local, Err: client.ErrClosed},
		"refused: refused with HTTP status 503, JSON-RPC error -32603: \"full\" (retry after 2s)": {
			Cause: client.Refused, Err: &client.RefusedError{Status: 503, Code: -32603, Message: "full", RetryAfter: 2 * time.Second},
		},
	} {
		if got := end.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
