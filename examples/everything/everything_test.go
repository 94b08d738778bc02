package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/everything/internal/backend"
	"github.com/mcplisten/mcplisten/examples/internal/listening"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what is refused here is meant to be
	goleak.VerifyTestMain(m)
}

// program is a running example.
type program struct {
	listening.Client
	admin string
	stop  func() // SIGTERM, and the wait for a clean end
}

func start(t *testing.T, flags ...string) program {
	t.Helper()
	var said bytes.Buffer
	s, err := parse(append([]string{"-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0"}, flags...), &said)
	if err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	printed, stop := listening.Start(t, 2, func(ctx context.Context, out io.Writer) error { return run(ctx, s, out) })
	url, found := strings.CutPrefix(printed[0], "listening on ")
	admin, too := strings.CutPrefix(printed[1], "admin on ")
	if !found || !too || !strings.HasSuffix(url, "/mcp") {
		t.Fatalf("printed %q", printed)
	}
	return program{Client: listening.Client{URL: url}, admin: admin, stop: stop}
}

// as returns a client with a token.
func (p program) as(token string) listening.Client {
	c := p.Client
	c.Token = token
	return c
}

func (p program) publish(t *testing.T, query string) {
	t.Helper()
	if status, body := (listening.Client{}).Do(t, http.MethodPost, p.admin+"/publish?"+query, ""); status != http.StatusNoContent {
		t.Fatalf("publish?%s: status %d, %s", query, status, body)
	}
}

func (p program) stats(t *testing.T) statistics {
	t.Helper()
	status, body := listening.Client{}.Do(t, http.MethodGet, p.admin+"/stats", "")
	var s statistics
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
		t.Fatalf("stats: status %d, %v, %s", status, err, body)
	}
	return s
}

// send sends a request with the given headers, and returns status and headers of
// the answer.
func (p program) send(t *testing.T, method, host, body string, header ...string) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode, res.Header
}

const (
	all     = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["u:1"]}`
	nothing = `{}`
)

// eachFramework runs a test on all of them.
func eachFramework(t *testing.T, test func(t *testing.T, framework string)) {
	for _, framework := range frameworkNames() {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			test(t, framework)
		})
	}
}

func TestEveryKindArrives(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, framework string) {
		p := start(t, "-framework", framework, "-keepalive", "20ms")
		stream := p.Listen(t, all)
		stream.Expect(t, core.MethodAcknowledged, "keep-alive")
		p.publish(t, "kind=tools")
		stream.Expect(t, core.MethodToolsListChanged)
		p.publish(t, "kind=prompts")
		stream.Expect(t, core.MethodPromptsListChanged)
		p.publish(t, "kind=resources")
		stream.Expect(t, core.MethodResourcesListChanged)
		p.publish(t, "kind=updated&uri=u:1")
		stream.Expect(t, core.MethodResourceUpdated+" u:1")

		for name, want := range map[string]string{
			"test_trigger_tool_change":   core.MethodToolsListChanged,
			"test_trigger_prompt_change": core.MethodPromptsListChanged,
			"change_resource_list":       core.MethodResourcesListChanged,
		} {
			if status, body := p.Call(t, "tools/call", name, `"arguments":{},"name":"`+name+`"`); status != http.StatusOK {
				t.Fatalf("%s: status %d, %s", name, status, body)
			}
			stream.Expect(t, want)
		}

		if s := p.stats(t); s.Streams != 1 || s.Goroutines == 0 || s.HeapBytes == 0 {
			t.Errorf("stats with one stream: %+v", s)
		}
		p.stop()
		stream.Expect(t, "result", "end")
	})
}

// Who is notified and lists at once must see what has changed.
func TestListsHaveChangedBeforeTheyAreAnnounced(t *testing.T) {
	t.Parallel()
	p := start(t)
	stream := p.Listen(t, all)
	stream.Expect(t, core.MethodAcknowledged)
	for _, c := range []struct{ tool, list, added string }{
		{"test_trigger_tool_change", "tools/list", "comes_and_goes"},
		{"test_trigger_prompt_change", "prompts/list", "now_and_then"},
		{"change_resource_list", "resources/list", "everything://spare"},
	} {
		for _, there := range []bool{true, false, true} {
			p.Call(t, "tools/call", c.tool, `"arguments":{},"name":"`+c.tool+`"`)
			stream.Next(t)
			if _, body := p.Call(t, c.list, "", ""); strings.Contains(body, c.added) != there {
				t.Errorf("%s after %s: %s", c.list, c.tool, body)
			}
		}
	}
	read := func() string {
		_, body := p.Call(t, "resources/read", "everything://notes", `"uri":"everything://notes"`)
		return body
	}
	before := read()
	p.Call(t, "tools/call", "change_resource", `"arguments":{"uri":"everything://notes"},"name":"change_resource"`)
	if after := read(); before == after {
		t.Errorf("after change_resource the resource is still %s", after)
	}
}

func TestDiscoverAdvertisesWhatIsDelivered(t *testing.T) {
	t.Parallel()
	_, body := start(t).Call(t, core.MethodDiscover, "", "")
	for _, want := range []string{
		`"tools":{"listChanged":true}`, `"prompts":{"listChanged":true}`, `"resources":{"listChanged":true,"subscribe":true}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

func TestManyChangesAreFew(t *testing.T) {
	t.Parallel()
	p := start(t)
	stream := p.Listen(t, `{"resourceSubscriptions":["u:1","u:2"]}`)
	stream.Expect(t, core.MethodAcknowledged)
	p.publish(t, "kind=updated&uri=u:1&n=1000")
	p.publish(t, "kind=updated&uri=u:2")
	count := 0
	for stream.Next(t) != core.MethodResourceUpdated+" u:2" {
		count++
	}
	if count == 0 || count > 1000 {
		t.Errorf("1000 changes became %d notifications", count)
	}
	p.publish(t, "kind=updated&uri=u:3") // nobody's
}

func TestAdminRefuses(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, query := range []string{"", "kind=weather", "kind=updated", "kind=tools&n=-1", "kind=tools&n=many"} {
		if status, _ := p.Do(t, http.MethodPost, p.admin+"/publish?"+query, ""); status != http.StatusBadRequest {
			t.Errorf("publish?%s: status %d, not 400", query, status)
		}
	}
	if status, _ := p.Do(t, http.MethodGet, p.admin+"/publish?kind=tools", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("GET publish: status %d, not 405", status)
	}
}

func TestEndsAreCounted(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.Listen(t, nothing).Expect(t, core.MethodAcknowledged, "result", "end")
	stream := p.Listen(t, all)
	stream.Expect(t, core.MethodAcknowledged)
	stream.Close()
	for range 1000 { // until the server has noticed
		s := p.stats(t)
		if s.Streams == 0 && s.Closed[core.ClientClosed] == 1 && s.Closed[core.Completed] == 1 {
			return
		}
	}
	t.Errorf("stats: %+v", p.stats(t))
}

func TestTokensAndPrivateResources(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, framework string) {
		p := start(t, "-framework", framework, "-tokens", "alice=s1,bob=s2,carol=s3:200ms", "-private", "bob:file:///private/",
			"-max-streams-per-principal", "1")
		const diary, unknown = `{"resourceSubscriptions":["file:///private/diary"]}`, `{"resourceSubscriptions":["file:///private/x"]}`

		for _, token := range []string{"", "s4", "s3:200ms"} {
			if status, body := p.as(token).Refused(t, all); status != http.StatusUnauthorized {
				t.Errorf("token %q: status %d, %s", token, status, body)
			}
		}
		status, header := p.send(t, http.MethodGet, "", "")
		if status != http.StatusUnauthorized || header.Get("WWW-Authenticate") == "" {
			t.Errorf("GET without a token: status %d, header %v", status, header)
		}

		status, forbidden := p.as("s1").Refused(t, diary)
		if status != http.StatusForbidden {
			t.Errorf("somebody else's resource: status %d, %s", status, forbidden)
		}
		if _, other := p.as("s1").Refused(t, unknown); other != forbidden {
			t.Errorf("the answers tell %s from %s", forbidden, other)
		}

		bob := p.as("s2").Listen(t, diary)
		bob.Expect(t, core.MethodAcknowledged)
		p.publish(t, "kind=updated&uri=file:///private/diary")
		bob.Expect(t, core.MethodResourceUpdated+" file:///private/diary")
		if status, body := p.as("s2").Refused(t, all); status != http.StatusTooManyRequests {
			t.Errorf("a second stream of one principal: status %d, %s", status, body)
		}

		p.as("s3").Listen(t, all).Expect(t, core.MethodAcknowledged, "result", "end")
		if s := p.stats(t); s.Closed[core.GrantExpired] != 1 {
			t.Errorf("closed: %v", s.Closed)
		}
	})
}

func TestOtherOrigins(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, framework string) {
		const origin, foreign = "https://app.example", "https://other.example"
		// Authentication must not stand in the way: a preflight has no token.
		p := start(t, "-framework", framework, "-origins", origin, "-tokens", "alice=s1")
		preflight := []string{"Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "authorization,content-type,mcp-method,mcp-protocol-version"}

		status, header := p.send(t, http.MethodOptions, "", "", append(preflight, "Origin", origin)...)
		if got := header.Get("Access-Control-Allow-Origin"); status >= 300 || got != origin {
			t.Errorf("preflight: status %d, header %v", status, header)
		}
		allowed := strings.ToLower(strings.Join(header.Values("Access-Control-Allow-Headers"), ","))
		for _, name := range []string{"authorization", "content-type", "mcp-method", "mcp-protocol-version"} {
			if !strings.Contains(allowed, name) {
				t.Errorf("preflight allows %q, not %s", allowed, name)
			}
		}
		_, header = p.send(t, http.MethodOptions, "", "", append(preflight, "Origin", foreign)...)
		if got := header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("a foreign preflight is answered with %q", got)
		}
		for _, method := range []string{core.MethodListen, "tools/list"} {
			status, _ = p.send(t, http.MethodPost, "", "", "Origin", foreign, "Sec-Fetch-Site", "cross-site", "Authorization", "Bearer s1",
				"Content-Type", "application/json", "Mcp-Method", method)
			if status != http.StatusForbidden {
				t.Errorf("%s of a foreign page: status %d", method, status)
			}
		}
	})
}

func TestHosts(t *testing.T) {
	t.Parallel()
	p := start(t, "-hosts", "mcp.example")
	for host, want := range map[string]bool{"mcp.example": true, "MCP.example:443": true, "localhost": true, "[::1]:80": true, "evil.example": false} {
		for _, method := range []string{core.MethodListen, "tools/list"} {
			status, _ := p.send(t, http.MethodPost, host, "{}", "Content-Type", "application/json", "Mcp-Method", method)
			if got := status != http.StatusForbidden; got != want {
				t.Errorf("%s at %s: status %d", method, host, status)
			}
		}
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	p := start(t, "-drain", "1s")
	streams := make([]*listening.Stream, 20)
	for i := range streams {
		streams[i] = p.Listen(t, all)
		streams[i].Expect(t, core.MethodAcknowledged)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.stop()
	}()
	// The first to end shows that the drain has begun: the last ones have time left.
	first := make(chan struct{}, len(streams))
	for _, s := range streams {
		go func() {
			s.Expect(t, "result", "end")
			first <- struct{}{}
		}()
	}
	<-first
	if status, body := p.Refused(t, all); status != http.StatusServiceUnavailable {
		t.Errorf("a newcomer during the drain: status %d, %s", status, body)
	}
	for range len(streams) - 1 {
		<-first
	}
	<-ended
}

// TestLean: streams that were taken over end with their results as well, and the
// program waits for them.
func TestLean(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, framework string) {
		p := start(t, "-framework", framework, "-lean", "-keepalive", "50ms", "-server-read-timeout", "100ms", "-server-write-timeout", "100ms")
		stream := p.Listen(t, all)
		stream.Expect(t, core.MethodAcknowledged)
		for range 3 {
			stream.Expect(t, "keep-alive")
		}
		p.publish(t, "kind=tools")
		stream.Expect(t, core.MethodToolsListChanged)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.stop()
		}()
		stream.Expect(t, "result", "end")
		<-ended
	})
}

func TestServerTimeoutsDoNotEndStreams(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, framework string) {
		p := start(t, "-framework", framework, "-keepalive", "50ms", "-server-read-timeout", "100ms", "-server-write-timeout", "100ms")
		stream := p.Listen(t, all)
		stream.Expect(t, core.MethodAcknowledged)
		for range 6 {
			stream.Expect(t, "keep-alive")
		}
		p.publish(t, "kind=tools")
		stream.Expect(t, core.MethodToolsListChanged)
	})
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	t.Run("h2c", func(t *testing.T) {
		t.Parallel()
		p := start(t, "-h2c")
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		p.arrivesByHTTP2(t, transport)
	})
	t.Run("TLS", func(t *testing.T) {
		t.Parallel()
		cert, key, trusting := certificate(t)
		p := start(t, "-tls-cert", cert, "-tls-key", key)
		if !strings.HasPrefix(p.URL, "https://") {
			t.Errorf("listening on %s", p.URL)
		}
		p.arrivesByHTTP2(t, trusting)
	})
}

func (p program) arrivesByHTTP2(t *testing.T, transport *http.Transport) {
	t.Helper()
	t.Cleanup(transport.CloseIdleConnections)
	p.HTTP = &http.Client{Transport: transport}
	stream := p.Listen(t, all)
	stream.Expect(t, core.MethodAcknowledged)
	if stream.Proto != "HTTP/2.0" {
		t.Errorf("the stream came by %s", stream.Proto)
	}
	p.publish(t, "kind=tools")
	stream.Expect(t, core.MethodToolsListChanged)
	stream.Close()
}

// certificate returns files with a certificate and its key, and a transport that
// trusts it: package httptest's.
func certificate(t *testing.T) (certFile, keyFile string, trusting *http.Transport) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	srv.Close()
	cert := srv.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("cert.pem", "CERTIFICATE", cert.Certificate[0]), write("key.pem", "PRIVATE KEY", key),
		srv.Client().Transport.(*http.Transport).Clone()
}

// What each framework's listen handler does behind a middleware: it streams, or
// refuses with a word about the cause. What ends a context ends the stream with a
// result after five seconds, which is mcphttp's to test.
func TestHostileMiddleware(t *testing.T) {
	t.Parallel()
	for _, middleware := range middlewares {
		t.Run(middleware, func(t *testing.T) {
			t.Parallel()
			eachFramework(t, func(t *testing.T, framework string) {
				p := start(t, "-framework", framework, "-middleware", middleware, "-keepalive", "50ms")
				if buffers := middleware == "timeouthandler" || middleware == "naive" || framework == "echo" && middleware == "timeout"; buffers {
					status, body := p.Refused(t, all)
					if status != http.StatusInternalServerError || !strings.Contains(body, "cannot be streamed") {
						t.Errorf("status %d, %s", status, body)
					}
					return
				}
				stream := p.Listen(t, all)
				stream.Expect(t, core.MethodAcknowledged, "keep-alive")
				p.publish(t, "kind=tools")
				stream.Expect(t, core.MethodToolsListChanged)
			})
		})
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{
		"-framework rails", "-middleware kind", "-tls-cert cert.pem", "-h2c -tls-cert cert.pem -tls-key key.pem", "word",
		"-tokens s1", "-tokens =s1", "-tokens alice=", "-tokens alice=s1:soon", "-tokens alice=s1:-1s", "-tokens alice=s1,alice=s2:1s",
		"-private bob", "-private :u:", "-private bob:", "-nosuch",
	} {
		var said bytes.Buffer
		if s, err := parse(strings.Fields(flags), &said); err == nil {
			t.Errorf("%s: taken for %+v", flags, s)
		} else if said.Len() == 0 {
			t.Errorf("%s: %v, and nothing is said", flags, err)
		}
	}
	for _, flags := range []string{"-addr 127.0.0.1:nosuch", "-admin 127.0.0.1:nosuch", "-max-lifetime -1s", "-write-timeout 0s", "-origins app.example", "-hosts a/b"} {
		s, err := parse(append([]string{"-addr", "127.0.0.1:0"}, strings.Fields(flags)...), io.Discard)
		if err == nil {
			err = run(t.Context(), s, io.Discard)
		}
		if err == nil {
			t.Errorf("%s: the program ran", flags)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	eachFramework(t, func(t *testing.T, framework string) {
		p := start(t, "-framework", framework, "-tokens", "alice=s1") // the page itself needs none
		base := strings.TrimSuffix(p.URL, endpoint)
		for path, want := range map[string]string{"/": "<!doctype html>", "/page.js": "subscriptions/listen", "/page.css": ":root"} {
			if status, body := p.Do(t, http.MethodGet, base+path, ""); status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: status %d, %.100s", path, status, body)
			}
		}
		if status, _ := p.Do(t, http.MethodGet, base+"/main.go", ""); status != http.StatusNotFound {
			t.Errorf("another path: status %d", status)
		}
	})
}

func TestClockTicksOnlyForListeners(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ticks := 0
		c := &clock{publish: func(_ context.Context, changes ...core.Change) error {
			ticks += len(changes)
			return nil
		}}
		for range 2 {
			for _, uri := range []string{backend.ClockURI, "u:1"} {
				if err := c.Start(t.Context(), uri); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(2*tick + tick/2)
			c.Stop("u:1")
			c.Stop(backend.ClockURI)
			<-time.After(10 * tick) // nothing may come now
		}
		if ticks != 4 {
			t.Errorf("%d ticks, not 4", ticks)
		}
	})
}
