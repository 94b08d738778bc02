// Response writers that stand between a stream and its connection: whatever they
// do, the stream is prompt, or refused before its first byte, or ended at once.

package mcphttp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// passing is a wrapper that can be followed and does not flush by itself.
type passing struct{ http.ResponseWriter }

func (w passing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ginLike is a wrapper as gin has them: it flushes if it can, and does not say
// what it embeds.
type ginLike struct {
	http.ResponseWriter
	written *int
}

func newGinLike(w http.ResponseWriter) ginLike {
	none := -1
	return ginLike{w, &none}
}

func (w ginLike) Write(p []byte) (int, error) {
	*w.written = max(*w.written, 0)
	n, err := w.ResponseWriter.Write(p)
	*w.written += n
	return n, err
}

func (w ginLike) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		*w.written = max(*w.written, 0)
		f.Flush()
	}
}

func (w ginLike) Written() bool { return *w.written >= 0 }
func (w ginLike) Size() int     { return *w.written }

// unflushed holds what is written until its handler returns, and can be followed.
type unflushed struct {
	passing
	held *bytes.Buffer
}

func (w unflushed) Write(p []byte) (int, error) { return w.held.Write(p) }

// lying holds what is written until its handler returns, and flushes what is
// below it.
type lying struct {
	ginLike
	held *bytes.Buffer
}

func (w lying) Write(p []byte) (int, error) { return w.held.Write(p) }

// starting is a lying writer that writes something of its own first, as a
// compressor does.
type starting struct{ lying }

func (w starting) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return w.ginLike.Write([]byte("head"))
	}
	return w.lying.Write(p)
}

// waiting is a compressor that waits for more to compress, and does not flush
// until then, as some do. It leaves alone what has an encoding.
type waiting struct {
	http.ResponseWriter
	body *bytes.Buffer
}

func (w waiting) plain() bool { return w.Header().Get("Content-Encoding") != "" }

func (w waiting) Write(p []byte) (int, error) {
	if w.plain() {
		return w.ResponseWriter.Write(p)
	}
	return w.body.Write(p)
}

func (w waiting) Flush() {
	if w.plain() {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// wrapper wraps a response writer. What done does, it does when the handler has
// returned.
type wrapper func(w http.ResponseWriter) (wrapped http.ResponseWriter, done func())

func wrapping(wrap func(http.ResponseWriter) http.ResponseWriter) wrapper {
	return func(w http.ResponseWriter) (http.ResponseWriter, func()) { return wrap(w), func() {} }
}

// outcome is what became of a listen request.
type outcome struct {
	hub  *core.Hub
	resp *http.Response
	log  *lockedBuffer
}

// behind sends a listen request to a server with a wrapper around its response
// writers.
func behind(t *testing.T, wrap wrapper, keepAlive, writeTimeout time.Duration) outcome {
	t.Helper()
	hub := newHub(t, core.Config{Capabilities: core.Capabilities{ToolsListChanged: true}, KeepAlive: keepAlive})
	log := &lockedBuffer{}
	h, err := mcphttp.New(hub, mcphttp.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wrapped, done := wrap(w)
		h.ServeHTTP(wrapped, r)
		done()
	}))
	server.Config.WriteTimeout = writeTimeout
	server.Start()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
	})
	resp, err := server.Client().Do(listenRequest(ctx, t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return outcome{hub, resp, log}
}

func listenRequest(ctx context.Context, t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(
		`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`+
			`"notifications":{"toolsListChanged":true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mcp-Method", core.MethodListen)
	req.Header.Set("Mcp-Protocol-Version", core.ProtocolVersion)
	return req
}

// lockedBuffer is a log to look into.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// expectPrompt reads the acknowledgment and, once it is there, publishes a change
// and reads that.
func expectPrompt(t *testing.T, hub *core.Hub, resp *http.Response) {
	t.Helper()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("no stream: %s, %v: %s", resp.Status, resp.Header, body)
	}
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{core.MethodAcknowledged, core.MethodToolsListChanged} {
		line, err := lines.ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Fatalf("got %q, %v, want %s", line, err, want)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if err := hub.Publish(t.Context(), core.ToolsListChanged()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWrappersThatStreamsPass(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wrap     func(http.ResponseWriter) http.ResponseWriter
		encoding string // that the stream is to have
	}{
		"no flush": {wrap: func(w http.ResponseWriter) http.ResponseWriter { return passing{w} }, encoding: "identity"},
		"no flush, holds back": {wrap: func(w http.ResponseWriter) http.ResponseWriter {
			return unflushed{passing{w}, new(bytes.Buffer)}
		}, encoding: "identity"},
		"no flush, holds back, inside others": {wrap: func(w http.ResponseWriter) http.ResponseWriter {
			return passing{newGinLike(unflushed{passing{newGinLike(w)}, new(bytes.Buffer)})}
		}, encoding: "identity"},
		"compressor that waits": {wrap: func(w http.ResponseWriter) http.ResponseWriter {
			w.Header().Add("Vary", "Origin")
			w.Header().Add("Vary", "Accept-Encoding")
			return waiting{w, new(bytes.Buffer)}
		}, encoding: "identity"},
		"compressor that has decided": {wrap: func(w http.ResponseWriter) http.ResponseWriter {
			w.Header().Set("Vary", "Accept-Encoding")
			w.Header().Set("Content-Encoding", "none")
			return newGinLike(w)
		}, encoding: "none"},
		"gin":        {wrap: func(w http.ResponseWriter) http.ResponseWriter { return newGinLike(w) }},
		"gin in gin": {wrap: func(w http.ResponseWriter) http.ResponseWriter { return newGinLike(newGinLike(w)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := behind(t, wrapping(c.wrap), -1, 0)
			expectPrompt(t, o.hub, o.resp)
			if got := o.resp.Header.Get("Content-Encoding"); got != c.encoding {
				t.Errorf("Content-Encoding: got %q, want %q", got, c.encoding)
			}
			if text := o.log.String(); text != "" {
				t.Errorf("the log has %s, want nothing", text)
			}
		})
	}
}

func TestWrappersInTheWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wrap wrapper
		says string
		log  string // the type that the log is to name
	}{
		"flush reaches nothing": {
			wrap: wrapping(func(w http.ResponseWriter) http.ResponseWriter { return newGinLike(struct{ http.ResponseWriter }{w}) }),
			says: "cannot be flushed", log: "ginLike",
		},
		"holds back in silence": {
			wrap: func(w http.ResponseWriter) (http.ResponseWriter, func()) {
				l := lying{newGinLike(w), new(bytes.Buffer)}
				w.Header().Set("Vary", "Accept-Encoding")
				return l, func() { _, _ = l.ginLike.Write(l.held.Bytes()) }
			},
			says: "holds back", log: "lying",
		},
		"encodes, and cannot be flushed": {
			wrap: wrapping(func(w http.ResponseWriter) http.ResponseWriter {
				w.Header().Set("Content-Encoding", "none")
				return passing{w}
			}),
			says: "encodes", log: "passing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := behind(t, c.wrap, -1, 0)
			body, err := io.ReadAll(o.resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			var answer struct {
				ID    int
				Error struct {
					Code    int
					Message string
				}
			}
			if err := json.Unmarshal(body, &answer); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			if o.resp.StatusCode != http.StatusInternalServerError || answer.ID != 7 ||
				answer.Error.Code != core.CodeInternalError || !strings.Contains(answer.Error.Message, c.says) {
				t.Errorf("got %s and %s, want 500 and an error that says %q", o.resp.Status, body, c.says)
			}
			for _, name := range []string{"Cache-Control", "X-Accel-Buffering", "Content-Encoding"} {
				if got := o.resp.Header.Get(name); got != "" && got != "none" {
					t.Errorf("%s of a stream is left: %s", name, got)
				}
			}
			if text := o.log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, c.log) {
				t.Errorf("the log has %q, want one error that names %s", text, c.log)
			}
			if n := len(o.hub.Streams()); n != 0 {
				t.Errorf("%d streams are open, want none", n)
			}
		})
	}
}

// A writer that lets the headers through and nothing else cannot be seen before:
// the stream ends at once, and the log says why.
func TestHeldBackAfterTheHeaders(t *testing.T) {
	t.Parallel()
	o := behind(t, wrapping(func(w http.ResponseWriter) http.ResponseWriter {
		return starting{lying{newGinLike(w), new(bytes.Buffer)}}
	}), -1, 0)
	if body, err := io.ReadAll(o.resp.Body); err != nil || string(body) != "head" {
		t.Errorf("got %q, %v, want what the writer itself wrote, and the end", body, err)
	}
	text := o.log.String()
	if strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "holds back") || !strings.Contains(text, "starting") {
		t.Errorf("the log has %q, want one error that names the writer", text)
	}
}

// The connection's deadline is found behind a wrapper that only embeds it: the
// stream outlives the server's write timeout.
func TestDeadlineBehindEmbedding(t *testing.T) {
	t.Parallel()
	const timeout = 400 * time.Millisecond
	o := behind(t, wrapping(func(w http.ResponseWriter) http.ResponseWriter { return newGinLike(w) }), timeout/2, timeout)
	lines := bufio.NewReader(o.resp.Body)
	for i := range 5 { // the acknowledgment, and twice the timeout
		line, err := lines.ReadString('\n')
		if err != nil || i > 0 && line != ": keep-alive\n" {
			t.Fatalf("got %q, %v, want a keep-alive", line, err)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if text := o.log.String(); text != "" {
		t.Errorf("the log has %s, want nothing", text)
	}
}
