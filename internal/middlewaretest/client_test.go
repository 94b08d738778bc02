// The client: asks for compression, undoes it as browsers do, and reads the
// stream event by event.

package middlewaretest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/core"
)

const listenBody = `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},` +
	`"notifications":{"toolsListChanged":true}}}`

// stream is an open stream.
type stream struct {
	encoding string
	body     io.ReadCloser
	lines    *bufio.Reader // nil until the first event is read
}

// request returns a listen request.
func (s *service) request(t *testing.T) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.url, strings.NewReader(listenBody))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Accept-Encoding": "gzip, deflate, br, zstd", "Mcp-Method": core.MethodListen,
		"Mcp-Protocol-Version": core.ProtocolVersion,
	} {
		req.Header.Set(name, value)
	}
	return req
}

// open sends a listen request. It returns the stream, or the message of the
// JSON-RPC error that refused it.
func (s *service) open(t *testing.T) (st *stream, refusal string) {
	t.Helper()
	resp, err := s.client.Do(s.request(t))
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	contentType, encoding := resp.Header.Get("Content-Type"), resp.Header.Get("Content-Encoding")
	if resp.StatusCode == http.StatusOK && contentType == "text/event-stream" {
		return &stream{encoding: encoding, body: resp.Body}, ""
	}
	st = &stream{encoding: encoding, body: resp.Body}
	body, err := io.ReadAll(st.reader(t))
	if err != nil {
		t.Fatalf("the answer broke off after %q: %v", body, err)
	}
	var envelope struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&envelope); err != nil || contentType != "application/json" || d.More() {
		t.Fatalf("neither a stream nor a JSON-RPC error: %s, %s: %v: %q", resp.Status, contentType, err, body)
	}
	if resp.StatusCode != http.StatusInternalServerError || string(envelope.ID) != "7" ||
		envelope.Error.Code != core.CodeInternalError || !strings.Contains(envelope.Error.Message, "middleware") {
		t.Errorf("refused with %s and %s, want 500 and an error that names the cause", resp.Status, body)
	}
	return nil, envelope.Error.Message
}

// reader returns the body without its encoding.
func (st *stream) reader(t *testing.T) io.Reader {
	t.Helper()
	if st.encoding != "gzip" {
		if st.encoding != "" && st.encoding != "identity" {
			t.Fatalf("the encoding is %s", st.encoding)
		}
		return st.body
	}
	z, err := gzip.NewReader(st.body)
	if err != nil {
		t.Fatalf("no gzip: %v", err)
	}
	return z
}

// expect fails unless the next event is the one: a method, "result", "end", or a
// comment.
func (st *stream) expect(t *testing.T, want string) {
	t.Helper()
	if st.lines == nil {
		st.lines = bufio.NewReader(st.reader(t))
	}
	if got := st.next(t); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func (st *stream) next(t *testing.T) string {
	t.Helper()
	line, err := st.lines.ReadString('\n')
	if errors.Is(err, io.EOF) && line == "" {
		return "end"
	}
	blank, err2 := st.lines.ReadString('\n')
	if err != nil || err2 != nil || blank != "\n" {
		t.Fatalf("got %q and %q: %v, %v", line, blank, err, err2)
	}
	line = strings.TrimSuffix(line, "\n")
	data, ok := strings.CutPrefix(line, "data: ")
	if !ok {
		return line
	}
	var message struct {
		Method string          `json:"method"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal([]byte(data), &message); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	if message.Result != nil {
		return "result"
	}
	return message.Method
}
