// Package mcptasks is the MCP tasks extension (io.modelcontextprotocol/tasks) on
// subscriptions/listen: clients ask with taskIds for the tasks that they wait for,
// and are sent notifications/tasks with what has become of each.
//
//	hub, err := core.NewHub(core.Config{Extensions: []core.Extension{mcptasks.Extension(mcptasks.Config{
//		Authorize: func(ctx context.Context, principal string, taskIDs []string) error { … },
//	})}})
//	…
//	err = hub.Publish(ctx, mcptasks.Changed(task))
//
// The methods of the extension, tasks/get, tasks/update and tasks/cancel, and the
// results that hand out a task are the MCP server's; so is what server/discover says
// where the hub stands in front of one.
//
// The shape of a task is that of the extension's specification for revision
// 2026-07-28.
package mcptasks
