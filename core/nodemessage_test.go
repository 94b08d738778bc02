// What the nodes of a cluster tell each other: it comes back as it went, it fits,
// and nothing that comes along breaks a hub.

package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestNodeMessageComesBack(t *testing.T) {
	t.Parallel()
	changes := []Change{ToolsListChanged(), PromptsListChanged(), ResourcesListChanged(), ResourceUpdated("file:///ü?a=1&b=<2>"), ResourceUpdated("\u2028\x00")}
	unsent := []unsentChange{{changes[0], "first"}, {changes[1], "first"}, {changes[2], "second"}, {changes[3], ""}, {changes[4], "first"}}
	for _, to := range []Audience{{}, Principals("a", "\xff"), PrincipalPrefix(""), PrincipalPrefix("\xfe/")} {
		sent := newNodeMessage(to, unsent)
		sent.Node, sent.Seq = "n", 3
		data, err := sent.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeNodeMessage(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		var parts []unsentChange
		for _, part := range got.parts() {
			for _, c := range part.changes() {
				parts = append(parts, unsentChange{c, part.Origin})
			}
		}
		if !slices.Equal(got.changes(), changes) || !slices.Equal(parts, unsent) || got.Node != "n" || got.Seq != 3 || got.isBeat() {
			t.Errorf("sent %+v\ngot  %+v", sent, got)
		}
		if !reflect.DeepEqual(got.audience(), to) {
			t.Errorf("audience %q came back as %q", to.key(), got.audience().key())
		}
	}
}

// sameChange compares values by what they say.
func sameChange(a, b Change) bool {
	if a.withoutContent() != b.withoutContent() || (a.content == nil) != (b.content == nil) {
		return false
	}
	if a.content == nil {
		return true
	}
	one, two := a.content.payload, b.content.payload
	var x, y bytes.Buffer
	_ = json.Compact(&x, one.params)
	_ = json.Compact(&y, two.params)
	return one.version == two.version && (one.params == nil) == (two.params == nil) && bytes.Equal(x.Bytes(), y.Bytes())
}

func valueOf(key string, version uint64, params string) Change {
	v := nodeValue{Method: "notifications/x", Key: key, Version: version}
	if params != "" {
		v.Params = json.RawMessage(params)
	}
	return v.change()
}

// TestValuesComeBack, in their order with the rest, and nodes that do not know them
// take the message for one that has something else to say, and miss nothing of what
// they know.
func TestValuesComeBack(t *testing.T) {
	t.Parallel()
	for _, changes := range [][]Change{
		{valueOf("a", 1, `{"id":"a","x":"<&>"}`)},
		{valueOf("a", 1, `{"id":"a"}`), valueOf("\u2028\"", 1<<63, `{"id":1}`), ToolsListChanged()},
		{ResourceUpdated("u"), valueOf("a", 3, "")},
	} {
		unsent := make([]unsentChange, len(changes))
		for i, c := range changes {
			unsent[i] = unsentChange{c, []string{"one", "two"}[i%2]}
		}
		m := newNodeMessage(Audience{}, unsent)
		m.Node, m.Seq = "n", 5
		data, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeNodeMessage(data)
		if err != nil || got.isBeat() || !slices.EqualFunc(got.changes(), changes, sameChange) {
			t.Errorf("%s came back as %+v (%v)", data, got.changes(), err)
		}
		for _, part := range got.parts() {
			for _, c := range part.changes() {
				i := slices.IndexFunc(changes, func(other Change) bool { return sameChange(c, other) })
				if unsent[i].origin != part.Origin {
					t.Errorf("the change %+v came back with the origin %q", c, part.Origin)
				}
			}
		}
		var before struct { // as nodes knew it before there were values
			Kinds, URIs []string
			Then        []struct{ Kinds, URIs []string }
			Beat        bool
		}
		if err := json.Unmarshal(data, &before); err != nil || before.Beat ||
			len(before.Kinds) == 0 && len(before.URIs) == 0 && len(before.Then) == 0 {
			t.Errorf("nodes without values take %s for a beat (%v)", data, err)
		}
		lighter, ok := m.withoutPayloads()
		if want := !slices.ContainsFunc(changes, func(c Change) bool { return c.content != nil && c.content.payload.params == nil }); ok != want {
			t.Errorf("%s has payloads to leave out: %v", data, ok)
		}
		if _, again := lighter.withoutPayloads(); again {
			t.Error("there are payloads left")
		}
	}
}

// TestAudienceKeys: no two audiences share one.
func TestAudienceKeys(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for i, to := range []Audience{
		{}, Principals(), Principals(""), PrincipalPrefix(""), Principals("a"), PrincipalPrefix("a"), Principals("a", "b"),
		Principals(`a""b`), Principals("^a"), PrincipalPrefix(`"a"`), Principals("\xff"), Principals(`\xff`), PrincipalPrefix("="),
	} {
		if other, there := seen[to.key()]; there {
			t.Errorf("audiences %d and %d share the key %q", other, i, to.key())
		}
		seen[to.key()] = i
	}
}

// TestNodeMessagesFit: the largest that the outbox makes is one that others look
// at, and one that is not becomes everything.
func TestNodeMessagesFit(t *testing.T) {
	t.Parallel()
	var o outbox
	o.init()
	worst := strings.Repeat("\x01", 2000) // six bytes each in JSON
	names := make([]string, 500)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", worst[:60], i)
	}
	changes := make([]Change, 500)
	for i := range changes {
		changes[i] = ResourceUpdated(fmt.Sprintf("%s%d", worst, i))
	}
	for part := range Principals(names...).parts(perMessage) {
		o.add(part, changes, strings.Repeat("\x01", maxOriginLength))
	}
	largest, total := 0, 0
	for {
		m, ok := o.take()
		if !ok {
			break
		}
		data, err := m.encode()
		if err != nil || m.All {
			t.Fatalf("%v, everything %v", err, m.All)
		}
		largest, total = max(largest, len(data)), total+len(m.URIs)
		o.taken()
	}
	if largest > maxNodeMessage/2 || total != 500 {
		t.Errorf("%d URIs went out in messages of up to %d bytes, want 500 and half of %d", total, largest, maxNodeMessage)
	}
	if o.unsent() != 0 || o.bytes != 0 || o.count != 0 {
		t.Errorf("an empty outbox counts %d changes and %d bytes", o.count, o.bytes)
	}
	data, err := newNodeMessage(Principals("a"), []unsentChange{{ResourceUpdated(strings.Repeat("x", maxNodeMessage)), ""}}).encode()
	if err != nil || !bytes.Contains(data, []byte(`"all":true`)) || len(data) > 100 {
		t.Errorf("a message that is too large became %.100q (%v)", data, err)
	}
}

// FuzzNodeMessage: whatever comes, a hub applies it or counts it, and what was
// understood means the same when it is sent on.
func FuzzNodeMessage(f *testing.F) {
	for _, seed := range []string{
		`{"v":1,"node":"n","seq":4,"kinds":["notifications/tools/list_changed"],"uris":["u"],"origin":"o"}`,
		`{"v":1,"node":"n","to":{"principals":["YQ=="]},"uris":["u"]}`,
		`{"v":1,"node":"n","to":{"prefix":"YQ=="},"kinds":["notifications/x/list_changed"]}`,
		`{"v":1,"node":"n","cancel":{"principal":"YQ==","id":"MQ=="}}`,
		`{"v":1,"node":"n","seq":18446744073709551615}`, `{"v":1,"node":"n","hello":true}`,
		`{"v":1,"node":"n","then":[{"values":[{"method":"notifications/x","key":"k","version":2,"params":{"id":"k", "x":[]}},{"method":"m","key":"k","version":1}]}]}`,
		`{"v":2,"uris":1}`, `{"v":1,"node":"n","all":true}`, `{"V":1,"NODE":"n"}`, `null`, `[]`, `{"v":1e3}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeNodeMessage(data)
		h := &Hub{config: Config{Limits: Limits{}.withDefaults()}}
		h.families, _ = newFamilies(Config{Extensions: []Extension{{Family: Family{Member: "x", Method: "notifications/x", Key: "id"}, Public: true}}})
		l := &link{
			hub: h, heard: make(map[string]uint64), asked: make(chan struct{}, 1), gapped: make(chan struct{}, 1),
			retry: make(chan struct{}, 1), hello: make(chan struct{}, 1),
		}
		(*receiver)(l).Message(data)
		values := slices.ContainsFunc(m.changes(), func(c Change) bool { return c.Kind == KindExtension })
		if (l.stats.Ignored == 1) != (err != nil) && !values { // of values, some may be ignored
			t.Fatalf("ignored %d, decoded with %v", l.stats.Ignored, err)
		}
		if err != nil {
			return
		}
		for _, c := range m.changes() {
			if c.validate() != nil {
				t.Fatalf("%q brought the change %+v", data, c)
			}
		}
		if m.Node == "" && !m.All {
			t.Fatalf("%q came from nobody", data)
		}
		if m.Node == "" {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		m2, err := decodeNodeMessage(again)
		if err != nil {
			t.Fatalf("%q was sent on as %q: %v", data, again, err)
		}
		same := slices.EqualFunc(m.changes(), m2.changes(), sameChange) && m.audience().key() == m2.audience().key() && m.Seq == m2.Seq && m.isBeat() == m2.isBeat()
		if m2.All && !m.All {
			same = len(again) > maxNodeMessage // as large as that, it became everything
		}
		if !same {
			t.Fatalf("%q was sent on as %q", data, again)
		}
	})
}

// BenchmarkForeignChange is what a change that nobody here listens to costs a node.
func BenchmarkForeignChange(b *testing.B) {
	m := newNodeMessage(Audience{}, []unsentChange{{ResourceUpdated("https://example.com/orders/4711"), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}})
	m.Node, m.Seq = "0123456789abcdef", 4711
	data, err := m.encode()
	if err != nil {
		b.Fatal(err)
	}
	hub, err := NewHub(Config{Capabilities: Capabilities{ResourceSubscriptions: true}, Broker: new(LocalBroker)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = hub.Shutdown(b.Context()) }()
	b.ReportAllocs()
	for b.Loop() {
		(*receiver)(hub.link).Message(data)
	}
	b.ReportMetric(float64(len(data)), "bytes/msg")
}
