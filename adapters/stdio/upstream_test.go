// The upstream: an MCP server that speaks lines, in this process or another.

package mcpstdio_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	mcpstdio "github.com/mcplisten/mcplisten/adapters/stdio"
	"github.com/mcplisten/mcplisten/core"
)

// echo is an MCP server for tests: it answers each request with a result, one after
// another, and has some methods of its own.
func echo(_ context.Context, conn io.ReadWriteCloser) error {
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 32<<20)
	for lines.Scan() {
		msg := lines.Bytes()
		out := string(reply(msg, "{}")) + "\n"
		switch {
		case !bytes.Contains(msg, []byte(`"id"`)):
			continue
		case bytes.Contains(msg, []byte("test/noise")):
			out = "starting up...\n\n\"text\"\n{broken\n" + out
		case bytes.Contains(msg, []byte("test/large")):
			out = string(reply(msg, `{"x":"`+strings.Repeat("x", 100_000)+`"}`)) + "\n"
		case bytes.Contains(msg, []byte("test/notify")):
			out = `{"jsonrpc":"2.0","method":"notifications/x"}` + "\n" + out
		case bytes.Contains(msg, []byte("test/fail")):
			return errFailed
		case bytes.Contains(msg, []byte(core.MethodDiscover)):
			out = `{"jsonrpc":"2.0","method":"ping","id":"discover"}` + "\n" +
				`{"jsonrpc":"2.0","id":"other","result":{"capabilities":{"tools":{}}}}` + "\n" +
				string(reply(msg, `{"capabilities":{"tools":{}}}`)) + "\n"
		}
		if _, err := io.WriteString(conn, out); err != nil {
			return err
		}
	}
	return lines.Err()
}

var errFailed = errors.New("failed")

func TestUpstream(t *testing.T) {
	t.Parallel()
	var logged syncBuffer
	hub := newHub(t, core.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}) // the server's as well
	c := serve(t, newServer(t, hub, mcpstdio.WithUpstream(mcpstdio.InProcess(echo))))
	c.listen("1", tools)
	c.awaitEvent(event{"1", ackTools})
	c.request(`"a"`, "test/notify", "{}")
	c.awaitEvent(event{`"a"`, "reply"})
	c.awaitEvent(event{"", "other notifications/x"})
	c.request(`"b"`, "test/noise", "{}")
	c.awaitEvent(event{`"b"`, "reply"})
	c.request(`"c"`, "test/noise", "{}")
	c.awaitEvent(event{`"c"`, "reply"})
	if n := strings.Count(logged.String(), "\n"); n != 1 {
		t.Errorf("the noise made %d lines in the log, want 1:\n%s", n, logged.String())
	}
	c.request(`"discover"`, core.MethodDiscover, `{"_meta":`+validMeta+`}`)
	c.awaitEvent(event{`"discover"`, "reply"})
	if got, want := c.line(`"discover"`), `{"id":"discover","jsonrpc":"2.0","result":{"capabilities":{"tools":{"listChanged":true}}}}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := c.line(`"other"`), `{"jsonrpc":"2.0","id":"other","result":{"capabilities":{"tools":{}}}}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	publish(t, hub, core.ToolsListChanged())
	c.awaitEvent(event{"1", "tools"})
	c.cancel("1")
	c.request("2", "x", "{}")
	c.awaitEvent(event{"2", "reply"})
	if err := c.close(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// What the client asked for before it closed its side is answered, in order.
func TestUpstreamAnswersAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newServer(t, newHub(t, core.Config{}), mcpstdio.WithUpstream(mcpstdio.InProcess(echo)))
	var in, want strings.Builder
	for i := range 500 {
		in.WriteString(requestText(strconv.Itoa(i), "x", "{}") + "\n")
		fmt.Fprintf(&want, `{"jsonrpc":"2.0","id":%d,"result":{}}`+"\n", i)
	}
	var out strings.Builder
	if err := s.Serve(t.Context(), strings.NewReader(in.String()), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != want.String() {
		t.Errorf("got %d bytes, want %d:\n%.500s", out.Len(), want.Len(), out.String())
	}
}

// Where the upstream ends, so does the connection, and says why.
func TestUpstreamEnds(t *testing.T) {
	t.Parallel()
	var closed ends
	hub := newHub(t, core.Config{OnEnd: closed.add})
	c := serve(t, newServer(t, hub, mcpstdio.WithUpstream(mcpstdio.InProcess(echo))))
	c.listen("1", tools)
	c.awaitEvent(event{"1", ackTools})
	c.request("2", "test/fail", "{}")
	wantError(t, c.wait(), mcpstdio.ErrUpstream, errFailed)
	closed.want(t, 1, core.ClientClosed, false)
	c.wantAbout("1", ackTools)
}

func TestUpstreamCannotBeConnected(t *testing.T) {
	t.Parallel()
	s := newServer(t, newHub(t, core.Config{}), mcpstdio.WithUpstream(func(context.Context) (io.ReadWriteCloser, error) {
		return nil, errFailed
	}))
	wantError(t, s.Serve(t.Context(), strings.NewReader("x\n"), io.Discard), errFailed)
}

func TestUpstreamLineTooLong(t *testing.T) {
	t.Parallel()
	c := serve(t, newServer(t, newHub(t, core.Config{}), mcpstdio.WithMaxLine(10_000),
		mcpstdio.WithUpstream(mcpstdio.InProcess(echo))))
	c.request("1", "test/large", "{}")
	if err := c.wait(); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("Serve returned %v", err)
	}
}

// An upstream that reads nothing holds up neither subscriptions nor the end. What
// waits for it is bounded, and what comes beyond is refused until it reads again.
func TestUpstreamReadsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const total = 200
		again := make(chan struct{})
		hub := newHub(t, core.Config{})
		c := serve(t, newServer(t, hub, mcpstdio.WithUpstream(mcpstdio.InProcess(
			func(ctx context.Context, conn io.ReadWriteCloser) error {
				select {
				case <-again:
					return echo(ctx, conn)
				case <-ctx.Done():
					return ctx.Err()
				}
			}))))
		for i := range 100 {
			c.request(strconv.Itoa(i), "x", "{}")
		}
		c.listen(`"l"`, tools)
		c.awaitEvent(event{`"l"`, ackTools})
		c.cancel(`"l"`)
		var sent atomic.Int32
		var sending sync.WaitGroup
		sending.Go(func() {
			line := requestText(`"big"`, "x", `{"x":"`+strings.Repeat("x", 100_000)+`"}`) + "\n"
			for ; sent.Load() < total; sent.Add(1) {
				if _, err := io.WriteString(c.out, line); err != nil {
					return
				}
			}
		})
		synctest.Wait()
		taken := int(sent.Load())
		if taken > 60 {
			t.Errorf("%d messages of 100 kB were taken for an upstream that reads nothing", taken)
		}
		start := time.Now()
		sending.Wait()
		c.send(`{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"` + strings.Repeat("x", 200_000) + `"}}`)
		c.listen(`"m"`, tools)
		c.awaitEvent(event{`"m"`, ackTools})
		c.cancel(`"m"`)
		if took := time.Since(start); took != time.Second {
			t.Errorf("the others took %v", took)
		}
		synctest.Wait()
		refused := c.about(`"big"`)
		if len(refused) < total-taken-1 || slices.Index(refused, "reply") >= 0 {
			t.Errorf("%d requests were refused, want %d", len(refused), total-taken)
		}
		close(again)
		synctest.Wait()
		for i := range 100 {
			c.wantAbout(strconv.Itoa(i), "reply")
		}
		if got := c.about(`"big"`); len(got) != total {
			t.Errorf("%d answers to %d requests", len(got), total)
		}
		c.request(`"then"`, "x", "{}")
		c.awaitEvent(event{`"then"`, "reply"})
	})
}

// The end of input is seen behind any number of requests to an upstream that reads
// nothing, and so is that of ctx.
func TestUpstreamReadsNothingUntilTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, lines := range []string{requestText("1", "x", "{}"), `{"jsonrpc":"2.0","method":"notifications/x"}`} {
			s := newServer(t, newHub(t, core.Config{}), mcpstdio.WithGrace(3*time.Second), mcpstdio.WithUpstream(mcpstdio.InProcess(
				func(ctx context.Context, _ io.ReadWriteCloser) error {
					<-ctx.Done()
					return ctx.Err()
				})))
			start := time.Now()
			if err := s.Serve(t.Context(), strings.NewReader(strings.Repeat(lines+"\n", 5000)), io.Discard); err != nil {
				t.Error(err)
			}
			// A second until the upstream counts as stuck, seldom one more where what it took last is seen late,
			// and the grace.
			if took := time.Since(start); took < 4*time.Second || took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			c := serve(t, s)
			for range 2000 {
				if _, err := io.WriteString(c.out, lines+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			c.stop()
			wantError(t, c.wait(), context.Canceled)
		}
	})
}

// An upstream that drops what it is at when its input ends gets that only when it has
// answered. One that never answers gets it all the same.
func TestAnswersAreDueAtTheEndOfInput(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answers bool
		took    time.Duration
		out     string
	}{
		"answered":     {true, time.Second, `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"},
		"not answered": {false, 3 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer(t, newHub(t, core.Config{}), mcpstdio.WithGrace(6*time.Second), mcpstdio.WithUpstream(mcpstdio.InProcess(
					func(_ context.Context, conn io.ReadWriteCloser) error {
						lines := bufio.NewReader(conn)
						if _, err := lines.ReadString('\n'); err != nil {
							return err
						}
						ended := make(chan struct{})
						go func() { defer close(ended); _, _ = lines.ReadString('\n') }()
						timer := time.After(time.Second)
						if !test.answers {
							timer = nil
						}
						select {
						case <-ended:
							return nil // without an answer
						case <-timer:
						}
						_, err := io.WriteString(conn, test.out)
						<-ended
						return err
					})))
				start := time.Now()
				var out syncBuffer
				if err := s.Serve(t.Context(), strings.NewReader(requestText("1", "x", "{}")+"\n"), &out); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took != test.took || out.String() != test.out {
					t.Errorf("after %v the client had %q, want %q after %v", took, out.String(), test.out, test.took)
				}
			})
		})
	}
}

// An upstream that reads slowly gets everything.
func TestUpstreamReadsSlowly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 2000
		var got atomic.Int32
		s := newServer(t, newHub(t, core.Config{}), mcpstdio.WithGrace(time.Hour), mcpstdio.WithUpstream(mcpstdio.InProcess(
			func(ctx context.Context, conn io.ReadWriteCloser) error {
				lines := bufio.NewReaderSize(conn, 16)
				for {
					if _, err := lines.ReadString('\n'); err != nil {
						return err
					}
					got.Add(1)
					<-time.After(900 * time.Millisecond)
				}
			})))
		var out syncBuffer
		in := strings.Repeat(requestText("1", "x", "{}")+"\n", n)
		if err := s.Serve(t.Context(), strings.NewReader(in), &out); err != nil {
			t.Error(err)
		}
		if got.Load() != n || out.String() != "" {
			t.Errorf("%d of %d requests got there; answered was %q", got.Load(), n, out.String())
		}
	})
}

// At the end of input an upstream that does not end is waited for as long as the
// grace says.
func TestUpstreamDoesNotEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := serve(t, newServer(t, newHub(t, core.Config{}), mcpstdio.WithGrace(7*time.Second), mcpstdio.WithUpstream(mcpstdio.InProcess(
			func(ctx context.Context, _ io.ReadWriteCloser) error {
				<-ctx.Done()
				return ctx.Err()
			}))))
		start := time.Now()
		if err := c.close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// asChild in the environment makes the test binary a child of the tests.
const asChild = "MCPSTDIO_TEST_CHILD"

func beChild(role string) {
	fmt.Fprintln(os.Stderr, "child is here")
	std := struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout}
	switch role {
	case "echo":
		_ = echo(context.Background(), std)
	case "stubborn": // ends neither with its input nor when asked to
		signal.Ignore(syscall.SIGTERM)
		_ = echo(context.Background(), std)
		select {}
	case "deaf": // ends only when asked to
		_ = echo(context.Background(), std)
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "child waits")
		<-c
		fmt.Fprintln(os.Stderr, "child was asked to end")
	case "asleep": // reads nothing, and ends when asked to
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		<-c
	case "dying": // answers and dies, and leaves its output open with another
		line, _ := bufio.NewReader(os.Stdin).ReadBytes('\n')
		other := exec.Command(os.Args[0])
		other.Env = append(os.Environ(), asChild+"=outliving")
		other.Stdout = os.Stdout
		_ = other.Start()
		fmt.Println(string(reply(line, "{}")))
		os.Exit(3)
	case "outliving": // keeps the output open until nobody reads it
		for range time.Tick(10 * time.Millisecond) {
			if _, err := fmt.Println(); err != nil {
				return
			}
		}
	}
}

func command(role string, stderr io.Writer, patience time.Duration) mcpstdio.Option {
	return mcpstdio.WithUpstream(mcpstdio.Command(func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), asChild+"="+role, "GORACE=atexit_sleep_ms=0")
		cmd.Stderr = stderr
		cmd.WaitDelay = patience
		return cmd
	}))
}

func TestCommand(t *testing.T) {
	t.Parallel()
	for role, test := range map[string]struct {
		patience time.Duration
		says     string
	}{
		"echo":     {time.Minute, "child is here\n"},
		"deaf":     {time.Second, "child is here\nchild waits\nchild was asked to end\n"},
		"stubborn": {300 * time.Millisecond, "child is here\n"},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			hub := newHub(t, core.Config{})
			var stderr syncBuffer
			c := serve(t, newServer(t, hub, command(role, &stderr, test.patience), mcpstdio.WithGrace(test.patience)))
			c.listen("1", tools)
			c.awaitEvent(event{"1", ackTools})
			c.request("2", "x", "{}")
			c.awaitEvent(event{"2", "reply"})
			publish(t, hub, core.ToolsListChanged())
			c.awaitEvent(event{"1", "tools"})
			if err := c.close(); err != nil {
				t.Errorf("Serve returned %v", err)
			}
			if stderr.String() != test.says {
				t.Errorf("on standard error came %q, want %q", stderr.String(), test.says)
			}
		})
	}
}

// A child that reads nothing is ended behind any number of requests.
func TestCommandReadsNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t, newHub(t, core.Config{}), command("asleep", nil, 100*time.Millisecond), mcpstdio.WithGrace(100*time.Millisecond))
	c := serve(t, s)
	for i := range 10_000 {
		c.request(strconv.Itoa(i), "x", "{}")
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if got := c.about("9999"); !slices.Equal(got, []string{"error -32603"}) {
		t.Errorf("the last request was answered with %q", got)
	}
}

// The last words of a child that dies are heard, even if its output does not end.
func TestCommandDies(t *testing.T) {
	t.Parallel()
	c := serve(t, newServer(t, newHub(t, core.Config{}), command("dying", nil, time.Minute)))
	c.request("1", "x", "{}")
	err := c.wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("Serve returned %v", err)
	}
	wantError(t, err, mcpstdio.ErrUpstream)
	c.wantAbout("1", "reply")
}

func TestCommandCannotStart(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*exec.Cmd){
		"no program": func(cmd *exec.Cmd) { cmd.Path, cmd.Err = "/no/such/program", nil },
		"stdout set": func(cmd *exec.Cmd) { cmd.Stdout = io.Discard },
		"stdin set":  func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader("") },
	} {
		s := newServer(t, newHub(t, core.Config{}), mcpstdio.WithUpstream(mcpstdio.Command(func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, os.Args[0])
			set(cmd)
			return cmd
		})))
		if err := s.Serve(t.Context(), strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
