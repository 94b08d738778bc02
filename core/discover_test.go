// Tests of what is said of an endpoint, and of ids outside requests.

package core_test

import (
	"testing"

	"github.com/mcplisten/mcplisten/core"
)

func TestDiscoverSaysWhatIsDelivered(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{
		Capabilities: core.Capabilities{PromptsListChanged: true, ResourcesListChanged: true},
		ServerInfo:   &core.Implementation{Name: "test", Version: "1"},
	})
	const head, tail = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`,
		`,"ttlMs":300000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}`
	want := head + `{"prompts":{"listChanged":true},"resources":{"listChanged":true}}` + tail
	if got := string(hub.Discover()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	hub.SetMode(core.ModeNotFound)
	if got, want := string(hub.Discover()), head+`{}`+tail; got != want {
		t.Errorf("not serving:\n%s\nwant\n%s", got, want)
	}
}

func TestMethodNotFound(t *testing.T) {
	t.Parallel()
	e := core.MethodNotFound("tools/list")
	wantRefusal(t, e, core.CodeMethodNotFound, core.RefusedMethod)
	if e.Data != nil {
		t.Errorf("the data is %s, want none", e.Data)
	}
	e = core.MethodNotFound(core.MethodInitialize)
	wantRefusal(t, e, core.CodeMethodNotFound, core.RefusedMethod)
	if want := `{"supported":["2026-07-28"]}`; string(e.Data) != want {
		t.Errorf("the data is %s, want %s", e.Data, want)
	}
}

func TestParseID(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"1", " 1 ", `"a"`, `"\u0061"`, `""`, "-0", "18446744073709551617"} {
		if id, err := core.ParseID([]byte(raw)); err != nil || !id.Valid() {
			t.Errorf("ParseID(%q): %v", raw, err)
		}
	}
	for _, raw := range []string{"", " ", "1.0", "1e3", "null", "true", "{}", "[1]", `"`, "1 2", "x"} {
		if id, err := core.ParseID([]byte(raw)); err == nil || id.Valid() {
			t.Errorf("ParseID(%q) is %v", raw, id)
		}
	}
	key := func(raw string) string {
		id, err := core.ParseID([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return id.Key()
	}
	if key(`"a"`) != key(`"\u0061"`) || key("1") == key(`"1"`) || key(`"\ud800"`) == key(`"\ud801"`) {
		t.Error("keys do not agree with Equal")
	}
}
