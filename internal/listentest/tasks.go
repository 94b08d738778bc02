// Tasks: the extension that rides the stream, and who may listen to which.

package listentest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/core"
	mcptasks "github.com/mcplisten/mcplisten/extensions/tasks"
)

// taskOwners are the tasks of these tests.
var taskOwners = map[string]string{"t1": "alice", "t2": "alice", "t3": "bob"}

// taskExtension lets principals listen to their own tasks. What its hook says of the
// others is different for each of them.
func taskExtension() []core.Extension {
	return []core.Extension{mcptasks.Extension(mcptasks.Config{Authorize: func(_ context.Context, principal string, ids []string) error {
		for _, id := range ids {
			switch owner, known := taskOwners[id]; {
			case !known:
				return &core.Error{Code: -32002, Message: "no task " + id, RetryAfter: time.Minute}
			case owner != principal:
				return fmt.Errorf("%s is %s's", id, owner)
			}
		}
		return nil
	}})}
}

// taskAt returns a task in a state, updated at a time.
func taskAt(id string, status mcptasks.Status, seconds int) core.Change {
	created := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	task := mcptasks.Task{ID: id, Status: status, CreatedAt: created, LastUpdatedAt: created.Add(time.Duration(seconds) * time.Second)}
	switch status {
	case mcptasks.InputRequired:
		task.InputRequests = json.RawMessage(`{"name":{"method":"elicitation/create","params":{"mode":"form","message":"Who?",` +
			`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}`)
	case mcptasks.Completed:
		task.Result = json.RawMessage("{\"content\": [{\"type\":\"text\",\r\n\"text\":\"<done>\\n\\u2028\"}]}")
		task.TTL, task.PollInterval = time.Hour, 5*time.Second
	case mcptasks.Failed:
		task.Error = json.RawMessage(`{"code":-32603,"message":"limit"}`)
		task.StatusMessage = "it failed"
	}
	return mcptasks.Changed(task)
}

// ListenTasks returns a valid listen request of a client that knows tasks. id and
// filter are JSON.
func ListenTasks(id, filter string) Call {
	call := Listen(id, filter)
	return call.Saying(strings.Replace(call.Body, `/clientCapabilities":{}`,
		`/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1))
}

// tasks: each state arrives, the newest in place of older ones, and only where it
// was asked for.
func (s suite) tasks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Protocol) {
		srv := s.start(t, Options{Protocol: p, Hub: core.Config{Extensions: taskExtension()}, HTTP: byHeader()})
		client := srv.client(t)
		alice := client.listen(t, ListenTasks("7", `{"toolsListChanged":true,"taskIds":["t2","t1","t2"]}`).With("X-User", "alice"))
		if got, want := fmt.Sprint(alice.honored), "{true false false [] [t2 t1]}"; got != want {
			t.Errorf("honored: got %s, want %s", got, want)
		}
		bob := client.listen(t, ListenTasks("7", `{"taskIds":["t3"]}`).With("X-User", "bob"))
		for i, status := range []mcptasks.Status{
			mcptasks.Working, mcptasks.InputRequired, mcptasks.Working, mcptasks.Failed, mcptasks.Cancelled, mcptasks.Completed,
		} {
			srv.publish(t, taskAt("t1", status, i), taskAt("t4", status, i))
			alice.expect(t, mcptasks.Family.Method+" t1 "+string(status))
		}
		// One batch: the last state of each task, and none that is older than what was
		// told.
		srv.publish(t, taskAt("t2", mcptasks.Working, 1), taskAt("t1", mcptasks.Working, 1), taskAt("t2", mcptasks.Cancelled, 2))
		srv.publish(t, core.ToolsListChanged(), taskAt("t3", mcptasks.Completed, 1))
		srv.end(t, 2)
		var got []string
		for {
			e, err := alice.Message()
			if err != nil {
				t.Fatal(err)
			}
			if e.Result {
				break
			}
			got = append(got, e.String())
		}
		for _, text := range got { // the stream may wake between the publishes
			if strings.HasSuffix(text, "t1 working") || strings.Contains(text, "t3") {
				t.Errorf("told %s", text)
			}
		}
		if !strings.HasSuffix(strings.Join(got, "\n"), mcptasks.Family.Method+" t2 cancelled") && !strings.HasSuffix(strings.Join(got, "\n"), core.MethodToolsListChanged) {
			t.Errorf("told %q, want the last state of t2", got)
		}
		bob.expect(t, mcptasks.Family.Method+" t3 completed")
		bob.expectEnd(t)
	})
}

// taskRefusals: without the capability, with a member that is none, and for tasks of
// others, of which nothing can be learnt.
func (s suite) taskRefusals(t *testing.T) {
	t.Parallel()
	srv := s.start(t, Options{Hub: core.Config{Extensions: taskExtension()}, HTTP: byHeader()})
	client := srv.client(t)
	as := func(call Call) Answer { return client.Do(t, call.With("X-User", "alice")) }
	as(Listen("7", `{"taskIds":["t1"]}`)).refused(t, wantRefusal{
		status: http.StatusBadRequest, code: core.CodeMissingCapability, id: "7",
		data: `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`,
	}, "t1")
	for _, value := range []string{`null`, `"t1"`, `{"` + secret + `":1}`, `[1]`, `["` + secret + `",null]`, `[""]`, `["` + strings.Repeat("t", 2049) + `"]`,
		`["` + secret + strings.Repeat(`","t1`, 1000) + `"]`} {
		as(ListenTasks("7", `{"taskIds":`+value+`}`)).refused(t, wantRefusal{status: http.StatusBadRequest, code: core.CodeInvalidParams, id: "7"}, secret)
	}
	as(ListenTasks("7", `{"taskIds":["t1"],"taskIds":[]}`)).refused(t, wantRefusal{status: http.StatusBadRequest, code: core.CodeInvalidRequest, id: "7"}, "t1")
	foreign, unknown := as(ListenTasks("7", `{"taskIds":["t1","t3"]}`)), as(ListenTasks("7", `{"taskIds":["t1","t9"]}`))
	foreign.refused(t, wantRefusal{status: http.StatusForbidden, code: core.CodeInvalidRequest, id: "7"}, "t3")
	foreign.Header.Del("Date")
	unknown.Header.Del("Date")
	if foreign.Status != unknown.Status || string(foreign.Body) != string(unknown.Body) || fmt.Sprint(foreign.Header) != fmt.Sprint(unknown.Header) {
		t.Errorf("a foreign task is answered with\n%+v\nan unknown one with\n%+v", foreign, unknown)
	}
	// Who asks for none needs nothing.
	client.listen(t, Listen("7", `{"toolsListChanged":true,"taskIds":[]}`))
	if err := srv.Hub.Publish(srv.ctx, core.ValueChanged("notifications/other", "t1", nil)); !errors.Is(err, core.ErrUnknownExtension) {
		t.Errorf("publishing what nobody registered: %v", err)
	}
}
