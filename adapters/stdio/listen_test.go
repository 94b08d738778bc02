// Subscriptions on one channel: order for each, ids, cancelling, and equal ids.

package mcpstdio_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	mcpstdio "github.com/mcplisten/mcplisten/adapters/stdio"
	"github.com/mcplisten/mcplisten/core"
)

// story is the model of one subscription: what may come about its id, and when.
type story struct {
	asked, acked, cancelled, silent bool
	updates                         map[string]int
}

// Two subscriptions with one filter on one connection, while 10,000 changes are
// published and 100 times one of them is cancelled and opened again, sometimes under
// the id that it had. Each line is checked against a model: the acknowledgment comes
// first and once, nothing but the filter's notifications follows, nothing comes once
// an answer shows that the cancellation was read, and the other subscription goes on.
func TestModelOfTwoSubscriptions(t *testing.T) {
	t.Parallel()
	const publishes, cancels = 10_000, 100
	uris := []string{"file:///a", "file:///b", "file:///c"}
	filter := uriFilter(uris...)
	var closed ends
	hub := newHub(t, core.Config{OnEnd: closed.add})
	c := serve(t, newServer(t, hub))

	stories := make(map[string]*story)
	check := func(events []event) {
		for _, e := range events {
			if strings.HasPrefix(e.id, `"ask`) {
				if e.what != "reply" {
					t.Errorf("a request was answered with %q", e)
				}
				continue
			}
			s := stories[e.id]
			switch {
			case s == nil || !s.asked:
				t.Fatalf("%q is about no subscription", e)
			case s.silent:
				t.Fatalf("%q came after the cancellation was read", e)
			case e.what == "ack "+filter:
				if s.acked {
					t.Fatalf("a second acknowledgment: %q", e)
				}
				s.acked = true
			case !s.acked:
				t.Fatalf("%q came before the acknowledgment", e)
			case strings.HasPrefix(e.what, "updated "):
				uri := strings.TrimPrefix(e.what, "updated ")
				if !slices.Contains(uris, uri) {
					t.Fatalf("%q was not asked for", e)
				}
				s.updates[uri]++
			default:
				t.Fatalf("%q: a cancelled subscription, or one that nobody ends, has no end message", e)
			}
		}
	}
	open := func(id string) {
		stories[id] = &story{asked: true, updates: make(map[string]int)}
		c.listen(id, filter)
		c.await("the acknowledgment of "+id, func(events []event) bool {
			check(events)
			c.events = nil
			return stories[id].acked
		})
	}
	open("1")
	open(`"1"`)

	var published atomic.Int64
	var publisher sync.WaitGroup
	turn := make(chan struct{}, 1)
	publisher.Go(func() {
		for i := range publishes {
			publish(t, hub, core.ResourceUpdated(uris[i%len(uris)]))
			if published.Add(1)%(publishes/cancels) == 0 {
				turn <- struct{}{}
			}
		}
	})
	ids := []string{"1", `"1"`}
	for i := range cancels {
		<-turn
		k := rand.IntN(2)
		id, other := ids[k], ids[1-k]
		c.cancel(id)
		stories[id].cancelled = true
		c.ask(`"ask` + strconv.Itoa(i) + `"`)
		// Up to here a notification could be on its way. From here on none may come.
		c.mu.Lock()
		upTo := slices.IndexFunc(c.events, func(e event) bool { return e.id == `"ask`+strconv.Itoa(i)+`"` })
		check(c.events[:upTo+1])
		stories[id].silent = true
		check(c.events[upTo+1:])
		c.events = nil
		c.mu.Unlock()
		before := stories[other].updates[uris[0]]
		publish(t, hub, core.ResourceUpdated(uris[0]))
		c.await("an update of "+other, func(events []event) bool {
			check(events)
			c.events = nil
			return stories[other].updates[uris[0]] > before
		})
		if i%3 == 0 {
			ids[k] = strconv.Itoa(i + 10)
		}
		open(ids[k])
	}
	publisher.Wait()
	c.ask(`"ask last"`)
	for _, id := range ids {
		before := stories[id].updates[uris[2]]
		publish(t, hub, core.ResourceUpdated(uris[2]))
		c.await("the last update of "+id, func(events []event) bool {
			check(events)
			c.events = nil
			return stories[id].updates[uris[2]] > before
		})
	}
	if err := c.close(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
	closed.want(t, cancels+2, core.ClientClosed, false)
}

// 200 subscriptions opened at once while others publish: of each id the
// acknowledgment comes first, and what is published after it arrives.
func TestAckIsFirstUnderLoad(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	c := serve(t, newServer(t, hub))
	var stop atomic.Bool
	var publishers sync.WaitGroup
	for range 2 {
		publishers.Go(func() {
			for !stop.Load() {
				publish(t, hub, core.ToolsListChanged())
			}
		})
	}
	const n = 200
	for i := range n {
		c.listen(strconv.Itoa(i), tools)
	}
	acked := make(map[string]int)
	c.await("all acknowledgments", func(events []event) bool {
		for _, e := range events {
			if acked[e.id] == 0 && e.what != ackTools {
				t.Fatalf("%q came first", e)
			}
			acked[e.id]++
		}
		c.events = nil
		return len(acked) == n
	})
	stop.Store(true)
	publishers.Wait()
	publish(t, hub, core.ToolsListChanged())
	told := make(map[string]bool)
	c.await("an update for all", func(events []event) bool {
		for _, e := range events {
			told[e.id] = true
		}
		c.events = nil
		return len(told) == n
	})
}

// Ids come back byte for byte, and are equal by type and value, not by spelling.
func TestIDs(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	c := serve(t, newServer(t, hub))
	ids := []string{
		"0", "1", `"1"`, `""`, "-1", "9007199254740993", "18446744073709551617", `"a b"`, `"caf\u00e9"`, `"<&>"`, `"\u2028"`, `"null"`,
	}
	for _, id := range ids {
		c.listen(id, tools)
		c.awaitID(id)
	}
	publish(t, hub, core.ToolsListChanged())
	for _, id := range ids {
		c.awaitEvent(event{id, "tools"})
	}
	// Another spelling of an open id is that id.
	c.listen(`"café"`, tools)
	c.awaitEvent(event{`"café"`, "error -32600"})
	// 1 is cancelled and "1" is not.
	c.cancel("1")
	c.cancel(`"caf\u00E9"`)
	c.ask(`"after"`)
	c.take()
	publish(t, hub, core.ToolsListChanged())
	for _, id := range ids {
		if id != "1" && id != `"caf\u00e9"` {
			c.awaitEvent(event{id, "tools"})
		}
	}
	c.ask(`"last"`)
	c.wantAbout("1")
	c.wantAbout(`"caf\u00e9"`)
}

func TestEqualIDIsRefused(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	c := serve(t, newServer(t, hub, mcpstdio.WithNext(func(context.Context, []byte) []byte {
		t.Error("a request with the id of an open subscription was passed on")
		return nil
	})))
	c.listen("1", tools)
	c.awaitEvent(event{"1", ackTools})
	c.listen("1", `{"promptsListChanged":true}`)
	c.await("the refusal", func(events []event) bool { return len(events) == 2 })
	c.request("1", "tools/list", "{}")
	c.await("the refusal", func(events []event) bool { return len(events) == 3 })
	publish(t, hub, core.ToolsListChanged(), core.PromptsListChanged())
	c.await("the notification", func(events []event) bool { return len(events) == 4 })
	if err := hub.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	c.awaitEvent(event{"1", "result"})
	c.wantAbout("1", ackTools, "error -32600", "error -32600", "tools", "result")
}

// The id is free as soon as the client can know of the end: after a result, after
// a refusal, and after its own cancellation.
func TestIDIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	hub := newHub(t, core.Config{Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
		if refuse.Load() {
			return core.Grant{}, errors.New("no")
		}
		return core.Grant{}, nil
	})})
	c := serve(t, newServer(t, hub))
	all := func(core.StreamInfo) bool { return true }
	var want []string
	for range 200 {
		c.listen("1", tools)
		want = append(want, ackTools)
		c.await("the acknowledgment", func(events []event) bool { return len(events) == len(want) })
		hub.EndWhere(all)
		want = append(want, "result")
		c.await("the result", func(events []event) bool { return len(events) == len(want) })
		refuse.Store(true)
		c.listen("1", tools)
		want = append(want, "error -32600")
		c.await("the refusal", func(events []event) bool { return len(events) == len(want) })
		refuse.Store(false)
		c.listen("1", tools)
		want = append(want, ackTools)
		c.await("the acknowledgment", func(events []event) bool { return len(events) == len(want) })
		c.cancel("1")
	}
	c.wantAbout("1", want...)
}

// Cancellations that name nothing of ours end nothing, and are passed on if there is
// somebody to pass them to.
func TestOtherCancellations(t *testing.T) {
	t.Parallel()
	others := []string{
		cancelText(`2`), cancelText(`"1"`), cancelText(`null`), cancelText(`1.0`), cancelText(`{"requestId":1}`), cancelText(`[1]`),
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}`,
		`{"jsonrpc":"2.0","method":"notifications/canceled","params":{"requestId":1}}`,
		requestText(`"call"`, core.MethodCancelled, `{"requestId":1}`),
	}
	for _, inFront := range []bool{false, true} {
		t.Run(fmt.Sprintf("in front %v", inFront), func(t *testing.T) {
			t.Parallel()
			hub := newHub(t, core.Config{})
			passed := make(chan string, 100)
			var options []mcpstdio.Option
			if inFront {
				options = append(options, mcpstdio.WithNext(func(_ context.Context, msg []byte) []byte {
					passed <- string(msg)
					return nil
				}))
			}
			c := serve(t, newServer(t, hub, options...))
			c.listen("1", tools)
			c.awaitEvent(event{"1", ackTools})
			for _, line := range others {
				c.send(line)
			}
			c.listen("3", tools)
			c.awaitEvent(event{"3", ackTools})
			publish(t, hub, core.ToolsListChanged())
			c.awaitEvent(event{"1", "tools"})
			c.cancel("1")
			c.cancel("1") // late
			c.listen("4", tools)
			c.awaitEvent(event{"4", ackTools})
			c.wantAbout("1", ackTools, "tools")
			c.wantAbout("") // no answers
			if !inFront {
				return
			}
			got := make([]string, 0, len(others)+1)
			for range len(others) + 1 {
				got = append(got, <-passed)
			}
			want := append(slices.Clone(others), cancelText("1"))
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("passed on were\n%q\nwant\n%q", got, want)
			}
			if err := c.close(); err != nil || len(passed) != 0 {
				t.Errorf("Serve returned %v; passed on besides: %d", err, len(passed))
			}
		})
	}
}

// A subscription that is cancelled while a batch of it waits behind a blocked write
// writes none of it.
func TestCancelWhileWaitingToWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{})
		c := serve(t, newServer(t, hub))
		c.listen("1", tools)
		c.listen("2", tools)
		c.awaitEvent(event{"1", ackTools})
		c.awaitEvent(event{"2", ackTools})
		c.stall()
		publish(t, hub, core.ToolsListChanged()) // one is read, one blocks
		synctest.Wait()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		c.take()
		c.cancel("1")
		c.cancel("2")
		c.listen("3", tools)
		synctest.Wait()
		c.resume()
		c.awaitEvent(event{"3", ackTools})
		c.ask("4")
		// The write that was under way could not be taken back.
		if n := len(c.about("1")) + len(c.about("2")); n != 1 {
			t.Errorf("after the cancellations came %d notifications (%q, %q), want the one that was being written",
				n, c.about("1"), c.about("2"))
		}
	})
}

// While an authorizer takes its time, the client is listened to: what comes for
// other ids is served, and a cancellation ends what is still opening.
func TestOpeningHoldsUpNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		var watched, unwatched []string
		hub := newHub(t, core.Config{
			Authorizer: core.AuthorizerFunc(func(ctx context.Context, _ string, f core.Filter) (core.Grant, error) {
				if f.PromptsListChanged {
					select {
					case <-gate:
					case <-ctx.Done():
					}
				}
				return core.Grant{}, ctx.Err()
			}),
			Watcher: watcher{
				start: func(uri string) { watched = append(watched, uri) },
				stop:  func(uri string) { unwatched = append(unwatched, uri) },
			},
		})
		c := serve(t, newServer(t, hub))
		slow := `{"promptsListChanged":true,"resourceSubscriptions":["file:///a"]}`
		c.listen("1", slow)
		c.listen("2", slow)
		c.listen("3", tools)
		c.awaitEvent(event{"3", ackTools})
		c.listen("1", tools) // still taken
		c.awaitEvent(event{"1", "error -32600"})
		c.cancel("1")
		c.listen("1", tools) // and now free
		c.awaitEvent(event{"1", ackTools})
		close(gate)
		c.awaitID("2")
		publish(t, hub, core.PromptsListChanged(), core.ToolsListChanged())
		c.awaitEvent(event{"2", "prompts"})
		c.awaitEvent(event{"1", "tools"})
		synctest.Wait()
		c.wantAbout("1", "error -32600", ackTools, "tools")
		if st := hub.Stats(); st.Refused[core.RefusedCanceled] != 1 {
			t.Errorf("refusals: %v, want one that was cancelled", st.Refused)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
		if !slices.Equal(watched, []string{"file:///a"}) || !slices.Equal(unwatched, watched) {
			t.Errorf("watched %q, unwatched %q", watched, unwatched)
		}
	})
}

type watcher struct{ start, stop func(uri string) }

func (w watcher) Start(_ context.Context, uri string) error { w.start(uri); return nil }
func (w watcher) Stop(uri string)                           { w.stop(uri) }

// checkedWriter checks how it is written to: by one at a time, whole lines only.
type checkedWriter struct {
	io.WriteCloser
	tb   testing.TB
	busy atomic.Bool
}

func (w *checkedWriter) Write(b []byte) (int, error) {
	if !w.busy.CompareAndSwap(false, true) {
		w.tb.Error("two writes at a time")
	}
	defer w.busy.Store(false)
	if n := strings.Count(string(b), "\n"); n > 1 && len(b) > 20_000 {
		w.tb.Errorf("%d lines of %d bytes in one write", n, len(b))
	}
	if !strings.HasSuffix(string(b), "\n") {
		w.tb.Errorf("a write that ends within a line: %.100q", b)
	}
	return w.WriteCloser.Write(b)
}

// Large batches of several subscriptions, replies and refusals share the output:
// every line is whole.
func TestLinesAreWhole(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{})
	s := newServer(t, hub, mcpstdio.WithNext(func(_ context.Context, msg []byte) []byte {
		id := strings.TrimPrefix(strings.Split(string(msg), ",")[1], `"id":`)
		return []byte("{\"jsonrpc\":\"2.0\",\n\"id\":" + id + ",\"result\":{\"text\":\"" + strings.Repeat("x", 50_000) + "\"}}\r\n")
	}))
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	c := serveOn(t, s, serverIn, &checkedWriter{WriteCloser: serverOut, tb: t}, clientIn, clientOut)
	uris := make([]string, 200)
	changes := make([]core.Change, len(uris))
	for i := range uris {
		uris[i] = "file:///" + strings.Repeat("y", 200) + strconv.Itoa(i)
		changes[i] = core.ResourceUpdated(uris[i])
	}
	for i := range 3 {
		c.listen(strconv.Itoa(i), uriFilter(uris...))
		c.awaitID(strconv.Itoa(i))
	}
	for i := range 20 {
		publish(t, hub, changes...)
		c.request(`"r`+strconv.Itoa(i)+`"`, "tools/list", "{}")
		c.send("not JSON")
	}
	for i := range 20 {
		c.awaitEvent(event{`"r` + strconv.Itoa(i) + `"`, "reply"})
	}
	c.await("the refusals", func(events []event) bool {
		n := 0
		for _, e := range events {
			if e == (event{"", "error -32700"}) {
				n++
			}
		}
		return n == 20
	})
	for i := range 3 {
		for _, uri := range uris {
			c.awaitEvent(event{strconv.Itoa(i), "updated " + uri})
		}
	}
}
