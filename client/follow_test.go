// Following, in fake time: when it comes back, when it stops, and what it tells
// the consumer.

package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/client"
)

// script is a server without a network: each request takes the next of its
// answers, the last one for ever.
type script struct {
	answers []answer

	mu       sync.Mutex
	requests []time.Duration // when, since the first one
	ids      []string
	tokens   []string
	start    time.Time
}

// answer returns a response. It may go on writing to a body.
type answer func(req *http.Request, id string) (*http.Response, error)

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	var msg struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.NewDecoder(req.Body).Decode(&msg)
	_ = req.Body.Close()
	s.mu.Lock()
	if s.start.IsZero() {
		s.start = time.Now()
	}
	s.requests = append(s.requests, time.Since(s.start))
	s.ids = append(s.ids, string(msg.ID))
	s.tokens = append(s.tokens, req.Header.Get("Authorization"))
	a := s.answers[min(len(s.requests), len(s.answers))-1]
	s.mu.Unlock()
	return a(req, string(msg.ID))
}

// waits returns the times between the requests.
func (s *script) waits() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := make([]time.Duration, len(s.requests))
	for i := range waits {
		if i > 0 {
			waits[i] = s.requests[i] - s.requests[i-1]
		}
	}
	return waits[min(1, len(waits)):]
}

func response(status int, header http.Header, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header, Body: body, ProtoMajor: 1}
}

// refusal answers with a status and, where code is not empty, a JSON-RPC error.
func refusal(status int, code, retryAfter string) answer {
	return func(_ *http.Request, id string) (*http.Response, error) {
		header := http.Header{}
		body := "no"
		if code != "" {
			header.Set("Content-Type", "application/json")
			body = `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":` + code + `,"message":"no"}}`
		}
		if retryAfter != "" {
			header.Set("Retry-After", retryAfter)
		}
		return response(status, header, io.NopCloser(strings.NewReader(body))), nil
	}
}

func unreachable(*http.Request, string) (*http.Response, error) { return nil, errors.New("no route") }

// stream answers with a stream: what is said is written after each pause. An
// empty text ends it, and what has no end stays open until the client leaves.
func stream(steps ...step) answer {
	return func(req *http.Request, id string) (*http.Response, error) {
		r, w := io.Pipe()
		context.AfterFunc(req.Context(), func() { _ = w.CloseWithError(context.Cause(req.Context())) })
		go func() {
			for _, s := range steps {
				if !wait(req.Context(), s.after) {
					return
				}
				if s.text == "" {
					_ = w.CloseWithError(s.err)
					return
				}
				if _, err := io.WriteString(w, strings.ReplaceAll(s.text, idPlace, id)); err != nil {
					return
				}
			}
		}()
		return response(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}}, r), nil
	}
}

type step struct {
	after time.Duration
	text  string
	err   error
}

func event(message string) string { return "data: " + message + "\n\n" }

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// forAge is a stream that ends at an age, with the result or without.
func forAge(d time.Duration, last string) answer {
	steps := []step{{text: event(toolsAck)}}
	for ; d > 10*time.Second; d -= 10 * time.Second {
		steps = append(steps, step{after: 10 * time.Second, text: ":\n\n"})
	}
	if last != "" {
		steps = append(steps, step{after: d, text: event(last)})
		d = 0
	}
	return stream(append(steps, step{after: d})...)
}

func follow(tb testing.TB, ctx context.Context, s *script, options ...client.Option) *client.Follower { //nolint:revive // the test comes first
	tb.Helper()
	f, err := client.Follow(ctx, client.URL("http://example.com/mcp"), toolsFilter,
		append([]client.Option{client.WithHTTPClient(&http.Client{Transport: s})}, options...)...)
	if err != nil {
		tb.Fatalf("Follow: %v", err)
	}
	return f
}

func seconds(s ...int) []time.Duration {
	all := make([]time.Duration, len(s))
	for i := range s {
		all[i] = time.Duration(s[i]) * time.Second
	}
	return all
}

// Full jitter: each wait is between nothing and a bound that doubles.
func TestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const runs, attempts = 200, 9
		bounds := seconds(2, 4, 8, 16, 32, 60, 60, 60)
		var sums, least, most [attempts - 1]time.Duration
		for range runs {
			ctx, cancel := context.WithCancel(t.Context())
			s := &script{answers: []answer{unreachable}}
			tries := 0
			f := follow(t, ctx, s, client.WithOnRetry(func(r client.Retry) {
				if tries++; r.Attempt != tries || r.End.Cause != client.Dropped {
					t.Errorf("attempt %d is said to be %d, %v", tries, r.Attempt, r.End)
				}
				if tries == attempts {
					cancel()
				}
			}))
			if end := f.End(); end.Cause != client.Local {
				t.Fatalf("got %v", end)
			}
			for i, d := range s.waits() {
				if d > bounds[i] {
					t.Errorf("wait %d is %v, over %v", i, d, bounds[i])
				}
				sums[i] += d
				most[i] = max(most[i], d)
				if least[i] == 0 || d < least[i] {
					least[i] = d
				}
			}
		}
		for i, sum := range sums {
			if mean, half := sum/runs, bounds[i]/2; mean < half*3/4 || mean > half*5/4 {
				t.Errorf("wait %d is %v on average, want about %v", i, mean, half)
			}
			if least[i] > bounds[i]/8 || most[i] < bounds[i]*7/8 {
				t.Errorf("wait %d is from %v to %v in %d runs, want all up to %v", i, least[i], most[i], runs, bounds[i])
			}
		}
	})
}

// A stream that lived long starts over, one that did not goes on.
func TestBackoffResets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		age  time.Duration
		last string
		want []int // Attempt
	}{
		{"long and graceful", time.Minute, goodbye, []int{1, 1, 1, 1}},
		{"long and dropped", time.Minute, "", []int{1, 1, 1, 1}},
		{"short and graceful", 29 * time.Second, goodbye, []int{1, 2, 3, 4}},
		{"short and dropped", time.Second, "", []int{1, 2, 3, 4}},
		{"no life at all", 0, goodbye, []int{1, 2, 3, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var got []int
				f := follow(t, ctx, &script{answers: []answer{forAge(tt.age, tt.last)}}, client.WithOnRetry(func(r client.Retry) {
					got = append(got, r.Attempt)
					want := client.Dropped
					if tt.last != "" {
						want = client.Graceful
					}
					if r.End.Cause != want {
						t.Errorf("got %v, want %s", r.End, want)
					}
					if len(got) == len(tt.want) {
						cancel()
					}
				}))
				f.End()
				if !slices.Equal(got, tt.want) {
					t.Errorf("attempts: got %d, want %d", got, tt.want)
				}
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		value func(now time.Time) string
		least time.Duration
	}{
		{"seconds", func(time.Time) string { return "120" }, 2 * time.Minute},
		{"date", func(now time.Time) string { return now.Add(90 * time.Second).UTC().Format(http.TimeFormat) }, 90 * time.Second},
		{"past date", func(now time.Time) string { return now.Add(-time.Hour).UTC().Format(http.TimeFormat) }, 0},
		{"not to be read", func(time.Time) string { return "soon" }, 0},
		{"negative", func(time.Time) string { return "-5" }, 0},
		{"for ever", func(time.Time) string { return "2000000000" }, time.Hour},
		{"beyond numbers", func(time.Time) string { return "99999999999999999999999" }, time.Hour},
		{"a few centuries", func(time.Time) string { return "99999999999" }, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []answer{
					func(req *http.Request, id string) (*http.Response, error) {
						return refusal(503, "-32603", tt.value(time.Now()))(req, id)
					},
					refusal(404, "-32601", ""),
				}}
				f := follow(t, t.Context(), s)
				if end := f.End(); end.Cause != client.Refused {
					t.Fatalf("got %v", end)
				}
				// The header's dates have whole seconds.
				if got := s.waits()[0]; got < tt.least-time.Second || got > tt.least+2*time.Second {
					t.Errorf("waited %v, want %v and up to 2 s more", got, tt.least)
				}
			})
		})
	}
}

func TestFollowStops(t *testing.T) {
	t.Parallel()
	ok := forAge(time.Minute, goodbye)
	emptyAck := strings.Replace(toolsAck, `{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}`, "{}", 1)
	source := client.WithTokenSource(func(context.Context) (string, error) { return "t", nil })
	tests := []struct {
		name     string
		answers  []answer
		option   client.Option
		requests int
		want     client.Cause
	}{
		{"no such method", []answer{refusal(404, "-32601", "")}, nil, 1, client.Refused},
		{"no such method, after it was there", []answer{ok, refusal(200, "-32601", "")}, nil, 2, client.Refused},
		{"no such method, come back", []answer{refusal(503, "-32601", "1")}, nil, 1, client.Refused},
		{"invalid", []answer{refusal(400, "-32602", "")}, nil, 1, client.Refused},
		{"version", []answer{ok, refusal(400, "-32022", "")}, nil, 2, client.Refused},
		{"forbidden", []answer{ok, refusal(403, "", "")}, source, 2, client.Refused},
		{"unauthorized", []answer{ok, refusal(401, "", "")}, nil, 2, client.Refused},
		{"token does not help", []answer{refusal(401, "", "")}, source, 5, client.Refused},
		{"token helps", []answer{refusal(401, "", ""), refusal(401, "", ""), refusal(401, "", ""), refusal(401, "", ""), ok, refusal(401, "", "")}, source, 10, client.Refused},
		{"not found", []answer{refusal(404, "", "")}, nil, 1, client.Refused},
		{"a deploy", []answer{ok, refusal(404, "", ""), refusal(502, "", ""), refusal(503, "", ""), refusal(429, "", ""), ok, refusal(405, "", "")}, nil, 7, client.Refused},
		{"a server that breaks rules", []answer{stream(step{text: event(toolsNote)})}, nil, 5, client.Violation},
		{"rules broken after a long life", []answer{forAge(time.Minute, toolsAck), forAge(time.Minute, toolsAck), forAge(time.Minute, toolsAck), forAge(time.Minute, toolsAck), forAge(time.Minute, toolsAck), refusal(404, "-32601", "")}, nil, 6, client.Refused},
		{"nothing honored, and goodbye", []answer{stream(step{text: event(emptyAck) + event(goodbye)}, step{})}, nil, 1, client.Graceful},
		{"nothing honored, and kept open", []answer{stream(step{text: event(emptyAck)})}, nil, 1, client.Graceful},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tt.answers}
				f := follow(t, t.Context(), s, tt.option)
				end := f.End()
				if end.Cause != tt.want || tt.want == client.Graceful != errors.Is(end.Err, client.ErrNothingHonored) {
					t.Errorf("got %v, want %s", end, tt.want)
				}
				if len(s.requests) != tt.requests {
					t.Errorf("%d requests, want %d", len(s.requests), tt.requests)
				}
				for i, id := range s.ids {
					if slices.Contains(s.ids[:i], id) {
						t.Errorf("the id %s was used twice", id)
					}
				}
			})
		})
	}
}

// A token is asked for each time.
func TestFollowRenewsTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s := &script{answers: []answer{forAge(time.Minute, goodbye), refusal(401, "", ""), forAge(time.Minute, goodbye), refusal(404, "-32601", "")}}
		f := follow(t, t.Context(), s, client.WithTokenSource(func(context.Context) (string, error) {
			n++
			return fmt.Sprint(n), nil
		}))
		f.End()
		if want := []string{"Bearer 1", "Bearer 2", "Bearer 3", "Bearer 4"}; !slices.Equal(s.tokens, want) {
			t.Errorf("got %q, want %q", s.tokens, want)
		}
	})
}

// The consumer is told of each acknowledgment before what came after it, and
// what was pending from before a gap is covered by it.
func TestRelist(t *testing.T) {
	t.Parallel()
	tick := func(d time.Duration) step { return step{after: d, text: event(toolsNote)} }
	synctest.Test(t, func(t *testing.T) {
		alive := step{text: event(toolsAck)}
		s := &script{answers: []answer{
			unreachable, // no gap: nothing was heard before
			stream(alive, tick(time.Second), step{after: time.Second, err: io.ErrUnexpectedEOF}),
			refusal(503, "", ""),
			stream(alive, step{text: event(toolsNote) + event(goodbye)}, step{}),
			stream(alive, step{after: time.Second, text: event(goodbye)}, step{}),
			stream(alive, tick(time.Second), tick(20*time.Second), step{after: time.Second}),
			refusal(404, "-32601", ""),
		}}
		f := follow(t, t.Context(), s)
		var got []client.Kind
		for n := range f.Notifications() {
			got = append(got, n.Kind)
			if n.Kind == client.Relist && !f.Honored().ToolsListChanged {
				t.Error("Relist before Honored")
			}
			synctest.Wait() // all that comes at this instant is there
		}
		want := []client.Kind{
			client.Started, client.Tools,
			client.Relist, client.Tools,
			client.Relist,
			client.Relist, client.Tools, client.Tools,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// A consumer that sleeps through several gaps lists once.
func TestRelistCoalesces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		short := stream(step{text: event(toolsAck)}, step{after: time.Second, text: event(toolsNote)}, step{})
		f := follow(t, t.Context(), &script{answers: []answer{short, short, short, short, refusal(404, "-32601", "")}})
		f.End()
		var got []client.Kind
		for n := range f.Notifications() {
			got = append(got, n.Kind)
		}
		if want := []client.Kind{client.Started, client.Tools}; !slices.Equal(got, want) {
			t.Errorf("never listed: got %v, want %v", got, want)
		}
		f = follow(t, t.Context(), &script{answers: []answer{short, short, short, short, refusal(404, "-32601", "")}})
		got = nil
		for n := range f.Notifications() {
			if got = append(got, n.Kind); len(got) == 1 {
				f.End()
			}
		}
		if want := []client.Kind{client.Started, client.Relist, client.Tools}; !slices.Equal(got, want) {
			t.Errorf("listed once: got %v, want %v", got, want)
		}
	})
}

// Three keep-alives that fail to come are a dead connection; any byte is a sign
// of life.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		steps := []step{{text: event(toolsAck)}}
		for range 10 {
			steps = append(steps, step{after: 44 * time.Second, text: ":"}) // not even a whole line
		}
		s := &script{answers: []answer{stream(steps...)}}
		start := time.Now()
		st, err := client.Listen(t.Context(), client.URL("http://example.com"), toolsFilter, client.WithHTTPClient(&http.Client{Transport: s}))
		if err != nil {
			t.Fatal(err)
		}
		end := st.End()
		if end.Cause != client.Dropped || !errors.Is(end.Err, client.ErrIdle) {
			t.Errorf("got %v", end)
		}
		if got, want := time.Since(start), 440*time.Second+3*client.DefaultKeepAlive; got != want {
			t.Errorf("it took %v, want %v", got, want)
		}
	})
}

func TestIdleOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1000*time.Hour)
		defer cancel()
		s := &script{answers: []answer{stream(step{text: event(toolsAck)})}}
		f := follow(t, ctx, s, client.WithKeepAlive(0))
		if end := f.End(); end.Cause != client.Local || len(s.requests) != 1 {
			t.Errorf("got %v after %d requests", end, len(s.requests))
		}
	})
}

// A server without keep-alives is not asked for ever at the pace of those with.
func TestIdleGrows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		var log bytes.Buffer
		s := &script{answers: []answer{stream(step{text: event(toolsAck)})}}
		f := follow(t, ctx, s, client.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		f.End()
		for i, want := range seconds(45, 90, 180, 360, 600, 600) {
			if got := s.waits()[i]; got < want || got > want+2*time.Second {
				t.Errorf("stream %d: %v, want %v", i, got, want)
			}
		}
		if n := strings.Count(log.String(), "keep-alives"); n != 4 {
			t.Errorf("logged %d times, want 4: %s", n, log.String())
		}
	})
}

// A server that keeps the stream open after its result does not hold up its end.
func TestResultEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []answer{stream(step{text: event(toolsAck) + event(goodbye)})}}
		start := time.Now()
		st, err := client.Listen(t.Context(), client.URL("http://example.com"), toolsFilter, client.WithHTTPClient(&http.Client{Transport: s}))
		if err != nil {
			t.Fatal(err)
		}
		if end := st.End(); end.Cause != client.Graceful || time.Since(start) > time.Second {
			t.Errorf("got %v after %v", end, time.Since(start))
		}
	})
}

func TestAckTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, a := range []answer{
			stream(step{text: ": hello\n\n"}),
			func(req *http.Request, _ string) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			},
		} {
			start := time.Now()
			_, err := client.Listen(t.Context(), client.URL("http://example.com"), toolsFilter, client.WithHTTPClient(&http.Client{Transport: &script{answers: []answer{a}}}))
			if !errors.Is(err, client.ErrNoAck) || client.CauseOf(err) != client.Dropped || time.Since(start) != client.DefaultAckTimeout {
				t.Errorf("got %v after %v", err, time.Since(start))
			}
		}
	})
}

func TestFollowCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, a := range map[string]answer{"open": stream(step{text: event(toolsAck)}), "waiting": refusal(503, "", "3600")} {
			f := follow(t, t.Context(), &script{answers: []answer{a}})
			synctest.Wait()
			f.Close()
			f.Close()
			if end := f.End(); end.Cause != client.Local || !errors.Is(end.Err, client.ErrClosed) {
				t.Errorf("%s: got %v", name, end)
			}
			for n := range f.Notifications() {
				t.Errorf("%s: %v after Close", name, n)
			}
		}
	})
}

// Two consumers share what comes.
func TestTwoConsumers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		steps := []step{{text: event(toolsAck)}}
		for range 50 {
			steps = append(steps, step{after: time.Second, text: event(toolsNote)})
		}
		s := &script{answers: []answer{stream(append(steps, step{text: event(goodbye)}, step{})...), refusal(404, "-32601", "")}}
		f := follow(t, t.Context(), s)
		var wg sync.WaitGroup
		var mu sync.Mutex
		total := 0
		for range 2 {
			wg.Go(func() {
				for range f.Notifications() {
					mu.Lock()
					total++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if total != 51 {
			t.Errorf("got %d, want 51", total)
		}
	})
}
