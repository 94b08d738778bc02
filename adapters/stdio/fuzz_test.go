// Fuzzing: whatever the input, each line is refused, passed on, or the hub's, and
// the output is whole messages.

package mcpstdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	mcpstdio "github.com/mcplisten/mcplisten/adapters/stdio"
	"github.com/mcplisten/mcplisten/core"
)

func FuzzServe(f *testing.F) {
	listen := listenText("1", tools)
	for _, seed := range []string{
		"", "\n", "x", "{}\n", listen, listen + "\n" + listen + "\n", listen + "\n" + cancelText("1") + "\n" + listen + "\n",
		requestText("1", core.MethodDiscover, `{"_meta":`+validMeta+`}`) + "\r\n",
		`{"jsonrpc":"2.0","method":"x"}` + "\n[]\n{\"id\":1.5}\nnull",
		`{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}`, `[` + listen + `]`, strings.Repeat(" ", 500) + "\n{}",
		strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n\xff\n\"\"\n",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, input []byte, byBytes bool) {
		const limit = 400
		hub := newHub(t, core.Config{})
		var mu sync.Mutex
		var passed []string
		s := newServer(t, hub, mcpstdio.WithMaxLine(limit), mcpstdio.WithMaxCalls(1<<20), mcpstdio.WithNext(
			func(_ context.Context, msg []byte) []byte {
				mu.Lock()
				defer mu.Unlock()
				passed = append(passed, string(msg))
				return nil
			}))
		r := iotest.HalfReader(bytes.NewReader(input))
		if byBytes {
			r = iotest.OneByteReader(bytes.NewReader(input))
		}
		var out bytes.Buffer
		if err := s.Serve(t.Context(), r, &out); err != nil {
			t.Fatalf("Serve returned %v", err)
		}
		counts := make(map[string]int)
		for line := range strings.Lines(out.String()) {
			e := brief(t, line)
			counts[e.what]++
		}
		// The model: what each line is, by other means.
		var want, none []string
		long, broken := 0, 0
		for line := range bytes.SplitSeq(input, []byte("\n")) {
			switch {
			case len(line) > limit:
				long++
			case len(bytes.TrimSpace(line)) == 0:
			case !json.Valid(line) || !utf8.Valid(line):
				broken++
			case !bytes.Contains(line, []byte("\\")) && !bytes.Contains(line, []byte("subscriptions/listen")) &&
				!bytes.Contains(line, []byte("notifications/cancelled")) && isNotification(line):
				want = append(want, string(line)) // certainly not ours, and nothing stands twice in it
			case bytes.Count(line, []byte(`"`)) <= 2:
				none = append(none, string(line)) // certainly no message
			}
		}
		if got := counts["error -32700"]; got != broken {
			t.Errorf("%d lines were refused as no JSON, want %d", got, broken)
		}
		if got := int(hub.Stats().Refused[core.RefusedTooLarge]); got != long {
			t.Errorf("%d lines were refused as too long, want %d", got, long)
		}
		for _, line := range none {
			if slices.Contains(passed, line) {
				t.Errorf("passed on: %q", line)
			}
		}
		for _, line := range want {
			i := slices.Index(passed, line)
			if i < 0 {
				t.Errorf("not passed on: %q", line)
				continue
			}
			passed = slices.Delete(passed, i, i+1)
		}
	})
}

// isNotification reports whether a line is one without params, nothing twice in it.
func isNotification(line []byte) bool {
	var m map[string]any
	if json.Unmarshal(line, &m) != nil || len(m) != 2 || bytes.Count(line, []byte(`"`)) != 8 {
		return false
	}
	_, named := m["method"].(string)
	return named && m["jsonrpc"] == "2.0"
}
