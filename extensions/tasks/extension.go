// The extension as a hub takes it.

package mcptasks

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcplisten/mcplisten/core"
)

// Family is the extension on the wire. A client takes it with client.WithFamily,
// asks for Keys under Member, and decodes what comes as a [Task].
var Family = core.Family{
	Member:     "taskIds",
	Method:     "notifications/tasks",
	Key:        "taskId",
	Capability: "io.modelcontextprotocol/tasks",
}

// Config says who may listen to which tasks. One of Authorize and Public is needed.
type Config struct {
	// Authorize decides whether the principal may listen to all of the tasks. An error
	// refuses the request; a task of somebody else and one that does not exist are
	// refused alike. See [core.Extension].
	Authorize func(ctx context.Context, principal string, taskIDs []string) error

	// Public lets everybody listen to every task.
	Public bool

	// Recheck asks Authorize again and again while a stream is open.
	Recheck bool

	// Current returns a task as it is now, [core.ErrNoValue] for one that does not
	// exist or is not the principal's. A hub with a Broker needs it.
	Current func(ctx context.Context, principal, taskID string) (Task, error)

	// MaxTask is the largest encoded task, in bytes; [core.DefaultMaxPayload] by default.
	// Publishing a larger one fails, and who polls has to be content with that.
	MaxTask int
}

// Extension returns the extension for [core.Config]. What is wrong with the
// configuration, NewHub says.
func Extension(config Config) core.Extension {
	x := core.Extension{
		Family: Family, Authorize: config.Authorize, Public: config.Public, Recheck: config.Recheck,
		MaxPayload: config.MaxTask, Encode: encode,
	}
	if config.Current != nil {
		x.Current = func(ctx context.Context, principal, key string) (any, error) {
			return config.Current(ctx, principal, key)
		}
	}
	return x
}

// Changed is the change of a task: publish it with [core.Hub.Publish] after each
// change of the task's state. Publishing fails where the task is not valid. Of two
// states of one task, the one with the later LastUpdatedAt is newer; a final one is
// newer than one that is not and has the same time.
func Changed(task Task) core.Change { return core.ValueChanged(Family.Method, task.ID, task) }

func encode(_ string, value any) (core.Payload, error) {
	task, ok := value.(Task)
	if !ok {
		return core.Payload{}, fmt.Errorf("mcptasks: a %T is no Task", value)
	}
	params, err := json.Marshal(task)
	if err != nil {
		return core.Payload{}, err
	}
	return core.Payload{Params: params, Version: version(task)}, nil
}

// version orders the states of a valid task.
func version(task Task) uint64 {
	v := uint64(task.LastUpdatedAt.UnixNano()) &^ 1 //nolint:gosec // Validate has seen that it is positive
	if task.Status.Final() {
		v |= 1
	}
	return max(v, 2)
}
