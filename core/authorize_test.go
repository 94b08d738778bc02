// Authorization over time: tokens that end, rights that are withdrawn while
// something is pending, and re-checks that are slow, stuck or in the way.

package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// authorizerFunc is short for core.AuthorizerFunc.
func authorizerFunc(f func(principal string, filter core.Filter) (core.Grant, error)) core.Authorizer {
	return core.AuthorizerFunc(func(_ context.Context, principal string, filter core.Filter) (core.Grant, error) {
		return f(principal, filter)
	})
}

// TestATokenOfTwoSeconds: the stream ends with its result when the token does,
// and the same request is then refused as the application says.
func TestATokenOfTwoSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		expires := time.Now().Add(2 * time.Second)
		expired := &core.Error{Code: core.CodeInvalidRequest, Message: "the token has expired"}
		hub := newHub(t, core.Config{Authorizer: authorizerFunc(func(string, core.Filter) (core.Grant, error) {
			if !time.Now().Before(expires) {
				return core.Grant{}, expired
			}
			return core.Grant{Until: expires}, nil
		})})
		s := listen(t, hub, "1", allLists)
		advance(2*time.Second - 1)
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		wantSteps(t, s.take(), "ack "+allLists, "flush", "tools", "flush")
		advance(1)
		publish(t, hub, core.ToolsListChanged())
		wantEnd(t, s.wait(), core.GrantExpired, true)
		wantSteps(t, s.take(), "result", "flush")
		_, err := tryListen(t, hub, "1", allLists)
		if e := refusalOf(t, err, core.CodeInvalidRequest, core.RefusedAuth); e.Message != expired.Message {
			t.Errorf("the same listen again is refused with %q, want %q", e.Message, expired.Message)
		}
	})
}

// TestTheAuthorizerSeesExtensionMembers, as they were sent.
func TestTheAuthorizerSeesExtensionMembers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var saw core.Filter
		hub := newHub(t, core.Config{Authorizer: authorizerFunc(func(_ string, f core.Filter) (core.Grant, error) {
			saw = f
			return core.Grant{}, nil
		})})
		s := listen(t, hub, "1", `{"toolsListChanged":true,"taskIds":["t-1", 2],"x":null}`)
		want := map[string]json.RawMessage{"taskIds": json.RawMessage(`["t-1", 2]`), "x": json.RawMessage("null")}
		if !reflect.DeepEqual(saw.Extensions, want) {
			t.Errorf("the authorizer saw the extension members %s, want %s", saw.Extensions, want)
		}
		wantSteps(t, s.take(), `ack {"toolsListChanged":true}`, "flush")
	})
}

// TestForbiddenAndUnknownAreRefusedAlike: an authorizer's plain errors all become
// one refusal, whatever they say.
func TestForbiddenAndUnknownAreRefusedAlike(t *testing.T) {
	bubble(t, func(t *testing.T) {
		exists := "file:///private/bob/salaries"
		hub := newHub(t, core.Config{Authorizer: authorizerFunc(func(principal string, f core.Filter) (core.Grant, error) {
			for _, uri := range f.ResourceSubscriptions {
				switch {
				case uri != exists:
					return core.Grant{}, errors.New("there is no " + uri)
				case principal != "bob":
					return core.Grant{}, errors.New(principal + " may not read " + uri)
				}
			}
			return core.Grant{}, nil
		})})
		listen(t, hub, "1", uriFilter(exists), principal("bob"))
		_, forbidden := tryListen(t, hub, "1", uriFilter(exists), principal("alice"))
		_, unknown := tryListen(t, hub, "1", uriFilter("file:///private/bob/none"), principal("alice"))
		a := refusalOf(t, forbidden, core.CodeInvalidRequest, core.RefusedAuth)
		b := refusalOf(t, unknown, core.CodeInvalidRequest, core.RefusedAuth)
		if a.Message != b.Message || string(a.Data) != string(b.Data) || a.RetryAfter != b.RetryAfter {
			t.Errorf("forbidden is refused with %+v, unknown with %+v, want the same", a, b)
		}
		if strings.Contains(a.Message, "private") {
			t.Errorf("the refusal tells of the resource: %q", a.Message)
		}
	})
}

// rights is a right that can be withdrawn, and counts how often it was asked for.
type rights struct {
	withdrawn atomic.Bool
	asked     atomic.Int64
	slow      atomic.Int64 // how long an answer takes; it is the one of the beginning
}

var errWithdrawn = errors.New("withdrawn")

func (r *rights) check(ctx context.Context) error {
	r.asked.Add(1)
	withdrawn := r.withdrawn.Load()
	if d := time.Duration(r.slow.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if withdrawn {
		return errWithdrawn
	}
	return nil
}

func (r *rights) grant(delivery bool, until time.Time) core.Authorizer {
	return grants(core.Grant{Recheck: r.check, RecheckDelivery: delivery, Until: until})
}

// TestARevocationWhileAChangeIsPending: once the right has ended, and the hub can
// know it, the change is not delivered, whichever way the end comes.
func TestARevocationWhileAChangeIsPending(t *testing.T) {
	t.Parallel()
	everyone := func(core.StreamInfo) bool { return true }
	tests := []struct {
		name     string
		delivery bool
		revoke   func(*testing.T, *core.Hub, *rights)
		asked    int64
		want     core.Reason
	}{
		{"asked at the delivery", true, func(_ *testing.T, _ *core.Hub, r *rights) { r.withdrawn.Store(true) }, 2, core.Revoked},
		{"asked when the keep-alive is due", false, func(_ *testing.T, _ *core.Hub, r *rights) {
			r.withdrawn.Store(true)
			advance(core.DefaultKeepAlive)
		}, 1, core.Revoked},
		{"revoked by the application", false, func(_ *testing.T, hub *core.Hub, _ *rights) { hub.Revoke(everyone) }, 0, core.Revoked},
		{"revoked after it was to end", false, func(t *testing.T, hub *core.Hub, _ *rights) {
			if n := hub.EndWhere(everyone); n != 1 {
				t.Errorf("EndWhere ended %d, want 1", n)
			}
			if n := hub.Revoke(everyone); n != 1 {
				t.Errorf("Revoke of a stream that was to end is %d, want 1: its pending changes must not go out", n)
			}
			if n := hub.Revoke(everyone); n != 0 {
				t.Errorf("Revoke of a revoked stream is %d, want 0", n)
			}
		}, 0, core.Revoked},
		{"revoked during a shutdown", false, func(t *testing.T, hub *core.Hub, _ *rights) {
			go shutdown(t, hub)
			synctest.Wait()
			hub.Revoke(everyone)
		}, 0, core.Revoked},
		{"asked at the last delivery", true, func(_ *testing.T, hub *core.Hub, r *rights) {
			r.withdrawn.Store(true)
			hub.EndWhere(everyone)
		}, 2, core.Revoked},
		{"asked at the delivery of a shutdown", true, func(t *testing.T, hub *core.Hub, r *rights) {
			r.withdrawn.Store(true)
			go shutdown(t, hub)
			synctest.Wait()
		}, 2, core.Revoked},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := &rights{}
				hub := newHub(t, core.Config{Authorizer: r.grant(test.delivery, time.Time{})})
				s := listen(t, hub, "1", allLists)
				synctest.Wait()
				s.take()
				s.stall()
				publish(t, hub, core.ToolsListChanged())
				synctest.Wait() // it is being written
				publish(t, hub, core.PromptsListChanged())
				test.revoke(t, hub, r)
				publish(t, hub, core.ResourcesListChanged())
				s.resume()
				wantEnd(t, s.wait(), test.want, true)
				wantSteps(t, s.take(), "tools", "flush", "result", "flush")
				if got := r.asked.Load(); got != test.asked {
					t.Errorf("the grant was asked %d times, want %d", got, test.asked)
				}
			})
		})
	}
}

// TestWhatIsPublishedAfterTheGrantIsInNoBatch: not even in one whose writing has
// begun, and goes on only when the client reads again.
func TestWhatIsPublishedAfterTheGrantIsInNoBatch(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*core.Hub){
		"revoked": func(hub *core.Hub) { hub.Revoke(func(core.StreamInfo) bool { return true }) },
		"expired": func(*core.Hub) { advance(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hub := newHub(t, core.Config{KeepAlive: -1, Authorizer: grants(core.Grant{Until: time.Now().Add(time.Minute)})})
				uris := names(130) // three parts of the set, taken one after the other
				s := listen(t, hub, "1", uriFilter(uris...))
				synctest.Wait()
				s.take()
				s.stall()
				publish(t, hub, core.ResourceUpdated(uris[0]))
				synctest.Wait()
				end(hub)
				publish(t, hub, core.ResourceUpdated(uris[100]), core.ResourceUpdated(uris[129]))
				s.resume()
				s.wait()
				wantSteps(t, s.take(), "updated "+uris[0], "flush", "result", "flush")
			})
		})
	}
}

// TestADeliveryIsAskedForAfterItsChanges: what is published while a re-check is
// on its way is not covered by its answer.
func TestADeliveryIsAskedForAfterItsChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &rights{}
		hub := newHub(t, core.Config{Matcher: core.SubResources{}, Authorizer: r.grant(true, time.Time{})})
		uris := names(200)
		s := listen(t, hub, "1", uriFilter(uris...))
		synctest.Wait()
		s.take()
		r.slow.Store(int64(time.Second))
		publish(t, hub, core.ResourceUpdated(uris[7]), core.ResourceUpdated(uris[150]), core.ResourceUpdated(uris[3]+"/x"))
		synctest.Wait() // the question is on its way
		r.withdrawn.Store(true)
		publish(t, hub, core.ResourceUpdated(uris[7]), core.ResourceUpdated(uris[8]), core.ResourceUpdated(uris[199]), core.ResourceUpdated(uris[3]+"/y"))
		wantEnd(t, s.wait(), core.Revoked, true)
		wantSteps(t, s.take(), "updated "+uris[7], "updated "+uris[150], "updated "+uris[3]+"/x", "flush", "result", "flush")
	})
}

// TestASlowRecheckLosesNothing: while it holds, changes of before and of
// meanwhile are delivered, and nobody else waits.
func TestASlowRecheckLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &rights{}
		observed := &recorder{}
		hub := newHub(t, core.Config{Observer: observed, Authorizer: core.AuthorizerFunc(func(_ context.Context, principal string, _ core.Filter) (core.Grant, error) {
			if principal != "checked" {
				return core.Grant{}, nil
			}
			return core.Grant{Recheck: r.check, RecheckDelivery: true}, nil
		})})
		s := listen(t, hub, "1", `{"toolsListChanged":true,"resourceSubscriptions":["a:","b:"]}`, principal("checked"))
		other := listen(t, hub, "2", allLists, principal("other"))
		advance(time.Second)
		s.take()
		other.take()
		r.slow.Store(int64(3 * time.Second))
		publish(t, hub, core.ToolsListChanged(), core.ResourceUpdated("a:"))
		advance(time.Second)
		publish(t, hub, core.ResourceUpdated("a:"), core.ResourceUpdated("b:"))
		wantSteps(t, s.take())
		wantSteps(t, other.take(), "tools", "flush")
		advance(2 * time.Second)
		wantSteps(t, s.take(), "tools", "updated a:", "flush")
		advance(3 * time.Second)
		wantSteps(t, s.take(), "updated a:", "updated b:", "flush")
		s.finish(hub)
		wantEnd(t, s.wait(), core.Completed, true)
		wantSteps(t, s.take(), "result", "flush")
		if got := r.asked.Load(); got != 2 {
			t.Errorf("the grant was asked %d times, want twice: for each batch, and not where nothing is pending", got)
		}
		// The observer is told of each change once, in the batch that delivered it.
		var sent []int
		for _, d := range observed.deliveries {
			if d.Sent[core.KindResourceUpdated] > 0 {
				sent = append(sent, d.Sent[core.KindResourceUpdated])
				if age := d.Taken.Sub(d.Oldest[core.KindResourceUpdated]); age < 0 || age > 2*time.Second {
					t.Errorf("a change was pending for %v, want no more than 2s", age)
				}
			}
		}
		if !reflect.DeepEqual(sent, []int{1, 2}) {
			t.Errorf("the observer was told of batches of %v updates, want 1 and 2", sent)
		}
	})
}

// TestTheGrantEndsDuringARecheck: it does not wait for the answer, and whatever
// that is, nothing more is delivered.
func TestTheGrantEndsDuringARecheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		check func(ctx context.Context) error
	}{
		{"heeding its context", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		{"heeding it and saying yes", func(ctx context.Context) error { <-ctx.Done(); return nil }},
		{"saying yes when it is over", func(context.Context) error { <-time.After(2 * time.Second); return nil }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				start := time.Now()
				hub := newHub(t, core.Config{Authorizer: grants(core.Grant{
					Until: start.Add(2 * time.Second), Recheck: test.check, RecheckDelivery: true,
				})})
				s := listen(t, hub, "1", allLists)
				synctest.Wait()
				s.take()
				publish(t, hub, core.ToolsListChanged())
				wantEnd(t, s.wait(), core.GrantExpired, true)
				wantSteps(t, s.take(), "result", "flush")
				if got := time.Since(start); got != 2*time.Second {
					t.Errorf("ended after %v, want 2s", got)
				}
			})
		})
	}
}

// TestOtherEndsDuringARecheck: a lifetime cuts it short, a revocation overrules
// its answer, an end that the application asks for waits for it.
func TestOtherEndsDuringARecheck(t *testing.T) {
	t.Parallel()
	everyone := func(core.StreamInfo) bool { return true }
	tests := []struct {
		name  string
		life  time.Duration
		do    func(*testing.T, *core.Hub)
		want  core.Reason
		after time.Duration
		steps []string
	}{
		{"revoked", 0, func(_ *testing.T, hub *core.Hub) { hub.Revoke(everyone) }, core.Revoked, 5 * time.Second, []string{"result", "flush"}},
		{"ended", 0, func(_ *testing.T, hub *core.Hub) { hub.EndWhere(everyone) }, core.Completed, 5 * time.Second, []string{"tools", "flush", "result", "flush"}},
		{"shut down", 0, func(t *testing.T, hub *core.Hub) { go shutdown(t, hub) }, core.Shutdown, 5 * time.Second, []string{"tools", "flush", "result", "flush"}},
		{"ended, with more to deliver", 0, func(t *testing.T, hub *core.Hub) {
			publish(t, hub, core.PromptsListChanged())
			hub.EndWhere(everyone)
		}, core.Completed, 10 * time.Second, []string{"tools", "flush", "prompts", "result", "flush"}},
		{"past its lifetime", time.Second, func(*testing.T, *core.Hub) {}, core.MaxLifetime, 0, []string{"result", "flush"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := &rights{}
				r.slow.Store(int64(5 * time.Second))
				start := time.Now()
				hub := newHub(t, core.Config{MaxLifetime: test.life, Authorizer: r.grant(true, time.Time{})})
				s := listen(t, hub, "1", allLists)
				synctest.Wait()
				s.take()
				publish(t, hub, core.ToolsListChanged())
				synctest.Wait() // the question is on its way
				test.do(t, hub)
				wantEnd(t, s.wait(), test.want, true)
				wantSteps(t, s.take(), test.steps...)
				if got := time.Since(start); got != test.after && test.life == 0 || test.life > 0 && got > 2*test.life {
					t.Errorf("ended after %v, want %v", got, test.after)
				}
			})
		})
	}
}

// TestTheLastDeliveryOfALifetimeIsAskedFor: the end that has come does not leave
// the re-check without time.
func TestTheLastDeliveryOfALifetimeIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		withdrawn bool
		want      core.Reason
		steps     []string
	}{
		"it holds":     {false, core.MaxLifetime, []string{"tools", "flush", "prompts", "result", "flush"}},
		"it holds not": {true, core.Revoked, []string{"tools", "flush", "result", "flush"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := &rights{}
				hub := newHub(t, core.Config{MaxLifetime: time.Minute, KeepAlive: -1, Authorizer: r.grant(true, time.Time{})})
				s := listen(t, hub, "1", allLists)
				synctest.Wait()
				s.take()
				s.stall()
				publish(t, hub, core.ToolsListChanged())
				synctest.Wait()
				publish(t, hub, core.PromptsListChanged())
				advance(2 * time.Minute)
				r.slow.Store(int64(time.Second))
				r.withdrawn.Store(test.withdrawn)
				s.resume()
				wantEnd(t, s.wait(), test.want, true)
				wantSteps(t, s.take(), test.steps...)
			})
		})
	}
}

// TestARecheckThatHeedsNothing holds up its own stream and nobody else; when it
// comes back, what it says counts.
func TestARecheckThatHeedsNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"yes": nil, "no": errWithdrawn} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				stuck := make(chan struct{})
				hub := newHub(t, core.Config{KeepAlive: -1, Authorizer: authorizerFunc(func(principal string, _ core.Filter) (core.Grant, error) {
					if principal == "stuck" {
						return core.Grant{RecheckDelivery: true, Recheck: func(context.Context) error { <-stuck; return answer }}, nil
					}
					return core.Grant{}, nil
				})})
				s := listen(t, hub, "1", allLists, principal("stuck"))
				other := listen(t, hub, "2", allLists, principal("other"))
				synctest.Wait()
				s.take()
				other.take()
				publish(t, hub, core.ToolsListChanged())
				advance(time.Hour)
				publish(t, hub, core.PromptsListChanged())
				synctest.Wait()
				wantSteps(t, s.take())
				wantSteps(t, other.take(), "tools", "flush", "prompts", "flush")
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if err := hub.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Shutdown: %v, want its own deadline", err)
				}
				wantEnd(t, other.wait(), core.Shutdown, true)
				close(stuck)
				if answer == nil {
					wantEnd(t, s.wait(), core.Shutdown, true)
					wantSteps(t, s.take(), "tools", "flush", "prompts", "result", "flush")
				} else {
					wantEnd(t, s.wait(), core.Revoked, true)
					wantSteps(t, s.take(), "result", "flush")
				}
			})
		})
	}
}

// TestARecheckAfterTheClientHasGone ends as that, not as a revocation, and writes
// nothing.
func TestARecheckAfterTheClientHasGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &rights{}
		r.slow.Store(int64(5 * time.Second))
		hub := newHub(t, core.Config{Authorizer: r.grant(true, time.Time{})})
		s := listen(t, hub, "1", allLists)
		synctest.Wait()
		s.take()
		publish(t, hub, core.ToolsListChanged())
		synctest.Wait()
		s.cancel()
		wantEnd(t, s.wait(), core.ClientClosed, false)
		wantSteps(t, s.take())
	})
}

// TestAPanickingRecheckFailsClosed, with something pending too.
func TestAPanickingRecheckFailsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{Authorizer: grants(core.Grant{
			RecheckDelivery: true, Recheck: func(context.Context) error { panic("recheck") },
		})})
		s := listen(t, hub, "1", allLists)
		synctest.Wait()
		s.take()
		publish(t, hub, core.ToolsListChanged())
		wantEnd(t, s.wait(), core.Revoked, true)
		wantSteps(t, s.take(), "result", "flush")
	})
}

// TestTheGrantsPrincipalCounts: for limits and audiences, and not the one that
// the transport named.
func TestTheGrantsPrincipalCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{MaxStreamsPerPrincipal: 2, Authorizer: authorizerFunc(func(principal string, _ core.Filter) (core.Grant, error) {
			return core.Grant{Principal: strings.TrimSuffix(principal, "-phone")}, nil
		})})
		a := listen(t, hub, "1", allLists, principal("alice"))
		b := listen(t, hub, "2", allLists, principal("alice-phone"))
		_, err := tryListen(t, hub, "3", allLists, principal("alice-phone"))
		wantRefusal(t, err, core.CodeInternalError, core.RefusedPrincipalLimit)
		synctest.Wait()
		a.take()
		b.take()
		for to, want := range map[string][]string{"alice": {"tools", "flush"}, "alice-phone": nil} {
			if err := hub.PublishTo(context.Background(), core.Principals(to), core.ToolsListChanged()); err != nil {
				t.Errorf("PublishTo: %v", err)
			}
			synctest.Wait()
			wantSteps(t, a.take(), want...)
			wantSteps(t, b.take(), want...)
		}
		for _, info := range hub.Streams() {
			if info.Principal != "alice" {
				t.Errorf("a stream is %q's, want alice's", info.Principal)
			}
		}
	})
}

// TestI11_NothingIsWrittenAfterTheEnd: a client that reads slowly is in the middle of
// a large batch when its grant ends, or is revoked. The rest of the batch is not
// written; the result is.
func TestI11_NothingIsWrittenAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		grant  core.Grant
		reason core.Reason
	}{
		"the grant ends": {core.Grant{Until: time.Now()}, core.GrantExpired}, // moved into the bubble's time below
		"it is revoked":  {core.Grant{}, core.Revoked},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				if !test.grant.Until.IsZero() {
					test.grant.Until = time.Now().Add(3 * time.Second)
				}
				hub := newHub(t, core.Config{Authorizer: grants(test.grant)})
				uris := names(500)
				s := listen(t, hub, "1", uriFilter(uris...))
				s.take()
				s.stall()
				for _, uri := range uris {
					publish(t, hub, core.ResourceUpdated(uri))
				}
				advance(3 * time.Second)
				hub.Revoke(func(core.StreamInfo) bool { return test.reason == core.Revoked })
				s.resume()
				wantEnd(t, s.wait(), test.reason, true)
				wantSteps(t, s.take(), "updated "+uris[0], "flush", "result", "flush")
			})
		})
	}
}
