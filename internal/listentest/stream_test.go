// The strict client must itself be able to fail: streams that break a rule, each
// in one way.

package listentest

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestCheckerFindsBrokenRules(t *testing.T) {
	t.Parallel()
	const (
		meta   = `"_meta":{"io.modelcontextprotocol/subscriptionId":7}`
		head   = `data: {"jsonrpc":"2.0","method":"notifications/`
		ack    = head + `subscriptions/acknowledged","params":{` + meta + `,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}}}` + "\n\n"
		tools  = head + `tools/list_changed","params":{` + meta + `}}` + "\n\n"
		update = head + `resources/updated","params":{` + meta + `,"uri":"a:b"}}` + "\n\n"
		result = `data: {"jsonrpc":"2.0","id":7,"result":{"resultType":"complete",` + meta + `}}` + "\n\n"
		beat   = ": keep-alive\n\n"
		good   = ack + beat + tools + update + tools + beat + result
	)
	swap := func(old, by string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in the good stream", old)
		}
		return strings.Replace(good, old, by, 1)
	}
	for name, c := range map[string]struct {
		stream string
		want   string // part of the error; empty: a clean end
	}{
		"good":                     {good, ""},
		"at once":                  {ack + result, ""},
		"nothing":                  {"", "broke off"},
		"no result":                {ack + tools, "broke off"},
		"half a line":              {ack + "data: {", "broke off"},
		"half an event":            {ack + strings.TrimSuffix(tools, "\n"), "blank line"},
		"no ack":                   {tools + result, "acknowledgment is to come first"},
		"keep-alive before ack":    {beat + good, "before the acknowledgment"},
		"result before ack":        {result, "before the acknowledgment"},
		"ack twice":                {ack + good, "and once"},
		"after the result":         {good + tools, "after the result"},
		"keep-alive after result":  {good + beat, "after the result"},
		"two results":              {good + result, "after the result"},
		"another id":               {swap(`"io.modelcontextprotocol/subscriptionId":7}}`, `"io.modelcontextprotocol/subscriptionId":"7"}}`), `"7", not 7`},
		"another id in the result": {swap(`"id":7`, `"id":70`), "the ids"},
		"no id":                    {ack + head + `tools/list_changed","params":{}}` + "\n\n", "the subscription id"},
		"not asked for":            {swap("tools/list_changed", "prompts/list_changed"), "not asked for"},
		"another resource":         {swap(`"uri":"a:b"`, `"uri":"a:bc"`), "not asked for"},
		"list change with URI":     {swap(meta+`}}`, meta+`,"uri":"a:b"}}`), "with a URI"},
		"honored more":             {swap(`{"toolsListChanged":true`, `{"promptsListChanged":true`), "more is honored"},
		"honored unknown":          {swap(`{"toolsListChanged":true`, `{"x":true`), "unknown field"},
		"notification with id":     {swap(`"method":"notifications/tools`, `"id":7,"method":"notifications/tools`), "with an id"},
		"unfinished result":        {swap("complete", "partial"), "not complete"},
		"event name":               {swap(tools, "event: x\n"+tools), "blank line"},
		"event id":                 {swap(tools, "id: 7\n\n"), "neither a data line"},
		"no space":                 {swap("data: ", "data:"), "neither a data line"},
		"two data lines":           {swap(tools, "data: {\n"+tools), "blank line"},
		"carriage return":          {swap(tools, strings.ReplaceAll(tools, "\n", "\r\n")), "carriage return"},
		"two messages":             {swap(`}}}`+"\n", `}}}{}`+"\n"), "something follows"},
		"no JSON-RPC":              {swap(`"2.0"`, `"1.0"`), "no JSON-RPC"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checked := checker{r: bufio.NewReader(strings.NewReader(c.stream)), id: "7", asked: Filter{Tools: true, URIs: []string{"a:b"}}}
			var err error
			for err == nil {
				_, err = checked.next()
			}
			if clean := errors.Is(err, io.EOF); clean != (c.want == "") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
