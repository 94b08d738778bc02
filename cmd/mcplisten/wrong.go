// Checks of refusing: malformed requests, other methods, foreign origins, and
// what one client can do to another.

package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// checkMethods sends what is no POST.
func (c *checker) checkMethods(ctx context.Context) {
	const advice = "Answer 405 with Allow: POST. There is no GET stream and no session to delete in this revision; clients of older ones read it that way."
	good := 0
	methods := []string{http.MethodGet, http.MethodDelete, http.MethodPut}
	for _, method := range methods {
		header := map[string]string{"Content-Type": "", "Mcp-Method": ""}
		if method == http.MethodGet {
			header["Accept"] = "text/event-stream"
		}
		r, err := c.send(ctx, request{method: method, header: header})
		if err != nil {
			c.say(warn, method, advice, "%v", err)
			continue
		}
		allow := strings.Join(r.header.Values("Allow"), ", ")
		switch {
		case c.full(method, r):
		case r.stream || r.status < 300:
			c.say(warn, method, advice, "%s: an older revision's stream or session", r.describe())
		case r.status != http.StatusMethodNotAllowed:
			c.say(warn, method, advice, "%s", r.describe())
		case !strings.Contains(allow, http.MethodPost):
			c.say(warn, method, advice, "405, but Allow is %q", allow)
		default:
			good++
		}
		r.close()
	}
	if good == len(methods) {
		c.say(ok, "other methods", "", "GET, DELETE and PUT get 405 with Allow: POST")
	}
}

// wrong is a request that must not open a stream.
type wrong struct {
	name   string
	body   string
	header map[string]string
	codes  []int // the right ones
	noID   bool  // its answer cannot carry the id
	why    string
}

const (
	notAnID     = "An id is a string or an integer. Read as a float or by a lenient decoder it becomes another one."
	notAccepted = "A listen request without id is a mistake, not a notification: nothing could be answered on its stream."
	twoReaders  = "Headers must agree with the body: a proxy may route and a gateway may authorize by the one what the server reads in the other."
)

func malformed() []wrong {
	const tools = `{"toolsListChanged":true}`
	good := listenBody(`"check"`, tools)
	without := func(part string) string { return strings.Replace(good, part, "", 1) }
	swap := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	request := []int{core.CodeInvalidRequest}
	params := []int{core.CodeInvalidParams}
	return []wrong{
		{"not JSON", `{"jsonrpc":`, nil, []int{core.CodeParseError}, true, ""},
		{"batch", "[" + good + "]", nil, []int{core.CodeInvalidRequest, core.CodeParseError}, true, "There are no batches in this revision."},
		{"no jsonrpc", without(`"jsonrpc":"2.0",`), nil, request, false, ""},
		{"no id", listenBody("", tools), nil, request, true, notAccepted},
		{"id null", listenBody("null", tools), nil, request, true, notAccepted},
		{"id 1.5", listenBody("1.5", tools), nil, request, true, notAnID},
		{"id true", listenBody("true", tools), nil, request, true, notAnID},
		{"id {}", listenBody("{}", tools), nil, request, true, notAnID},
		{"id []", listenBody("[]", tools), nil, request, true, notAnID},
		{"no _meta", swap(`"_meta"`, `"meta"`), nil, params, false, ""},
		{"no protocolVersion in _meta", swap("/protocolVersion", "/version"), nil, []int{core.CodeInvalidParams, core.CodeHeaderMismatch}, false, ""},
		{"no clientCapabilities in _meta", swap("/clientCapabilities", "/capabilities"), nil, params, false, ""},
		{"no filter", swap(`"notifications"`, `"other"`), nil, params, false, ""},
		{"filter null", listenBody(`"check"`, "null"), nil, params, false, ""},
		{"filter is an array", listenBody(`"check"`, "[]"), nil, params, false, ""},
		{"flag is text", listenBody(`"check"`, `{"toolsListChanged":"true"}`), nil, params, false, ""},
		{"URIs are text", listenBody(`"check"`, `{"resourceSubscriptions":"file:///a"}`), nil, params, false, ""},
		{"URI is a number", listenBody(`"check"`, `{"resourceSubscriptions":[1]}`), nil, params, false, ""},
		{
			"unknown version", swap(core.ProtocolVersion, "1900-01-01"), map[string]string{"MCP-Protocol-Version": "1900-01-01"},
			[]int{core.CodeUnsupportedVersion}, false, "A client learns from data.supported what to speak.",
		},
		{"version header missing", good, map[string]string{"MCP-Protocol-Version": ""}, []int{core.CodeHeaderMismatch}, false, twoReaders},
		{"version header differs", good, map[string]string{"MCP-Protocol-Version": "2025-11-25"}, []int{core.CodeHeaderMismatch}, false, twoReaders},
		{"Mcp-Method header missing", good, map[string]string{"Mcp-Method": ""}, []int{core.CodeHeaderMismatch}, false, twoReaders},
		{"Mcp-Method header differs", good, map[string]string{"Mcp-Method": "tools/list"}, []int{core.CodeHeaderMismatch}, false, twoReaders},
	}
}

// checkMalformed sends requests that must not open a stream.
func (c *checker) checkMalformed(ctx context.Context) {
	good := 0
	all := malformed()
	for _, w := range all {
		check := "refuses: " + w.name
		r, err := c.send(ctx, request{body: w.body, header: w.header})
		if err != nil {
			c.say(fail, check, w.why, "%v", err)
			continue
		}
		if c.judge(check, w, r) {
			good++
		}
		r.close()
	}
	if good > 0 {
		c.say(ok, "malformed requests", "", "%d of %d are refused as they should be", good, len(all))
	}
}

func (c *checker) judge(check string, w wrong, r *raw) bool {
	m := parseRPC(r.body)
	if r.stream {
		m, _ = r.message(c.timeout)
	}
	switch {
	case c.full(check, r):
	case r.stream && m.err == nil:
		c.say(fail, check, w.why, "it opened a stream")
	case r.stream || r.status < 300 && m.err != nil:
		c.say(warn, check, "Refuse before the status is sent, with 400: an error inside a 200 is invisible to operators and proxies.", "error %d inside a %d", m.err.Code, r.status)
	case r.status == http.StatusAccepted:
		c.say(warn, check, w.why, "taken for a notification: %s", r.describe())
	case r.status < 300:
		c.say(fail, check, w.why, "%s", r.describe())
	case m.err == nil:
		c.say(warn, check, "Answer with a JSON-RPC error: clients take plain text for a broken connection.", "%s", r.describe())
	case r.status != http.StatusBadRequest:
		c.say(warn, check, "The status should be 400.", "%s", r.describe())
	case !slices.Contains(w.codes, m.err.Code):
		c.say(warn, check, w.why, "%s; the code should be %d", r.describe(), w.codes[0])
	case !w.noID && m.id != `"check"`:
		c.say(warn, check, "The error should carry the request's id.", "the id of the error is %s", orNothing(m.id))
	default:
		return true
	}
	return false
}

// checkNegotiation sends what is not JSON, and accepts no stream.
func (c *checker) checkNegotiation(ctx context.Context) {
	for _, tt := range []struct {
		check, name, value string
		status             int
		bad                level
		advice             string
	}{
		{"Accept without event-stream", "Accept", "application/json", http.StatusNotAcceptable, warn, "Answer 406: the client said that it cannot read a stream."},
		{"Content-Type text/plain", "Content-Type", "text/plain", http.StatusUnsupportedMediaType, warn, "Answer 415: a web page may send text/plain to any host without asking first."},
	} {
		r, err := c.send(ctx, request{body: listenBody(`"check"`, encode(c.fullFilter())), header: map[string]string{tt.name: tt.value}})
		if err != nil {
			c.say(warn, tt.check, tt.advice, "%v", err)
			continue
		}
		switch {
		case c.full(tt.check, r):
		case r.stream, r.status < 300:
			c.say(tt.bad, tt.check, tt.advice, "%s", r.describe())
		case r.status != tt.status:
			c.say(note, tt.check, "", "refused, with %s", r.describe())
		default:
			c.say(ok, tt.check, "", "%d", r.status)
		}
		r.close()
	}
}

// checkOrigin comes from a foreign web page, and by a rebound name.
func (c *checker) checkOrigin(ctx context.Context) {
	const rebinding = "Servers must check it: a web page on another site reaches a local server by DNS rebinding, and listens."
	body := listenBody(`"check"`, encode(c.fullFilter()))
	r, err := c.send(ctx, request{body: body, header: map[string]string{"Origin": "https://mcplisten-check.invalid"}})
	switch {
	case err != nil:
		c.say(warn, "foreign Origin", rebinding, "%v", err)
	case c.full("foreign Origin", r):
	case r.stream || r.status < 300:
		c.say(fail, "foreign Origin", rebinding+" Answer 403 unless the origin is on a list.", "https://mcplisten-check.invalid was let in")
	case r.status != http.StatusForbidden:
		c.say(note, "foreign Origin", "", "refused, with %s and not 403", r.describe())
	default:
		c.say(ok, "foreign Origin", "", "403")
	}
	if r != nil {
		r.close()
	}
	if target, err := url.Parse(c.url); err != nil || !isLoopback(target.Hostname()) {
		return
	}
	r, err = c.send(ctx, request{body: body, host: "mcplisten-check.invalid"})
	switch {
	case err != nil:
		c.say(warn, "foreign Host", rebinding, "%v", err)
		return
	case c.full("foreign Host", r):
	case r.stream || r.status < 300:
		c.say(warn, "foreign Host", "On a loopback listener, let in loopback names and those on a list: a rebound name stands in Host.", "mcplisten-check.invalid was let in on a loopback address")
	default:
		c.say(ok, "foreign Host", "", "%d", r.status)
	}
	r.close()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// settle is how long a stream is watched for an end that something else may have
// caused.
var settle = 500 * time.Millisecond

// state is what became of a stream.
type state int

const (
	alive  state = iota
	result       // the server said goodbye: with the result, as it may at any time
	cut          // it ended without
)

// watch watches a stream for a while. It stays what it was once it has ended.
func (r *raw) watch() state {
	if r.fate == alive {
		r.fate = r.watchOn()
	}
	return r.fate
}

func (r *raw) watchOn() state {
	until := time.Now().Add(settle)
	for {
		switch m, o := r.message(time.Until(until)); {
		case o == ended:
			return cut
		case o == late:
			return alive
		case m.goodbye():
			return result
		}
	}
}

// openVictim opens a stream that others may bring to its end. It says so and returns
// nil if it does not open.
func (c *checker) openVictim(ctx context.Context, check, id string) *raw {
	r, m, o, err := c.open(ctx, id, encode(c.honored))
	switch {
	case err != nil:
		c.say(skip, check, "", "no stream to watch: %v", err)
		return nil
	case c.full(check, r):
	case o != came || !m.isAck():
		c.say(skip, check, "", "no stream to watch")
	default:
		return r
	}
	r.close()
	return nil
}

// survives reports whether a stream lives on after something that must not end
// it. It is not known where the server said goodbye, or where the control ended
// too, a stream that nothing was done to: that is reported as skipped.
func (c *checker) survives(ctx context.Context, check string, r, control *raw) (lives, known bool) {
	switch r.watch() {
	case alive:
		return true, true
	case result:
		c.say(skip, check, "", "the server ended the stream with its result while it was watched: try again")
		return false, false
	}
	c.look(ctx)
	if control.watch() != alive {
		c.say(skip, check, "", "streams are cut here that nothing was done to: something else ends them")
		return false, false
	}
	return false, true
}

// checkEqualIDs opens two streams with one id.
func (c *checker) checkEqualIDs(ctx context.Context) {
	const check = "two streams with one id"
	const advice = "Over HTTP an id names a request on its own response only. Two clients with id 1 are the rule: key nothing by it."
	if c.honored.Empty() {
		c.say(skip, check, "", "the server honors nothing")
		return
	}
	control := c.openVictim(ctx, check, `"check-control"`)
	if control == nil {
		return
	}
	defer control.close()
	a := c.openVictim(ctx, check, "1")
	if a == nil {
		return
	}
	defer a.close()
	b, m, o, err := c.open(ctx, "1", encode(c.honored))
	if err != nil {
		c.say(warn, check, advice, "%v", err)
		return
	}
	defer b.close()
	switch {
	case c.full(check, b):
		return
	case o != came || !m.isAck():
		c.say(fail, check, advice, "the second one is not opened: %s", b.describe())
		return
	}
	switch lives, known := c.survives(ctx, check, a, control); {
	case !known:
		return
	case !lives:
		c.say(fail, check, advice, "the second one ends the first")
		return
	}
	b.close()
	switch lives, known := c.survives(ctx, check, a, control); {
	case !known:
	case !lives:
		c.say(fail, check, advice, "the end of the second one ends the first")
	default:
		c.say(ok, check, "", "both live, and the end of one leaves the other")
	}
}

// checkForeignCancel tries to end a stream from another connection.
func (c *checker) checkForeignCancel(ctx context.Context) {
	const check = "notifications/cancelled"
	if c.honored.Empty() {
		c.say(skip, check, "", "the server honors nothing")
		return
	}
	control := c.openVictim(ctx, check, `"check-control"`)
	if control == nil {
		return
	}
	defer control.close()
	a, status := c.cancelStranger(ctx, check)
	if a == nil {
		return
	}
	defer func() { a.close() }()
	// A server may end a stream with its result just then. One that does so each time, and
	// to this stream alone, does it because of the message.
	thrice := false
	for try := 1; !thrice && a.watch() == result && control.watch() == alive; try++ {
		if thrice = try == 3; thrice {
			break
		}
		a.close()
		again, _ := c.cancelStranger(ctx, check)
		if again == nil {
			return
		}
		a = again
	}
	anonymous := c.access.token == "" && len(c.access.headers) == 0
	lives, known := false, true
	if !thrice {
		lives, known = c.survives(ctx, check, a, control)
	}
	switch {
	case !known:
	case !lives && anonymous:
		c.say(fail, check, "Who guesses an id must not end a stranger's stream. Over HTTP the end of the request is the cancellation.", "a POST from another connection ended a stream")
	case !lives:
		c.say(note, check, "", "a POST with the same credentials ended the stream")
	case status == http.StatusAccepted:
		c.say(ok, check, "", "202, and no other connection's stream is ended")
	}
}

// cancelStranger opens a stream and cancels it from another connection. It returns
// the stream, nil where there is nothing to watch, and the status of the answer.
func (c *checker) cancelStranger(ctx context.Context, check string) (a *raw, status int) {
	a = c.openVictim(ctx, check, `"check-cancel"`)
	if a == nil {
		return nil, 0
	}
	body := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"check-cancel","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"` + core.ProtocolVersion + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := c.send(ctx, request{body: body, header: map[string]string{"Mcp-Method": core.MethodCancelled}})
	if err != nil {
		c.say(warn, check, "", "%v", err)
		a.close()
		return nil, 0
	}
	defer r.close()
	if c.full(check, r) {
		a.close()
		return nil, 0
	}
	if r.status != http.StatusAccepted {
		c.say(warn, check, "Answer 202: the official Go client drops its other streams on an error here.", "%s", r.describe())
	}
	return a, r.status
}
