// Package taskstest is the test of examples/chi, echo, gin and nethttp: the same
// on every framework.
package taskstest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/internal/listening"
	"github.com/mcplisten/mcplisten/examples/internal/tasks"
)

// Check starts a program by its run function and goes once through all of it:
// routes, authentication, listening, the MCP server behind it, and the end.
func Check(t *testing.T, run func(ctx context.Context, addr string, out io.Writer) error) {
	t.Helper()
	printed, stop := listening.Start(t, 1, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", out) })
	base := printed[0][strings.LastIndex(printed[0], " ")+1:]
	stranger := listening.Client{URL: base + "/api/mcp"}
	alice := listening.Client{URL: base + "/api/mcp", Token: "secret"}
	const filter = `{"resourceSubscriptions":["` + tasks.URI + `"]}`

	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: status %d, not %d", what, got, want)
		}
	}
	status, _ := stranger.Do(t, http.MethodGet, base+"/healthz", "")
	want("the service's own route", status, http.StatusOK)
	status, _ = stranger.Refused(t, filter)
	want("listening without a token", status, http.StatusUnauthorized)
	status, _ = stranger.Do(t, http.MethodGet, stranger.URL, "")
	want("GET without a token", status, http.StatusUnauthorized)
	status, _ = alice.Do(t, http.MethodGet, alice.URL, "")
	want("GET", status, http.StatusMethodNotAllowed)

	stream := alice.Listen(t, filter)
	stream.Expect(t, core.MethodAcknowledged)
	status, _ = alice.Do(t, http.MethodPost, base+"/api/tasks", "task=buy+milk")
	want("adding a task", status, http.StatusCreated)
	stream.Expect(t, core.MethodResourceUpdated+" "+tasks.URI)
	status, body := alice.Call(t, "resources/read", tasks.URI, `"uri":"`+tasks.URI+`"`)
	want("reading the resource", status, http.StatusOK)
	if !strings.Contains(body, "buy milk") {
		t.Errorf("the MCP server answered %s", body)
	}
	stop()
	stream.Expect(t, "result", "end")
}
