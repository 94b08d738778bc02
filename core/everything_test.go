// Everything changed: every stream is told, here and on the other nodes.

package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/mcplisten/mcplisten/core"
)

func TestPublishEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 2, core.Config{GapSpread: -1})
		here := listen(t, c.hubs[0], "1", toolsAndA)
		there := listen(t, c.hubs[1], "2", toolsAndA)
		if err := c.hubs[0].PublishEverything(context.Background()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantTold(t, here, "the stream here", "tools", "prompts", "updated file:///a")
		wantTold(t, there, "the stream there", "tools", "prompts", "updated file:///a")
		shutdown(t, c.hubs[0])
		if err := c.hubs[0].PublishEverything(context.Background()); !errors.Is(err, core.ErrShutdown) {
			t.Errorf("after Shutdown: %v, want ErrShutdown", err)
		}
	})
}

// TestPublishEverythingOnOneNode: without a Broker no value can have been missed, and
// nothing is read again.
func TestPublishEverythingOnOneNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := withJobs(t, core.Config{})
		s := listenJobs(t, hub, "1", `{"toolsListChanged":true,"jobIds":["a"]}`)
		if err := hub.PublishEverything(context.Background()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantTold(t, s, "the stream", "tools")
	})
}
