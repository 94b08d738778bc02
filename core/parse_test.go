// Parsing: what is accepted as a listen request, and with which code and word
// everything else is refused, without an echo of it.

package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcplisten/mcplisten/core"
)

// marker stands in malformed input wherever there is room for it. No error may
// carry it to a client.
const marker = "xk7Secret9qz"

// noEcho checks that nothing of the input is in what a client may see of err.
func noEcho(tb testing.TB, err error) {
	tb.Helper()
	e := core.AsError(err)
	seen := map[string]string{"Message": e.Message, "Error()": err.Error()}
	if e.Code != core.CodeUnsupportedVersion {
		seen["Data"] = string(e.Data)
	}
	for where, text := range seen {
		if strings.Contains(strings.ToLower(text), strings.ToLower(marker)) {
			tb.Errorf("%s repeats the input: %s", where, text)
		}
	}
}

func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	t.Parallel()
	const (
		parseError     = core.CodeParseError
		invalidRequest = core.CodeInvalidRequest
		invalidParams  = core.CodeInvalidParams
		version        = `"` + core.MetaProtocolVersion + `":"` + core.ProtocolVersion + `"`
		capabilities   = `"` + core.MetaClientCapabilities + `":{}`
	)
	refusals := map[int]core.Refusal{
		parseError: core.RefusedParse, invalidRequest: core.RefusedRequest, invalidParams: core.RefusedParams,
		core.CodeUnsupportedVersion: core.RefusedVersion,
	}
	request := func(id string) string { return listenText(id, validMeta, allLists) }
	meta := func(meta string) string { return listenText("7", meta, allLists) }
	filter := func(filter string) string { return listenText("7", validMeta, filter) }
	params := func(params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":` + params + `}`
	}
	const (
		noID = ""  // the answer can carry no id
		id   = "7" // it carries this one
	)
	tests := []struct {
		name string
		text string
		code int
		id   string
	}{
		// Not JSON.
		{"nothing", ``, parseError, noID},
		{"space", " \n", parseError, noID},
		{"text", marker, parseError, noID},
		{"unterminated", strings.TrimSuffix(request(`"`+marker+`"`), "}"), parseError, noID},
		{"trailing data", request("7") + `"` + marker + `"`, parseError, noID},
		{"two messages", request("7") + request("8"), parseError, noID},
		{"trailing comma", `{"jsonrpc":"2.0",}`, parseError, noID},
		{"single quotes", `{'` + marker + `':1}`, parseError, noID},
		{"comment", `/*` + marker + `*/` + request("7"), parseError, noID},
		{"byte order mark", "\ufeff" + request("7"), parseError, noID},
		{"UTF-16", "\xff\xfe{\x00}\x00", parseError, noID},
		{"invalid UTF-8 in a string", request("\"" + marker + "\xff\""), parseError, noID},
		{"overlong UTF-8", request("\"\xc0\xaf\""), parseError, noID},
		{"surrogate in UTF-8", request("\"\xed\xa0\x80\""), parseError, noID},
		{"control character in a string", request("\"\x01\""), parseError, noID},
		{"NaN", request("NaN"), parseError, noID},
		{"leading zero", request("01"), parseError, noID},
		{"plus sign", request("+1"), parseError, noID},
		{"bad escape", request(`"\x41"`), parseError, noID},
		{"deep and unterminated", strings.Repeat("[", 100), parseError, noID},

		// No JSON-RPC request.
		{"batch", "[" + request("7") + "]", invalidRequest, noID},
		{"empty batch", "[]", invalidRequest, noID},
		{"null", "null", invalidRequest, noID},
		{"string", `"` + marker + `"`, invalidRequest, noID},
		{"number", "7", invalidRequest, noID},
		{"empty object", "{}", invalidRequest, noID},
		{"no jsonrpc", `{"id":7,"method":"` + marker + `"}`, invalidRequest, id},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":7,"method":"m"}`, invalidRequest, id},
		{"jsonrpc a number", `{"jsonrpc":2.0,"id":7,"method":"m"}`, invalidRequest, id},
		{"jsonrpc null", `{"jsonrpc":null,"id":7,"method":"m"}`, invalidRequest, id},
		{"jsonrpc in capitals", `{"JSONRPC":"2.0","id":7,"method":"m"}`, invalidRequest, id},
		{"no method", `{"jsonrpc":"2.0","id":7}`, invalidRequest, id},
		{"method null", `{"jsonrpc":"2.0","id":7,"method":null}`, invalidRequest, id},
		{"method a number", `{"jsonrpc":"2.0","id":7,"method":1}`, invalidRequest, id},
		{"method in capitals", `{"jsonrpc":"2.0","id":7,"Method":"m"}`, invalidRequest, id},
		{"a response", `{"jsonrpc":"2.0","id":7,"result":{"` + marker + `":1}}`, invalidRequest, id},
		{"an error", `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"` + marker + `"}}`, invalidRequest, id},
		{"a request and a response", `{"jsonrpc":"2.0","id":7,"method":"m","result":null}`, invalidRequest, id},
		{"params null", params("null"), invalidRequest, id},
		{"params a string", params(`"` + marker + `"`), invalidRequest, id},
		{"params a number", params("1"), invalidRequest, id},

		// Ids.
		{"no id", `{"jsonrpc":"2.0","method":"subscriptions/listen","params":{"_meta":` + validMeta + `,"notifications":{}}}`, invalidRequest, noID},
		{"ID in capitals", strings.Replace(request("7"), `"id"`, `"ID"`, 1), invalidRequest, noID},
		{"id null", request("null"), invalidRequest, noID},
		{"id true", request("true"), invalidRequest, noID},
		{"id false", request("false"), invalidRequest, noID},
		{"id an object", request(`{"` + marker + `":1}`), invalidRequest, noID},
		{"id an array", request("[1]"), invalidRequest, noID},
		{"id a fraction", request("1.5"), invalidRequest, noID},
		{"id a whole fraction", request("1.0"), invalidRequest, noID},
		{"id with an exponent", request("1e3"), invalidRequest, noID},
		{"id with an Exponent", request("1E3"), invalidRequest, noID},
		{"id too long a string", request(`"` + marker + strings.Repeat("a", 1023-len(marker)) + `"`), invalidRequest, noID},
		{"id too long a number", request(strings.Repeat("9", 1025)), invalidRequest, noID},
		{"id of half a megabyte", request(`"` + strings.Repeat(marker, 40_000) + `"`), invalidRequest, noID},

		// Names that stand twice.
		{"two ids", strings.Replace(request("7"), `"id":7`, `"id":7,"id":8`, 1), invalidRequest, noID},
		{"two ids, one escaped", strings.Replace(request("7"), `"id":7`, `"id":7,"\u0069d":8`, 1), invalidRequest, noID},
		{"two methods", strings.Replace(request("7"), `"id":7`, `"id":7,"method":"`+marker+`"`, 1), invalidRequest, noID},
		{"two unknown members", strings.Replace(request("7"), `"id":7`, `"id":7,"`+marker+`":1,"`+marker+`":1`, 1), invalidRequest, noID},
		{"two params", strings.Replace(request("7"), `"id":7`, `"id":7,"params":{}`, 1), invalidRequest, noID},
		{"two _meta", params(`{"_meta":` + validMeta + `,"notifications":{},"_meta":{}}`), invalidRequest, id},
		{"two _meta, one escaped", params(`{"_meta":` + validMeta + `,"notifications":{},"\u005fmeta":{}}`), invalidRequest, id},
		{"two notifications", params(`{"notifications":{},"_meta":` + validMeta + `,"notifications":{}}`), invalidRequest, id},
		{"two unknown params", params(`{"` + marker + `":{},"_meta":` + validMeta + `,"notifications":{},"` + marker + `":1}`), invalidRequest, id},
		{"two versions", meta(`{` + version + `,` + version + `,` + capabilities + `}`), invalidRequest, id},
		{"two versions, one escaped", meta(`{` + version + `,` + strings.Replace(version, "p", `\u0070`, 1) + `,` + capabilities + `}`), invalidRequest, id},
		{"two capabilities", meta(`{` + version + `,` + capabilities + `,` + capabilities + `}`), invalidRequest, id},
		{"two traceparents", meta(`{"traceparent":"a","traceparent":"` + marker + `",` + version + `,` + capabilities + `}`), invalidRequest, id},
		{"two flags", filter(`{"toolsListChanged":true,"toolsListChanged":true}`), invalidRequest, id},
		{"two flags, one escaped", filter(`{"toolsListChanged":true,"tools\u004cistChanged":false}`), invalidRequest, id},
		{"two flags, escapes in two cases", filter(`{"prompts\u004CistChanged":true,"prompts\u004cistChanged":true}`), invalidRequest, id},
		{"two lists of URIs", filter(`{"resourceSubscriptions":["a:"],"resourceSubscriptions":["` + marker + `:"]}`), invalidRequest, id},
		{"two unknown filter members", filter(`{"` + marker + `":1,"` + marker + `":2}`), invalidRequest, id},

		// Nesting.
		{"65 levels in _meta", meta(`{"x":` + nested(62) + `,` + version + `,` + capabilities + `}`), invalidRequest, noID},
		{"65 levels in an unknown member", `{"jsonrpc":"2.0","id":7,"method":"m","x":` + nested(64) + `}`, invalidRequest, noID},
		{"65 levels of nothing", nested(65), invalidRequest, noID},
		{"9,000 levels", nested(9_000), invalidRequest, noID},
		{"100,000 levels", nested(100_000), invalidRequest, noID},
		{"100,000 levels in _meta", meta(`{"x":` + nested(100_000) + `}`), invalidRequest, noID},

		// _meta.
		{"no params", `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen"}`, invalidParams, id},
		{"params an array", params(`["` + marker + `"]`), invalidParams, id},
		{"no _meta", params(`{"notifications":{}}`), invalidParams, id},
		{"_META in capitals", params(`{"_META":` + validMeta + `,"notifications":{}}`), invalidParams, id},
		{"_meta null", meta("null"), invalidParams, id},
		{"_meta an array", meta("[]"), invalidParams, id},
		{"_meta a string", meta(`"` + marker + `"`), invalidParams, id},
		{"_meta empty", meta("{}"), invalidParams, id},
		{"no version", meta(`{` + capabilities + `}`), invalidParams, id},
		{"version null", meta(`{"` + core.MetaProtocolVersion + `":null,` + capabilities + `}`), invalidParams, id},
		{"version a number", meta(`{"` + core.MetaProtocolVersion + `":20260728,` + capabilities + `}`), invalidParams, id},
		{"version very long", meta(`{"` + core.MetaProtocolVersion + `":"` + strings.Repeat(marker, 10) + `",` + capabilities + `}`), invalidParams, id},
		{"version in capitals", meta(`{"` + strings.ToUpper(core.MetaProtocolVersion) + `":"2026-07-28",` + capabilities + `}`), invalidParams, id},
		{"no capabilities", meta(`{` + version + `}`), invalidParams, id},
		{"capabilities null", meta(`{` + version + `,"` + core.MetaClientCapabilities + `":null}`), invalidParams, id},
		{"capabilities an array", meta(`{` + version + `,"` + core.MetaClientCapabilities + `":["` + marker + `"]}`), invalidParams, id},
		{"capabilities true", meta(`{` + version + `,"` + core.MetaClientCapabilities + `":true}`), invalidParams, id},
		{"an older version", meta(`{"` + core.MetaProtocolVersion + `":"2025-11-25",` + capabilities + `}`), core.CodeUnsupportedVersion, id},
		{"an empty version", meta(`{"` + core.MetaProtocolVersion + `":"",` + capabilities + `}`), core.CodeUnsupportedVersion, id},
		{"no version at all", meta(`{"` + core.MetaProtocolVersion + `":"` + marker + `",` + capabilities + `}`), core.CodeUnsupportedVersion, id},

		// The filter.
		{"no notifications", params(`{"_meta":` + validMeta + `}`), invalidParams, id},
		{"Notifications in capitals", params(`{"_meta":` + validMeta + `,"Notifications":{}}`), invalidParams, id},
		{"notifications null", filter("null"), invalidParams, id},
		{"notifications true", filter("true"), invalidParams, id},
		{"notifications an array", filter(`["` + marker + `"]`), invalidParams, id},
		{"notifications a string", filter(`"` + marker + `"`), invalidParams, id},
		{"tools null", filter(`{"toolsListChanged":null}`), invalidParams, id},
		{"tools a number", filter(`{"toolsListChanged":1}`), invalidParams, id},
		{"tools a string", filter(`{"toolsListChanged":"` + marker + `"}`), invalidParams, id},
		{"tools an object", filter(`{"toolsListChanged":{}}`), invalidParams, id},
		{"prompts null", filter(`{"promptsListChanged":null}`), invalidParams, id},
		{"prompts a string", filter(`{"promptsListChanged":"true"}`), invalidParams, id},
		{"resources null", filter(`{"resourcesListChanged":null}`), invalidParams, id},
		{"resources an array", filter(`{"resourcesListChanged":[true]}`), invalidParams, id},
		{"URIs null", filter(`{"resourceSubscriptions":null}`), invalidParams, id},
		{"URIs true", filter(`{"resourceSubscriptions":true}`), invalidParams, id},
		{"URIs a string", filter(`{"resourceSubscriptions":"` + marker + `"}`), invalidParams, id},
		{"URIs an object", filter(`{"resourceSubscriptions":{"` + marker + `":true}}`), invalidParams, id},
		{"a URI null", filter(`{"resourceSubscriptions":["a:",null]}`), invalidParams, id},
		{"a URI a number", filter(`{"resourceSubscriptions":[1]}`), invalidParams, id},
		{"a URI an array", filter(`{"resourceSubscriptions":[["` + marker + `"]]}`), invalidParams, id},
		{"a URI empty", filter(`{"resourceSubscriptions":[""]}`), invalidParams, id},
		{"a URI too long", filter(uriFilter(marker + strings.Repeat("a", 2049-len(marker)))), invalidParams, id},
		{"a URI too long in UTF-8", filter(uriFilter(strings.Repeat("é", 1025))), invalidParams, id},
		{"a URI with half a surrogate pair", filter(`{"resourceSubscriptions":["` + marker + `\ud83d"]}`), invalidParams, id},
		{"a URI with the other half", filter(`{"resourceSubscriptions":["\uDE00"]}`), invalidParams, id},
		{"a URI with the halves swapped", filter(`{"resourceSubscriptions":["\ude00\ud83d"]}`), invalidParams, id},
		{"a URI with half a pair before a character over it", filter(`{"resourceSubscriptions":["\ud83d\uffee"]}`), invalidParams, id},
		{"a URI with half a pair before an escape", filter(`{"resourceSubscriptions":["\ud83d\u0041"]}`), invalidParams, id},
		{"a URI with half a pair before text", filter(`{"resourceSubscriptions":["\ud83dxude00"]}`), invalidParams, id},
		{"1,001 URIs", filter(uriFilter(names(1001)...)), invalidParams, id},
		{"1,001 times one URI", filter(`{"resourceSubscriptions":["a:"` + strings.Repeat(`,"a:"`, 1000) + `]}`), invalidParams, id},
		{"one bad member after good ones", filter(`{"toolsListChanged":true,"resourceSubscriptions":["a:"],"promptsListChanged":0}`), invalidParams, id},
	}
	hub := newHub(t, core.Config{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			msg, req, err := parse(hub, test.text)
			if err == nil {
				t.Fatalf("accepted as %+v, want code %d:\n%.300s", req, test.code, test.text)
			}
			e := refusalOf(t, err, test.code, refusals[test.code])
			noEcho(t, err)
			if len(e.Message) == 0 || len(e.Message) > 80 {
				t.Errorf("the message is %q, want a short one", e.Message)
			}
			got := ""
			if msg != nil {
				got = msg.ID.String()
			}
			if got != test.id {
				t.Errorf("the answer can carry the id %q, want %q", got, test.id)
			}
			twice := strings.HasPrefix(test.name, "two ") && test.name != "two messages"
			if errors.Is(err, core.ErrDuplicateMember) != twice {
				t.Errorf("errors.Is(ErrDuplicateMember) is %v, want %v (%v)", !twice, twice, err)
			}
		})
	}
}

func TestUnsupportedVersionSaysWhichAreSupported(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	for _, version := range []string{"2025-11-25", "2026-07-29", " 2026-07-28", "2026-07-28 ", "", `</script>&"\`} {
		quoted, _ := json.Marshal(version)
		meta := `{"` + core.MetaProtocolVersion + `":` + string(quoted) + `,"` + core.MetaClientCapabilities + `":{}}`
		_, _, err := parse(hub, listenText("1", meta, allLists))
		e := refusalOf(t, err, core.CodeUnsupportedVersion, core.RefusedVersion)
		var data struct {
			Supported []string
			Requested *string
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatalf("data is no JSON: %v: %s", err, e.Data)
		}
		if !reflect.DeepEqual(data.Supported, []string{core.ProtocolVersion}) || data.Requested == nil || *data.Requested != version {
			t.Errorf("data is %s, want supported %q and requested %q", e.Data, core.ProtocolVersion, version)
		}
	}
}

func TestI4_IDsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	ids := []string{
		`0`, `-0`, `""`, `"1"`, `1`, `-5`, `9007199254740993`, `18446744073709551617`, `-9223372036854775809`,
		`"é"`, `"\u00e9"`, `"\u00E9"`, `"\/"`, `"/"`, `"\"\\"`, `"null"`, `"\ud83d\ude00"`, `"😀"`, `"\ud83d"`, `"<&>"`, `"\u0000"`,
		"\"\u2028\"", `" "`, strings.Repeat("9", 1024), `"` + strings.Repeat("x", 1022) + `"`,
	}
	hub := newHub(t, core.Config{})
	for _, id := range ids {
		t.Run(id[:min(len(id), 20)], func(t *testing.T) {
			t.Parallel()
			msg, req, err := parse(hub, listenText(id, validMeta, allLists))
			if err != nil {
				t.Fatalf("id %s was refused: %v", id, err)
			}
			if got := req.ID.String(); got != id {
				t.Errorf("the id became %s, want %s", got, id)
			}
			if !req.ID.Valid() || msg.ID != req.ID {
				t.Errorf("the message has id %v and the request %v, want the same valid one", msg.ID, req.ID)
			}
			if marshaled, err := req.ID.MarshalJSON(); err != nil || string(marshaled) != id {
				t.Errorf("MarshalJSON gives %s, %v, want %s", marshaled, err, id)
			}
			// Every message is checked for the id by the Conn.
			s := listen(t, hub, id, `{"toolsListChanged":true,"resourceSubscriptions":["a:"]}`)
			publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("a:"))
			s.await(func(steps []string) bool {
				return count(steps, "updated a:") >= 1 && count(steps, "tools") >= 1 // the others publish as well
			})
			hub.EndWhere(func(info core.StreamInfo) bool { return info.ID == req.ID })
			end := s.wait()
			wantEnd(t, end, core.Completed, true)
			if got := end.Stream.ID.String(); got != id {
				t.Errorf("the end tells of id %s, want %s", got, id)
			}
		})
	}
}

func TestIDEqualComparesValues(t *testing.T) {
	t.Parallel()
	id := func(raw string) core.ID {
		msg, err := core.ParseMessage([]byte(`{"jsonrpc":"2.0","method":"m","id":`+raw+`}`), core.Limits{})
		if err != nil {
			t.Fatalf("id %s: %v", raw, err)
		}
		return msg.ID
	}
	tests := []struct {
		a, b string
		same bool
	}{
		{`1`, `1`, true},
		{`1`, `"1"`, false},
		{`""`, `"0"`, false},
		{`"é"`, `"\u00e9"`, true},
		{`"\u00E9"`, `"\u00e9"`, true},
		{`"/"`, `"\/"`, true},
		{`"\""`, `"\u0022"`, true},
		{`"\ud83d\ude00"`, `"😀"`, true},
		{`"\ud83d"`, `"\ud83e"`, false}, // no characters, and not the same one
		{`"\ud83d"`, `"\ufffd"`, false},
		{`9007199254740993`, `9007199254740992`, false},
	}
	for _, test := range tests {
		if got := id(test.a).Equal(id(test.b)); got != test.same {
			t.Errorf("%s equal to %s is %v, want %v", test.a, test.b, got, test.same)
		}
		if got := id(test.b).Equal(id(test.a)); got != test.same {
			t.Errorf("%s equal to %s is %v, want %v", test.b, test.a, got, test.same)
		}
	}
	var none core.ID
	if none.Valid() || none.String() != "" {
		t.Errorf("the zero ID is %q, valid %v, want no id", none, none.Valid())
	}
	if b, err := json.Marshal(none); err != nil || string(b) != "null" {
		t.Errorf("the zero ID marshals to %s, %v, want null", b, err)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	uris := func(uris ...string) core.Filter { return core.Filter{ResourceSubscriptions: uris} }
	tests := []struct {
		name, text string
		want       core.Filter
	}{
		{"empty", `{}`, core.Filter{}},
		{"one", `{"promptsListChanged":true}`, core.Filter{PromptsListChanged: true}},
		{"false", `{"toolsListChanged":false,"resourcesListChanged":true}`, core.Filter{ResourcesListChanged: true}},
		{"lists", allLists, core.Filter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}},
		{"space", "{ \"toolsListChanged\" :\t true ,\r\n\"resourceSubscriptions\": [ \"a:\" , \"b:\" ] }",
			core.Filter{ToolsListChanged: true, ResourceSubscriptions: []string{"a:", "b:"}}},
		{"names in other cases are unknown", `{"toolslistchanged":true,"ToolsListChanged":true,"TOOLSLISTCHANGED":null,"ResourceSubscriptions":["a:"]}`, core.Filter{}},
		{"unknown members of any type", `{"taskIds":["a"],"":null,"x":{"y":[{}]},"toolsListChanged":true}`, core.Filter{ToolsListChanged: true}},
		{"an escaped name", `{"\u0074oolsListChanged":true}`, core.Filter{ToolsListChanged: true}},
		{"no URIs", `{"resourceSubscriptions":[]}`, uris()},
		{"URIs folded in first order", `{"resourceSubscriptions":["b:","a:","b:","\u0061:","c:"]}`, uris("b:", "a:", "c:")},
		{"URIs not normalized", uriFilter("file:///a", "file:///a/", "FILE:///a", "file:///%61", "file:///a//"),
			uris("file:///a", "file:///a/", "FILE:///a", "file:///%61", "file:///a//")},
		{"URIs of any text", uriFilter("é", "\"\\", "\x00\n", "😀", " ", "\u2028"), uris("é", "\"\\", "\x00\n", "😀", " ", "\u2028")},
		{"escaped pair", `{"resourceSubscriptions":["\ud83d\ude00","\\ud83d"]}`, uris("😀", `\ud83d`)},
		{"a URI as long as allowed", uriFilter(strings.Repeat("a", 2048)), uris(strings.Repeat("a", 2048))},
		{"long only in escapes", `{"resourceSubscriptions":["` + strings.Repeat(`\u0061`, 2048) + `"]}`, uris(strings.Repeat("a", 2048))},
		{"1,000 URIs", uriFilter(names(1000)...), uris(names(1000)...)},
	}
	hub := newHub(t, core.Config{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, req, err := parse(hub, listenText("1", validMeta, test.text))
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			got := req.Filter
			got.Extensions = nil
			if len(got.ResourceSubscriptions) == 0 && len(test.want.ResourceSubscriptions) == 0 {
				got.ResourceSubscriptions = test.want.ResourceSubscriptions
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("the filter is\n\t%+v\nwant\n\t%+v", got, test.want)
			}
			if got.Empty() != (len(got.Members()) == 0) {
				t.Errorf("Empty is %v but Members are %q", got.Empty(), got.Members())
			}
		})
	}
}

// TestExtensionsAreForTheAuthorizer: members that the protocol does not define
// are seen there, and never honored.
func TestExtensionsAreForTheAuthorizer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen core.Filter
		hub := newHub(t, core.Config{Authorizer: core.AuthorizerFunc(func(_ context.Context, _ string, f core.Filter) (core.Grant, error) {
			seen = f
			return core.Grant{}, nil
		})})
		s := listen(t, hub, "1", `{"taskIds":["a", 1],"toolsListChanged":true,"ToolsListChanged":null}`)
		synctest.Wait()
		wantSteps(t, s.all(), `ack {"toolsListChanged":true}`, "flush")
		want := map[string]json.RawMessage{"taskIds": json.RawMessage(`["a", 1]`), "ToolsListChanged": json.RawMessage("null")}
		if !reflect.DeepEqual(seen.Extensions, want) {
			t.Errorf("the authorizer saw the extensions %s, want %s", seen.Extensions, want)
		}
		if got := hub.Streams()[0].Filter.Extensions; got != nil {
			t.Errorf("the honored filter has the extensions %s, want none", got)
		}
	})
}

func TestMessagesThatAreAccepted(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, id, method string }{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "1", "tools/list"},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "", "notifications/cancelled"},
		{"array params", `{"jsonrpc":"2.0","id":"a","method":"m","params":[1,2]}`, `"a"`, "m"},
		{"any order and space", " \n{\t\"params\" : { } , \"method\":\"m\" , \"id\" : -5\r\n, \"jsonrpc\":\"2.0\" } \n", "-5", "m"},
		{"unknown members", `{"jsonrpc":"2.0","ID":true,"Method":5,"x":{"a":[1,"]}"]},"id":3,"method":"m","y":null}`, "3", "m"},
		{"an escaped name and method", `{"jsonrpc":"2.0","\u0069d":2,"meth\u006fd":"subscriptions\/listen"}`, "2", core.MethodListen},
		{"64 levels", `{"jsonrpc":"2.0","id":1,"method":"m","x":` + nested(63) + `}`, "1", "m"},
		{"brackets in strings are no levels", `{"jsonrpc":"2.0","id":1,"method":"m","x":"` + strings.Repeat(`[{\"`, 100) + `"}`, "1", "m"},
		{"a long list is no depth", `{"jsonrpc":"2.0","id":1,"method":"m","x":[` + strings.Repeat(`[],{},`, 100) + `[]]}`, "1", "m"},
		{"names equal but for case", `{"jsonrpc":"2.0","id":1,"method":"m","a":1,"A":2}`, "1", "m"},
		{"equal names in different objects", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"id":2,"method":"n","a":{"id":3}}}`, "1", "m"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			msg, err := core.ParseMessage([]byte(test.text), core.Limits{})
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if msg.ID.String() != test.id || msg.ID.Valid() != (test.id != "") || msg.Method != test.method {
				t.Errorf("id %q, method %q, want %q, %q", msg.ID, msg.Method, test.id, test.method)
			}
		})
	}
}

func TestMetaMembers(t *testing.T) {
	t.Parallel()
	meta := `{"traceparent":"00-\u0061b","number":1,"Traceparent":"other","` + core.MetaProtocolVersion + `":"2026-07-28","` +
		core.MetaClientCapabilities + `":{"roots":{}}}`
	hub := newHub(t, core.Config{})
	_, req, err := parse(hub, listenText("1", meta, allLists))
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	if got := string(req.Meta.ClientCapabilities); got != `{"roots":{}}` {
		t.Errorf("client capabilities are %s, want them as sent", got)
	}
	tests := []struct {
		name, want string
		found      bool
	}{{"traceparent", "00-ab", true}, {"number", "", false}, {"tracestate", "", false}, {"TRACEPARENT", "", false}}
	for _, test := range tests {
		if got, found := req.Meta.String(test.name); got != test.want || found != test.found {
			t.Errorf("String(%q) is %q, %v, want %q, %v", test.name, got, found, test.want, test.found)
		}
	}
	if got, found := (core.Meta{}).String("traceparent"); got != "" || found {
		t.Errorf("the zero Meta has a traceparent %q, want none", got)
	}
}

func TestLimitsAreThoseConfigured(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{Limits: core.Limits{MaxURIs: 2, MaxURILength: 3, MaxIDLength: 4}})
	if got, want := hub.Limits(), (core.Limits{MaxURIs: 2, MaxURILength: 3, MaxIDLength: 4}); got != want {
		t.Errorf("Limits are %+v, want %+v", got, want)
	}
	tests := []struct {
		id, filter string
		code       int // 0: accepted
	}{
		{`1234`, uriFilter("abc", "def"), 0},
		{`"ab"`, uriFilter("a", "a"), 0},
		{`12345`, uriFilter("abc"), core.CodeInvalidRequest},
		{`"abc"`, uriFilter("abc"), core.CodeInvalidRequest},
		{`1`, uriFilter("abcd"), core.CodeInvalidParams},
		{`1`, uriFilter("a", "b", "c"), core.CodeInvalidParams},
		{`1`, uriFilter("a", "a", "a"), core.CodeInvalidParams},
	}
	for _, test := range tests {
		_, _, err := parse(hub, listenText(test.id, validMeta, test.filter))
		if got := codeOf(err); got != test.code {
			t.Errorf("id %s, filter %s: code %d (%v), want %d", test.id, test.filter, got, err, test.code)
		}
	}
	if got, want := newHub(t, core.Config{}).Limits(), (core.Limits{MaxURIs: 1000, MaxURILength: 2048, MaxIDLength: 1024}); got != want {
		t.Errorf("the default limits are %+v, want %+v", got, want)
	}
}

func codeOf(err error) int {
	if err == nil {
		return 0
	}
	return core.AsError(err).Code
}

func TestNewHubRefusesContradictions(t *testing.T) {
	t.Parallel()
	for _, config := range []core.Config{
		{MaxStreams: -1},
		{MaxLifetime: -1},
		{Limits: core.Limits{MaxURIs: -1}},
		{Limits: core.Limits{MaxURILength: -1}},
		{Limits: core.Limits{MaxIDLength: -1}},
	} {
		if _, err := core.NewHub(config); err == nil {
			t.Errorf("a hub with %+v was made, want an error", config)
		}
	}
	if _, err := core.NewHub(core.Config{KeepAlive: -1}); err != nil {
		t.Errorf("a hub without keep-alives was refused: %v", err)
	}
}

func TestHonoredIsRequestedWithinCapabilities(t *testing.T) {
	t.Parallel()
	requested := core.Filter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: []string{"a:"}}
	for bits := range 16 {
		can := core.Capabilities{
			ToolsListChanged: bits&1 != 0, PromptsListChanged: bits&2 != 0,
			ResourcesListChanged: bits&4 != 0, ResourceSubscriptions: bits&8 != 0,
		}
		want := core.Filter{ToolsListChanged: bits&1 != 0, PromptsListChanged: bits&2 != 0, ResourcesListChanged: bits&4 != 0}
		if bits&8 != 0 {
			want.ResourceSubscriptions = []string{"a:"}
		}
		if got := can.Honor(requested); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v honor %+v, want %+v", can, got, want)
		}
		if got := can.Honor(core.Filter{}); !got.Empty() {
			t.Errorf("%+v honor %+v of nothing, want nothing", can, got)
		}
	}
}

func TestErrorsAreErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("the disk says " + marker)
	own := &core.Error{Code: 1, Message: "m", Err: cause}
	if !errors.Is(own, cause) || own.Error() != "core: m: "+cause.Error() {
		t.Errorf("%q does not tell of its cause", own)
	}
	if got := core.AsError(fmt.Errorf("wrapped: %w", own)); got != own {
		t.Errorf("AsError gives %v, want the error inside", got)
	}
	other := core.AsError(cause)
	if other.Code != core.CodeInternalError || strings.Contains(other.Message, marker) || !errors.Is(other, cause) {
		t.Errorf("AsError gives code %d, message %q, cause %v, want an internal error that tells nothing", other.Code, other.Message, other.Err)
	}
}

// count returns how often step is among steps.
func count(steps []string, step string) int {
	n := 0
	for _, s := range steps {
		if s == step {
			n++
		}
	}
	return n
}
