// Extensions: an application's own families of notifications. What is asked for is
// checked and authorized, what is pending is the newest value of each key, and
// nobody learns of a key that is not theirs.

package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// jobs is the family of the tests.
var jobs = core.Family{Member: "jobIds", Method: "notifications/jobs", Key: "job", Capability: "com.example/jobs"}

// jobsMeta is the _meta of a client that has the capability.
const jobsMeta = `{"` + core.MetaProtocolVersion + `":"` + core.ProtocolVersion + `","` + core.MetaClientCapabilities +
	`":{"extensions":{"com.example/jobs":{}}}}`

type jobState struct {
	Job   string `json:"job"`
	State int    `json:"state"`
}

// job is the change of a job.
func job(key string, state int) core.Change {
	return core.ValueChanged(jobs.Method, key, jobState{key, state})
}

// publicJobs is the family without restrictions.
func publicJobs() core.Extension { return core.Extension{Family: jobs, Public: true} }

// versioned encodes states, which are their own versions.
func versioned(_ string, value any) (core.Payload, error) {
	params, err := json.Marshal(value)
	return core.Payload{Params: params, Version: uint64(value.(jobState).State)}, err
}

// withJobs is a hub with the family.
func withJobs(tb testing.TB, config core.Config) *core.Hub {
	tb.Helper()
	if config.Extensions == nil {
		config.Extensions = []core.Extension{publicJobs()}
	}
	return newHub(tb, config)
}

// able opens the stream of a client that has the capability.
func able(filter string) opening {
	return func(s *stream, o *core.Opening, _ *context.Context) {
		s.tb.Helper()
		o.Request = requestAs(s.tb, s.hub, s.id, jobsMeta, filter)
	}
}

func jobFilter(keys ...string) string {
	list, err := json.Marshal(keys)
	if err != nil {
		panic(err)
	}
	return `{"jobIds":` + string(list) + `}`
}

// tryJobs opens a stream of a client that has the capability.
func tryJobs(tb testing.TB, hub *core.Hub, id, filter string, openings ...opening) (*stream, error) {
	tb.Helper()
	return tryListen(tb, hub, id, `{}`, append([]opening{able(filter)}, openings...)...)
}

func listenJobs(tb testing.TB, hub *core.Hub, id, filter string, openings ...opening) *stream {
	tb.Helper()
	s, err := tryJobs(tb, hub, id, filter, openings...)
	if err != nil {
		tb.Fatalf("a listen with id %s and filter %s was refused: %v", id, filter, err)
	}
	return s
}

func TestExtensionsAreChecked(t *testing.T) {
	t.Parallel()
	allow := func(context.Context, string, []string) error { return nil }
	current := func(context.Context, string, string) (any, error) { return nil, core.ErrNoValue }
	with := func(change func(*core.Extension)) []core.Extension {
		x := publicJobs()
		change(&x)
		return []core.Extension{x}
	}
	for name, extensions := range map[string][]core.Extension{
		"no member":               with(func(x *core.Extension) { x.Member = "" }),
		"the protocol's member":   with(func(x *core.Extension) { x.Member = "resourceSubscriptions" }),
		"a member with quotes":    with(func(x *core.Extension) { x.Member = `a"b` }),
		"a long member":           with(func(x *core.Extension) { x.Member = strings.Repeat("m", 129) }),
		"no method":               with(func(x *core.Extension) { x.Method = "" }),
		"a request's method":      with(func(x *core.Extension) { x.Method = "jobs/list" }),
		"a method without a name": with(func(x *core.Extension) { x.Method = "notifications/" }),
		"the protocol's method":   with(func(x *core.Extension) { x.Method = core.MethodResourceUpdated }),
		"progress":                with(func(x *core.Extension) { x.Method = "notifications/progress" }),
		"no key member":           with(func(x *core.Extension) { x.Key = "" }),
		"the hub's member as key": with(func(x *core.Extension) { x.Key = "_meta" }),
		"no prefix":               with(func(x *core.Extension) { x.Capability = "jobs" }),
		"no name":                 with(func(x *core.Extension) { x.Capability = "com.example/" }),
		"default deny":            with(func(x *core.Extension) { x.Public = false }),
		"public and authorized":   with(func(x *core.Extension) { x.Authorize = allow }),
		"public and re-checked":   with(func(x *core.Extension) { x.Recheck = true }),
		"negative limit":          with(func(x *core.Extension) { x.MaxPayload = -1 }),
		"the same member":         {publicJobs(), with(func(x *core.Extension) { x.Method += "2" })[0]},
		"the same method":         {publicJobs(), with(func(x *core.Extension) { x.Member += "2" })[0]},
	} {
		if _, err := core.NewHub(core.Config{Extensions: extensions}); err == nil || !strings.HasPrefix(err.Error(), "core: ") {
			t.Errorf("%s: NewHub returned %v, want an error", name, err)
		}
	}
	for name, change := range map[string]func(*core.Extension){
		"nothing":    func(*core.Extension) {},
		"no Encode":  func(x *core.Extension) { x.Current = current },
		"no Current": func(x *core.Extension) { x.Encode = versioned },
	} {
		if _, err := core.NewHub(core.Config{Extensions: with(change), Broker: new(core.LocalBroker)}); err == nil {
			t.Errorf("with a broker and %s, NewHub returned no error", name)
		}
	}
	hub := withJobs(t, core.Config{Extensions: []core.Extension{
		{Family: jobs, Authorize: allow, Recheck: true},
		{Family: core.Family{Member: "x", Method: "notifications/x", Key: "id"}, Public: true},
	}})
	if got := hub.Extensions(); len(got) != 2 || got[0] != jobs {
		t.Errorf("the hub has the extensions %v", got)
	}
}

func TestExtensionsAreAdvertised(t *testing.T) {
	t.Parallel()
	hub := withJobs(t, core.Config{Extensions: []core.Extension{
		publicJobs(), {Family: core.Family{Member: "x", Method: "notifications/x", Key: "id"}, Public: true},
	}})
	capabilities := func() string {
		var result struct{ Capabilities map[string]json.RawMessage }
		if err := json.Unmarshal(hub.Discover(), &result); err != nil {
			t.Fatal(err)
		}
		return string(result.Capabilities["extensions"])
	}
	if got := capabilities(); got != `{"com.example/jobs":{}}` {
		t.Errorf("advertised are the extensions %s", got)
	}
	hub.SetMode(core.ModeNotFound)
	if got := capabilities(); got != "" || hub.Extensions() != nil {
		t.Errorf("a hub that does not serve advertises %s and has %v", got, hub.Extensions())
	}
}

// TestExtensionMember: the member is an array of keys within the limits of URIs.
func TestExtensionMember(t *testing.T) {
	t.Parallel()
	hub := withJobs(t, core.Config{Limits: core.Limits{MaxURIs: 3, MaxURILength: 5}})
	parseAs := func(meta, filter string) (*core.Request, error) {
		_, req, err := parse(hub, listenText("1", meta, filter))
		return req, err
	}
	for filter, want := range map[string]map[string][]string{
		`{"jobIds":["b","a","\u0062"]}`:           {"jobIds": {"b", "a"}},
		`{"jobIds":["12345","2","3"]}`:            {"jobIds": {"12345", "2", "3"}},
		`{"jobIds":[]}`:                           nil,
		`{"jobids":[1],"JobIds":null,"other":[]}`: nil,
	} {
		req, err := parseAs(jobsMeta, filter)
		if err != nil || !reflect.DeepEqual(req.Filter.Keys, want) {
			t.Errorf("%s: got %+v (%v), want the keys %v", filter, req, err, want)
		}
	}
	for _, value := range []string{
		`null`, `true`, `"a"`, `{}`, `1`, `[1]`, `[null]`, `["a",["b"]]`, `[""]`, `["\ud800"]`, `["123456"]`, `["1","2","3","4"]`,
	} {
		_, err := parseAs(jobsMeta, `{"jobIds":`+value+`}`)
		wantRefusal(t, err, core.CodeInvalidParams, core.RefusedParams)
		refused(t, err)
	}
	_, err := parseAs(jobsMeta, `{"jobIds":["a"],"\u006aobIds":["b"]}`)
	wantRefusal(t, err, core.CodeInvalidRequest, core.RefusedRequest)
}

// TestMissingCapability: a family that needs a capability is not given to a client
// that does not declare it, and the refusal says which it is.
func TestMissingCapability(t *testing.T) {
	t.Parallel()
	more := core.Family{Member: "x", Method: "notifications/x", Key: "id", Capability: "a.example/x"}
	hub := withJobs(t, core.Config{Extensions: []core.Extension{publicJobs(), {Family: more, Public: true}}})
	with := func(capabilities string) string {
		return strings.Replace(jobsMeta, `{"extensions":{"com.example/jobs":{}}}`, capabilities, 1)
	}
	for _, capabilities := range []string{
		`{}`, `{"extensions":{}}`, `{"extensions":null}`, `{"extensions":[]}`, `{"extensions":{"com.example/jobs":null}}`,
		`{"extensions":{"com.example/jobs":true}}`, `{"extensions":{"com.example/Jobs":{}}}`, `{"Extensions":{"com.example/jobs":{}}}`,
		`{"com.example/jobs":{}}`, `{"experimental":{"com.example/jobs":{}}}`,
	} {
		_, _, err := parse(hub, listenText("1", with(capabilities), jobFilter("a")))
		e := refusalOf(t, err, core.CodeMissingCapability, core.RefusedCapability)
		if got, want := string(e.Data), `{"requiredCapabilities":{"extensions":{"com.example/jobs":{}}}}`; got != want {
			t.Errorf("%s: the data is %s, want %s", capabilities, got, want)
		}
		refused(t, err)
		for _, filter := range []string{`{}`, `{"jobIds":[],"toolsListChanged":true}`} {
			if _, _, err := parse(hub, listenText("1", with(capabilities), filter)); err != nil {
				t.Errorf("%s: the filter %s, which does not need it, was refused: %v", capabilities, filter, err)
			}
		}
	}
	_, _, err := parse(hub, listenText("1", validMeta, `{"x":["1"],"jobIds":["a"]}`))
	if e := refusalOf(t, err, core.CodeMissingCapability, core.RefusedCapability); string(e.Data) !=
		`{"requiredCapabilities":{"extensions":{"a.example/x":{},"com.example/jobs":{}}}}` {
		t.Errorf("of two, the data is %s", e.Data)
	}
	for _, capabilities := range []string{
		`{"extensions":{"com.example/jobs":{},"com.example/jobs":null}}`, `{"extensions":{"com.example/jobs":{}},"extensions":{}}`,
	} {
		_, _, err := parse(hub, listenText("1", with(capabilities), jobFilter("a")))
		wantRefusal(t, err, core.CodeInvalidRequest, core.RefusedRequest)
	}
	for _, capabilities := range []string{
		`{"extensions":{"com.example/jobs":{"setting":1}}}`, `{"sampling":{},"extensions":{"z":null,"com.example\/jobs":{}}}`,
	} {
		if _, _, err := parse(hub, listenText("1", with(capabilities), jobFilter("a"))); err != nil {
			t.Errorf("%s was refused: %v", capabilities, err)
		}
	}
}

// TestValuesRideTheStream: keys are acknowledged, and each value becomes a
// notification of its own, in the order of the publishes, behind what the protocol
// has itself.
func TestValuesRideTheStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := withJobs(t, core.Config{})
		s := listenJobs(t, hub, "1", `{"unknown":["a"],"jobIds":["b","a","b"],"toolsListChanged":true}`)
		synctest.Wait()
		wantSteps(t, s.take(), `ack {"toolsListChanged":true,"jobIds":["b","a"]}`, "flush")
		publish(t, hub, job("a", 1), job("other", 1), core.ToolsListChanged(), job("b", 2))
		synctest.Wait()
		wantSteps(t, s.take(), "tools", "job a 1", "job b 2", "flush")
		if got, want := hub.Streams()[0].Filter, (core.Filter{ToolsListChanged: true, Keys: map[string][]string{"jobIds": {"b", "a"}}}); !reflect.DeepEqual(got, want) {
			t.Errorf("the stream's filter is %+v, want %+v", got, want)
		}
		if got := hub.Streams()[0].Filter.Members(); !slices.Equal(got, []string{"toolsListChanged", "jobIds"}) {
			t.Errorf("its members are %q", got)
		}
		s.finish(hub)
		wantEnd(t, s.wait(), core.Completed, true)
		wantSteps(t, s.take(), "result", "flush")
	})
}

// TestUnregisteredMembersStayIgnored: what no family has is acknowledged as an empty
// filter, and nothing can be published for it.
func TestUnregisteredMembersStayIgnored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := newHub(t, core.Config{})
		s := listen(t, hub, "1", jobFilter("a"))
		wantEnd(t, s.wait(), core.Completed, true)
		wantSteps(t, s.take(), "ack {}", "flush", "result", "flush")
		if err := hub.Publish(context.Background(), core.ToolsListChanged(), job("a", 1)); !errors.Is(err, core.ErrUnknownExtension) {
			t.Errorf("publishing for it: %v, want ErrUnknownExtension", err)
		}
	})
}

// TestTheNewestValueWins: of the values of a key that are not sent yet, the newest
// is sent, once, in the place of the first.
func TestTheNewestValueWins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := withJobs(t, core.Config{})
		s := listenJobs(t, hub, "1", jobFilter("a", "b", "c"))
		synctest.Wait()
		s.take()
		s.stall()
		publish(t, hub, job("a", 1)) // being written
		synctest.Wait()
		for i := range 1000 {
			publish(t, hub, job("b", i), job("a", 2+i))
		}
		s.resume()
		synctest.Wait()
		wantSteps(t, s.take(), "job a 1", "flush", "job b 999", "job a 1001", "flush")
		if got := hub.Streams()[0].Counts; got.Delivered != 3 || got.Coalesced != 1998 {
			t.Errorf("%d delivered, %d coalesced, want 3 and 1998", got.Delivered, got.Coalesced)
		}
		// Also of a batch that is being written, what is not written yet is renewed.
		s.stall()
		publish(t, hub, job("a", 1), job("b", 1), job("c", 1))
		synctest.Wait()
		publish(t, hub, job("c", 2), job("a", 2))
		s.resume()
		synctest.Wait()
		wantSteps(t, s.take(), "job a 1", "job b 1", "job c 2", "flush", "job a 2", "flush")
	})
}

// TestVersionsOrderValues: what is older than what a stream was given already is
// not for it, whether that is sent or pending.
func TestVersionsOrderValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := publicJobs()
		x.Encode = versioned
		hub := withJobs(t, core.Config{Extensions: []core.Extension{x}})
		s := listenJobs(t, hub, "1", jobFilter("a", "b"))
		publish(t, hub, job("a", 5))
		synctest.Wait()
		publish(t, hub, job("a", 4))
		synctest.Wait()
		publish(t, hub, job("b", 1), job("a", 6), job("a", 3), job("a", 6))
		synctest.Wait()
		wantSteps(t, s.all()[1:], "flush", "job a 5", "flush", "job b 1", "job a 6", "flush")
		// To each its own: who came later, or was not the audience, has seen nothing yet.
		later := listenJobs(t, hub, "2", jobFilter("a"), principal("alice"))
		if err := hub.PublishTo(context.Background(), core.Principals("alice"), job("a", 2)); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantSteps(t, later.all()[2:], "job a 2", "flush")
	})
}

// TestPublishersAgree: whatever the order in which two publish a key at once, all
// who listen are told the same one last.
func TestPublishersAgree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := withJobs(t, core.Config{})
		var streams []*stream
		for i := range 200 {
			streams = append(streams, listenJobs(t, hub, fmt.Sprint(i), jobFilter("a")))
		}
		last := func(s *stream) string { steps := without(s.all(), "flush"); return steps[len(steps)-1] }
		for round := range 20 {
			var all sync.WaitGroup
			together := make(chan struct{})
			for p := range 2 {
				all.Go(func() {
					<-together
					publish(t, hub, job("a", 2*round+p))
				})
			}
			close(together)
			all.Wait()
			synctest.Wait()
			for _, s := range streams {
				if last(s) != last(streams[0]) {
					t.Fatalf("stream %s ends with %q, another one with %q", s.id, last(s), last(streams[0]))
				}
			}
		}
	})
}

// TestForeignAndUnknownKeysReadAlike: whatever the hook says, a refusal does not
// tell whether there is such a key.
func TestForeignAndUnknownKeysReadAlike(t *testing.T) {
	bubble(t, func(t *testing.T) {
		owners := map[string]string{"a": "alice", "b": "bob"}
		errForeign := errors.New("somebody else's")
		hub := withJobs(t, core.Config{Extensions: []core.Extension{{
			Family: jobs,
			Authorize: func(_ context.Context, principal string, keys []string) error {
				for i, key := range keys {
					switch owner, known := owners[key]; {
					case key == "panics":
						panic(key)
					case !known:
						return &core.Error{Code: -32002, Message: "unknown " + key, Data: json.RawMessage(`1`), Refusal: core.RefusedLimit}
					case owner != principal:
						return errForeign
					}
					keys[i] = "b" // a hook that changes what it was given changes nothing
				}
				return nil
			},
		}}})
		_, err := tryJobs(t, hub, "1", jobFilter("a", "b"), principal("alice"))
		foreign := refusalOf(t, err, core.CodeInvalidRequest, core.RefusedAuth)
		if !errors.Is(err, errForeign) {
			t.Errorf("the cause of %v is not the hook's error, which logs want", err)
		}
		for _, key := range []string{"x", "panics"} {
			_, err := tryJobs(t, hub, "1", jobFilter("a", key), principal("alice"))
			e := refusalOf(t, err, core.CodeInvalidRequest, core.RefusedAuth)
			if e.Message != foreign.Message || e.Data != nil || foreign.Data != nil || e.RetryAfter != foreign.RetryAfter {
				t.Errorf("a foreign key is refused with %+v, the key %s with %+v", foreign, key, e)
			}
			var own *core.Error
			if errors.As(e.Err, &own) {
				t.Errorf("the hook's own error %v is there for a transport to find", own)
			}
		}
		s := listenJobs(t, hub, "2", jobFilter("a"), principal("alice"))
		publish(t, hub, job("b", 1), job("a", 2), job("x", 3))
		synctest.Wait()
		wantSteps(t, s.all(), `ack {"jobIds":["a"]}`, "flush", "job a 2", "flush")
	})
}

// TestKeysAreAuthorizedForTheGrant: the hub's Authorizer comes first and sees all;
// the family is asked for the principal of its grant. A hook that panics refuses.
func TestKeysAreAuthorizedForTheGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var calls []string
		hub := withJobs(t, core.Config{
			Authorizer: core.AuthorizerFunc(func(_ context.Context, principal string, f core.Filter) (core.Grant, error) {
				calls = append(calls, fmt.Sprintf("all %s %q %s", principal, f.Keys["jobIds"], f.Extensions["jobIds"]))
				return core.Grant{Principal: "tenant/" + principal}, nil
			}),
			Extensions: []core.Extension{{Family: jobs, Authorize: func(_ context.Context, principal string, keys []string) error {
				calls = append(calls, fmt.Sprintf("jobs %s %q", principal, keys))
				if keys[0] == "panic" {
					panic(keys)
				}
				return nil
			}}},
		})
		listenJobs(t, hub, "1", `{"jobIds":["a", "b"]}`, principal("alice"))
		listenJobs(t, hub, "2", `{"toolsListChanged":true,"jobIds":[]}`, principal("alice"))
		want := []string{`all alice ["a" "b"] ["a", "b"]`, `jobs tenant/alice ["a" "b"]`, `all alice [] []`}
		if !slices.Equal(calls, want) {
			t.Errorf("the hooks were called as\n\t%q\nwant\n\t%q", calls, want)
		}
		_, err := tryJobs(t, hub, "3", jobFilter("panic"))
		wantRefusal(t, err, core.CodeInvalidRequest, core.RefusedAuth)
	})
}

// TestKeysAreCheckedAgain: together with the grant where that is re-checked, and
// by themselves where it is not.
func TestKeysAreCheckedAgain(t *testing.T) {
	t.Parallel()
	for name, recheck := range map[string]func(context.Context) error{"with the grant": func(context.Context) error { return nil }, "alone": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var revoked atomic.Bool
				hub := withJobs(t, core.Config{
					KeepAlive: time.Second,
					Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
						return core.Grant{Recheck: recheck}, nil
					}),
					Extensions: []core.Extension{{Family: jobs, Recheck: true, Authorize: func(_ context.Context, principal string, keys []string) error {
						if revoked.Load() || principal != "alice" || !slices.Equal(keys, []string{"a"}) {
							return errBroken
						}
						return nil
					}}},
				})
				s := listenJobs(t, hub, "1", jobFilter("a"), principal("alice"))
				lists := listen(t, hub, "2", allLists, principal("alice"))
				advance(3 * time.Second)
				revoked.Store(true)
				advance(time.Second)
				publish(t, hub, job("a", 1))
				end := s.wait()
				wantEnd(t, end, core.Revoked, true)
				if !errors.Is(end.Err, errBroken) {
					t.Errorf("the end's error is %v, want the hook's", end.Err)
				}
				if got := s.all(); slices.Contains(got, "job a 1") {
					t.Errorf("what came after the refusal was delivered: %q", got)
				}
				select {
				case <-lists.done:
					t.Error("a stream without keys ended as well")
				default:
				}
			})
		})
	}
}

// TestEndsOfGrantsHoldBackValues: what is pending when the right to it ends is not
// sent; what is pending at any other end is.
func TestEndsOfGrantsHoldBackValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := withJobs(t, core.Config{Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
			return core.Grant{Until: time.Now().Add(10 * time.Second)}, nil
		})})
		for _, c := range []struct {
			end    func(s *stream)
			reason core.Reason
			last   []string
		}{
			{func(s *stream) { s.finish(hub) }, core.Completed, []string{"job b 1", "result", "flush"}},
			{func(*stream) { hub.Revoke(func(core.StreamInfo) bool { return true }) }, core.Revoked, []string{"result", "flush"}},
			{func(*stream) { advance(11 * time.Second) }, core.GrantExpired, []string{"result", "flush"}},
		} {
			s := listenJobs(t, hub, "1", jobFilter("a", "b"))
			synctest.Wait()
			s.take()
			s.stall()
			publish(t, hub, job("a", 1))
			synctest.Wait()
			publish(t, hub, job("b", 1))
			c.end(s)
			s.resume()
			wantEnd(t, s.wait(), c.reason, true)
			wantSteps(t, s.take(), append([]string{"job a 1", "flush"}, c.last...)...)
		}
	})
}

// TestWhatWasNotAskedAboutIsNotSent: with RecheckDelivery, a value that comes while
// the question is open waits for the next one.
func TestWhatWasNotAskedAboutIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var answers []chan error
		hub := withJobs(t, core.Config{Authorizer: core.AuthorizerFunc(func(context.Context, string, core.Filter) (core.Grant, error) {
			return core.Grant{RecheckDelivery: true, Recheck: func(context.Context) error {
				answer := make(chan error)
				answers = append(answers, answer)
				return <-answer
			}}, nil
		})})
		s := listenJobs(t, hub, "1", jobFilter("a", "b"))
		publish(t, hub, job("a", 1))
		synctest.Wait()
		publish(t, hub, job("a", 2), job("b", 2))
		answers[0] <- nil
		synctest.Wait()
		wantSteps(t, s.all()[2:], "job a 1", "flush")
		answers[1] <- errBroken
		wantEnd(t, s.wait(), core.Revoked, true)
		wantSteps(t, s.all()[4:], "result", "flush")
	})
}

// TestPayloadsAreChecked: what cannot be sent is the publisher's to know, and
// nothing of that publish is.
func TestPayloadsAreChecked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := publicJobs()
		x.MaxPayload = 100
		x.Encode = func(_ string, value any) (core.Payload, error) {
			switch v := value.(type) {
			case string:
				return core.Payload{Params: json.RawMessage(v)}, nil
			case error:
				return core.Payload{}, v
			default:
				panic(v)
			}
		}
		hub := withJobs(t, core.Config{Extensions: []core.Extension{x}})
		s := listenJobs(t, hub, "1", `{"toolsListChanged":true,"jobIds":["a"]}`)
		synctest.Wait()
		s.take()
		for _, params := range []string{
			``, `null`, `[]`, `"a"`, `{`, `{"job":"a"}{}`, `{}`, `{"job":1}`, `{"job":"b"}`, `{"JOB":"a"}`, `{"job":"a","job":"a"}`,
			`{"job":"a","_meta":{}}`, `{"job":"a","x":"` + strings.Repeat("x", 100) + `"}`, "{\"job\":\"a\",\"x\":\"\xff\"}",
			`{"job":"a","x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
		} {
			if err := hub.Publish(context.Background(), core.ToolsListChanged(), core.ValueChanged(jobs.Method, "a", params)); !errors.Is(err, core.ErrPayload) {
				t.Errorf("the payload %q: %v, want ErrPayload", params, err)
			}
		}
		ctx := context.Background()
		if err := hub.Publish(ctx, core.ToolsListChanged(), core.ValueChanged(jobs.Method, "a", errBroken)); !errors.Is(err, errBroken) {
			t.Errorf("an encoder's error: %v", err)
		}
		if err := hub.Publish(ctx, core.ToolsListChanged(), core.ValueChanged(jobs.Method, "a", nil)); err == nil {
			t.Error("an encoder that panics: no error")
		}
		for _, c := range []core.Change{
			core.ValueChanged(jobs.Method, "", `{"job":""}`), core.ValueChanged(jobs.Method, "\xff", `{}`),
			{Kind: core.KindExtension, Extension: jobs.Method, Key: "a"}, {Kind: core.KindTools, Key: "a"},
			{Kind: core.KindTools, Extension: jobs.Method}, {Kind: core.KindExtension, URI: "a"},
		} {
			if err := hub.Publish(ctx, core.ToolsListChanged(), c); err == nil {
				t.Errorf("the change %+v was published", c)
			}
		}
		synctest.Wait()
		wantSteps(t, s.take())
		// What a line cannot hold is not sent either: white space is taken out.
		publish(t, hub, core.ValueChanged(jobs.Method, "a", "{ \"state\" :\n 7,\r\n\t\"job\": \"\\u0061\" }"))
		synctest.Wait()
		wantSteps(t, s.take(), "job a 7", "flush")
	})
}

// TestAPublishKeepsTheCallersChanges: they may be published again, and by others
// at the same time.
func TestAPublishKeepsTheCallersChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := withJobs(t, core.Config{}), withJobs(t, core.Config{})
		s, other := listenJobs(t, one, "1", jobFilter("a")), listenJobs(t, two, "2", jobFilter("a"))
		changes := []core.Change{job("a", 1)}
		publish(t, one, changes...)
		publish(t, two, changes...)
		synctest.Wait()
		wantSteps(t, s.all()[2:], "job a 1", "flush")
		wantSteps(t, other.all()[2:], "job a 1", "flush")
	})
}

// TestObserverOfValues: the observer is told of each family by its method, and sent
// and coalesced values add up.
func TestObserverOfValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &recorder{origin: "from"}
		more := core.Family{Member: "x", Method: "notifications/x", Key: "job"}
		hub := withJobs(t, core.Config{Observer: r, Extensions: []core.Extension{publicJobs(), {Family: more, Public: true}}})
		s := listenJobs(t, hub, "1", jobFilter("a", "b"))
		synctest.Wait()
		start := time.Now()
		s.stall()
		publish(t, hub, job("a", 1))
		synctest.Wait()
		advance(time.Second)
		publish(t, hub, job("b", 1))
		advance(time.Second)
		publish(t, hub, job("b", 2), job("a", 2), core.ValueChanged(more.Method, "a", jobState{"a", 1}))
		s.resume()
		synctest.Wait()
		if len(r.deliveries) != 2 {
			t.Fatalf("told of %d deliveries, want 2: %+v", len(r.deliveries), r.deliveries)
		}
		d := r.deliveries[1]
		k := core.KindExtension
		if d.Sent[k] != 2 || d.Coalesced[k] != 1 || !d.Oldest[k].Equal(start.Add(time.Second)) {
			t.Errorf("told of %d sent, %d coalesced, the oldest of %v", d.Sent[k], d.Coalesced[k], d.Oldest[k])
		}
		if len(d.Extensions) != 1 || d.Extensions[0] != (core.ExtensionDelivery{Method: jobs.Method, Sent: 2, Coalesced: 1, Oldest: d.Oldest[k]}) {
			t.Errorf("told of the extensions %+v", d.Extensions)
		}
		want := []core.Origin{
			{Change: core.Change{Kind: k, Extension: jobs.Method, Key: "b"}, From: "from"},
			{Change: core.Change{Kind: k, Extension: jobs.Method, Key: "b"}, From: "from"},
			{Change: core.Change{Kind: k, Extension: jobs.Method, Key: "a"}, From: "from"},
		}
		if !slices.Equal(d.Origins, want) {
			t.Errorf("the origins are %+v, want %+v", d.Origins, want)
		}
	})
}

// valuelessTap fails the test where it is told of a value.
type valuelessTap struct {
	t    *testing.T
	told int
}

func (v *valuelessTap) Missed() {}
func (v *valuelessTap) Published(_ context.Context, _ core.Audience, changes []core.Change) {
	v.told++
	if !slices.Equal(changes, []core.Change{core.ToolsListChanged()}) {
		v.t.Errorf("the tap is told of %+v", changes)
	}
}

// TestTheTapIsToldOfNoValues: who is behind it was not asked whether they may see
// them.
func TestTheTapIsToldOfNoValues(t *testing.T) {
	t.Parallel()
	tap := &valuelessTap{t: t}
	hub := withJobs(t, core.Config{Tap: tap})
	publish(t, hub, job("a", 1), core.ToolsListChanged(), job("a", 2))
	publish(t, hub, job("a", 3))
	if tap.told != 1 {
		t.Errorf("the tap was called %d times, want once", tap.told)
	}
}
