// What docs/extensions.md shows of tasks.

package mcptasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/client"
	"github.com/mcplisten/mcplisten/core"
	mcptasks "github.com/mcplisten/mcplisten/extensions/tasks"
)

func Example() {
	owners := map[string]string{"t1": ""} // of each task; the empty name is nobody's
	tasks := mcptasks.Extension(mcptasks.Config{
		Authorize: func(_ context.Context, user string, ids []string) error {
			for _, id := range ids {
				if owner, ok := owners[id]; !ok || owner != user {
					return errors.New("not theirs, or not there")
				}
			}
			return nil
		},
	})
	hub, err := core.NewHub(core.Config{Extensions: []core.Extension{tasks}})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := mcphttp.New(hub)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	ctx := context.Background()

	// The client:
	filter := core.Filter{Keys: map[string][]string{mcptasks.Family.Member: {"t1"}}}
	stream, err := client.Listen(ctx, client.URL(server.URL), filter, client.WithFamily(mcptasks.Family))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()

	// The server, where the task changes:
	err = hub.Publish(ctx, mcptasks.Changed(mcptasks.Task{
		ID: "t1", Status: mcptasks.Completed, CreatedAt: time.Now(), LastUpdatedAt: time.Now(),
		Result: json.RawMessage(`{"content":[]}`),
	}))
	if err != nil {
		fmt.Println(err)
		return
	}

	for n := range stream.Notifications() {
		var task mcptasks.Task
		if err := json.Unmarshal(n.Params(), &task); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(task.ID, task.Status)
		if task.Status.Final() {
			break
		}
	}
	// Output: t1 completed
}
