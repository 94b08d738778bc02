// The examples of docs/extensions.md that need no transport.

package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcplisten/mcplisten/core"
)

// Build is what the family of these examples is about.
type Build struct {
	ID       string `json:"build"`
	State    string `json:"state"`
	Revision uint64 `json:"revision"` // grows with each change
}

type buildStore map[string]Build

func (s buildStore) OwnedBy(_ string, ids []string) bool {
	for _, id := range ids {
		if _, ok := s[id]; !ok {
			return false
		}
	}
	return true
}

func ExampleExtension() {
	builds := buildStore{"b7": {"b7", "queued", 1}}
	hub, err := core.NewHub(core.Config{
		Extensions: []core.Extension{{
			Family: core.Family{
				Member:     "buildIds",                         // in the filter and the acknowledgment
				Method:     "notifications/com.example/builds", // of each notification
				Key:        "build",                            // where its params name the key
				Capability: "com.example/builds",               // what the client must have
			},
			Authorize: func(_ context.Context, user string, ids []string) error {
				if !builds.OwnedBy(user, ids) {
					return errors.New("not theirs, or not there")
				}
				return nil
			},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// Where a build changes:
	build := Build{ID: "b7", State: "running", Revision: 2}
	err = hub.Publish(context.Background(), core.ValueChanged("notifications/com.example/builds", build.ID, build))

	fmt.Println(err)
	// Output: <nil>
}

func ExampleExtension_nodes() {
	builds := buildStore{"b7": {"b7", "queued", 1}}
	family := core.Family{Member: "buildIds", Method: "notifications/com.example/builds", Key: "build"}
	extension := core.Extension{
		Family: family,
		Public: true, // everybody may listen to every build
		Encode: func(_ string, value any) (core.Payload, error) {
			params, err := json.Marshal(value)
			return core.Payload{Params: params, Version: value.(Build).Revision}, err
		},
		Current: func(_ context.Context, _, id string) (any, error) {
			build, ok := builds[id]
			if !ok {
				return nil, core.ErrNoValue
			}
			return build, nil
		},
	}
	hub, err := core.NewHub(core.Config{Broker: new(core.LocalBroker), Extensions: []core.Extension{extension}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(hub.Extensions()[0].Method, hub.Shutdown(context.Background()))
	// Output: notifications/com.example/builds <nil>
}
