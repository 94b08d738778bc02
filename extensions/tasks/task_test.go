// Tasks on the wire: as the extension's specification writes them, and nothing that
// is none.

package mcptasks_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	mcptasks "github.com/mcplisten/mcplisten/extensions/tasks"
)

var created = time.Date(2026, 7, 28, 10, 30, 0, 0, time.UTC)

// task returns a valid task in a state.
func task(status mcptasks.Status) mcptasks.Task {
	t := mcptasks.Task{ID: "t1", Status: status, CreatedAt: created, LastUpdatedAt: created.Add(90 * time.Second)}
	switch status {
	case mcptasks.InputRequired:
		t.InputRequests = json.RawMessage(`{"name":{"method":"elicitation/create"}}`)
	case mcptasks.Completed:
		t.Result = json.RawMessage(`{"content":[],"isError":true}`)
	case mcptasks.Failed:
		t.Error = json.RawMessage(`{"code":-32603,"message":"limit"}`)
	}
	return t
}

func TestTasksOnTheWire(t *testing.T) {
	t.Parallel()
	full := task(mcptasks.Working)
	full.StatusMessage, full.TTL, full.PollInterval = "half done", time.Minute, 5*time.Second
	full.LastUpdatedAt = created.Add(1500 * time.Microsecond).In(time.FixedZone("", 7200))
	const head = `{"taskId":"t1","status":"`
	const times = `","createdAt":"2026-07-28T10:30:00Z","lastUpdatedAt":"2026-07-28T10:31:30Z","ttlMs":null`
	for want, task := range map[string]mcptasks.Task{
		head + "working" + times + "}":   task(mcptasks.Working),
		head + "cancelled" + times + "}": task(mcptasks.Cancelled),
		head + "input_required" + times + `,"inputRequests":{"name":{"method":"elicitation/create"}}}`:                                                                    task(mcptasks.InputRequired),
		head + "completed" + times + `,"result":{"content":[],"isError":true}}`:                                                                                           task(mcptasks.Completed),
		head + "failed" + times + `,"error":{"code":-32603,"message":"limit"}}`:                                                                                           task(mcptasks.Failed),
		head + `working","statusMessage":"half done","createdAt":"2026-07-28T10:30:00Z","lastUpdatedAt":"2026-07-28T10:30:00.0015Z","ttlMs":60000,"pollIntervalMs":5000}`: full,
	} {
		got, err := json.Marshal(task)
		if err != nil || string(got) != want {
			t.Errorf("got  %s (%v)\nwant %s", got, err, want)
			continue
		}
		var back mcptasks.Task
		err = json.Unmarshal(got, &back)
		back.LastUpdatedAt = back.LastUpdatedAt.In(task.LastUpdatedAt.Location())
		if err != nil || !reflect.DeepEqual(back, task) {
			t.Errorf("%s came back as %+v (%v), want %+v", got, back, err, task)
		}
	}
}

func TestTasksThatAreNone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*mcptasks.Task){
		"no id":                     func(t *mcptasks.Task) { t.ID = "" },
		"no status":                 func(t *mcptasks.Task) { t.Status = "" },
		"another status":            func(t *mcptasks.Task) { t.Status = "Working" },
		"never created":             func(t *mcptasks.Task) { t.CreatedAt = time.Time{} },
		"never updated":             func(t *mcptasks.Task) { t.LastUpdatedAt = time.Time{} },
		"created too early":         func(t *mcptasks.Task) { t.CreatedAt = created.AddDate(-3000, 0, 0) },
		"created too late":          func(t *mcptasks.Task) { t.CreatedAt = created.AddDate(8000, 0, 0) },
		"updated too early":         func(t *mcptasks.Task) { t.LastUpdatedAt = created.AddDate(-57, 0, 0) },
		"updated too late":          func(t *mcptasks.Task) { t.LastUpdatedAt = created.AddDate(600, 0, 0) },
		"negative TTL":              func(t *mcptasks.Task) { t.TTL = -1 },
		"negative poll interval":    func(t *mcptasks.Task) { t.PollInterval = -1 },
		"completed without result":  func(t *mcptasks.Task) { t.Status = mcptasks.Completed },
		"a result that is none":     func(t *mcptasks.Task) { t.Status, t.Result = mcptasks.Completed, json.RawMessage(`[]`) },
		"a null result":             func(t *mcptasks.Task) { t.Status, t.Result = mcptasks.Completed, json.RawMessage(`null`) },
		"failed without error":      func(t *mcptasks.Task) { t.Status = mcptasks.Failed },
		"an error without code":     func(t *mcptasks.Task) { t.Status, t.Error = mcptasks.Failed, json.RawMessage(`{"message":"x"}`) },
		"an error without message":  func(t *mcptasks.Task) { t.Status, t.Error = mcptasks.Failed, json.RawMessage(`{"code":1}`) },
		"asks without requests":     func(t *mcptasks.Task) { t.Status = mcptasks.InputRequired },
		"working with a result":     func(t *mcptasks.Task) { t.Result = json.RawMessage(`{}`) },
		"working with an error":     func(t *mcptasks.Task) { t.Error = json.RawMessage(`{"code":1,"message":""}`) },
		"cancelled with a question": func(t *mcptasks.Task) { t.Status, t.InputRequests = mcptasks.Cancelled, json.RawMessage(`{}`) },
	} {
		task := task(mcptasks.Working)
		change(&task)
		if got, err := json.Marshal(task); err == nil || !strings.Contains(err.Error(), "mcptasks: ") {
			t.Errorf("%s: encoded as %s (%v)", name, got, err)
		}
	}
	var expired mcptasks.Task
	if err := json.Unmarshal([]byte(strings.Replace(mustEncode(t, task(mcptasks.Working)), `"ttlMs":null`, `"ttlMs":0`, 1)), &expired); err != nil || expired.TTL <= 0 {
		t.Errorf("a task that has expired at once was read as %+v (%v)", expired, err)
	}
	for _, text := range []string{
		`{}`, `null`, `[]`, `{"taskId":1}`,
		`{"taskId":"a","status":"working","createdAt":"yesterday","lastUpdatedAt":"2026-07-28T10:30:00Z","ttlMs":null}`,
		`{"taskId":"a","status":"completed","createdAt":"2026-07-28T10:30:00Z","lastUpdatedAt":"2026-07-28T10:30:00Z","ttlMs":null}`,
		`{"taskId":"a","status":"working","createdAt":"2026-07-28T10:30:00Z","lastUpdatedAt":"2026-07-28T10:30:00Z","ttlMs":-9007199254740991}`,
	} {
		var task mcptasks.Task
		if err := task.UnmarshalJSON([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "mcptasks: ") {
			t.Errorf("%s was read as %+v (%v)", text, task, err)
		}
	}
}

func mustEncode(t *testing.T, task mcptasks.Task) string {
	t.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// FuzzTask: what is read as a task means the same when it is written again.
func FuzzTask(f *testing.F) {
	for _, status := range []mcptasks.Status{mcptasks.Working, mcptasks.InputRequired, mcptasks.Completed, mcptasks.Failed, mcptasks.Cancelled} {
		text, err := json.Marshal(task(status))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var read, again mcptasks.Task
		if json.Unmarshal(text, &read) != nil {
			return
		}
		written, err := json.Marshal(read)
		if err != nil {
			t.Fatalf("%s was read and cannot be written: %v", text, err)
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%s was written as %s, which cannot be read: %v", text, written, err)
		}
		if again.ID != read.ID || again.Status != read.Status || !again.LastUpdatedAt.Equal(read.LastUpdatedAt) || (again.TTL > 0) != (read.TTL > 0) {
			t.Errorf("%s was written as %s", text, written)
		}
	})
}
