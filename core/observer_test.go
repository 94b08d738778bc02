// The observer: which steps it is told of, in which order, and with which
// figures.

package core_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// recorder is an Observer that notes what it is told.
type recorder struct {
	onCall func(step string) // called without a lock; may panic
	noneOf bool              // Accepted returns nil
	origin any               // of every publish

	mu         sync.Mutex
	steps      []string
	deliveries []core.Delivery
	accepted   []core.Accepted
	refused    []core.Refused
	ends       []core.End
}

func (r *recorder) note(format string, args ...any) {
	step := fmt.Sprintf(format, args...)
	r.mu.Lock()
	r.steps = append(r.steps, step)
	r.mu.Unlock()
	if r.onCall != nil {
		r.onCall(step)
	}
}

// take returns the steps so far and forgets them.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.steps
	r.steps = nil
	return steps
}

func (r *recorder) Accepted(_ context.Context, a core.Accepted) core.StreamObserver {
	r.mu.Lock()
	r.accepted = append(r.accepted, a)
	r.mu.Unlock()
	r.note("accepted %s", a.Request.ID)
	if r.noneOf {
		return nil
	}
	return &streamRecorder{recorder: r, id: a.Request.ID.String()}
}

func (r *recorder) Refused(_ context.Context, refused core.Refused) {
	r.mu.Lock()
	r.refused = append(r.refused, refused)
	r.mu.Unlock()
	r.note("refused %s %s", refused.ID, refused.Err.Refusal)
}

func (r *recorder) Publishing(_ context.Context, changes []core.Change) (origin any, published func()) {
	r.note("publishing %d", len(changes))
	return r.origin, func() { r.note("published %d", len(changes)) }
}

type streamRecorder struct {
	*recorder
	id string
}

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

func (r *streamRecorder) Acknowledged(err error) { r.note("acknowledged %s %s", r.id, outcome(err)) }
func (r *streamRecorder) KeptAlive(err error)    { r.note("kept alive %s %s", r.id, outcome(err)) }

func (r *streamRecorder) Delivered(d *core.Delivery) {
	r.mu.Lock()
	r.deliveries = append(r.deliveries, *d)
	r.mu.Unlock()
	r.note("delivered %s %v %s", r.id, d.Sent, outcome(d.Err))
}

func (r *streamRecorder) Closed(e core.End) {
	r.mu.Lock()
	r.ends = append(r.ends, e)
	r.mu.Unlock()
	r.note("closed %s %s", r.id, e.Reason)
}

func TestObserverIsToldEachStep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &recorder{}
		var ends []core.End
		hub := newHub(t, core.Config{Observer: r, OnEnd: func(e core.End) { ends = append(ends, e); r.note("on end") }})
		received := time.Now()
		advance(time.Second)
		s := listen(t, hub, "1", allLists, principal("alice"),
			func(_ *stream, o *core.Opening, _ *context.Context) { o.Arrival.Received = received })
		wantSteps(t, r.take(), "accepted 1", "acknowledged 1 ok")
		a := r.accepted[0]
		if !a.Arrival.Received.Equal(received) || a.Stream.Principal != "alice" || !a.Stream.Opened.Equal(received) || !a.Stream.Filter.ToolsListChanged {
			t.Errorf("accepted %+v, want alice's request, received at %v, with its filter", a, received)
		}
		publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("a:"))
		synctest.Wait()
		wantSteps(t, r.take(), "publishing 2", "published 2", "delivered 1 [1 0 0 0 0] ok")
		advance(core.DefaultKeepAlive)
		wantSteps(t, r.take(), "kept alive 1 ok")
		s.finish(hub)
		end := s.wait()
		wantSteps(t, r.take(), "closed 1 completed", "on end")
		if len(r.ends) != 1 || len(ends) != 1 || !sameEnd(r.ends[0], end) || !sameEnd(ends[0], end) {
			t.Errorf("Closed was told %+v and OnEnd %+v, Serve returned %+v, want all alike", r.ends, ends, end)
		}
		want := core.Counts{Delivered: 1, KeepAlives: 1, Bytes: s.written()}
		if end.Stream.Counts != want {
			t.Errorf("the counts at the end are %+v, want %+v", end.Stream.Counts, want)
		}
	})
}

func TestObserverFigures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &recorder{}
		hub := newHub(t, core.Config{Observer: r, KeepAlive: -1})
		s := listen(t, hub, "1", `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:","b:"]}`)
		s.stall()
		advance(time.Second)
		start := time.Now()
		publish(t, hub, core.PromptsListChanged())
		advance(time.Second)
		publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("a:")) // 1 s
		advance(time.Second)
		publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("b:")) // 2 s
		advance(time.Second)
		publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("b:"), core.ResourcesListChanged()) // 3 s
		ack := s.written()
		s.resume()
		synctest.Wait()
		publish(t, hub, core.ToolsListChanged()) // 3 s
		synctest.Wait()
		if len(r.deliveries) != 3 {
			t.Fatalf("told of %d deliveries, want 3: %+v", len(r.deliveries), r.deliveries)
		}
		at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
		want := []core.Delivery{
			{Sent: [core.NumKinds]int{0, 1, 0, 0}, Oldest: [core.NumKinds]time.Time{1: at(0)}},
			{Sent: [core.NumKinds]int{1, 0, 0, 2}, Coalesced: [core.NumKinds]int{2, 0, 0, 1}, Oldest: [core.NumKinds]time.Time{0: at(1), 3: at(1)}},
			{Sent: [core.NumKinds]int{1, 0, 0, 0}, Oldest: [core.NumKinds]time.Time{0: at(3)}},
		}
		bytes := 0
		for i, got := range r.deliveries {
			bytes += got.Bytes
			if got.Bytes == 0 {
				t.Errorf("delivery %d has no bytes", i)
			}
			if got.Taken.Before(at(0)) || got.Taken.After(time.Now()) {
				t.Errorf("delivery %d was taken at %v, want a time of this test", i, got.Taken)
			}
			for k := range got.Oldest {
				if !got.Oldest[k].Equal(want[i].Oldest[k]) {
					t.Errorf("delivery %d: the oldest of %v is of %v, want %v", i, core.Kind(k), got.Oldest[k], want[i].Oldest[k])
				}
			}
			if got.Sent != want[i].Sent || got.Coalesced != want[i].Coalesced || got.Origins != nil || got.Err != nil {
				t.Errorf("delivery %d is %+v, want %+v", i, got, want[i])
			}
		}
		if got := s.written() - ack; got != uint64(bytes) {
			t.Errorf("the deliveries tell of %d bytes, and %d were written", bytes, got)
		}
		if got, want := hub.Streams()[0].Counts, (core.Counts{Delivered: 5, Coalesced: 3, Bytes: s.written()}); got != want {
			t.Errorf("the counts are %+v, want %+v", got, want)
		}
	})
}

// TestObserverSeesEveryChangeOnce: whatever falls into which batch, sent and
// coalesced changes add up.
func TestObserverSeesEveryChangeOnce(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	hub := newHub(t, core.Config{Observer: r, KeepAlive: -1})
	uris := names(200)
	s := listen(t, hub, "1", uriFilter(uris...))
	const each = 2000
	var publishers sync.WaitGroup
	for p := range 3 {
		publishers.Go(func() {
			for i := range each {
				publish(t, hub, core.ResourceUpdated(uris[(i*(p+3))%200]))
			}
		})
	}
	publishers.Wait()
	s.finish(hub)
	end := s.wait()
	sent, coalesced := 0, 0
	for _, d := range r.deliveries {
		sent += d.Sent[core.KindResourceUpdated]
		coalesced += d.Coalesced[core.KindResourceUpdated]
		if d.Sent[core.KindResourceUpdated] > 0 && d.Oldest[core.KindResourceUpdated].IsZero() {
			t.Errorf("a delivery of %v tells no time of its oldest change", d.Sent)
		}
	}
	if sent+coalesced != 3*each {
		t.Errorf("the observer was told of %d sent and %d coalesced changes, want %d together", sent, coalesced, 3*each)
	}
	if got := end.Stream.Counts; int(got.Delivered) != sent || int(got.Coalesced) != coalesced {
		t.Errorf("the counts are %d and %d, and the observer was told %d and %d", got.Delivered, got.Coalesced, sent, coalesced)
	}
}

func TestObserverIsToldOfFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		step string // that fails
		do   func(*testing.T, *core.Hub, *stream)
		want []string
	}{
		{"acknowledgment", "ack " + allLists, nil, []string{"accepted 1", "acknowledged 1 failed", "closed 1 write_error"}},
		{"its flush", "flush", nil, []string{"accepted 1", "acknowledged 1 failed", "closed 1 write_error"}},
		{
			"second notification", "prompts", func(t *testing.T, hub *core.Hub, s *stream) {
				s.stall() // so that one batch holds all three
				publish(t, hub, core.ResourcesListChanged())
				synctest.Wait()
				publish(t, hub, core.ToolsListChanged(), core.PromptsListChanged(), core.ResourcesListChanged())
				s.resume()
			},
			[]string{
				"accepted 1", "acknowledged 1 ok", "publishing 1", "published 1", "publishing 3", "published 3",
				"delivered 1 [0 0 1 0 0] ok", "delivered 1 [1 1 0 0 0] failed", "closed 1 write_error",
			},
		},
		{
			"keep-alive", "keep-alive", func(*testing.T, *core.Hub, *stream) { advance(core.DefaultKeepAlive) },
			[]string{"accepted 1", "acknowledged 1 ok", "kept alive 1 failed", "closed 1 write_error"},
		},
		{
			"result", "result", func(_ *testing.T, hub *core.Hub, s *stream) { s.finish(hub) },
			[]string{"accepted 1", "acknowledged 1 ok", "closed 1 write_error"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := &recorder{}
				hub := newHub(t, core.Config{Observer: r})
				s := listen(t, hub, "1", allLists, faulty(test.step, errBroken))
				if test.do != nil {
					test.do(t, hub, s)
				}
				if end := s.wait(); end.Err == nil {
					t.Errorf("ended as %q without an error, want that of the write", end.Reason)
				}
				wantSteps(t, r.take(), test.want...)
			})
		})
	}
}

func TestObserverOfRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &recorder{}
		hub := newHub(t, core.Config{Observer: r, MaxStreams: 1})
		s := listen(t, hub, "1", allLists)
		r.take()
		received := time.Now().Add(-time.Minute)
		_, err := tryListen(t, hub, `"two"`, allLists, func(_ *stream, o *core.Opening, _ *context.Context) { o.Arrival.Received = received })
		wantSteps(t, r.take(), `refused "two" limit`)
		got := r.refused[0]
		if got.Method != core.MethodListen || !got.Arrival.Received.Equal(received) || got.Meta.ProtocolVersion != core.ProtocolVersion || !errors.Is(err, got.Err) {
			t.Errorf("told of the refusal %+v, want method, time, meta, and the error %v", got, err)
		}
		hub.Refuse(context.Background(), core.Refused{Err: &core.Error{Refusal: core.RefusedOrigin}})
		wantSteps(t, r.take(), "refused  origin")
		s.close()
	})
}

func TestObserverMayDecline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &recorder{noneOf: true}
		hub := newHub(t, core.Config{Observer: r})
		s := listen(t, hub, "1", allLists)
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		s.finish(hub)
		wantEnd(t, s.wait(), core.Completed, true)
		wantSteps(t, r.take(), "accepted 1", "publishing 1", "published 1")
	})
}

// TestObserverCallsOfOneStreamDoNotOverlap is for the race detector: the
// recorder of a stream is used without a lock.
func TestObserverCallsOfOneStreamDoNotOverlap(t *testing.T) {
	t.Parallel()
	calls := make([]int, 20)
	hub := newHub(t, core.Config{Observer: &countingObserver{calls: calls}})
	var clients sync.WaitGroup
	for i := range calls {
		clients.Go(func() {
			s := listen(t, hub, strconv.Itoa(i), allLists)
			for range 20 {
				publish(t, hub, core.ToolsListChanged())
			}
			s.close()
		})
	}
	clients.Wait()
	for i, n := range calls {
		if n < 2 {
			t.Errorf("stream %d: %d calls, want two at least", i, n)
		}
	}
}

type countingObserver struct {
	recorder
	calls []int // one for each stream, without a lock
}

func (o *countingObserver) Accepted(_ context.Context, a core.Accepted) core.StreamObserver {
	i, _ := strconv.Atoi(a.Request.ID.String())
	return &countingStream{calls: &o.calls[i]}
}

type countingStream struct{ calls *int }

func (c *countingStream) Acknowledged(error)       { *c.calls++ }
func (c *countingStream) Delivered(*core.Delivery) { *c.calls++ }
func (c *countingStream) KeptAlive(error)          { *c.calls++ }
func (c *countingStream) Closed(core.End)          { *c.calls++ }
