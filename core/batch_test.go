// What a batch takes, where no public call can be timed to show it.

package core

import (
	"context"
	"testing"
)

type countingConn struct{ messages int }

func (c *countingConn) WriteMessage([]byte) error { c.messages++; return nil }
func (*countingConn) WriteKeepAlive() error       { return nil }
func (*countingConn) Flush() error                { return nil }

// TestWhatComesAfterAnEmptyQuestionIsNotTaken: a wake-up may find nothing pending,
// and then nobody is asked whether it may be delivered. What is published between
// that and the writing waits for a question of its own.
func TestWhatComesAfterAnEmptyQuestionIsNotTaken(t *testing.T) {
	t.Parallel()
	hub, err := NewHub(Config{Capabilities: Capabilities{ToolsListChanged: true}})
	if err != nil {
		t.Fatal(err)
	}
	conn := new(countingConn)
	ctx, cancel := context.WithCancel(context.Background())
	id, err := ParseID([]byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := hub.Open(ctx, Opening{
		Request: &Request{ID: id, Filter: Filter{ToolsListChanged: true}},
		Connect: func() (Conn, error) { return conn, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		s.Serve()
	}()
	acknowledged := conn.messages
	b := newBatch(s)
	defer b.free()
	if b.setApart() {
		t.Fatal("something is pending on a new subscription")
	}
	if err := hub.Publish(ctx, ToolsListChanged()); err != nil {
		t.Fatal(err)
	}
	if err := b.writePending(); err != nil || conn.messages != acknowledged {
		t.Errorf("%d messages were written (%v), want none", conn.messages-acknowledged, err)
	}
	if s.pending.empty() {
		t.Error("the change is not pending any more")
	}
}
