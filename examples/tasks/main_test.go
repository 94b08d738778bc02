package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/examples/internal/listening"
	mcptasks "github.com/mcplisten/mcplisten/extensions/tasks"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, step time.Duration) (url string) {
	t.Helper()
	printed, _ := listening.Start(t, 1, func(ctx context.Context, out io.Writer) error {
		// What comes after the first line is for people.
		return run(ctx, "127.0.0.1:0", step, &firstLine{out: out})
	})
	return strings.TrimPrefix(printed[0], "listening on ")
}

// firstLine lets nothing but the first write through.
type firstLine struct {
	out io.Writer
}

func (f *firstLine) Write(p []byte) (int, error) {
	if out := f.out; out != nil {
		f.out = nil
		return out.Write(p)
	}
	return len(p), nil
}

func startJob(t *testing.T, url, token string) mcptasks.Task {
	t.Helper()
	status, body := listening.Client{Token: token}.Do(t, http.MethodPost, url+"/jobs", "")
	var task mcptasks.Task
	if err := json.Unmarshal([]byte(body), &task); err != nil || status != http.StatusCreated || task.Status != mcptasks.Working {
		t.Fatalf("starting a job: %d %s (%v)", status, body, err)
	}
	return task
}

func listen(t *testing.T, url, token string, ids ...string) (*client.Stream, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	transport := &http.Transport{DisableKeepAlives: true}
	return client.Listen(ctx, client.URL(url+"/mcp"), core.Filter{Keys: map[string][]string{mcptasks.Family.Member: ids}},
		client.WithFamily(mcptasks.Family), client.WithToken(token), client.WithHTTPClient(&http.Client{Transport: transport}))
}

func TestAJobIsListenedTo(t *testing.T) {
	url := start(t, 20*time.Millisecond)
	task := startJob(t, url, "alice-secret")
	stream, err := listen(t, url, "alice-secret", task.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	// What was before the acknowledgment is looked up, as with everything that is
	// listened to.
	status, body := listening.Client{Token: "alice-secret"}.Do(t, http.MethodGet, url+"/jobs/"+task.ID, "")
	if err := json.Unmarshal([]byte(body), &task); err != nil || status != http.StatusOK {
		t.Fatalf("the task is %d %s", status, body)
	}
	if !task.Status.Final() {
		for n := range stream.Notifications() {
			if err := json.Unmarshal(n.Params(), &task); err != nil {
				t.Fatal(err)
			}
			if task.Status.Final() {
				break
			}
		}
	}
	if task.Status != mcptasks.Completed || !strings.Contains(string(task.Result), "done") {
		t.Errorf("the task ends as %+v", task)
	}
}

func TestTasksOfOthers(t *testing.T) {
	url := start(t, time.Hour)
	task := startJob(t, url, "alice-secret")
	var said []string
	for _, id := range []string{task.ID, "unknown"} {
		_, err := listen(t, url, "bob-secret", id)
		var refused *client.RefusedError
		if !errors.As(err, &refused) || refused.Status != http.StatusForbidden {
			t.Fatalf("listening to %s: %v", id, err)
		}
		said = append(said, refused.Error())
		if status, _ := (listening.Client{Token: "bob-secret"}).Do(t, http.MethodGet, url+"/jobs/"+id, ""); status != http.StatusNotFound {
			t.Errorf("looking at %s: status %d", id, status)
		}
	}
	if said[0] != said[1] {
		t.Errorf("a foreign task is refused with %q, an unknown one with %q", said[0], said[1])
	}
	// When the service ends, so do its jobs and streams.
	stream, err := listen(t, url, "alice-secret", task.ID)
	if err != nil {
		t.Fatal(err)
	}
	stream.Close()
}
