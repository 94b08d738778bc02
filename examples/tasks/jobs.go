// Jobs: what takes a while, and the tasks that say how far it is.

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/mcplisten/mcplisten/core"
	mcptasks "github.com/mcplisten/mcplisten/extensions/tasks"
)

// jobs are all that were started. They are safe for concurrent use.
type jobs struct {
	ctx     context.Context // of the program
	step    time.Duration
	hub     *core.Hub
	running sync.WaitGroup

	mu   sync.Mutex
	byID map[string]job
}

type job struct {
	owner string
	task  mcptasks.Task
}

func newJobs(ctx context.Context, step time.Duration) *jobs {
	return &jobs{ctx: ctx, step: step, byID: make(map[string]job)}
}

// authorize lets users listen to their own tasks. That a task is somebody else's
// and that there is none is the same to it.
func (j *jobs) authorize(_ context.Context, principal string, ids []string) error {
	for _, id := range ids {
		if _, err := j.get(principal, id); err != nil {
			return err
		}
	}
	return nil
}

var errNoTask = errors.New("no such task")

func (j *jobs) get(owner, id string) (mcptasks.Task, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	found, ok := j.byID[id]
	if !ok || found.owner != owner {
		return mcptasks.Task{}, errNoTask
	}
	return found.task, nil
}

// start starts a job, and returns its task as it is now.
func (j *jobs) start(owner string) mcptasks.Task {
	now := time.Now()
	task := mcptasks.Task{ID: rand.Text(), Status: mcptasks.Working, CreatedAt: now, LastUpdatedAt: now, PollInterval: j.step}
	j.mu.Lock()
	j.byID[task.ID] = job{owner, task}
	j.mu.Unlock()
	j.running.Go(func() { j.work(task) })
	return task
}

func (j *jobs) wait() { j.running.Wait() }

func (j *jobs) work(task mcptasks.Task) {
	for i := range 3 {
		task.StatusMessage = fmt.Sprintf("step %d of 3", i+1)
		j.update(task)
		select {
		case <-time.After(j.step):
		case <-j.ctx.Done():
			task.Status, task.StatusMessage = mcptasks.Cancelled, "the service ends"
			j.update(task)
			return
		}
	}
	task.Status, task.StatusMessage = mcptasks.Completed, ""
	task.Result = json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)
	j.update(task)
}

// update stores a task and tells who listens to it. The store first: who is told
// may look.
func (j *jobs) update(task mcptasks.Task) {
	task.LastUpdatedAt = time.Now()
	j.mu.Lock()
	owner := j.byID[task.ID].owner
	j.byID[task.ID] = job{owner, task}
	j.mu.Unlock()
	if err := j.hub.Publish(j.ctx, mcptasks.Changed(task)); err != nil {
		log.Print(err)
	}
}
