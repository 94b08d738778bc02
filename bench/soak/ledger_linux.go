package main

// This file is the account of what every stream must see, may see, and has seen. It knows nothing of sockets: whoever publishes
// says so before the request leaves, whoever reads a stream passes on what came, and the ledger says what is wrong.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcplisten/mcplisten/core"
)

// A fault is one kind of finding.
type fault string

const (
	faultOrder   fault = "order"   // something before the acknowledgment, a second one, or something after the result
	faultID      fault = "id"      // a message with another id than the request's
	faultMessage fault = "message" // no message of this protocol, or none that belongs here
	faultFilter  fault = "filter"  // an acknowledgment that honors another filter, or a notification outside it
	faultUnasked fault = "unasked" // a notification that no publish accounts for
	faultLost    fault = "lost"    // a change that was not delivered in time
	faultEnd     fault = "end"     // a stream that was cut, went silent or did not end when it had to
	faultRefusal fault = "refusal" // an answer that is not the expected one
	faultPublish fault = "publish" // a publish that failed
)

// maxTold is how many findings are kept in words; the rest is only counted.
const maxTold = 50

// findings counts what was checked, and what is wrong.
type findings struct {
	Owed  int           `json:"owed"`  // changes that streams had to be told of
	Seen  int           `json:"seen"`  // those that they were told of
	Ended int           `json:"ended"` // those whose streams ended first
	Count map[fault]int `json:"count,omitempty"`
	Told  []string      `json:"told,omitempty"`
}

func (f *findings) add(kind fault, what string) {
	if f.Count == nil {
		f.Count = make(map[fault]int)
	}
	f.Count[kind]++
	if len(f.Told) < maxTold {
		f.Told = append(f.Told, string(kind)+": "+what)
	}
}

// merge adds another's.
func (f *findings) merge(other findings) {
	f.Owed += other.Owed
	f.Seen += other.Seen
	f.Ended += other.Ended
	for kind, n := range other.Count {
		if f.Count == nil {
			f.Count = make(map[fault]int)
		}
		f.Count[kind] += n
	}
	f.Told = append(f.Told, other.Told...)
}

// attention says how a client reads its stream.
type attention int

const (
	prompt   attention = iota // as it comes: its latency counts
	sluggish                  // late, but all of it: what it must see, it must see within the bound
	absent                    // it has stopped reading: it is owed nothing that can be checked
)

// order is what one stream asked for.
type order struct {
	name      string // for findings
	id        string // the request id, byte for byte
	filter    core.Filter
	principal string
	below     bool // the hub matches sub-resources as well
	attention attention
	fragile   bool // its grant may end: what is pending then is not delivered
}

// ledger is the account of the streams of one broker's hubs.
type ledger struct {
	bound time.Duration // within which a change must arrive

	mu        sync.Mutex
	streams   map[*stream]struct{}
	unsettled map[core.Change]int // prompt streams that are owed this change
	recent    []published         // within the last hop, the oldest first
	found     findings
	latency   histogram // since it was last taken
	delivered int       // notifications, since they were last taken
}

// published is a publish that may be on its way to another node still: to a stream that opens there meanwhile it is news.
type published struct {
	to      core.Audience
	changes []core.Change
	times   int
	at      time.Time
}

// hop is how long a publish may be on its way to another node.
const hop = 2 * time.Second

func newLedger(bound time.Duration) *ledger {
	return &ledger{bound: bound, streams: make(map[*stream]struct{}), unsettled: make(map[core.Change]int)}
}

// stream is one stream's part of the account. Everything but the order is guarded by the ledger's lock.
type stream struct {
	order
	ledger *ledger
	phase  phase
	owed   map[core.Change]time.Time // acknowledged before the publish, and not told since: when it began
	allow  map[core.Change]allowance
}

// allowance is how many notifications of one change may come.
type allowance struct {
	left int
	last time.Time // when the newest publish began
}

type phase int

const (
	asked phase = iota
	acknowledged
	completed
)

// ask enters a stream whose request is about to be sent: from now on the hub may tell it of changes.
func (l *ledger) ask(o order, now time.Time) *stream {
	s := &stream{order: o, ledger: l, owed: make(map[core.Change]time.Time), allow: make(map[core.Change]allowance)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams[s] = struct{}{}
	for _, p := range l.recent {
		if now.Sub(p.at) < hop {
			s.told(p)
		}
	}
	return s
}

// told enters a publish that the hub may tell the stream of.
func (s *stream) told(p published) {
	for _, c := range p.changes {
		if s.phase == completed || !s.concerns(p.to, c) {
			continue
		}
		a := s.allow[c]
		if p.at.Sub(a.last) > s.ledger.bound {
			a.left = 0 // whatever was in flight has arrived: what is left over was made one
		}
		s.allow[c] = allowance{a.left + p.times, p.at}
		if _, before := s.owed[c]; s.phase == acknowledged && !before {
			s.owed[c] = p.at
			if s.attention != absent {
				s.ledger.found.Owed++
			}
			if s.attention == prompt {
				s.ledger.unsettled[c]++
			}
		}
	}
}

// concerns reports whether a change must be told to the stream.
func (s *stream) concerns(to core.Audience, c core.Change) bool {
	return to.Includes(s.principal) && s.covers(c)
}

// covers reports whether the filter asks for a change.
func (s *stream) covers(c core.Change) bool {
	switch c.Kind {
	case core.KindTools:
		return s.filter.ToolsListChanged
	case core.KindPrompts:
		return s.filter.PromptsListChanged
	case core.KindResources:
		return s.filter.ResourcesListChanged
	default:
		return slices.ContainsFunc(s.filter.ResourceSubscriptions, func(uri string) bool {
			return uri == c.URI || s.below && strings.HasPrefix(c.URI, uri+"/")
		})
	}
}

// publishing says that a publish is about to be asked for, so many times in a row. All streams acknowledged by now must see it,
// those being opened may.
func (l *ledger) publishing(to core.Audience, changes []core.Change, times int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := published{to, changes, times, at}
	for s := range l.streams {
		s.told(p)
	}
	old := 0
	for old < len(l.recent) && at.Sub(l.recent[old].at) >= hop {
		old++
	}
	l.recent = append(slices.Delete(l.recent, 0, old), p)
}

// settled reports whether every prompt stream has seen the last publish of a change. A publish of what is settled cannot be
// taken for an earlier one that arrives late.
func (l *ledger) settled(c core.Change) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsettled[c] == 0
}

// settle takes a change off what the stream is owed.
func (s *stream) settle(c core.Change) {
	if _, ok := s.owed[c]; !ok {
		return
	}
	delete(s.owed, c)
	if s.attention == prompt {
		if s.ledger.unsettled[c]--; s.ledger.unsettled[c] == 0 {
			delete(s.ledger.unsettled, c)
		}
	}
}

// message is what may come on a stream.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  *struct {
		Meta          map[string]json.RawMessage `json:"_meta"`
		URI           string                     `json:"uri"`
		Notifications json.RawMessage            `json:"notifications"`
	} `json:"params"`
	Result *struct {
		Type string                     `json:"resultType"`
		Meta map[string]json.RawMessage `json:"_meta"`
	} `json:"result"`
}

// receive enters a message that came on the stream, and reports whether it was the result.
func (s *stream) receive(raw []byte, at time.Time) (result bool) {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	var m message
	if err := json.Unmarshal(raw, &m); err != nil || m.JSONRPC != "2.0" {
		s.wrong(faultMessage, "it is no JSON-RPC message")
		return false
	}
	if s.phase == completed {
		s.wrong(faultOrder, "something after the result")
		return false
	}
	switch {
	case m.Result != nil:
		s.checkID(m.ID)
		s.checkID(m.Result.Meta[core.MetaSubscriptionID])
		if m.Result.Type != "complete" {
			s.wrong(faultMessage, "a result that is not complete")
		}
		if s.phase == asked {
			s.wrong(faultOrder, "the result before the acknowledgment")
		}
		s.phase = completed
		return true
	case m.Params == nil || m.ID != nil:
		s.wrong(faultMessage, "neither a notification nor a result")
		return false
	}
	s.checkID(m.Params.Meta[core.MetaSubscriptionID])
	if m.Method == core.MethodAcknowledged {
		s.acknowledge(m.Params.Notifications)
		return false
	}
	for k := range core.KindResourceUpdated + 1 {
		if m.Method == k.Method() {
			s.notified(core.Change{Kind: k, URI: m.Params.URI}, at)
			return false
		}
	}
	s.wrong(faultMessage, "a method that has no place on a stream")
	return false
}

func (s *stream) checkID(got json.RawMessage) {
	if string(got) != s.id {
		s.wrong(faultID, fmt.Sprintf("the id is %.40q, not the request's", got))
	}
}

// honored is a filter as an acknowledgment carries it.
type honored struct {
	Tools     bool     `json:"toolsListChanged"`
	Prompts   bool     `json:"promptsListChanged"`
	Resources bool     `json:"resourcesListChanged"`
	URIs      []string `json:"resourceSubscriptions"`
}

func (s *stream) acknowledge(filter json.RawMessage) {
	if s.phase != asked {
		s.wrong(faultOrder, "a second acknowledgment")
		return
	}
	s.phase = acknowledged
	var h honored
	d := json.NewDecoder(bytes.NewReader(filter))
	d.DisallowUnknownFields()
	f := s.filter
	if d.Decode(&h) != nil || h.Tools != f.ToolsListChanged || h.Prompts != f.PromptsListChanged ||
		h.Resources != f.ResourcesListChanged || !slices.Equal(h.URIs, f.ResourceSubscriptions) {
		s.wrong(faultFilter, "the honored filter is not the one that was asked for")
	}
}

func (s *stream) notified(c core.Change, at time.Time) {
	l := s.ledger
	l.delivered++
	if s.phase == asked {
		s.wrong(faultOrder, "a notification before the acknowledgment")
	}
	if !s.covers(c) {
		s.wrong(faultFilter, "a notification outside the filter")
		return
	}
	a := s.allow[c]
	if a.left == 0 {
		s.wrong(faultUnasked, c.Kind.Method()+" came more often than it was published, or to whom it was not meant")
		return
	}
	s.allow[c] = allowance{a.left - 1, a.last}
	if began, ok := s.owed[c]; ok {
		if s.attention == prompt {
			l.latency.add(at.Sub(began))
		}
		if s.attention != absent {
			l.found.Seen++
		}
		s.settle(c)
	}
}

// check finds what is overdue.
func (l *ledger) check(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.streams {
		s.overdue(now.Add(-l.bound))
	}
}

// overdue tells of each change that the stream was owed before a time.
func (s *stream) overdue(before time.Time) {
	for c, began := range s.owed {
		if s.attention != absent && began.Before(before) {
			s.wrong(faultLost, fmt.Sprintf("%s was not delivered", c.Kind.Method()))
			s.settle(c)
		}
	}
}

// owes reports whether the stream is still owed something that was published before a time. It is owed nothing once it is over.
func (s *stream) owes(before time.Time) bool {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	for _, began := range s.owed {
		if began.Before(before) {
			return true
		}
	}
	return false
}

// over takes a stream off the account. What the client itself left, it is owed nothing of; the same goes for a cut stream, and
// for one whose grant ended. A result comes after what was pending, though: what was published well before it must have come.
func (s *stream) over(now time.Time, left bool) {
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.phase == completed && !left && !s.fragile {
		late := l.bound / 2
		if s.attention == prompt {
			late = l.bound / 5 // all that may lie between is the way to the client
		}
		s.overdue(now.Add(-late))
	}
	if s.attention != absent {
		l.found.Ended += len(s.owed)
	}
	for c := range s.owed {
		s.settle(c)
	}
	delete(l.streams, s)
}

// wrong tells of a fault. The ledger's lock must be held.
func (s *stream) wrong(kind fault, what string) { s.ledger.found.add(kind, s.name+": "+what) }

// fault tells of a fault that whoever reads the stream has seen.
func (s *stream) fault(kind fault, what string) {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.wrong(kind, what)
}

// isAcknowledged reports whether the acknowledgment has come.
func (s *stream) isAcknowledged() bool {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	return s.phase != asked
}

// fault tells of a fault that is no stream's.
func (l *ledger) fault(kind fault, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found.add(kind, what)
}

// take returns the latencies and the number of deliveries since the last call.
func (l *ledger) take() (histogram, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, n := l.latency, l.delivered
	l.latency, l.delivered = histogram{}, 0
	return h, n
}

// findings returns what was wrong so far.
func (l *ledger) findings() findings {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.found
	f.Count, f.Told = maps.Clone(f.Count), slices.Clone(f.Told)
	return f
}
