// Who may listen, for how long and how often; and who may cancel.

package listentest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// byHeader is the option that takes the principal from the header X-User.
func byHeader() []mcphttp.Option {
	return []mcphttp.Option{mcphttp.WithPrincipal(func(r *http.Request) string { return r.Header.Get("X-User") })}
}

func (s suite) policies(t *testing.T) {
	t.Parallel()
	notAllowed := wantRefusal{status: 403, code: core.CodeInvalidRequest, id: "7"}
	t.Run("principal", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{Hub: core.Config{Authorizer: onlyFor("alice")}, HTTP: byHeader()})
		client := srv.client(t)
		client.Do(t, Listen("7", everything).With("X-User", "bob")).refused(t, notAllowed, "bob")
		client.Do(t, Listen("7", everything)).refused(t, notAllowed, "alice")
		client.listen(t, Listen("7", everything).With("X-User", "alice"))
		if got := srv.Hub.Streams()[0].Principal; got != "alice" {
			t.Errorf("the principal is %q, want alice", got)
		}
	})
	t.Run("denied", func(t *testing.T) {
		t.Parallel()
		for given, want := range map[int]int{401: 401, 403: 403, 404: 404, 200: 403, 500: 403} {
			srv := s.start(t, Options{Hub: core.Config{Authorizer: refusing(mcphttp.Deny(given, `Bearer realm="x"`))}})
			answer := srv.client(t).Do(t, Listen("7", everything))
			answer.refused(t, wantRefusal{status: want, code: core.CodeInvalidRequest, id: "7"}, "file:")
			if got := answer.Header.Values("Www-Authenticate"); len(got) != 1 || got[0] != `Bearer realm="x"` {
				t.Errorf("WWW-Authenticate: got %q, want the challenge", got)
			}
		}
	})
	t.Run("limit of a principal", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{Hub: core.Config{MaxStreamsPerPrincipal: 1}, HTTP: byHeader()})
		client := srv.client(t)
		client.listen(t, Listen("7", everything).With("X-User", "alice"))
		answer := client.Do(t, Listen("7", everything).With("X-User", "alice"))
		answer.refused(t, wantRefusal{status: 429, code: core.CodeInternalError, id: "7"}, "alice")
		if answer.Header.Get("Retry-After") == "" {
			t.Error("there is no Retry-After")
		}
		client.listen(t, Listen("7", everything).With("X-User", "bob"))
		client.listen(t, Listen("7", everything))
		client.listen(t, Listen("7", everything))
	})
	t.Run("end of a grant", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{Hub: core.Config{Authorizer: authorizer(func() (core.Grant, error) {
			return core.Grant{Until: time.Now().Add(200 * time.Millisecond)}, nil
		})}})
		srv.client(t).listen(t, Listen("7", everything)).expectEnd(t)
		srv.ended(t, core.GrantExpired)
	})
	t.Run("switched off", func(t *testing.T) {
		t.Parallel()
		srv := s.start(t, Options{})
		client := srv.client(t)
		stream := client.listen(t, Listen("7", everything))
		srv.Hub.SetMode(core.ModeComplete)
		stream.expectEnd(t)
		stream = client.listen(t, Listen("7", everything))
		if !(stream.honored.within(Filter{})) {
			t.Errorf("honored: got %v, want nothing", stream.honored)
		}
		stream.expectEnd(t)
		srv.Hub.SetMode(core.ModeNotFound)
		client.Do(t, Listen("7", everything)).refused(t, wantRefusal{status: 404, code: core.CodeMethodNotFound, id: "7"}, "")
		srv.Hub.SetMode(core.ModeServe)
		client.listen(t, Listen("7", everything))
	})
}

// cancellation: notifications/cancelled ends the one stream that its sender
// opened under that id, without a result, and no other.
func (s suite) cancellation(t *testing.T) {
	t.Parallel()
	cancel := func(user, id string) Call {
		return Post("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`).With("X-User", user)
	}
	for name, next := range map[string]http.Handler{"alone": nil, "in front": http.HandlerFunc(echo)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := s.start(t, Options{HTTP: byHeader(), Next: next})
			client := srv.client(t)
			var streams []*Stream
			for _, c := range []struct{ user, id string }{
				{"alice", "7"}, {"bob", "7"}, {"alice", "8"}, {"alice", "8"}, {"", "7"}, {"alice", `"7"`},
			} {
				streams = append(streams, client.listen(t, Listen(c.id, everything).With("X-User", c.user)))
			}
			for _, call := range []Call{
				cancel("carol", "7"), cancel("bob", "8"), cancel("alice", "8"), cancel("", "7"), cancel("bob", `"7"`),
				cancel("alice", "null"), cancel("alice", "7.0"), cancel("alice", "[7]"),
				cancel("bob", "8").With(headerMethod, core.MethodCancelled),
				cancel("alice", "7").Saying(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`),
				cancel("alice", "7").Saying(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"REQUESTID":7}}`),
				cancel("alice", "7").Saying(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"requestId":7}}`),
			} {
				if next == nil || strings.Contains(call.Body, core.MethodCancelled) {
					client.Do(t, call).is(t, http.StatusAccepted, "")
				} else {
					client.Do(t, call).is(t, http.StatusMultiStatus, call.Body)
				}
			}
			if next != nil { // of an older revision, it is about one of next's requests
				old := cancel("alice", "7").With(headerVersion, "2025-11-25")
				client.Do(t, old).is(t, http.StatusMultiStatus, old.Body)
			}
			if n := len(srv.Hub.Streams()); n != len(streams) {
				t.Fatalf("%d streams are open, want all %d", n, len(streams))
			}
			for i, call := range map[int]Call{
				0: cancel("alice", "7"),
				1: cancel("bob", "7").With(headerMethod, core.MethodCancelled),
				5: cancel("alice", `"\u0037"`),
			} {
				client.Do(t, call).is(t, http.StatusAccepted, "")
				if e, err := streams[i].Message(); err == nil || !strings.Contains(err.Error(), `broke off after ""`) {
					t.Errorf("stream %d: got %v and %v, want an end without a result", i, e, err)
				}
				srv.ended(t, core.ClientClosed)
			}
			srv.publish(t, core.ToolsListChanged())
			for _, i := range []int{2, 3, 4} {
				streams[i].expect(t, core.MethodToolsListChanged)
			}
		})
	}
}
