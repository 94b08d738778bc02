// A pair of streams and a child process: several subscriptions on one channel,
// told apart by their ids.

package client_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
)

// peer is a server at the other end of a pair, made by hand.
type peer struct {
	tb testing.TB
	r  *bufio.Scanner
	w  io.WriteCloser
}

// newPair returns a pair and its peer.
func newPair(tb testing.TB, options ...client.PairOption) (*client.Pair, *peer) {
	tb.Helper()
	here, there := net.Pipe()
	p := client.NewPair(here, options...)
	tb.Cleanup(func() {
		_ = p.Close()
		_ = there.Close()
	})
	_ = there.SetDeadline(time.Now().Add(hang))
	return p, &peer{tb, bufio.NewScanner(there), there}
}

// next returns the method of the next message, and the id in it: of the request,
// or of the one that is cancelled.
func (p *peer) next() (method, id string) {
	p.tb.Helper()
	if !p.r.Scan() {
		p.tb.Fatalf("the client sends nothing: %v", p.r.Err())
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			ID json.RawMessage `json:"requestId"`
		} `json:"params"`
	}
	if err := json.Unmarshal(p.r.Bytes(), &m); err != nil {
		p.tb.Fatalf("the client sends %q", p.r.Text())
	}
	return m.Method, string(m.ID) + string(m.Params.ID)
}

func (p *peer) say(id string, messages ...string) {
	p.tb.Helper()
	for _, m := range messages {
		if _, err := io.WriteString(p.w, strings.ReplaceAll(m, idPlace, id)+"\n"); err != nil {
			p.tb.Errorf("say: %v", err)
		}
	}
}

// open opens a subscription on the pair.
func (p *peer) open(pair *client.Pair) (*client.Stream, string) {
	p.tb.Helper()
	type result struct {
		s   *client.Stream
		err error
	}
	opened := make(chan result, 1)
	ctx := testContext(p.tb)
	go func() {
		s, err := client.Listen(ctx, pair, toolsFilter)
		opened <- result{s, err}
	}()
	method, id := p.next()
	if method != core.MethodListen {
		p.tb.Fatalf("the client sends %s", method)
	}
	p.say(id, toolsAck)
	r := <-opened
	if r.err != nil {
		p.tb.Fatalf("Listen: %v", r.err)
	}
	return r.s, id
}

func TestPair(t *testing.T) {
	t.Parallel()
	others := make(chan string, 10)
	pair, server := newPair(t, client.PairOther(func(m []byte) { others <- string(m) }))
	a, idA := server.open(pair)
	b, idB := server.open(pair)
	if idA == idB || a.ID() == b.ID() {
		t.Fatalf("both have the id %s", idA)
	}
	server.say(idA, toolsNote)
	for n := range a.Notifications() {
		if n.Kind != client.Tools {
			t.Errorf("a got %v", n)
		}
		break
	}
	// b ends with its result; what comes later under its id is not its own.
	server.say(idB, goodbye, toolsNote)
	server.say("7", toolsNote, `{"jsonrpc":"2.0","id":ID,"result":{}}`, `{"method":"no JSON-RPC"}`)
	if got := collect(b); len(got) > 0 || b.End().Cause != client.Graceful {
		t.Errorf("b got %v, %v", got, b.End())
	}
	for range 4 {
		<-others
	}
	// a is closed here, which the server is told.
	go a.Close()
	if method, id := server.next(); method != core.MethodCancelled || id != idA {
		t.Errorf("got %s of %s, want %s to be cancelled", method, id, idA)
	}
	if end := a.End(); end.Cause != client.Local {
		t.Errorf("a ended as %v", end)
	}
	server.say(idA, toolsNote) // late
	<-others
	// The pair is there for other traffic too.
	if err := pair.Send(t.Context(), []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/list"}`)); err != nil {
		t.Errorf("Send: %v", err)
	}
	if method, id := server.next(); method != "tools/list" || id != `"x"` {
		t.Errorf("got %s of %s", method, id)
	}
	if err := pair.Send(t.Context(), []byte("{\n}")); err == nil {
		t.Error("Send took a line break")
	}
}

func TestPairEnds(t *testing.T) {
	t.Parallel()
	isRule := func(rule client.Rule) func(client.End) bool {
		return func(e client.End) bool {
			var v *client.ViolationError
			return errors.As(e.Err, &v) && v.Rule == rule
		}
	}
	is := func(err error) func(client.End) bool {
		return func(e client.End) bool { return errors.Is(e.Err, err) }
	}
	tests := []struct {
		name string
		do   func(pair *client.Pair, server *peer, id string)
		want client.Cause
		is   func(client.End) bool
	}{
		{"server goes", func(_ *client.Pair, s *peer, _ string) { _ = s.w.Close() }, client.Dropped, is(io.ErrUnexpectedEOF)},
		{"pair is closed", func(p *client.Pair, s *peer, _ string) {
			s.say("", "") // is taken once the line before it has been read
			_ = p.Close()
		}, client.Dropped, is(client.ErrClosed)},
		{"not JSON", func(_ *client.Pair, s *peer, _ string) { s.say("", "Listening on stdio") }, client.Violation, isRule(client.NotJSON)},
		{"long line", func(_ *client.Pair, s *peer, _ string) {
			_, _ = io.WriteString(s.w, strings.Repeat("x", 5000))
		}, client.Violation, isRule(client.TooLarge)},
		{"error", func(_ *client.Pair, s *peer, id string) {
			s.say(id, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"x"}}`)
		}, client.Refused, func(e client.End) bool {
			var r *client.RefusedError
			return errors.As(e.Err, &r) && r.Code == -32603 && r.Status == 0 && r.Acknowledged
		}},
		{"second ack", func(_ *client.Pair, s *peer, id string) { s.say(id, toolsAck); s.next() }, client.Violation, isRule(client.SecondAck)},
		{"change that names no subscription", func(_ *client.Pair, s *peer, _ string) {
			s.say("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			s.next()
		}, client.Violation, isRule(client.WrongID)},
		{"cancelled by the server", func(_ *client.Pair, s *peer, id string) {
			s.say(id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}`)
		}, client.Graceful, func(e client.End) bool { return e.Err == nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pair, server := newPair(t, client.PairMaxMessage(1000))
			s, id := server.open(pair)
			server.say(id, "", toolsNote) // empty lines are skipped
			tt.do(pair, server, id)
			end := s.End()
			if end.Cause != tt.want || !tt.is(end) {
				t.Errorf("got %v, want %s", end, tt.want)
			}
			if got := collect(s); !slices.Equal(got, []client.Notification{{Kind: client.Tools}}) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Where the server does not even read, Listen still ends in time.
func TestPairThatDoesNotRead(t *testing.T) {
	t.Parallel()
	pair, _ := newPair(t)
	for range 2 {
		_, err := client.Listen(testContext(t), pair, toolsFilter, client.WithAckTimeout(20*time.Millisecond))
		if !errors.Is(err, client.ErrNoAck) {
			t.Errorf("got %v", err)
		}
	}
}

func TestFollowPair(t *testing.T) {
	t.Parallel()
	pair, server := newPair(t)
	f, err := client.Follow(testContext(t), pair, toolsFilter, client.WithBackoff(client.Backoff{First: time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	_, first := server.next()
	server.say(first, toolsAck, goodbye)
	_, second := server.next()
	server.say(first, toolsNote) // late: of the old id
	server.say(second, toolsAck, toolsNote)
	var got []client.Kind
	for n := range f.Notifications() {
		if got = append(got, n.Kind); n.Kind == client.Tools {
			_ = server.w.Close() // a pair that has ended does not come back
		}
	}
	// Started may still have been pending at the second acknowledgment.
	if got[0] != client.Started || len(got) > 3 {
		t.Errorf("got %v", got)
	}
	if end := f.End(); end.Cause != client.Dropped {
		t.Errorf("got %v", end)
	}
}

// serverMode makes the test binary a server on its standard streams.
const serverMode = "MCPLISTEN_TEST_SERVER"

func command(mode string) client.Command {
	return func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serverMode+"="+mode)
		return cmd
	}
}

// stdioServer is the child: what it does is its mode.
func stdioServer(mode string) int {
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(in.Bytes(), &m)
	say := func(text string) {
		fmt.Println(strings.ReplaceAll(text, idPlace, string(m.ID)))
	}
	say(toolsAck)
	say(toolsNote)
	switch mode {
	case "graceful":
		say(goodbye)
	case "crash":
		return 3
	case "quiet exit":
		return 0
	case "stubborn":
		select {}
	}
	for in.Scan() {
		if bytes.Contains(in.Bytes(), []byte(core.MethodCancelled)) {
			fmt.Fprintln(os.Stderr, "cancelled")
		}
	}
	return 0
}

func TestCommand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		mode string
		want client.Cause
		says string
	}{
		{"graceful", client.Graceful, ""},
		{"crash", client.Dropped, "exit status 3"},
		{"quiet exit", client.Dropped, "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			s, err := client.Listen(testContext(t), command(tt.mode), toolsFilter)
			if err != nil {
				t.Fatal(err)
			}
			if end := s.End(); end.Cause != tt.want || !strings.Contains(end.String(), tt.says) {
				t.Errorf("got %v, want %s with %q", end, tt.want, tt.says)
			}
			if got := collect(s); len(got) != 1 {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Close leaves no process behind, whether it listens to the end of its input or
// not.
func TestCommandCloses(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"open", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var cmd *exec.Cmd
			var stderr bytes.Buffer
			s, err := client.Listen(testContext(t), client.Command(func() *exec.Cmd {
				cmd = command(mode)()
				cmd.Stderr = &stderr
				return cmd
			}), toolsFilter)
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			if cmd.ProcessState == nil {
				t.Error("the process still runs")
			}
			if end := s.End(); end.Cause != client.Local {
				t.Errorf("got %v", end)
			}
			if mode == "open" && stderr.String() != "cancelled\n" {
				t.Errorf("the server was not told: %q", stderr.String())
			}
		})
	}
}

func TestCommandThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, cmd := range []client.Command{
		func() *exec.Cmd { return exec.Command("/does/not/exist") },
		func() *exec.Cmd { return &exec.Cmd{Path: os.Args[0], Stdin: strings.NewReader("")} },
	} {
		_, err := client.Listen(testContext(t), cmd, toolsFilter)
		if !errors.Is(err, client.ErrUnreachable) || client.CauseOf(err) != client.Dropped {
			t.Errorf("got %v", err)
		}
	}
}

// Follow starts a process for each stream.
func TestFollowCommand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	f, err := client.Follow(ctx, command("crash"), toolsFilter, client.WithBackoff(client.Backoff{First: time.Millisecond, Max: time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	relists := 0
	for n := range f.Notifications() {
		if n.Kind == client.Relist {
			if relists++; relists == 2 {
				cancel()
			}
		}
	}
	if end := f.End(); end.Cause != client.Local {
		t.Errorf("got %v", end)
	}
}
