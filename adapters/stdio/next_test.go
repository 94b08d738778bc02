// The next function: calls side by side, cancelled, limited, failing, and late.

package mcpstdio_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	mcpstdio "github.com/mcplisten/mcplisten/adapters/stdio"
	"github.com/mcplisten/mcplisten/core"
)

// reply is a result with the id of the message, which must be written as
// requestText does.
func reply(msg []byte, result string) []byte {
	_, rest, _ := strings.Cut(string(msg), `"id":`)
	id, _, _ := strings.Cut(rest, `,"method"`)
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`)
}

// A call holds up neither other calls nor subscriptions.
func TestNextRunsSideBySide(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	hub := newHub(t, core.Config{})
	c := serve(t, newServer(t, hub, mcpstdio.WithNext(func(_ context.Context, msg []byte) []byte {
		if strings.Contains(string(msg), "slow") {
			<-gate
		}
		return reply(msg, "{}")
	})))
	c.request("1", "slow", "{}")
	c.request("2", "fast", "{}")
	c.awaitEvent(event{"2", "reply"})
	c.listen("3", tools)
	c.awaitEvent(event{"3", ackTools})
	publish(t, hub, core.ToolsListChanged())
	c.awaitEvent(event{"3", "tools"})
	close(gate)
	c.awaitEvent(event{"1", "reply"})
}

// A cancelled call's context ends, also where the call has not begun, and its reply
// is not sent. The cancellation itself is passed on as well.
func TestNextIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var cancels, waiting atomic.Int32
		c := serve(t, newServer(t, newHub(t, core.Config{}), mcpstdio.WithNext(func(ctx context.Context, msg []byte) []byte {
			switch {
			case strings.Contains(string(msg), "notifications/cancelled"):
				cancels.Add(1)
				return nil
			case strings.Contains(string(msg), "wait"):
				waiting.Add(1)
				<-ctx.Done()
				waiting.Add(-1)
			}
			return reply(msg, "{}")
		})))
		c.request("1", "wait", "{}")
		c.request(`"1"`, "wait", "{}")
		c.cancel("1")
		c.ask("2")
		synctest.Wait()
		c.wantAbout("1")
		c.wantAbout(`"1"`)
		if n := waiting.Load(); n != 1 {
			t.Errorf("%d calls are waiting, want the one that was not cancelled", n)
		}
		if n := cancels.Load(); n != 1 {
			t.Errorf("%d cancellations were passed on, want 1", n)
		}
		// The end of input leaves the other its grace.
		start := time.Now()
		if err := c.close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != mcpstdio.DefaultGrace {
			t.Errorf("the end took %v", took)
		}
		c.wantAbout(`"1"`)
	})
}

// An answer that comes within the grace is sent.
func TestNextAnswersAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer(t, newHub(t, core.Config{}), mcpstdio.WithGrace(time.Minute), mcpstdio.WithNext(
			func(_ context.Context, msg []byte) []byte {
				<-time.After(30 * time.Second)
				return reply(msg, "{}")
			}))
		var out strings.Builder
		start := time.Now()
		if err := s.Serve(t.Context(), strings.NewReader(requestText("1", "x", "{}")), &out); err != nil {
			t.Error(err)
		}
		if want := `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestNextLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		var calls atomic.Int32
		c := serve(t, newServer(t, newHub(t, core.Config{}), mcpstdio.WithMaxCalls(3), mcpstdio.WithNext(
			func(_ context.Context, msg []byte) []byte {
				calls.Add(1)
				<-gate
				return reply(msg, "{}")
			})))
		for i := range 5 {
			c.request(strconv.Itoa(i), "x", "{}")
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/x"}`)
		c.awaitEvent(event{"3", "error -32603"})
		c.awaitEvent(event{"4", "error -32603"})
		c.listen("5", tools)
		c.awaitEvent(event{"5", ackTools})
		close(gate)
		for i := range 3 {
			c.awaitEvent(event{strconv.Itoa(i), "reply"})
		}
		synctest.Wait()
		if n := calls.Load(); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
		c.request("6", "x", "{}")
		c.awaitEvent(event{"6", "reply"})
	})
}

// Whatever the function returns, only messages get to the client, and every request
// gets an answer.
func TestNextReplies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply string // "" for none, "!" for a panic, "x" for Goexit
		want  string
	}{
		"as it is":    {`{"jsonrpc":"2.0", "id":1,"result":{"a":"<&>"}}`, `{"jsonrpc":"2.0", "id":1,"result":{"a":"<&>"}}`},
		"lines":       {"{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\"result\":{\n}}\n", `{"jsonrpc":"2.0","id":1,"result":{}}`},
		"none":        {"", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		"panic":       {"!", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		"exit":        {"x", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		"broken":      {`{"jsonrpc":`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		"broken line": {"{\n", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		"no message":  {`"text"`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, newServer(t, newHub(t, core.Config{}), mcpstdio.WithNext(func(context.Context, []byte) []byte {
				switch test.reply {
				case "":
					return nil
				case "!":
					panic("test")
				case "x":
					runtime.Goexit()
				}
				return []byte(test.reply)
			})))
			c.request("1", "x", "{}")
			c.awaitID("1")
			if got := c.line("1"); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// What the server behind advertises is made to agree with what the hub delivers.
func TestDiscoverAgrees(t *testing.T) {
	t.Parallel()
	answer := func(capabilities string) string {
		return `{"supportedVersions":["2026-07-28"],"capabilities":` + capabilities + `,"x":1.0}`
	}
	all := core.Capabilities{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true}
	for name, test := range map[string]struct {
		hub          core.Capabilities
		behind, want string // empty: as it is
	}{
		"agrees":   {all, `{"tools":{"listChanged":true}, "resources":{"subscribe":true,"listChanged":true}}`, ""},
		"claims":   {core.Capabilities{ToolsListChanged: true}, `{"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true,"y":"<"},"tools":{"listChanged":true}}`, `{"prompts":{},"resources":{"y":"<"},"tools":{"listChanged":true}}`},
		"is still": {all, `{"logging":{},"prompts":{"listChanged":false},"resources":{},"tools":{}}`, `{"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`},
		"lacks":    {all, `{"logging":{}}`, ""},
		"strange":  {all, `{"tools":null,"prompts":[1],"resources":7}`, ""},
		"none":     {all, `7`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := newHub(t, core.Config{Capabilities: test.hub})
			c := serve(t, newServer(t, hub, mcpstdio.WithNext(func(_ context.Context, msg []byte) []byte {
				return reply(msg, answer(test.behind))
			})))
			c.ask(`"\u0031"`)
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, `"\u0031"`, answer(test.behind))
			if test.want != "" {
				want = fmt.Sprintf(`{"id":%s,"jsonrpc":"2.0","result":{"capabilities":%s,"supportedVersions":["2026-07-28"],"x":1.0}}`,
					`"\u0031"`, test.want)
			}
			if got := c.line(`"\u0031"`); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			// Other answers stay as they are, whatever they look like.
			c.request("2", "tools/call", "{}")
			c.awaitID("2")
			if got, want := c.line("2"), `{"jsonrpc":"2.0","id":2,"result":`+answer(test.behind)+`}`; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A hub that does not serve makes no promises.
func TestDiscoverFollowsTheMode(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	c := serve(t, newServer(t, hub, mcpstdio.WithNext(func(_ context.Context, msg []byte) []byte {
		return reply(msg, `{"capabilities":{"tools":{"listChanged":true}}}`)
	})))
	hub.SetMode(core.ModeNotFound)
	c.ask("1")
	if got, want := c.line("1"), `{"id":1,"jsonrpc":"2.0","result":{"capabilities":{"tools":{}}}}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	c.listen("2", tools)
	c.awaitEvent(event{"2", "error -32601"})
}

// What is nil is not there: no crash at the first thing to say.
func TestNilOptions(t *testing.T) {
	t.Parallel()
	c := serve(t, newServer(t, newHub(t, core.Config{}), nil, mcpstdio.WithLogger(nil), mcpstdio.WithPrincipal(nil),
		mcpstdio.WithUpstream(nil), mcpstdio.WithNext(func(context.Context, []byte) []byte { panic("test") })))
	c.request("1", "x", "{}")
	c.awaitEvent(event{"1", "error -32603"})
}

// While a call is running, its id is no subscription's: the answer would pass for the
// result. Once it is answered or cancelled the id is free.
func TestListenWithTheIDOfACall(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]func(mcpstdio.Next) mcpstdio.Option{"next": mcpstdio.WithNext, "upstream": asUpstream} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			s := newServer(t, newHub(t, core.Config{}), with(func(ctx context.Context, msg []byte) []byte {
				switch {
				case !strings.Contains(string(msg), `"id"`):
					return nil
				case strings.Contains(string(msg), "slow"):
					<-gate
				case strings.Contains(string(msg), "endless"):
					<-ctx.Done()
				}
				return reply(msg, "{}")
			}))
			c := serve(t, s)
			c.request(`"\u0061"`, "slow", "{}")
			c.listen(`"a"`, tools)
			c.awaitEvent(event{`"a"`, "error -32600"})
			close(gate)
			c.awaitEvent(event{`"\u0061"`, "reply"})
			c.listen(`"a"`, tools)
			c.awaitEvent(event{`"a"`, ackTools})
			c.request("2", "endless", "{}")
			c.listen("2", tools)
			c.awaitEvent(event{"2", "error -32600"})
			c.cancel("2")
			c.listen("2", tools)
			c.awaitEvent(event{"2", ackTools})
		})
	}
}

// asUpstream makes an upstream of a next function.
func asUpstream(next mcpstdio.Next) mcpstdio.Option {
	return mcpstdio.WithUpstream(mcpstdio.InProcess(func(ctx context.Context, conn io.ReadWriteCloser) error {
		var calls sync.WaitGroup
		defer calls.Wait()
		lines := bufio.NewScanner(conn)
		lines.Buffer(nil, 32<<20)
		for lines.Scan() {
			msg := bytes.Clone(lines.Bytes())
			calls.Go(func() {
				if r := next(ctx, msg); r != nil {
					_, _ = conn.Write(append(r, '\n'))
				}
			})
		}
		return lines.Err()
	}))
}

// Nothing from behind passes for a subscription's: no response with its id, and no
// notification of a change, which is the hub's to tell. Only a client of an older
// revision, which has initialized, gets such as they come.
func TestBehindPassesForNoSubscription(t *testing.T) {
	t.Parallel()
	const (
		toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		bare         = `{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{}}`
		updated      = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b","_meta":{"x":1}}}`
		named        = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"` + core.MetaSubscriptionID + `":1}}}`
		ack          = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`
		other        = `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`
		result       = `{"jsonrpc":"2.0","id":1,"result":{}}`
		whole        = `{"jsonrpc":"2.0","id":1.0,"result":{}}`
		failure      = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":""}}`
		text         = `{"jsonrpc":"2.0","id":"1","result":{}}`
	)
	for name, with := range map[string]func(mcpstdio.Next) mcpstdio.Option{"next": mcpstdio.WithNext, "upstream": asUpstream} {
		for _, test := range []struct{ says, modern, older string }{ // "" for nothing
			{toolsChanged, "", toolsChanged},
			{bare, "", bare},
			{updated, "", updated},
			{named, "", ""},
			{ack, "", ""},
			{other, other, other},
			{result, "", ""},
			{whole, "", ""},
			{failure, "", ""},
			{text, text, text},
			{"[" + bare + "," + result + "," + text + "]", "[" + text + "]", "[" + bare + "," + text + "]"},
			{"[" + named + "]", "", ""},
		} {
			t.Run(name+" "+test.says, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					for _, older := range []bool{false, true} {
						var logged syncBuffer
						c := serve(t, newServer(t, newHub(t, core.Config{}), with(func(_ context.Context, msg []byte) []byte {
							if strings.Contains(string(msg), "notifications/say") {
								return []byte(test.says)
							}
							return reply(msg, "{}")
						}), mcpstdio.WithLogger(slog.New(slog.NewTextHandler(&logged, nil)))))
						want := test.modern
						if older {
							want = test.older
							c.request("0", core.MethodInitialize, "{}")
							c.awaitEvent(event{"0", "reply"})
						}
						c.listen("1", tools)
						c.awaitEvent(event{"1", ackTools})
						c.take()
						for range 2 {
							c.send(`{"jsonrpc":"2.0","method":"notifications/say"}`)
						}
						synctest.Wait()
						wantLines := []string{want, want}
						if want == "" {
							wantLines = nil
						}
						c.mu.Lock()
						got := slices.Clone(c.lines)
						c.mu.Unlock()
						if !slices.Equal(got, wantLines) {
							t.Errorf("older: %v: got %q, want %q", older, got, wantLines)
						}
						wantLogs := 0
						if strings.Contains(test.says, `"id":1`) {
							wantLogs = 1
						}
						if n := strings.Count(logged.String(), "open subscription"); n != wantLogs {
							t.Errorf("%d lines in the log, want %d", n, wantLogs)
						}
					}
				})
			})
		}
	}
}
