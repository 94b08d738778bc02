// Checks of opening: the acknowledgment, ids, filters, headers.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// prompt is how long an acknowledgment may take without being remarkable.
const prompt = time.Second

// open opens a stream and reads its first message.
func (c *checker) open(ctx context.Context, id, filter string) (*raw, rpc, outcome, error) {
	r, err := c.send(ctx, request{body: listenBody(id, filter)})
	if err != nil {
		return nil, rpc{}, "", err
	}
	m, o := r.message(c.timeout)
	if r.stream && o == ended {
		c.look(ctx)
	}
	return r, m, o, nil
}

// checkAck opens the first stream. It fails if there is none.
func (c *checker) checkAck(ctx context.Context) error {
	const check = "acknowledgment"
	start := time.Now()
	r, m, o, err := c.open(ctx, `"check-1"`, encode(c.fullFilter()))
	if err != nil {
		return err
	}
	defer r.close()
	took := time.Since(start)
	switch {
	case c.gone != nil:
		return c.gone
	case c.full(check, r):
		return fmt.Errorf("%w: it is at its limit: %s", errRefused, r.describe())
	case !r.stream && r.refuses():
		c.say(fail, check, "Nothing else can be examined. A refusal may be right: see --header and --token.", "no stream: %s", r.describe())
		return fmt.Errorf("%w: %s", errRefused, r.describe())
	case !r.stream && r.compressed() != "":
		c.say(fail, check, "Do not compress what was not asked for: see Accept-Encoding.", "no stream: %s, in %s", r.describe(), r.compressed())
		return fmt.Errorf("the server opens no stream: %s", r.describe())
	case !r.stream:
		c.say(fail, check, "Nothing else can be examined. Answer with a stream: 200 and Content-Type: text/event-stream.", "no stream: %s", r.describe())
		return fmt.Errorf("the server opens no stream: %s", r.describe())
	case o != came && r.compressed() != "":
		c.say(fail, check, "Do not compress what was not asked for: the acknowledgment cannot be read, and is held back.", "the stream is in %s, and %s before any message", r.compressed(), o.told())
		return errors.New("the server sends a compressed stream, which was not asked for")
	case o == came && m.err != nil:
		c.say(fail, check, "Nothing else can be examined. Refuse before the status is sent: an error inside a 200 is invisible to operators and proxies.", "error %d inside a %d", m.err.Code, r.status)
		return fmt.Errorf("%w: error %d", errRefused, m.err.Code)
	case o != came:
		c.say(fail, check, "Send the acknowledgment at once, together with the headers, and flush. A middleware or proxy that buffers holds it back too.",
			"the stream %s before any message, after %v", o.told(), took.Round(time.Millisecond))
		return errors.New("the server sends no acknowledgment")
	case !m.isAck():
		c.say(fail, check, "The acknowledgment must be the first message of the stream. Register the subscription and write the acknowledgment in one place, by one writer.",
			"the first message is another one: %s", short(m.text))
	case took > prompt:
		c.say(warn, check, "Clients wait for it with a timeout, and proxies for headers.", "came first, but only after %v", took.Round(time.Millisecond))
	default:
		c.say(ok, check, "", "came first, after %v", took.Round(time.Millisecond))
	}
	c.honored = m.honored()
	switch {
	case m.filter == nil:
		c.say(fail, "honored filter", "The acknowledgment's member notifications says what the server agreed to.", "missing: %s", short(m.text))
	case !within(c.honored, c.fullFilter()):
		c.say(fail, "honored filter", "The server must honor nothing that was not asked for.", "more than was asked for: %s", short(m.text))
	case c.honored.Empty():
		c.say(warn, "honored filter", "A client that listens gets nothing. Advertise and honor what the server publishes.", "nothing of tools, prompts and resources")
	default:
		c.say(note, "honored filter", "", "%s", describe(c.honored))
	}
	c.checkHeaders(r)
	return nil
}

func (c *checker) checkHeaders(r *raw) {
	get := func(name string) string { return strings.ToLower(strings.Join(r.header.Values(name), ",")) }
	cache := get("Cache-Control")
	if strings.Contains(cache, "no-cache") || strings.Contains(cache, "no-store") {
		c.say(ok, "Cache-Control", "", "%s", cache)
	} else {
		c.say(warn, "Cache-Control", "Send Cache-Control: no-cache, no-transform.", "%q: a cache in between may hold the stream", cache)
	}
	if !strings.Contains(cache, "no-transform") {
		c.say(warn, "Cache-Control: no-transform", "Send Cache-Control: no-cache, no-transform.", "missing: a proxy that compresses may hold events back")
	}
	if get("X-Accel-Buffering") == "no" {
		c.say(ok, "X-Accel-Buffering", "", "no")
	} else {
		c.say(warn, "X-Accel-Buffering", "Send X-Accel-Buffering: no.", "missing: nginx with a default proxy_pass holds the stream back, headers included")
	}
	if encoding := r.compressed(); encoding != "" {
		c.say(warn, "Content-Encoding", "Do not compress the stream.", "%s, which was not asked for", encoding)
	}
	if r.header.Get("Mcp-Session-Id") != "" {
		c.say(warn, "Mcp-Session-Id", "Revision 2026-07-28 has no sessions.", "the answer has one")
	}
}

// ids are ids as they are sent. All are valid.
var ids = []struct {
	name, raw string
	beyond    bool // beyond what a 64-bit float holds
}{
	{"text", `"check"`, false},
	{"empty text", `""`, false},
	{"text of digits", `"1"`, false},
	{"text that is not ASCII", `"prüfung-☃-😀"`, false},
	{"text with quote and slash", `"a\"b/c\\d<&>"`, false},
	{"long text", `"` + strings.Repeat("long-", 50) + `"`, false},
	{"integer", `1`, false},
	{"zero", `0`, false},
	{"negative integer", `-7`, false},
	{"2^53+1", `9007199254740993`, true},
	{"2^64+1", `18446744073709551617`, true},
}

// checkIDs opens a stream for each kind of id.
func (c *checker) checkIDs(ctx context.Context) {
	const advice = "The id is the client's: keep its bytes. Decoded as a number it is rounded, and 0 or empty text are ids too."
	good := 0
	for _, id := range ids {
		check := "id: " + id.name
		r, m, o, err := c.open(ctx, id.raw, encode(c.fullFilter()))
		switch {
		case err != nil:
			c.say(fail, check, advice, "%s: %v", id.raw, err)
			continue
		case c.full(check, r):
		case !r.stream && id.beyond:
			c.say(warn, check, "An integer has no bounds in JSON, and other clients may use large ones. Better than rounding it.", "%s was refused: %s", short(id.raw), r.describe())
		case !r.stream:
			c.say(fail, check, advice, "%s was refused: %s", short(id.raw), r.describe())
		case o != came || !m.isAck():
			c.say(fail, check, advice, "%s: no acknowledgment", short(id.raw))
		case m.subID == id.raw:
			good++
		case sameID(m.subID, id.raw):
			good++
			c.say(note, check, "", "%s came back as %s, which is the same", short(id.raw), short(m.subID))
		default:
			c.say(fail, check, advice, "%s came back as %s", short(id.raw), orNothing(m.subID))
		}
		r.close()
	}
	if good == len(ids) {
		c.say(ok, "ids", "", "%d kinds of ids keep type and value", good)
	}
}

// sameID reports whether two raw ids are the same text. Numbers must be the same
// bytes: there is one way to write an integer.
func sameID(a, b string) bool {
	var x, y *string
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && x != nil && y != nil && *x == *y
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return short(s)
}

// checkFilter asks for little and sees that no more is honored.
func (c *checker) checkFilter(ctx context.Context) {
	const check = "filter"
	tests := []struct {
		name, filter string
		allowed      core.Filter
		why          string
	}{
		{"tools alone", `{"toolsListChanged":true}`, core.Filter{ToolsListChanged: true}, "Only what is asked for may be honored."},
		{"prompts alone", `{"promptsListChanged":true}`, core.Filter{PromptsListChanged: true}, "Only what is asked for may be honored."},
		{"false is not asked for", `{"toolsListChanged":false,"resourcesListChanged":true}`, core.Filter{ResourcesListChanged: true}, "Only what is asked for may be honored."},
		{"another case", `{"toolslistchanged":true,"TOOLSLISTCHANGED":true}`, core.Filter{}, "Member names are case-sensitive: encoding/json and others are not."},
		{"an unknown member", `{"toolsListChanged":true,"com.example/unknown":{"a":1}}`, core.Filter{ToolsListChanged: true}, "Unknown members are for extensions: ignore them."},
	}
	good := 0
	for _, tt := range tests {
		check := check + ": " + tt.name
		r, m, o, err := c.open(ctx, `"check"`, tt.filter)
		switch {
		case err != nil:
			c.say(fail, check, tt.why, "%v", err)
			continue
		case c.full(check, r):
		case !r.stream:
			c.say(warn, check, tt.why, "refused: %s", r.describe())
		case o != came || !m.isAck():
			c.say(fail, check, tt.why, "no acknowledgment first")
		case !within(m.honored(), tt.allowed):
			c.say(fail, check, tt.why, "%s: honored %s", tt.filter, describe(m.honored()))
		default:
			good++
		}
		r.close()
	}
	if good == len(tests) {
		c.say(ok, check, "", "nothing is honored that was not asked for")
	}
}

// checkEmptyFilter asks for nothing: there should be an acknowledgment, a result,
// and the end.
func (c *checker) checkEmptyFilter(ctx context.Context) {
	const check = "empty filter"
	const id = `"check-empty"`
	r, m, o, err := c.open(ctx, id, `{}`)
	if err != nil {
		c.say(fail, check, "", "%v", err)
		return
	}
	defer r.close()
	switch {
	case c.full(check, r):
		return
	case !r.stream:
		c.say(warn, check, "An empty filter is valid: acknowledge {}, send the result, end.", "refused: %s", r.describe())
		return
	case o != came || !m.isAck():
		c.say(fail, check, "The acknowledgment comes before the result, always.", "the first message is no acknowledgment: %s", orNothing(m.text))
		return
	case !m.honored().Empty():
		c.say(fail, check, "Only what is asked for may be honored.", "honored %s", describe(m.honored()))
	}
	if m, o = r.message(min(c.timeout, 2*time.Second)); o == ended {
		c.look(ctx)
	}
	switch {
	case o == late:
		c.say(warn, check, "End it with the result: it holds a connection and can never say anything.", "the stream is held open")
	case o == ended:
		c.say(warn, check, "Send the result before the end, or the client takes it for a fault and comes back.", "the stream ends without a result")
	case m.result == nil:
		c.say(fail, check, "After the acknowledgment of nothing only the result can come.", "%s", short(m.text))
	case m.id != id:
		c.say(fail, check, "The result answers the request.", "the result is for the id %s, not %s", orNothing(m.id), id)
	case m.subID != id:
		c.say(fail, "result", "The result's _meta carries "+core.MetaSubscriptionID+".", "the subscription in it is %s, not %s", orNothing(m.subID), id)
	case string(m.result["resultType"]) != `"complete"`:
		c.say(fail, "result", "The result needs a resultType: complete.", "the resultType is %s", orNothing(string(m.result["resultType"])))
	default:
		if _, o := r.next(time.Second); o != ended {
			c.say(warn, check, "The result is the last message: close the response.", "the stream stays open after its result")
			return
		}
		c.say(ok, check, "", "acknowledged, and ended with the result")
	}
}

// checkDiscover compares what the server advertises with what it honors.
func (c *checker) checkDiscover(ctx context.Context) {
	const check = "server/discover"
	body := strings.Replace(listenBody(`"check"`, `{}`), core.MethodListen, core.MethodDiscover, 1)
	body = strings.Replace(body, `,"notifications":{}`, "", 1)
	r, err := c.send(ctx, request{body: body, header: map[string]string{"Mcp-Method": core.MethodDiscover}})
	if err != nil {
		c.say(warn, check, "Servers must implement it.", "%v", err)
		return
	}
	defer r.close()
	m := parseRPC(r.body)
	if r.stream {
		m, _ = r.message(c.timeout)
	}
	if c.full(check, r) {
		return
	}
	if m.result == nil {
		c.say(warn, check, "Servers must implement it: clients ask it what they can listen to.", "%s", r.describe())
		return
	}
	capabilities := object(m.result["capabilities"])
	says := func(name, flag string) bool { return string(object(capabilities[name])[flag]) == "true" }
	agree := true
	for _, k := range []struct {
		name             string
		advertised, kept bool
	}{
		{"tools.listChanged", says("tools", "listChanged"), c.honored.ToolsListChanged},
		{"prompts.listChanged", says("prompts", "listChanged"), c.honored.PromptsListChanged},
		{"resources.listChanged", says("resources", "listChanged"), c.honored.ResourcesListChanged},
	} {
		switch {
		case k.advertised && !k.kept:
			agree = false
			c.say(fail, check, "Advertise what is honored: clients listen, and come back for it again and again.", "%s is advertised and not honored", k.name)
		case !k.advertised && k.kept:
			agree = false
			c.say(warn, check, "Advertise what is honored, and honor only that: clients do not ask for what is not advertised.", "%s is honored and not advertised", k.name)
		}
	}
	switch subscribe := says("resources", "subscribe"); {
	case len(c.uris) == 0:
	case subscribe && len(c.honored.ResourceSubscriptions) == 0:
		agree = false
		c.say(fail, check, "Advertise what is honored.", "resources.subscribe is advertised, and no --resource is honored")
	case !subscribe && len(c.honored.ResourceSubscriptions) > 0:
		agree = false
		c.say(warn, check, "Advertise what is honored.", "resources.subscribe is not advertised, and a --resource is honored")
	}
	if agree {
		c.say(ok, check, "", "advertises what is honored")
	}
}
