package loadgen

// The parser must find the same messages wherever the bytes are cut.

import (
	"slices"
	"strings"
	"testing"
)

func TestFeedCutAnywhere(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	want := []string{`{"a":1}`, `{"b":2}`}
	for name, answer := range map[string]string{
		"chunked":          head + "transfer-encoding: chunked\r\n\r\n1a;x=1\r\n: ping\n\ndata: {\"a\":1}\n\ndat\r\n0C\r\na:{\"b\":2}\r\n\n\r\n0\r\n\r\n",
		"until the end":    head + "\r\n: ping\n\nevent: message\ndata: {\"a\":1}\r\n\r\ndata:{\"b\":2}\n\n",
		"one line a chunk": head + "Transfer-Encoding: chunked\r\n\r\n10\r\ndata: {\"a\":1}  \n\r\n1\r\n\n\r\n0f\r\ndata: {\"b\":2} \n\r\n",
	} {
		for cut := 0; cut <= len(answer); cut++ {
			var r reader
			var got []string
			emit := func(data []byte) { got = append(got, string(data)) }
			for _, p := range []string{answer[:cut], answer[cut:]} {
				if err := r.feed([]byte(p), emit); err != nil {
					t.Fatalf("%s, cut at %d: %v", name, cut, err)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s, cut at %d: got %q, want %q", name, cut, got, want)
			}
		}
		var r reader
		var got []string
		for i := range len(answer) {
			if err := r.feed([]byte(answer[i:i+1]), func(data []byte) { got = append(got, string(data)) }); err != nil {
				t.Fatalf("%s, byte %d: %v", name, i, err)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s, byte by byte: got %q, want %q", name, got, want)
		}
	}
}

func TestFeedRefuses(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, answer := range map[string]string{
		"status":         "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/event-stream\r\n\r\n",
		"content type":   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
		"chunk size":     ok + "zz\r\n",
		"huge chunk":     ok + "fffffffffff\r\n",
		"no line end":    ok + "1\r\nxyz",
		"endless header": strings.Repeat("x", maxHeader+1),
		"endless line":   ok + "11170\r\n" + strings.Repeat("x", maxLine+1),
	} {
		var r reader
		if err := r.feed([]byte(answer), func([]byte) {}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]message{
		`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`:                          msgAck,
		`{"jsonrpc":"2.0","method": "notifications/tools/list_changed"}`:                                             msgChange,
		`{"method":"notifications/resources/updated","params":{"uri":"x"}}`:                                          msgChange,
		`{"jsonrpc":"2.0","id":"1","result":{"resultType":"complete"}}`:                                              msgEnd,
		`{"jsonrpc":"2.0","id":"1","error":{"code":-32603}}`:                                                         msgEnd,
		`{"method":"notifications/message","params":{"data":"say \"notifications/tools/list_changed\" five times"}}`: msgOther,
	} {
		if got := classify([]byte(data)); got != want {
			t.Errorf("%s: got %d, want %d", data, got, want)
		}
	}
}
