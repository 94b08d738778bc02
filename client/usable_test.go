// What is not usable is said at once, and what lets a request in stays with its
// server.

package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/client"
)

func TestNotUsable(t *testing.T) {
	t.Parallel()
	endpoint := byHand(t, func(http.ResponseWriter, *http.Request, string) { t.Error("a request was sent") })
	tests := []struct {
		name     string
		endpoint client.Endpoint
		option   client.Option
	}{
		{"no endpoint", nil, nil},
		{"no pair", (*client.Pair)(nil), nil},
		{"no command", client.Command(nil), nil},
		{"header name with blank", endpoint, client.WithHeader("Bad Name", "x")},
		{"header name with colon", endpoint, client.WithHeader("A:", "x")},
		{"header name not ASCII", endpoint, client.WithHeader("Prüfung", "x")},
		{"no header name", endpoint, client.WithHeader("", "x")},
		{"header value with line break", endpoint, client.WithHeader("X", "a\r\nb: c")},
		{"header value with NUL", endpoint, client.WithHeader("X", "a\x00")},
		{"token with line break", endpoint, client.WithToken("a\n")},
		{"host with blank", endpoint, client.WithHeader("Host", "a b")},
		{"host with path", endpoint, client.WithHeader("host", "a/b")},
		{"framing", endpoint, client.WithHeader("transfer-encoding", "chunked")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if s, err := client.Listen(testContext(t), tt.endpoint, toolsFilter, tt.option); client.CauseOf(err) != client.Unusable || s != nil || errors.Is(err, client.ErrDropped) {
				t.Errorf("Listen: got %v, %v", client.CauseOf(err), err)
			}
			if f, err := client.Follow(testContext(t), tt.endpoint, toolsFilter, tt.option); client.CauseOf(err) != client.Unusable || f != nil {
				t.Errorf("Follow: got %v, %v", client.CauseOf(err), err)
			}
		})
	}
}

// What may stand in a header arrives.
func TestHeaderArrives(t *testing.T) {
	t.Parallel()
	endpoint := byHand(t, func(w http.ResponseWriter, r *http.Request, id string) {
		if r.Header.Get("X-!#$%&'*+-.^_`|~9") != "a\tü b" || r.Host != "example.test:81" {
			t.Errorf("got %v of %s", r.Header, r.Host)
		}
		say(w, id, toolsAck, goodbye)
	})
	_, end := listen(t, endpoint, client.WithHeader("x-!#$%&'*+-.^_`|~9", "a\tü b"), client.WithHeader("host", "example.test:81"))
	if end.Cause != client.Graceful {
		t.Errorf("got %v", end)
	}
}

// A token source may give something better the next time.
func TestTokenOfSourceIsChecked(t *testing.T) {
	t.Parallel()
	endpoint := byHand(t, func(http.ResponseWriter, *http.Request, string) { t.Error("a request was sent") })
	_, end := listen(t, endpoint, client.WithTokenSource(func(context.Context) (string, error) { return "secret\n", nil }))
	if !errors.Is(end.Err, client.ErrToken) || strings.Contains(end.String(), "secret") {
		t.Errorf("got %v", end)
	}
}

func TestCommandThatIsNone(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	for name, command := range map[string]client.Command{
		"not in the path": func() *exec.Cmd { return exec.Command("mcplisten-no-such-binary") },
		"no file":         func() *exec.Cmd { return exec.Command(none) },
		"a directory":     func() *exec.Cmd { return exec.Command(filepath.Dir(none)) },
		"nil":             func() *exec.Cmd { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := client.Follow(testContext(t), command, toolsFilter, client.WithOnRetry(func(r client.Retry) {
				t.Errorf("again in %v", r.Wait)
			}))
			if err != nil {
				t.Fatal(err)
			}
			if end := f.End(); end.Cause != client.Dropped || !errors.Is(end.Err, client.ErrCommand) || !errors.Is(end.Err, client.ErrUnreachable) {
				t.Errorf("got %v", end)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	// target tells whether the request came as it was sent.
	var in []string
	target := byHand(t, func(w http.ResponseWriter, r *http.Request, id string) {
		in = append(in, r.Method+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Key"))
		say(w, id, toolsAck, goodbye)
	})
	for _, tt := range []struct {
		status int
		same   bool // the same server
		want   string
	}{
		{301, false, ""}, {302, false, ""}, {303, false, ""}, {302, true, ""},
		{307, false, "POST  "}, {308, false, "POST  "},
		{307, true, "POST Bearer secret key"}, {308, true, "POST Bearer secret key"},
	} {
		in = nil
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/there":
				r.RequestURI = ""
				in = append(in, r.Method+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Key"))
				w.WriteHeader(http.StatusTeapot)
			case tt.same:
				http.Redirect(w, r, "/there", tt.status)
			default:
				http.Redirect(w, r, string(target), tt.status)
			}
		}))
		_, end := listen(t, client.URL(srv.URL), client.WithToken("secret"), client.WithHeader("X-Key", "key"))
		srv.Close()
		if got := strings.Join(in, ", "); got != tt.want {
			t.Errorf("%d, same server %t: the target got %q, want %q", tt.status, tt.same, got, tt.want)
		}
		var refused *client.RefusedError
		if tt.want == "" && (!errors.As(end.Err, &refused) || refused.Status != tt.status || !refused.Permanent() || !strings.Contains(refused.Message, "redirected to")) {
			t.Errorf("%d: got %v", tt.status, end)
		}
	}
}

// A redirect in a circle comes to an end, and an own CheckRedirect has its say.
func TestRedirectsEnd(t *testing.T) {
	t.Parallel()
	requests := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	_, end := listen(t, client.URL(srv.URL))
	if end.Cause != client.Refused || requests != 10 {
		t.Errorf("got %v after %d requests", end, requests)
	}
	own := errors.New("not there")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	_, err := client.Listen(testContext(t), client.URL(srv.URL), toolsFilter, client.WithHTTPClient(&http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return own },
	}))
	if !errors.Is(err, own) {
		t.Errorf("got %v", err)
	}
}

func TestCompressedAnswer(t *testing.T) {
	t.Parallel()
	for encoding, want := range map[string]client.Cause{
		"gzip": client.Violation, "br": client.Violation, "identity": client.Graceful, "Identity": client.Graceful,
	} {
		endpoint := byHand(t, func(w http.ResponseWriter, _ *http.Request, id string) {
			w.Header().Set("Content-Encoding", encoding)
			if want == client.Graceful {
				say(w, id, toolsAck, goodbye)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "\x1f\x8b")
		})
		_, end := listen(t, endpoint)
		var v *client.ViolationError
		if end.Cause != want || want == client.Violation && (!errors.As(end.Err, &v) || !strings.Contains(v.Detail, encoding)) {
			t.Errorf("%s: got %v", encoding, end)
		}
	}
}
