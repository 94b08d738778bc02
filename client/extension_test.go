// Extensions from the listening side: a family that the program knows is asked for,
// and the newest value of each key is told.

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

var jobs = core.Family{Member: "jobIds", Method: "notifications/jobs", Key: "job", Capability: "com.example/jobs"}

type jobState struct {
	Job   string `json:"job"`
	State int    `json:"state"`
}

func job(key string, state int) core.Change {
	return core.ValueChanged(jobs.Method, key, jobState{key, state})
}

func jobFilter(keys ...string) core.Filter {
	return core.Filter{Keys: map[string][]string{jobs.Member: keys}}
}

// stateOf returns the state in a value.
func stateOf(tb testing.TB, n client.Notification) jobState {
	tb.Helper()
	var s jobState
	if err := json.Unmarshal(n.Params(), &s); err != nil || n.Kind != client.Value || n.Method != jobs.Method || n.Key != s.Job {
		tb.Errorf("got %v with the params %s (%v), want a job's value", n, n.Params(), err)
	}
	return s
}

func TestValues(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{Extensions: []core.Extension{{Family: jobs, Public: true}}})
	url := serve(t, hub)
	ctx := testContext(t)
	asked := jobFilter("a", "b")
	asked.ToolsListChanged = true
	s, err := client.Listen(ctx, url, asked, client.WithFamily(jobs), httpClient(t),
		client.WithClientCapabilities(map[string]any{"sampling": struct{}{}, "extensions": map[string]any{"com.example/other": struct{}{}}}))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Honored(); !reflect.DeepEqual(got, asked) || !s.LeftOut().Empty() {
		t.Errorf("honored is %+v, left out %+v", got, s.LeftOut())
	}
	if err := hub.Publish(ctx, job("b", 7), job("other", 1)); err != nil {
		t.Fatal(err)
	}
	for n := range s.Notifications() {
		if got := stateOf(t, n); got != (jobState{"b", 7}) || n.String() != "notifications/jobs b" {
			t.Errorf("got %v, %v", got, n)
		}
		break
	}
	go func() { _ = hub.Shutdown(ctx) }()
	if notes := collect(s); len(notes) > 0 || s.End().Cause != client.Graceful {
		t.Errorf("then came %v and the end %v", notes, s.End())
	}
}

// TestAValueNeedsItsCapability: the family's is declared for the program; one that
// knows another capability is told what is missing, and does not come back.
func TestAValueNeedsItsCapability(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{Extensions: []core.Extension{{Family: jobs, Public: true}}})
	url := serve(t, hub)
	wrong := jobs
	wrong.Capability = "com.example/other"
	f, err := client.Follow(testContext(t), url, jobFilter("a"), client.WithFamily(wrong), httpClient(t))
	if err != nil {
		t.Fatal(err)
	}
	var refused *client.RefusedError
	if end := f.End(); !errors.As(end.Err, &refused) || refused.Code != core.CodeMissingCapability || refused.Status != http.StatusBadRequest ||
		!strings.Contains(string(refused.Data), jobs.Capability) || !refused.Permanent() {
		t.Errorf("ended with %v, want a refusal for good that names the capability", end)
	}
	if (&client.RefusedError{Code: core.CodeMissingCapability}).Permanent() != true {
		t.Error("without a status the refusal is not one for good")
	}
}

// TestTheNewestValueIsPending: a consumer that is busy gets the newest value of each
// key, and no more than one.
func TestTheNewestValueIsPending(t *testing.T) {
	t.Parallel()
	r := client.NewRead("x", jobFilter("a", "b"), jobs)
	p := client.NewPending()
	take := func(message string) {
		t.Helper()
		if _, err := r.Take([]byte(strings.ReplaceAll(message, idPlace, `"x"`))); err != nil {
			t.Fatal(err)
		}
		for _, n := range r.Notes {
			p.Add(n, "")
		}
		r.Notes = nil
	}
	note := func(key string, state string) string {
		return `{"jsonrpc":"2.0","method":"notifications/jobs","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"job":"` + key + `","state":` + state + `}}`
	}
	take(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":{"jobIds":["b","a"]}}}`)
	for range 100 {
		take(note("a", "1"))
		take(note("b", "2"))
		take(note("a", "3"))
	}
	if n, maps := p.Size(); n != 2 || maps != 2 {
		t.Errorf("%d are pending in maps of %d, want 2", n, maps)
	}
	var got []jobState
	for n, ok := p.Take(); ok; n, ok = p.Take() {
		got = append(got, stateOf(t, n))
	}
	if want := []jobState{{"a", 3}, {"b", 2}}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	if n, maps := p.Size(); n != 0 || maps != 0 {
		t.Errorf("%d are pending in maps of %d after all was taken", n, maps)
	}
}

// TestForeignValues: what was not asked for breaks the rules, as a key and as an
// acknowledgment.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	const meta = `"_meta":{"io.modelcontextprotocol/subscriptionId":"x"}`
	ack := func(filter string) string {
		return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + meta + `,"notifications":` + filter + `}}`
	}
	note := func(method, params string) string {
		return `{"jsonrpc":"2.0","method":"` + method + `","params":{` + meta + params + `}}`
	}
	good := ack(`{"jobIds":["a"],"others":[1]}`)
	for _, c := range []struct {
		messages []string
		rule     client.Rule
	}{
		{[]string{ack(`{"jobIds":["a","c"]}`)}, client.BadAck},
		{[]string{ack(`{"jobIds":[1]}`)}, client.BadAck},
		{[]string{ack(`{"jobIds":null}`)}, client.BadAck},
		{[]string{note(jobs.Method, `,"job":"a"`)}, client.BeforeAck},
		{[]string{good, note(jobs.Method, `,"job":"b"`)}, client.Unrequested},
		{[]string{good, note(jobs.Method, ``)}, client.Malformed},
		{[]string{good, note(jobs.Method, `,"job":1`)}, client.Malformed},
		{[]string{good, note("notifications/other", `,"job":"a"`)}, client.Unrequested},
		{[]string{good, note(jobs.Method, `,"job":"a"`)}, ""},
	} {
		r := client.NewRead("x", jobFilter("a", "b"), jobs)
		var err error
		for _, m := range c.messages {
			_, err = r.Take([]byte(m))
		}
		var violation *client.ViolationError
		switch errors.As(err, &violation); {
		case c.rule == "" && (err != nil || len(r.Notes) != 1):
			t.Errorf("%q: %v, told %v", c.messages, err, r.Notes)
		case c.rule != "" && (violation == nil || violation.Rule != c.rule):
			t.Errorf("%q: got %v, want a violation of %s", c.messages, err, c.rule)
		}
	}
}

// TestKeysThatCannotBeAsked fail at once.
func TestKeysThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	const url = client.URL("http://127.0.0.1:1/mcp")
	for name, c := range map[string]struct {
		filter  core.Filter
		options []client.Option
	}{
		"without a family":     {jobFilter("a"), nil},
		"no key":               {jobFilter(""), []client.Option{client.WithFamily(jobs)}},
		"no text":              {jobFilter("\xff"), []client.Option{client.WithFamily(jobs)}},
		"a family of nothing":  {core.Filter{ToolsListChanged: true}, []client.Option{client.WithFamily(core.Family{})}},
		"extensions elsewhere": {jobFilter("a"), []client.Option{client.WithFamily(jobs), client.WithClientCapabilities(map[string]any{"extensions": 1})}},
	} {
		if _, err := client.Listen(testContext(t), url, c.filter, c.options...); client.CauseOf(err) != client.Unusable || !strings.HasPrefix(err.Error(), "client: ") {
			t.Errorf("%s: Listen returned %v", name, err)
		}
		if _, err := client.Follow(testContext(t), url, c.filter, c.options...); client.CauseOf(err) != client.Unusable || !strings.HasPrefix(err.Error(), "client: ") {
			t.Errorf("%s: Follow returned %v", name, err)
		}
	}
}

// TestFollowReadsAgain: after a gap the program is told to, and what was pending
// before it does not come any more.
func TestFollowReadsAgain(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{Extensions: []core.Extension{{Family: jobs, Public: true}}})
	url := serve(t, hub)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	f, err := client.Follow(ctx, url, jobFilter("a"), client.WithFamily(jobs), httpClient(t), client.WithBackoff(client.Backoff{First: 1, Max: 1}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for n := range f.Notifications() {
		got = append(got, n.String())
		switch len(got) {
		case 1:
			_ = hub.Publish(ctx, job("a", 1))
		case 2:
			hub.EndWhere(func(core.StreamInfo) bool { return true })
		case 3:
			_ = hub.Publish(ctx, job("a", 2))
		case 4:
			if s := stateOf(t, n); s.State != 2 {
				t.Errorf("the state is %d, want 2", s.State)
			}
			cancel()
		}
	}
	if want := []string{"started", "notifications/jobs a", "relist", "notifications/jobs a"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if got := f.Honored(); !reflect.DeepEqual(got, jobFilter("a")) {
		t.Errorf("honored is %+v", got)
	}
}
