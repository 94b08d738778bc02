// HTTP: the request is a POST, and its response is the stream.

package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/sse"
)

// URL is the [Endpoint] of a server that is reached over HTTP, such as
// "https://example.com/mcp".
type URL string

func (u URL) check() error {
	parsed, err := url.Parse(string(u))
	switch {
	case err != nil, parsed.Scheme != "http" && parsed.Scheme != "https", parsed.Host == "":
		return errors.New("client: the endpoint is no http or https URL, such as http://localhost:8080/mcp")
	}
	return nil
}

// pingAfter is the silence after which an HTTP/2 connection is asked for a sign
// of life: many streams share it, and all reconnects would go into a dead one.
const pingAfter = 15 * time.Second

// defaultHTTP returns the client for those who bring none.
var defaultHTTP = sync.OnceValue(func() *http.Client {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultClient
	}
	transport = transport.Clone()
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter}
	return &http.Client{Transport: transport}
})

// maxRedirects is how many redirects are followed, as by net/http.
const maxRedirects = 10

// guardRedirects makes a client follow only those redirects that leave the request
// what it is: 307 and 308. A 301, 302 or 303 would make a GET of it, which asks for
// something else; the subscription is then refused with that status. What lets the
// request in stays with the server that it is for: another one gets neither token
// nor added headers.
func guardRedirects(client *http.Client, added http.Header) *http.Client {
	guarded, next := *client, client.CheckRedirect
	guarded.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if req.Method != first.Method || len(via) >= maxRedirects {
			return http.ErrUseLastResponse
		}
		if !sameServer(first.URL, req.URL) {
			req.Header.Del("Authorization")
			for name := range added {
				req.Header.Del(name)
			}
		}
		if next != nil {
			return next(req, via)
		}
		return nil
	}
	return &guarded
}

// sameServer reports whether b is the server of a, and not less safe to reach.
func sameServer(a, b *url.URL) bool {
	return strings.EqualFold(a.Host, b.Host) && (a.Scheme == b.Scheme || b.Scheme == "https")
}

func (u URL) run(parent context.Context, x *exchange) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	req, err := u.request(ctx, x)
	if err != nil {
		return err
	}
	resp, err := x.http.Do(req)
	if err != nil {
		x.http.CloseIdleConnections()
		return dropped(ErrUnreachable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusedBy(resp)
	}
	if encoding := strings.Join(resp.Header.Values("Content-Encoding"), ","); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return violation(NotAStream, "the Content-Encoding of the answer is %q, which was not asked for", clip(encoding))
	}
	switch mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); mediaType {
	case "text/event-stream":
		return readStream(ctx, cancel, resp.Body, x)
	case "application/json":
		return readAnswer(resp, x)
	default:
		return violation(NotAStream, "the Content-Type of the answer is %q", clip(resp.Header.Get("Content-Type")))
	}
}

func (u URL) request(ctx context.Context, x *exchange) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, string(u), bytes.NewReader(x.body))
	if err != nil {
		return nil, dropped(ErrUnreachable, err)
	}
	req.Header, req.Host = x.header.Clone(), cmp.Or(x.host, req.Host)
	if x.token != nil {
		token, err := x.token(ctx)
		if err != nil {
			return nil, dropped(ErrToken, err)
		}
		if !isHeaderValue(token) {
			return nil, dropped(ErrToken, errors.New("it has a line break or another control character"))
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", core.ProtocolVersion)
	req.Header.Set("Mcp-Method", core.MethodListen)
	if req.Header.Get("Accept-Encoding") == "" {
		// Else net/http asks for gzip, and compressed streams tend to be held back.
		req.Header.Set("Accept-Encoding", "identity")
	}
	return req, nil
}

// afterResult is how long the server may take to close the stream after its
// result, and to break the rule that nothing follows it.
const afterResult = time.Second

// readStream reads the events of a stream until the subscription is over.
func readStream(ctx context.Context, cancel context.CancelCauseFunc, body io.Reader, x *exchange) error {
	alive := &idleReader{r: body, limit: x.idle}
	if x.idle > 0 {
		alive.timer = time.AfterFunc(x.idle, func() { cancel(ErrIdle) })
		defer alive.timer.Stop()
	}
	closing := time.AfterFunc(time.Hour, func() { cancel(nil) })
	closing.Stop()
	defer closing.Stop()
	events := sse.NewReader(alive, x.maxMessage)
	over, acked := false, false
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return violation(TooLarge, "a message has more than %d bytes", x.maxMessage)
		case err != nil && over:
			return nil
		case err != nil && context.Cause(ctx) == ErrIdle: //nolint:errorlint // exactly this value is our own timer's
			x.http.CloseIdleConnections()
			return dropped(ErrIdle, nil)
		case errors.Is(err, io.EOF):
			return dropped(nil, io.ErrUnexpectedEOF)
		case err != nil:
			return dropped(nil, err)
		}
		*x.read = *x.read || acked
		if !isMessage(event) {
			continue
		}
		ended, err := x.take(event.Data)
		if err != nil {
			if refused := (*RefusedError)(nil); errors.As(err, &refused) {
				refused.Status = http.StatusOK
			}
			return err
		}
		acked = true
		if ended && !over {
			over = true
			closing.Reset(afterResult)
		}
	}
}

// isMessage reports whether an event is to be read as a message. The protocol
// gives its events no name. One with a name of its own is skipped as every
// browser would, a ping for one; but not if a message is in it.
func isMessage(event sse.Event) bool {
	switch {
	case event.Comment, len(event.Data) == 0:
		return false
	case event.Name == "" || event.Name == "message":
		return true
	default:
		members, ok := object(event.Data)
		return ok && members["jsonrpc"] != nil
	}
}

// idleReader puts off a timer with every byte that comes.
type idleReader struct {
	r     io.Reader
	timer *time.Timer // nil: none
	limit time.Duration
}

func (r *idleReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 && r.timer != nil {
		r.timer.Reset(r.limit)
	}
	return n, err
}

// readAnswer reads an answer with status 200 that is no stream: an error, or a
// message that breaks the rules.
func readAnswer(resp *http.Response, x *exchange) error {
	body, err := readBounded(resp.Body, x.maxMessage)
	switch {
	case err != nil:
		return dropped(nil, err)
	case len(body) > x.maxMessage:
		return violation(TooLarge, "the answer has more than %d bytes", x.maxMessage)
	}
	_, err = x.take(body)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		refused.Status = resp.StatusCode
		refused.RetryAfter = retryAfter(resp.Header, time.Now())
		return refused
	case err != nil:
		return err
	default:
		return violation(NotAStream, "the answer is one message: %s", clip(string(body)))
	}
}

// maxRefusal is how much of the body of a refusal is read, in bytes.
const maxRefusal = 64 << 10

// refusedBy reads an answer whose status is not 200.
func refusedBy(resp *http.Response) error {
	body, err := readBounded(resp.Body, maxRefusal)
	if resp.StatusCode < 300 {
		return violation(NotAStream, "the HTTP status of the answer is %s", resp.Status)
	}
	refused := &RefusedError{Message: clip(strings.TrimSpace(string(body)))}
	if err == nil {
		if m, bad := parseMessage(body); bad == nil && m.err != nil {
			refused = m.err
		}
	}
	if location := resp.Header.Get("Location"); location != "" && resp.StatusCode < 400 {
		refused.Message = clip("redirected to " + location)
	}
	refused.Status = resp.StatusCode
	refused.RetryAfter = retryAfter(resp.Header, time.Now())
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		refused.Challenge = resp.Header.Get("WWW-Authenticate")
	}
	return refused
}

// readBounded reads at most one byte more than limit.
func readBounded(r io.Reader, limit int) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, int64(limit)+1))
}
