// Tasks: what a notification carries, which is what tasks/get would answer at that
// moment.

package mcptasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// Status is the state of a task.
type Status string

// The states. The last three are final.
const (
	Working       Status = "working"
	InputRequired Status = "input_required" // it waits for the client
	Completed     Status = "completed"      // with a result, which may be one that says isError
	Failed        Status = "failed"         // with a JSON-RPC error
	Cancelled     Status = "cancelled"
)

// Final reports whether a task does not change any more.
func (s Status) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// Task is a task as the extension describes it (its DetailedTask). It encodes to
// JSON and back; times are RFC 3339 and durations whole milliseconds there.
type Task struct {
	ID            string
	Status        Status
	StatusMessage string // for people; empty for none
	CreatedAt     time.Time
	LastUpdatedAt time.Time
	TTL           time.Duration // from creation; 0 for no limit
	PollInterval  time.Duration // advice to who polls; 0 for none

	InputRequests json.RawMessage // of InputRequired alone: a JSON object, by the requests' keys
	Result        json.RawMessage // of Completed alone: the result of the request that became the task
	Error         json.RawMessage // of Failed alone: the JSON-RPC error
}

// wireTask is a task on the wire.
type wireTask struct {
	TaskID         string          `json:"taskId"`
	Status         Status          `json:"status"`
	StatusMessage  string          `json:"statusMessage,omitempty"`
	CreatedAt      string          `json:"createdAt"`
	LastUpdatedAt  string          `json:"lastUpdatedAt"`
	TTL            *int64          `json:"ttlMs"`
	PollIntervalMs int64           `json:"pollIntervalMs,omitempty"`
	InputRequests  json.RawMessage `json:"inputRequests,omitempty"`
	Result         json.RawMessage `json:"result,omitempty"`
	Error          json.RawMessage `json:"error,omitempty"`
}

// Validate returns what is missing in a task, or too much.
func (t Task) Validate() error {
	switch {
	case t.ID == "":
		return errors.New("mcptasks: a task without an id")
	case t.CreatedAt.IsZero() || t.LastUpdatedAt.IsZero():
		return errors.New("mcptasks: a task without the times of its creation and its last update")
	case t.CreatedAt.UTC().Year() < 0 || t.CreatedAt.UTC().Year() > 9999: // RFC 3339 has no others
		return errors.New("mcptasks: a task created at a time that cannot be written")
	case !t.LastUpdatedAt.After(time.Unix(0, 0)) || t.LastUpdatedAt.After(time.Unix(0, math.MaxInt64)): // see version
		return errors.New("mcptasks: a task updated before 1970 or after 2262")
	case t.TTL < 0 || t.PollInterval < 0:
		return errors.New("mcptasks: a task with a negative duration")
	}
	payloads := map[Status]json.RawMessage{InputRequired: t.InputRequests, Completed: t.Result, Failed: t.Error}
	for status, payload := range payloads {
		if status != t.Status && payload != nil {
			return fmt.Errorf("mcptasks: a task that is %q with what belongs to one that is %q", t.Status, status)
		}
	}
	switch t.Status {
	case Working, Cancelled:
		return nil
	case InputRequired, Completed:
		var object map[string]json.RawMessage
		if json.Unmarshal(payloads[t.Status], &object) != nil || object == nil {
			return fmt.Errorf("mcptasks: a task that is %q without an object that says with what", t.Status)
		}
		return nil
	case Failed:
		var failure struct {
			Code    *int    `json:"code"`
			Message *string `json:"message"`
		}
		if json.Unmarshal(t.Error, &failure) != nil || failure.Code == nil || failure.Message == nil {
			return errors.New("mcptasks: a task that failed without a JSON-RPC error")
		}
		return nil
	default:
		return fmt.Errorf("mcptasks: there is no status %q", t.Status)
	}
}

// MarshalJSON encodes a valid task.
func (t Task) MarshalJSON() ([]byte, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	wire := wireTask{
		TaskID: t.ID, Status: t.Status, StatusMessage: t.StatusMessage,
		CreatedAt: t.CreatedAt.UTC().Format(time.RFC3339Nano), LastUpdatedAt: t.LastUpdatedAt.UTC().Format(time.RFC3339Nano),
		PollIntervalMs: t.PollInterval.Milliseconds(),
		InputRequests:  t.InputRequests, Result: t.Result, Error: t.Error,
	}
	if t.TTL > 0 {
		ttl := max(1, t.TTL.Milliseconds()) // 0 would be a task that has expired already
		wire.TTL = &ttl
	}
	return json.Marshal(wire)
}

// UnmarshalJSON decodes a task, such as the params of a notification or the result
// of tasks/get. It fails where that is no valid one.
func (t *Task) UnmarshalJSON(data []byte) error {
	var wire wireTask
	if err := json.Unmarshal(data, &wire); err != nil {
		return fmt.Errorf("mcptasks: a task that cannot be read: %w", err)
	}
	created, err1 := time.Parse(time.RFC3339Nano, wire.CreatedAt)
	updated, err2 := time.Parse(time.RFC3339Nano, wire.LastUpdatedAt)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("mcptasks: a task with times that cannot be read: %w", err)
	}
	read := Task{
		ID: wire.TaskID, Status: wire.Status, StatusMessage: wire.StatusMessage,
		CreatedAt: created, LastUpdatedAt: updated, PollInterval: milliseconds(wire.PollIntervalMs),
		InputRequests: wire.InputRequests, Result: wire.Result, Error: wire.Error,
	}
	if wire.TTL != nil {
		read.TTL = milliseconds(*wire.TTL)
		if read.TTL == 0 {
			read.TTL = 1 // it has a limit
		}
	}
	if err := read.Validate(); err != nil {
		return err
	}
	*t = read
	return nil
}

// milliseconds returns n of them, or the longest duration where that is more.
func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(max(-most, min(n, most))) * time.Millisecond
}
