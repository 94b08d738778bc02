// The policies over real sockets: who may listen, for how long, how many, and how
// a service stops.

package mcphttp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/listentest"
)

// patience bounds every wait of these tests. None measures time by it.
const patience = 30 * time.Second

// everyKind is a server that delivers every kind.
var everyKind = core.Capabilities{
	ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: true,
}

// service is an endpoint on a socket whose users name themselves in a header, as
// an authentication in front would have found out.
type service struct {
	hub    *core.Hub
	server *httptest.Server
	log    *lockedLog
	ctx    context.Context
}

const userHeader = "Test-User"

// serve starts a service. next may be nil.
func serve(t *testing.T, config core.Config, next http.Handler) *service {
	t.Helper()
	s := &service{log: &lockedLog{}}
	if config.Capabilities == (core.Capabilities{}) {
		config.Capabilities = everyKind
	}
	config.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	s.hub = newHub(t, config)
	h, err := mcphttp.New(s.hub, mcphttp.WithPrincipal(func(r *http.Request) string { return r.Header.Get(userHeader) }))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/status", mcphttp.Status(s.hub))
	if next != nil {
		mux.Handle(listentest.Path, h.Middleware(next))
	} else {
		mux.Handle(listentest.Path, h)
	}
	s.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		if err := s.hub.Shutdown(s.ctx); err != nil {
			t.Errorf("streams are left behind: %v", err)
		}
		s.server.Close()
	})
	return s
}

// lockedLog is a log to look into.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// send sends a call as the given user. The caller closes the body.
func (s *service) send(user string, call listentest.Call) (*http.Response, error) {
	req, err := http.NewRequestWithContext(s.ctx, call.Method, s.server.URL+listentest.Path, strings.NewReader(call.Body))
	if err != nil {
		return nil, err
	}
	req.Header = call.Header.Clone()
	req.Header.Set(userHeader, user)
	if call.Host != "" {
		req.Host = call.Host
	}
	return s.server.Client().Do(req)
}

// answer is an answer that is no stream.
type answer struct {
	status int
	header http.Header
	body   string
}

func (s *service) do(t *testing.T, user string, call listentest.Call) answer {
	t.Helper()
	resp, err := s.send(user, call)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("the answer broke off: %v", err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// listener is a client's open stream.
type listener struct {
	t     *testing.T
	body  io.ReadCloser
	lines *bufio.Scanner
}

// listen opens a stream and reads its acknowledgment.
func (s *service) listen(t *testing.T, user, id, filter string) *listener {
	t.Helper()
	resp, err := s.send(user, listentest.Listen(id, filter)) //nolint:bodyclose // the end of the test closes it
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	l := &listener{t, resp.Body, bufio.NewScanner(resp.Body)}
	t.Cleanup(func() { _ = l.body.Close() })
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("listen: %s %s", resp.Status, body)
	}
	l.expect(core.MethodAcknowledged)
	return l
}

// next returns the next message in short form: its method and URI, "result", or
// "end" for the end of the stream.
func (l *listener) next() string {
	for l.lines.Scan() {
		data, ok := strings.CutPrefix(l.lines.Text(), "data: ")
		if !ok {
			continue
		}
		var m struct {
			Method string
			Params struct{ URI string }
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			return "broken: " + data
		}
		if m.Method == "" {
			return "result"
		}
		return strings.TrimSpace(m.Method + " " + m.Params.URI)
	}
	if err := l.lines.Err(); err != nil {
		return "broken off: " + err.Error()
	}
	return "end"
}

func (l *listener) expect(messages ...string) {
	l.t.Helper()
	for _, want := range messages {
		if got := l.next(); got != want {
			l.t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func (s *service) publish(t *testing.T, to core.Audience, changes ...core.Change) {
	t.Helper()
	if err := s.hub.PublishTo(s.ctx, to, changes...); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

func updates(uris ...string) string {
	list, err := json.Marshal(uris)
	if err != nil {
		panic(err)
	}
	return `{"resourceSubscriptions":` + string(list) + `}`
}

func cancelled(id string) listentest.Call {
	return listentest.Post(core.MethodCancelled, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
}

const tools = `{"toolsListChanged":true}`

// tokens is an Authorizer for tokens that end.
type tokens map[string]time.Time

func (tk tokens) Authorize(_ context.Context, principal string, _ core.Filter) (core.Grant, error) {
	expires, known := tk[principal]
	if !known || !time.Now().Before(expires) {
		return core.Grant{}, mcphttp.Deny(http.StatusUnauthorized, `Bearer error="invalid_token"`)
	}
	return core.Grant{Until: expires}, nil
}

// TestATokenThatEnds: its stream ends with the result, and the same listen again
// is 401 with the challenge that the application chose.
func TestATokenThatEnds(t *testing.T) {
	t.Parallel()
	who := tokens{"short": time.Now().Add(700 * time.Millisecond), "long": time.Now().Add(time.Hour)}
	s := serve(t, core.Config{Authorizer: who}, nil)
	long := s.listen(t, "long", "7", tools)
	short := s.listen(t, "short", "7", tools)
	short.expect("result", "end") // the wait is bounded by the service's context
	if time.Now().Before(who["short"]) {
		t.Error("the stream ended before its token")
	}
	again := s.do(t, "short", listentest.Listen("7", tools))
	if again.status != http.StatusUnauthorized || again.header.Get("WWW-Authenticate") != `Bearer error="invalid_token"` {
		t.Errorf("the same listen again: %d, challenge %q, want 401 and the application's", again.status, again.header.Get("WWW-Authenticate"))
	}
	if want := `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"not allowed"}}` + "\n"; again.body != want {
		t.Errorf("the body is %q, want %q", again.body, want)
	}
	s.publish(t, core.Audience{}, core.ToolsListChanged())
	long.expect(core.MethodToolsListChanged)
	if got := s.hub.Stats(); got.Closed[core.GrantExpired] != 1 || got.Refused[core.RefusedAuth] != 1 {
		t.Errorf("the statistics are %+v, want one expired and one refused", got)
	}
}

// TestDenyChoosesStatusAndChallenge, and nothing else.
func TestDenyChoosesStatusAndChallenge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err       error
		status    int
		challenge string
	}{
		"401":                 {mcphttp.Deny(401, `Bearer realm="x"`), 401, `Bearer realm="x"`},
		"403":                 {mcphttp.Deny(403, ""), 403, ""},
		"404":                 {mcphttp.Deny(404, ""), 404, ""},
		"wrapped":             {fmt.Errorf("no such user: %w", mcphttp.Deny(401, "Basic")), 401, "Basic"},
		"no client error":     {mcphttp.Deny(200, ""), 403, ""},
		"a server's error":    {mcphttp.Deny(500, ""), 403, ""},
		"any error":           {errors.New("the resource file:///secret is bob's"), 403, ""},
		"a line in challenge": {mcphttp.Deny(401, "Bearer\r\nSet-Cookie: a=b"), 401, "Bearer  Set-Cookie: a=b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, core.Config{Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
				return core.Grant{}, c.err
			})}, nil)
			got := s.do(t, "alice", listentest.Listen("7", tools))
			if got.status != c.status || got.header.Get("WWW-Authenticate") != c.challenge || got.header.Get("Set-Cookie") != "" {
				t.Errorf("got %d with challenge %q, want %d with %q", got.status, got.header.Get("WWW-Authenticate"), c.status, c.challenge)
			}
			if want := `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"not allowed"}}` + "\n"; got.body != want {
				t.Errorf("the body is %q, want %q", got.body, want)
			}
		})
	}
}

// private allows the URIs under /private/NAME/ to NAME alone, and tells nobody
// which of them exist.
func private() core.Authorizer {
	return core.AuthorizerFunc(func(_ context.Context, principal string, f core.Filter) (core.Grant, error) {
		for _, uri := range f.ResourceSubscriptions {
			if rest, ok := strings.CutPrefix(uri, "file:///private/"); ok && !strings.HasPrefix(rest, principal+"/") {
				return core.Grant{}, mcphttp.Deny(http.StatusForbidden, "")
			}
		}
		return core.Grant{}, nil
	})
}

// TestTwoPrincipalsAreStrangers: with the same id and the same URIs, neither
// hears of, cancels or learns of what is the other's.
func TestTwoPrincipalsAreStrangers(t *testing.T) {
	t.Parallel()
	const shared, bobs, unknown = "file:///shared", "file:///private/bob/a", "file:///private/bob/none"
	s := serve(t, core.Config{Authorizer: private()}, nil)
	alice := s.listen(t, "alice", "7", updates(shared, "file:///private/alice/a"))
	bob := s.listen(t, "bob", "7", updates(shared, bobs))

	// What is for one of them is not the other's, though the URI is both's.
	s.publish(t, core.Principals("bob"), core.ResourceUpdated(shared))
	s.publish(t, core.Audience{}, core.ResourceUpdated(bobs))
	s.publish(t, core.Audience{}, core.ResourceUpdated("file:///private/alice/a"))
	bob.expect("notifications/resources/updated "+shared, "notifications/resources/updated "+bobs)
	alice.expect("notifications/resources/updated file:///private/alice/a")

	// The refusals of what is bob's, and of what is not there, are the same bytes.
	forbidden := s.do(t, "alice", listentest.Listen("7", updates(shared, bobs)))
	none := s.do(t, "alice", listentest.Listen("7", updates(shared, unknown)))
	forbidden.header.Del("Date")
	none.header.Del("Date")
	if forbidden.status != http.StatusForbidden || forbidden.status != none.status || forbidden.body != none.body ||
		fmt.Sprint(forbidden.header) != fmt.Sprint(none.header) {
		t.Errorf("forbidden: %+v\nunknown: %+v\nwant the same 403", forbidden, none)
	}
	// But for the id.
	other := s.do(t, "alice", listentest.Listen(`"x"`, updates(bobs)))
	if want := strings.Replace(forbidden.body, `"id":7`, `"id":"x"`, 1); other.body != want {
		t.Errorf("with another id: %q, want %q", other.body, want)
	}

	// Nobody cancels the other's. Every answer is the same.
	for _, user := range []string{"mallory", "", "alice"} {
		if got := s.do(t, user, cancelled("7")); got.status != http.StatusAccepted || got.body != "" {
			t.Errorf("a cancellation by %q: %d %q, want 202", user, got.status, got.body)
		}
	}
	alice.expect("end") // her own, without a result
	s.publish(t, core.Audience{}, core.ResourceUpdated(shared))
	bob.expect("notifications/resources/updated " + shared)
	if got := s.hub.Stats(); got.Closed[core.ClientClosed] != 1 || got.Open != 1 {
		t.Errorf("the statistics are %+v, want alice's ended as client_closed, and bob's open", got)
	}
}

// TestALimitOfThreeOverSockets: a thousand clients at once get no more than the
// three places, the old stream notices nothing, and an operator sees it.
func TestALimitOfThreeOverSockets(t *testing.T) {
	t.Parallel()
	s := serve(t, core.Config{MaxStreams: 3}, nil)
	s.server.Client().Transport.(*http.Transport).MaxConnsPerHost = 100
	old := s.listen(t, "old", "1", tools)
	var (
		mu       sync.Mutex
		statuses = make(map[int]int)
		advice   = make(map[string]int)
		streams  []io.Closer
		all      sync.WaitGroup
	)
	for i := range 1000 {
		all.Go(func() {
			resp, err := s.send("u"+strconv.Itoa(i), listentest.Listen("1", tools))
			if err != nil {
				t.Errorf("no answer: %v", err)
				return
			}
			mu.Lock()
			statuses[resp.StatusCode]++
			if resp.StatusCode == http.StatusOK {
				streams = append(streams, resp.Body)
			} else {
				advice[resp.Header.Get("Retry-After")]++
			}
			mu.Unlock()
			if resp.StatusCode != http.StatusOK {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	all.Wait()
	if statuses[http.StatusOK] != 2 || statuses[http.StatusServiceUnavailable] != 998 {
		t.Errorf("the answers were %v, want two streams and 998 times 503", statuses)
	}
	for seconds := range advice {
		if n, err := strconv.Atoi(seconds); err != nil || n < 10 || n > 15 {
			t.Errorf("Retry-After: %q, want 10 to 15", seconds)
		}
	}
	if len(advice) < 3 {
		t.Errorf("Retry-After was %v, want it jittered", advice)
	}
	s.publish(t, core.Audience{}, core.ToolsListChanged())
	old.expect(core.MethodToolsListChanged)

	// The counters, the status and the log.
	if got := s.hub.Stats(); got.Refused[core.RefusedLimit] != 998 || got.Open != 3 {
		t.Errorf("the statistics are %+v, want 998 refused and 3 open", got)
	}
	page, report := s.status(t)
	if !strings.Contains(page, "<td>limit</td><td class=\"n\">998</td>") || !strings.Contains(page, "3 open streams") {
		t.Errorf("the status page does not show 998 refusals and 3 streams:\n%s", page)
	}
	if report.Refused["limit"] != 998 || report.Open != 3 {
		t.Errorf("the status is %+v, want 998 refused and 3 open", report)
	}
	if n := strings.Count(s.log.String(), "level=WARN"); n != 1 {
		t.Errorf("the log has %d warnings, want 1 for the burst:\n%s", n, s.log)
	}

	// A freed place is used: the newcomer gets in as soon as one has left.
	if err := streams[0].Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for s.ctx.Err() == nil {
		resp, err := s.send("late", listentest.Listen("1", tools))
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		if resp.StatusCode == http.StatusOK {
			_ = resp.Body.Close()
			break
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if s.ctx.Err() != nil {
		t.Error("the freed place was never given to anybody")
	}
	_ = streams[1].Close()
}

// TestAPrincipalsLimitIs429, with advice, and the others do not feel it.
func TestAPrincipalsLimitIs429(t *testing.T) {
	t.Parallel()
	s := serve(t, core.Config{MaxStreamsPerPrincipal: 1}, nil)
	s.listen(t, "alice", "1", tools)
	got := s.do(t, "alice", listentest.Listen("2", tools))
	if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "-32603") {
		t.Errorf("at her limit, alice got %d, Retry-After %q, %s, want 429 with advice", got.status, got.header.Get("Retry-After"), got.body)
	}
	s.listen(t, "bob", "2", tools)
}

// TestMaxOpeningIs503: who comes while too many are in the authorizer.
func TestMaxOpeningIs503(t *testing.T) {
	t.Parallel()
	inside, proceed := make(chan struct{}), make(chan struct{})
	s := serve(t, core.Config{MaxOpening: 1, Authorizer: core.AuthorizerFunc(func(ctx context.Context, _ string, _ core.Filter) (core.Grant, error) {
		close(inside)
		select {
		case <-proceed:
		case <-ctx.Done():
		}
		return core.Grant{}, nil
	})}, nil)
	opened := make(chan int, 1)
	go func() {
		resp, err := s.send("a", listentest.Listen("1", tools))
		if err != nil {
			opened <- 0
			return
		}
		opened <- resp.StatusCode
		_ = resp.Body.Close()
	}()
	<-inside
	got := s.do(t, "b", listentest.Listen("1", tools))
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q, want 503 with advice", got.status, got.header.Get("Retry-After"))
	}
	close(proceed)
	if status := <-opened; status != http.StatusOK {
		t.Errorf("the one that was being opened got %d, want 200", status)
	}
}

// TestShutdownOf200StreamsOverSockets: over two seconds, each with its result,
// while the listener goes on to send newcomers beyond the drain.
func TestShutdownOf200StreamsOverSockets(t *testing.T) {
	t.Parallel()
	const n, spread = 200, 2 * time.Second
	s := serve(t, core.Config{DrainSpread: spread, KeepAlive: -1}, nil)
	var all sync.WaitGroup
	ended := make([]time.Duration, n)
	var start time.Time
	streams := make([]*listener, n)
	for i := range streams {
		streams[i] = s.listen(t, "u", "1", tools)
	}
	start = time.Now()
	for i, l := range streams {
		all.Go(func() {
			for _, want := range []string{"result", "end"} {
				if got := l.next(); got != want {
					t.Errorf("stream %d got %q, want %q", i, got, want)
				}
			}
			ended[i] = time.Since(start)
		})
	}
	done := make(chan error, 1)
	go func() { done <- s.hub.Shutdown(s.ctx) }()
	for s.ctx.Err() == nil { // until it has begun
		resp, err := s.send("new", listentest.Listen("1", `{}`))
		if err != nil {
			t.Fatalf("the listener does not answer while draining: %v", err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || seconds < 5 {
				t.Errorf("Retry-After: %q, want beyond the drain", resp.Header.Get("Retry-After"))
			}
			break
		}
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	all.Wait()
	slices.Sort(ended)
	t.Log(drawn(ended, spread/10))
	const clocks = 5 * time.Millisecond // two processors need not agree on the time
	for i, at := range ended {          // later than its turn is the machine's affair
		if turn := spread * time.Duration(i) / (n + 1); at < turn-clocks { // a newcomer that came just before takes a turn, too
			t.Fatalf("end %d of %d came after %v, want it in its turn, after %v", i, n, at, turn)
		}
	}
	if got := s.hub.Stats(); got.Closed[core.Shutdown] != n || got.Unflushed != 0 {
		t.Errorf("the statistics are %+v, want %d ended by the shutdown, all flushed", got, n)
	}
}

// drawn is a histogram.
func drawn(times []time.Duration, width time.Duration) string {
	var b strings.Builder
	for at := time.Duration(0); len(times) > 0; at += width {
		n, _ := slices.BinarySearch(times, at+width)
		fmt.Fprintf(&b, "\n%8v %4d %s", at, n, strings.Repeat("#", n))
		times = times[n:]
	}
	return b.String()
}

// TestARevocationReachesTheClient as a result, and what was pending does not.
func TestARevocationReachesTheClient(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	withdrawn := false
	s := serve(t, core.Config{Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
		return core.Grant{RecheckDelivery: true, Recheck: func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if withdrawn {
				return errors.New("withdrawn")
			}
			return nil
		}}, nil
	})}, nil)
	l := s.listen(t, "alice", "1", tools)
	s.publish(t, core.Audience{}, core.ToolsListChanged())
	l.expect(core.MethodToolsListChanged)
	mu.Lock()
	withdrawn = true
	mu.Unlock()
	s.publish(t, core.Audience{}, core.ToolsListChanged())
	l.expect("result", "end")
}

// TestModesOverHTTP: what server/discover says, and what becomes of a listen.
func TestModesOverHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t, core.Config{}, nil)
	discover := listentest.Post(core.MethodDiscover, strings.Replace(listentest.ListenBody("7", "{}"), core.MethodListen, core.MethodDiscover, 1))
	says := func(when, want string) {
		t.Helper()
		if got := s.do(t, "", discover); got.status != http.StatusOK || !strings.Contains(got.body, `"capabilities":`+want) {
			t.Errorf("%s, server/discover answers %d %s, want the capabilities %s", when, got.status, got.body, want)
		}
	}
	l := s.listen(t, "", "7", tools)
	says("serving", `{"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`)
	s.hub.SetMode(core.ModeComplete)
	l.expect("result", "end")
	l = s.listen(t, "", "7", tools)
	l.expect("result", "end")
	says("completing at once", "{}")
	s.hub.SetMode(core.ModeNotFound)
	says("not serving", "{}")
	listen := s.do(t, "", listentest.Listen("7", tools))
	unknown := s.do(t, "", listentest.Post("no/such", strings.Replace(listentest.ListenBody("7", tools), core.MethodListen, "no/such", 1)))
	if listen.status != http.StatusNotFound || listen.body != unknown.body || !strings.Contains(listen.body, "-32601") ||
		listen.header.Get("Content-Type") != "application/json" {
		t.Errorf("not found: %+v\nunknown: %+v\nwant the same 404 with -32601", listen, unknown)
	}
	s.hub.SetMode(core.ModeServe)
	s.listen(t, "", "7", tools)
}

// echoed answers with the body that it got.
var echoed = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = w.Write(append([]byte("next: "), body...))
})

// TestCancellationsInFrontOfANextHandler: those of our protocol version are taken,
// and end nothing that is not the caller's; those of older ones are about requests of
// the next handler, and reach it as they came.
func TestCancellationsInFrontOfANextHandler(t *testing.T) {
	t.Parallel()
	s := serve(t, core.Config{}, echoed)
	alice := s.listen(t, "alice", "1", tools)
	s.listen(t, "alice", "2", tools)
	s.listen(t, "alice", "2", tools)
	s.listen(t, "bob", "3", tools)
	withoutHeader := func(c listentest.Call) listentest.Call { return c.With("Mcp-Method") }
	// With white space and a member that we do not know, to see that it is intact.
	foreign := cancelled("1").Saying(`{ "jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId": 77 ,"reason":"é"}}` + "\n")
	asRequest := cancelled("1").Saying(`{"jsonrpc":"2.0","id":5,"method":"notifications/cancelled","params":{"requestId":1}}`)
	const passed = 0
	for name, c := range map[string]struct {
		user string
		call listentest.Call
		want int // the status
	}{
		"of another's id":             {"alice", foreign, http.StatusAccepted},
		"without a header":            {"alice", withoutHeader(foreign), http.StatusAccepted},
		"of bob's by alice":           {"alice", cancelled("3"), http.StatusAccepted},
		"of two":                      {"alice", cancelled("2"), http.StatusAccepted},
		"by nobody":                   {"", cancelled("1"), http.StatusAccepted},
		"by a stranger":               {"mallory", withoutHeader(cancelled("1")), http.StatusAccepted},
		"with another type":           {"alice", cancelled(`"1"`), http.StatusAccepted},
		"of an unusable id":           {"alice", cancelled("null"), http.StatusAccepted},
		"from a foreign origin":       {"alice", cancelled("1").With("Origin", "https://evil.example"), http.StatusForbidden},
		"at a foreign host":           {"alice", cancelled("1").At("evil.example"), http.StatusForbidden},
		"as plain text":               {"alice", cancelled("1").With("Content-Type", "text/plain"), http.StatusUnsupportedMediaType},
		"that is a request":           {"alice", asRequest, passed},
		"of an older revision":        {"alice", withoutHeader(foreign).With("Mcp-Protocol-Version", "2025-11-25"), passed},
		"of one without a version":    {"alice", withoutHeader(foreign).With("Mcp-Protocol-Version"), passed},
		"of an older one, by its id":  {"alice", withoutHeader(cancelled("1")).With("Mcp-Protocol-Version", "2025-11-25"), passed},
		"of an older one, and header": {"alice", cancelled("1").With("Mcp-Protocol-Version", "2025-11-25"), passed},
	} {
		got := s.do(t, c.user, c.call)
		if c.want == passed && (got.status != http.StatusOK || got.body != "next: "+c.call.Body) {
			t.Errorf("a cancellation %s got %d %q, want it passed on as it came", name, got.status, got.body)
		} else if c.want != passed && got.status != c.want {
			t.Errorf("a cancellation %s got %d %q, want %d", name, got.status, got.body, c.want)
		}
	}
	if got := s.hub.Stats().Open; got != 4 {
		t.Fatalf("%d streams are open, want all 4", got)
	}
	for _, which := range []string{"alice's own", "a second"} { // the stream may have gone before the message comes
		if got := s.do(t, "alice", withoutHeader(cancelled("1"))); got.status != http.StatusAccepted || got.body != "" {
			t.Errorf("%s cancellation got %d %q, want 202", which, got.status, got.body)
		}
	}
	alice.expect("end")
}

// TestWithoutPrincipalsNothingIsCancelled: ids alone name nobody's stream.
func TestWithoutPrincipalsNothingIsCancelled(t *testing.T) {
	t.Parallel()
	hub := newHub(t, core.Config{Capabilities: everyKind})
	h, err := mcphttp.New(hub)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{hub: hub, server: httptest.NewServer(h)}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer s.server.Close()
	l := s.listen(t, "alice", "1", tools)
	if got := s.do(t, "alice", cancelled("1")); got.status != http.StatusAccepted {
		t.Errorf("got %d, want 202", got.status)
	}
	s.publish(t, core.Audience{}, core.ToolsListChanged())
	l.expect(core.MethodToolsListChanged)
	if err := hub.Shutdown(s.ctx); err != nil {
		t.Error(err)
	}
}
