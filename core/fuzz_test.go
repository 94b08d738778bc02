// Fuzzing: what any client may send, and any application publish.

package core_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcplisten/mcplisten/core"
)

// fuzzSeeds are requests at the edges of what is accepted.
var fuzzSeeds = []string{
	listenText(`1`, validMeta, allLists),
	listenText(`"\u00e9"`, validMeta, `{"resourceSubscriptions":["file:///a","file:///a","\ud83d\ude00"]}`),
	listenText(`9007199254740993`, validMeta, `{}`),
	listenText(`""`, validMeta, `{"toolsListChanged":false,"x":[{"y":null}]}`),
	listenText(`1.5`, validMeta, allLists),
	listenText(`null`, validMeta, allLists),
	listenText(`"\ud83d"`, validMeta, `{"resourceSubscriptions":["\ud83d"]}`),
	listenText(`1`, `{}`, allLists),
	listenText(`1`, validMeta, `{"toolsListChanged":true,"\u0074oolsListChanged":true}`),
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	`{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`,
	`[{"jsonrpc":"2.0","id":1,"method":"m"}]`,
	" \n{\"jsonrpc\" : \"2.0\" ,\t\"id\":-0,\"method\":\"\\u006d\"}\r\n",
	`{"a":"\\\"}","b":{"c":[1,2,{"d":"]"}]},"jsonrpc":"2.0"}`,
	"\ufeff{}", "{", `"`, `\`, "", "nul", "[[[[[[[[[[", "{\"\xff\":1}",
	strings.Repeat("[", 70) + strings.Repeat("]", 70),
}

func FuzzParseMessage(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		msg, err := core.ParseMessage(data, core.Limits{})
		if !bytes.Equal(data, before) {
			t.Fatalf("parsing changed its input to %q", data)
		}
		if msg != nil && msg.ID.Valid() {
			id := msg.ID.String()
			if !bytes.Contains(data, []byte(id)) {
				t.Errorf("the id %s is no part of the input", id)
			}
			if !json.Valid([]byte(id)) || id[0] != '"' && strings.Trim(id, "-0123456789") != "" {
				t.Errorf("the id %s is neither a string nor an integer", id)
			}
		}
		if err != nil {
			refused(t, err)
			return
		}
		if !json.Valid(data) || !utf8.Valid(data) {
			t.Fatal("accepted what is no JSON")
		}
		// A reader that takes the first of equal names agrees with one that takes the
		// last, and both with this one.
		var object map[string]json.RawMessage
		if err := json.Unmarshal(data, &object); err != nil {
			t.Fatalf("accepted what is no object: %v", err)
		}
		if got := string(object["id"]); got != msg.ID.String() {
			t.Errorf("encoding/json reads the id %s, not %s", got, msg.ID)
		}
		var method string
		if err := json.Unmarshal(object["method"], &method); err != nil || method != msg.Method {
			t.Errorf("encoding/json reads the method %q (%v), not %q", method, err, msg.Method)
		}
		if meta, err := msg.Meta(); err != nil {
			refused(t, err)
		} else if !json.Valid(meta.ClientCapabilities) {
			t.Errorf("the capabilities %s are no JSON", meta.ClientCapabilities)
		}
		if id, ok := msg.Cancels(); ok && !bytes.Contains(data, []byte(id.String())) {
			t.Errorf("the cancelled id %s is no part of the input", id)
		}
	})
}

// fixedMessages are the texts that refusals of a request may consist of: being
// among them is what keeps the input out.
var fixedMessages = map[string]bool{
	"the message is not valid JSON":                             true,
	"the message is nested too deeply":                          true,
	"the message is not one JSON-RPC object":                    true,
	"the id is longer than 1024 bytes":                          true,
	"the id is neither a string nor an integer":                 true,
	`the member jsonrpc is not "2.0"`:                           true,
	"the message is a response, not a request":                  true,
	"the member method is missing or no string":                 true,
	"the member params is neither an object nor an array":       true,
	"a member name stands twice in the message":                 true,
	"a member name stands twice in params":                      true,
	"a member name stands twice in _meta":                       true,
	"a member name stands twice in notifications":               true,
	"the member params is missing or no object":                 true,
	"the member _meta is missing or no object":                  true,
	"the protocol version in _meta is missing or no version":    true,
	"the client capabilities in _meta are missing or no object": true,
	"the request has no id":                                     true,
	"unsupported protocol version":                              true,
	"the member notifications is missing or no object":          true,
	"a list member of notifications is no boolean":              true,
	"the member resourceSubscriptions is no array":              true,
	"more than 1000 resource URIs":                              true,
	"a resource URI is no string":                               true,
	"a resource URI is empty or no text":                        true,
	"a resource URI is longer than 2048 bytes":                  true,
	"a member name stands twice in the client capabilities":     true,
	"the client lacks a capability that the request needs":      true,
	"the member of an extension is no array":                    true,
	"more than 1000 keys of an extension":                       true,
	"more than 3 keys of an extension":                          true,
	"an extension's key is no string":                           true,
	"an extension's key is empty or no text":                    true,
	"an extension's key is longer than 2048 bytes":              true,
	"an extension's key is longer than 5 bytes":                 true,
}

// refused checks what may be told of a refusal.
func refused(t *testing.T, err error) {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) {
		t.Fatalf("refused with %v, want an *Error", err)
	}
	if !fixedMessages[e.Message] {
		t.Errorf("refused with %q, which is none of the fixed texts", e.Message)
	}
	if e.Code == core.CodeUnsupportedVersion || e.Code == core.CodeMissingCapability {
		if !json.Valid(e.Data) {
			t.Errorf("the data is no JSON: %s", e.Data)
		}
	} else if e.Data != nil {
		t.Errorf("refused with the data %s, want none", e.Data)
	}
	if e.Err != nil && !errors.Is(e.Err, core.ErrDuplicateMember) {
		t.Errorf("refused with the cause %v, want a fixed one", e.Err)
	}
}

// FuzzListen takes any text all the way: what is accepted as a request becomes a
// stream of valid messages with exactly its id, from acknowledgment to result.
func FuzzListen(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed, "file:///a")
	}
	f.Add(listenText(`"a"`, validMeta, uriFilter("\u2028\"\\\x00<>é")), "\u2028\"\\\x00<>é")
	f.Fuzz(func(t *testing.T, text, published string) {
		hub := newHub(t, core.Config{Matcher: core.SubResources{}, ServerInfo: &core.Implementation{Name: "fuzz", Version: "1"}})
		msg, req, err := parse(hub, text)
		if err != nil {
			refused(t, err)
			return
		}
		asked := req.Filter
		s := &stream{conn: newConn(t, msg.ID.String()), done: make(chan struct{})}
		sub, err := hub.Open(context.Background(), core.Opening{Request: req, Connect: func() (core.Conn, error) { return s.conn, nil }})
		if err != nil {
			t.Fatalf("a request that was accepted was refused: %v", err)
		}
		changes := []core.Change{core.ToolsListChanged(), core.PromptsListChanged(), core.ResourcesListChanged()}
		for _, uri := range asked.ResourceSubscriptions {
			changes = append(changes, core.ResourceUpdated(uri))
		}
		publish(t, hub, changes...)
		if err := hub.Publish(context.Background(), core.ResourceUpdated(published)); (err == nil) != (published != "" && utf8.ValidString(published)) {
			t.Errorf("publishing %q: %v", published, err)
		}
		hub.EndWhere(func(core.StreamInfo) bool { return true })
		end := sub.Serve()
		wantEnd(t, end, core.Completed, true)

		// Each message was checked by the Conn. These are they:
		want := []string{"ack", "flush"}
		for k, has := range []bool{asked.ToolsListChanged, asked.PromptsListChanged, asked.ResourcesListChanged} {
			if has {
				want = append(want, []string{"tools", "prompts", "resources"}[k])
			}
		}
		for _, uri := range asked.ResourceSubscriptions {
			want = append(want, "updated "+uri)
		}
		steps := s.all()
		for i, step := range steps {
			if strings.HasPrefix(step, "ack ") {
				steps[i] = "ack"
			}
		}
		got := steps[:min(len(want), len(steps))]
		wantSteps(t, got, want...)
		for _, step := range steps[len(got) : len(steps)-2] { // a resource below a subscribed one
			if step != "updated "+published {
				t.Errorf("the client got %q, want nothing but what it asked for", step)
			}
		}
		wantSteps(t, steps[len(steps)-2:], "result", "flush")
	})
}

// FuzzExtensionMember: whatever the member of an extension and the client's
// capabilities are, what is accepted reads the same to encoding/json, and is
// acknowledged and delivered.
func FuzzExtensionMember(f *testing.F) {
	const able = `{"extensions":{"com.example/jobs":{}}}`
	for _, member := range []string{
		`["a"]`, `[]`, `["a","\u0061","b"]`, `null`, `{}`, `"a"`, `[1]`, `[""]`, `["\ud83d"]`, `["\ud83d\ude00\u2028"]`, "[\"a\"\n,\t\"b\" ]",
	} {
		f.Add(member, able)
	}
	for _, capabilities := range []string{
		`{}`, `{"extensions":null}`, `{"extensions":{"com.example/jobs":true}}`, `{"extensions":{"com.example\/jobs":{}}}`,
		`{"extensions":{},"extensions":{"com.example/jobs":{}}}`, `{"Extensions":{"com.example/jobs":{}}}`, `[`, `{"extensions":{"a":{},"a":{}}}`,
	} {
		f.Add(`["a"]`, capabilities)
	}
	f.Fuzz(func(t *testing.T, member, capabilities string) {
		hub := withJobs(t, core.Config{})
		meta := strings.Replace(jobsMeta, able, capabilities, 1)
		_, req, err := parse(hub, listenText("1", meta, `{"jobIds":`+member+`}`))
		if err != nil {
			refused(t, err)
			return
		}
		var message struct {
			Params struct {
				Notifications map[string]json.RawMessage `json:"notifications"`
			} `json:"params"`
		}
		var want []string
		if err := json.Unmarshal([]byte(listenText("1", meta, `{"jobIds":`+member+`}`)), &message); err != nil {
			t.Fatalf("accepted what is no request: %v", err)
		}
		if list := message.Params.Notifications["jobIds"]; list != nil {
			if err := json.Unmarshal(list, &want); err != nil {
				t.Fatalf("accepted %s: %v", list, err)
			}
		}
		keys := req.Filter.Keys["jobIds"]
		for _, key := range want {
			if !slices.Contains(keys, key) {
				t.Errorf("%s: the key %q is not among %q", member, key, keys)
			}
		}
		if len(keys) == 0 {
			return
		}
		if !strings.Contains(capabilities, "jobs") && !strings.Contains(capabilities, `\`) {
			t.Errorf("the capabilities %s were enough", capabilities)
		}
		c := newConn(t, "1")
		sub, err := hub.Open(context.Background(), core.Opening{Request: req, Connect: func() (core.Conn, error) { return c, nil }})
		if err != nil {
			t.Fatalf("a request that was accepted was refused: %v", err)
		}
		steps := []string{"flush"}
		for i, key := range keys {
			publish(t, hub, job(key, i))
			steps = append(steps, fmt.Sprintf("job %s %d", key, i))
		}
		hub.EndWhere(func(core.StreamInfo) bool { return true })
		wantEnd(t, sub.Serve(), core.Completed, true)
		wantSteps(t, c.all()[1:], append(steps, "result", "flush")...)
	})
}

// FuzzPublishedURI: every URI that can be published arrives as it is, framed in
// one line.
func FuzzPublishedURI(f *testing.F) {
	for _, seed := range []string{
		"file:///a", `"`, `\`, "\n", "\r\n", "\t", "\x00", "\x1f", "\x7f", "é", "😀", "\u2028\u2029", "\ufeff", "\ufffd", "<script>&", `\u0041`, "\xff", "a\"\\\nb",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		if uri == "" || !utf8.ValidString(uri) || len(uri) > 2048 {
			return
		}
		hub := newHub(t, core.Config{})
		c := newConn(t, "1")
		sub, err := hub.Open(context.Background(), core.Opening{
			Request: request(t, hub, "1", uriFilter(uri)), Connect: func() (core.Conn, error) { return c, nil },
		})
		if err != nil {
			t.Fatalf("a filter with the URI %q was refused: %v", uri, err)
		}
		publish(t, hub, core.ResourceUpdated(uri))
		hub.EndWhere(func(core.StreamInfo) bool { return true })
		sub.Serve()
		if got := without(c.all(), "flush")[1:]; len(got) != 2 || got[0] != "updated "+uri {
			t.Errorf("the client got %q, want the update of %q", got, uri)
		}
	})
}
