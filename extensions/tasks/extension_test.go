// The extension on a hub, over HTTP: who may listen, what is missing, and that the
// newest state of a task is what arrives.

package mcptasks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
	mcptasks "github.com/mcplisten/mcplisten/extensions/tasks"
)

var owners = map[string]string{"t1": "alice", "t2": "bob"}

// owned lets a principal listen to their own tasks.
func owned(_ context.Context, principal string, ids []string) error {
	for _, id := range ids {
		switch owner, known := owners[id]; {
		case !known:
			return errors.New("no such task")
		case owner != principal:
			return mcphttp.Deny(http.StatusUnauthorized, "Bearer")
		}
	}
	return nil
}

// start serves a hub with the extension; the principal is in a header.
func start(t *testing.T, config mcptasks.Config) (hub *core.Hub, url string) {
	t.Helper()
	hub, err := core.NewHub(core.Config{Extensions: []core.Extension{mcptasks.Extension(config)}})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := mcphttp.New(hub, mcphttp.WithPrincipal(func(r *http.Request) string { return r.Header.Get("X-User") }))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(func() {
		_ = hub.Shutdown(context.Background())
		srv.Close()
	})
	return hub, srv.URL
}

func listen(t *testing.T, url, user string, ids ...string) (*client.Stream, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return client.Listen(ctx, client.URL(url), core.Filter{Keys: map[string][]string{mcptasks.Family.Member: ids}},
		client.WithFamily(mcptasks.Family), client.WithHeader("X-User", user), client.WithHTTPClient(&http.Client{Transport: transport}))
}

func TestTasksRideTheStream(t *testing.T) {
	t.Parallel()
	hub, url := start(t, mcptasks.Config{Authorize: owned})
	s, err := listen(t, url, "alice", "t1")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	foreign := task(mcptasks.Working)
	foreign.ID = "t2"
	older := task(mcptasks.Working)
	older.LastUpdatedAt = created
	if err := hub.Publish(ctx, mcptasks.Changed(foreign), mcptasks.Changed(task(mcptasks.Completed)), mcptasks.Changed(older),
		mcptasks.Changed(task(mcptasks.Working))); err != nil {
		t.Fatal(err)
	}
	go func() { _ = hub.Shutdown(ctx) }()
	var got []mcptasks.Status
	for n := range s.Notifications() {
		var task mcptasks.Task
		if err := json.Unmarshal(n.Params(), &task); err != nil || task.ID != "t1" {
			t.Errorf("%v brought %s: %v", n, n.Params(), err)
		}
		got = append(got, task.Status)
	}
	if want := []mcptasks.Status{mcptasks.Completed}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q alone", got, want)
	}
	if end := s.End(); end.Cause != client.Graceful {
		t.Errorf("ended with %v", end)
	}
}

// TestForeignTasksReadLikeUnknownOnes: to the last byte but the id.
func TestForeignTasksReadLikeUnknownOnes(t *testing.T) {
	t.Parallel()
	_, url := start(t, mcptasks.Config{Authorize: owned})
	post := func(id, capabilities, tasks string) string {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":` + capabilities + `},"notifications":{"taskIds":` + tasks + `}}}`
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "X-User": {"alice"}, "Mcp-Method": {core.MethodListen}, "Mcp-Protocol-Version": {core.ProtocolVersion},
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		defer resp.Body.Close()
		var answer bytes.Buffer
		resp.Header.Del("Date")
		_ = resp.Header.Write(&answer)
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Status + "\n" + answer.String() + string(text)
	}
	const able = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	foreign, unknown := post("1", able, `["t1","t2"]`), post("1", able, `["t1","t9"]`)
	if foreign != unknown || !strings.HasPrefix(foreign, "403 ") {
		t.Errorf("a foreign task is answered with\n%s\nan unknown one with\n%s", foreign, unknown)
	}
	missing := post("12", `{}`, `["t2"]`)
	if want := `"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`; !strings.HasPrefix(missing, "400 ") ||
		!strings.Contains(missing, `"code":-32021`) || !strings.Contains(missing, want) || !strings.Contains(missing, `"id":12`) {
		t.Errorf("without the capability:\n%s", missing)
	}
}

func TestWhatIsNoTaskIsNotPublished(t *testing.T) {
	t.Parallel()
	hub, _ := start(t, mcptasks.Config{Public: true, MaxTask: 300})
	large := task(mcptasks.Completed)
	large.Result = json.RawMessage(`{"x":"` + strings.Repeat("x", 300) + `"}`)
	if err := hub.Publish(context.Background(), mcptasks.Changed(large)); !errors.Is(err, core.ErrPayload) {
		t.Errorf("a task that is too large: %v", err)
	}
	for _, c := range []core.Change{
		mcptasks.Changed(mcptasks.Task{ID: "t1"}), core.ValueChanged(mcptasks.Family.Method, "t1", "t1"),
		core.ValueChanged(mcptasks.Family.Method, "t2", task(mcptasks.Working)),
	} {
		if err := hub.Publish(context.Background(), c); err == nil {
			t.Errorf("%+v was published", c)
		}
	}
}

// TestTasksOnSeveralNodes: a hub with a broker asks for tasks that it may have
// missed.
func TestTasksOnSeveralNodes(t *testing.T) {
	t.Parallel()
	config := core.Config{Broker: new(core.LocalBroker), Extensions: []core.Extension{mcptasks.Extension(mcptasks.Config{Public: true})}}
	if _, err := core.NewHub(config); err == nil {
		t.Error("a hub with a broker does without Current")
	}
	config.Extensions[0] = mcptasks.Extension(mcptasks.Config{Public: true, Current: func(context.Context, string, string) (mcptasks.Task, error) {
		return mcptasks.Task{}, core.ErrNoValue
	}})
	hub, err := core.NewHub(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Publish(context.Background(), mcptasks.Changed(task(mcptasks.Working))); err != nil {
		t.Errorf("publishing: %v", err)
	}
	if err := hub.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
