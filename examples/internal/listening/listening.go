// Package listening is what the examples' tests listen with: a client of
// subscriptions/listen, and of ordinary requests, that fails the test where
// something does not come.
package listening

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// patience bounds every wait.
const patience = 10 * time.Second

// Client calls one MCP endpoint.
type Client struct {
	URL   string
	Token string // bearer token; empty for none
	HTTP  *http.Client
}

// Start runs a program's run function and returns the first words of the lines
// that it prints, as many as asked for. When the test ends, or stop is called, its
// context ends; run must then return nil.
func Start(tb testing.TB, lines int, run func(context.Context, io.Writer) error) (printed []string, stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, in)
		in.CloseWithError(io.EOF)
		ended <- err
	}()
	stopped := false
	stop = func() {
		tb.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				tb.Errorf("run returned %v", err)
			}
		case <-time.After(patience):
			tb.Error("run did not return")
		}
	}
	tb.Cleanup(stop)
	r := bufio.NewReader(out)
	for range lines {
		line, err := r.ReadString('\n')
		if err != nil {
			tb.Fatalf("run printed %q, and then %v", printed, err)
		}
		printed = append(printed, strings.TrimSpace(line))
	}
	return printed, stop
}

// Call sends a JSON-RPC request, whose id is 1, and returns status and body.
func (c Client) Call(tb testing.TB, method, name, params string) (status int, body string) {
	tb.Helper()
	res := c.send(tb, method, name, params, patience)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		tb.Fatalf("%s: %v after %q", method, err, b)
	}
	return res.StatusCode, string(b)
}

// Do sends a request of another kind, with a form for its body, and returns status
// and body of the answer.
func (c Client) Do(tb testing.TB, method, url, form string) (status int, answer string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(form))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	c.authorize(req)
	res, err := c.client().Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// Refused sends a listen request that is to be refused and returns status and body.
func (c Client) Refused(tb testing.TB, filter string) (status int, body string) {
	tb.Helper()
	status, body = c.Call(tb, core.MethodListen, "", `"notifications":`+filter)
	if status == http.StatusOK {
		tb.Fatalf("listening to %s was not refused: %s", filter, body)
	}
	return status, body
}

// Listen opens a stream, whose end the test's end is at the latest.
func (c Client) Listen(tb testing.TB, filter string) *Stream {
	tb.Helper()
	res := c.send(tb, core.MethodListen, "", `"notifications":`+filter, 6*patience)
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		tb.Fatalf("listening to %s: status %d, %s", filter, res.StatusCode, body)
	}
	s := &Stream{Proto: res.Proto, body: res.Body, lines: make(chan string)}
	go s.read()
	tb.Cleanup(s.Close)
	return s
}

func (c Client) send(tb testing.TB, method, name, params string, limit time.Duration) *http.Response {
	tb.Helper()
	if params != "" {
		params = "," + params
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{%q:%q,%q:{}}%s}}`, method,
		core.MetaProtocolVersion, core.ProtocolVersion, core.MetaClientCapabilities, params)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	tb.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", core.ProtocolVersion)
	req.Header.Set("Mcp-Method", method)
	if name != "" {
		req.Header.Set("Mcp-Name", name)
	}
	c.authorize(req)
	res, err := c.client().Do(req)
	if err != nil {
		tb.Fatalf("%s: %v", method, err)
	}
	return res
}

func (c Client) authorize(req *http.Request) {
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
}

func (c Client) client() *http.Client {
	if c.HTTP != nil {
		return c.HTTP
	}
	// Connections of its own, which end with their request: none is left over.
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// Stream is an open stream.
type Stream struct {
	Proto string // the HTTP version that it came by

	body  io.ReadCloser
	lines chan string
}

func (s *Stream) read() {
	defer close(s.lines)
	for r := bufio.NewScanner(s.body); r.Scan(); {
		if r.Text() != "" {
			s.lines <- r.Text()
		}
	}
}

// Close goes away, as a client does.
func (s *Stream) Close() {
	_ = s.body.Close()
	for open := true; open; { // until read has noticed
		_, open = <-s.lines
	}
}

// Next returns the next thing on the stream in few words: the method of a
// notification, with the URI of an updated resource; "result"; "keep-alive"; or
// "end" where the stream is over.
func (s *Stream) Next(tb testing.TB) string {
	tb.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok {
			return "end"
		}
		return words(tb, line)
	case <-time.After(patience):
		tb.Fatal("nothing more came")
		return ""
	}
}

// Expect fails the test if anything but the given things comes next. Keep-alives
// do not count.
func (s *Stream) Expect(tb testing.TB, things ...string) {
	tb.Helper()
	for _, want := range things {
		got := s.Next(tb)
		for got == "keep-alive" && want != got {
			got = s.Next(tb)
		}
		if got != want {
			tb.Fatalf("%q came, not %q", got, want)
		}
	}
}

func words(tb testing.TB, line string) string {
	tb.Helper()
	if strings.HasPrefix(line, ":") {
		return "keep-alive"
	}
	data, _ := strings.CutPrefix(line, "data: ")
	var message struct {
		Method string
		Params struct{ URI string }
		Result json.RawMessage
	}
	if err := json.Unmarshal([]byte(data), &message); err != nil {
		tb.Fatalf("%q: %v", line, err)
	}
	switch {
	case message.Result != nil:
		return "result"
	case message.Params.URI != "":
		return message.Method + " " + message.Params.URI
	default:
		return message.Method
	}
}
