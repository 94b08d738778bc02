package main

// This file is the life of one stream, seen from the client: a connection of its own, the request, what comes on it, and one of the
// many ways in which it ends.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcplisten/mcplisten/core"
	"github.com/mcplisten/mcplisten/internal/sse"
)

// leaving is how a client leaves.
type leaving int

const (
	hangUp    leaving = iota // closes the connection
	reset                    // the same, with a RST
	halfClose                // closes its sending side, and reads on to the end
	cancel                   // POSTs notifications/cancelled, and reads on to the end
	vanish                   // closes the connection right after the request, unread
	stayOn                   // never: the server ends it
)

// life is a kind of stream.
type life struct {
	name      string
	weight    int // how often it is chosen
	policy    string
	leave     leaving
	stay      time.Duration // at most, before it leaves
	whole     bool          // stays for all of that
	attention attention
	stall     bool          // stops reading after the acknowledgment
	pause     time.Duration // before it reads on
	every     int           // so many messages
	narrow    bool          // has a small receive buffer, so that what it does not read waits at the server
	deadline  bool          // asks for a request context that ends
	endsIn    time.Duration // of itself, after the acknowledgment; 0: it need not
	cutOK     bool          // may end without a result
	empty     bool          // asks for nothing
	refused   int           // the status with which it must be refused; 0: only by a limit
	uri       string        // asked for as well
	burst     int           // so many at once, of one principal
	acked     func()        // is called at the acknowledgment; may be nil
}

// lives are the kinds of stream, weighted.
func lives() []life {
	return []life{
		{name: "hang up", weight: 28, policy: policyUser, stay: 8 * time.Second},
		{name: "patient", weight: 4, policy: policyUser, stay: 8 * time.Second, whole: true},
		{name: "reset", weight: 12, policy: policyUser, leave: reset, stay: 8 * time.Second},
		{name: "half-close", weight: 8, policy: policyUser, leave: halfClose, stay: 4 * time.Second},
		{name: "cancel", weight: 8, policy: policyUser, leave: cancel, stay: 4 * time.Second},
		{name: "vanish", weight: 5, policy: policyUser, leave: vanish},
		{name: "slow", weight: 4, policy: policyUser, stay: 8 * time.Second, attention: sluggish, pause: 20 * time.Millisecond, every: 1, narrow: true, cutOK: true},
		{name: "pausing", weight: 4, policy: policyUser, stay: 8 * time.Second, attention: sluggish, pause: 700 * time.Millisecond, every: 50, narrow: true, cutOK: true},
		{name: "stalled", weight: 6, policy: policyUser, stay: 8 * time.Second, attention: absent, stall: true, whole: true, narrow: true, cutOK: true},
		{name: "expiring", weight: 6, policy: policyExpiring, leave: stayOn, endsIn: grantLife},
		{name: "rechecked", weight: 5, policy: policyRechecked, stay: 8 * time.Second},
		{name: "rechecked for each delivery", weight: 3, policy: policyDelivery, stay: 8 * time.Second},
		{name: "revocable", weight: 6, policy: policyRevocable, stay: 8 * time.Second},
		{name: "deadline", weight: 5, policy: policyUser, leave: stayOn, deadline: true, endsIn: deadlineLife},
		{name: "panic", weight: 4, policy: policyTripping, whole: true, stay: 8 * time.Second, cutOK: true},
		{name: "empty", weight: 3, policy: policyUser, leave: stayOn, endsIn: time.Nanosecond, empty: true},
		{name: "denied", weight: 3, policy: policyDenied, refused: http.StatusForbidden},
		{name: "unwatchable", weight: 2, policy: policyUser, uri: unwatchable, refused: http.StatusInternalServerError},
		{name: "greedy", weight: 2, policy: policyGreedy, stay: time.Second, burst: perPrincipal + 2},
	}
}

func (k *life) fragile() bool {
	return slices.Contains([]string{policyExpiring, policyRechecked, policyDelivery, policyRevocable}, k.policy)
}

// endpoint is one node as its clients see it.
type endpoint struct {
	name   string // for findings
	url    string
	host   string
	node   int
	ledger *ledger
	client *http.Client // for what is no stream
	bound  time.Duration
	counts *counts
	deck   *deck
}

// counts is what the client has done since it was last taken.
type counts struct {
	opens    atomic.Int64 // streams acknowledged
	refusals atomic.Int64 // listen requests refused by a limit
	invalid  atomic.Int64 // requests that were none, or stopped half-way
	publish  atomic.Int64 // changes published
	results  atomic.Int64 // streams that ended with their result
}

// visit is one stream being lived.
type visit struct {
	life
	*endpoint
	conn   *net.TCPConn
	reader *bufio.Reader
	stream *stream
	order  order
	opened time.Time
	leftAt atomic.Int64 // when the client left, in Unix nanoseconds; 0 while it stays
}

func (v *visit) markLeft()     { v.leftAt.Store(time.Now().UnixNano()) }
func (v *visit) hasLeft() bool { return v.leftAt.Load() != 0 }

// live opens a stream and stays on it. It reports whether the stream was acknowledged.
func (e *endpoint) live(ctx context.Context, k life, o order) bool {
	o.name = e.name + ", " + k.name
	o.below, o.attention, o.fragile = e.node == nodeB, k.attention, k.fragile()
	v := &visit{life: k, endpoint: e, order: o}
	if err := v.connect(ctx); err != nil {
		if ctx.Err() == nil {
			e.ledger.fault(faultEnd, o.name+": no connection: "+err.Error())
		}
		return false
	}
	defer func() { _ = v.conn.Close() }() // it may be closed already
	defer context.AfterFunc(ctx, v.hangUp)()
	v.stream = e.ledger.ask(o, time.Now())
	defer func() { v.stream.over(time.Now(), v.hasLeft()) }()
	_ = v.conn.SetDeadline(time.Now().Add(e.bound))
	if _, err := v.conn.Write(v.request()); err != nil {
		v.broken("sending the request", err)
		return false
	}
	if k.leave == vanish {
		v.markLeft()
		e.counts.invalid.Add(1)
		return false
	}
	res, err := http.ReadResponse(v.reader, nil)
	if err != nil {
		v.broken("reading the answer", err)
		return false
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		v.refusal(res)
		return false
	}
	if k.refused != 0 {
		v.stream.fault(faultRefusal, fmt.Sprintf("it was accepted, want status %d", k.refused))
	}
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		v.stream.fault(faultRefusal, "the content type is "+strconv.Quote(got))
	}
	v.follow(ctx, res.Body)
	return !v.opened.IsZero()
}

func (v *visit) connect(ctx context.Context) error {
	d := net.Dialer{Timeout: v.bound}
	if v.narrow {
		d.Control = func(_, _ string, c syscall.RawConn) error {
			var err error
			return errors.Join(c.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1)
			}), err)
		}
	}
	c, err := d.DialContext(ctx, "tcp", v.host)
	if err != nil {
		return err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return errors.New("soak: no TCP connection")
	}
	v.conn, v.reader = tcp, bufio.NewReader(tcp)
	return nil
}

// listenBody returns a listen request.
func listenBody(id string, f core.Filter) []byte {
	filter := make(map[string]any)
	if f.ToolsListChanged {
		filter["toolsListChanged"] = true
	}
	if f.PromptsListChanged {
		filter["promptsListChanged"] = true
	}
	if f.ResourcesListChanged {
		filter["resourcesListChanged"] = true
	}
	if len(f.ResourceSubscriptions) > 0 {
		filter["resourceSubscriptions"] = f.ResourceSubscriptions
	}
	encoded, _ := json.Marshal(filter) // it cannot fail: there are only booleans and strings
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"%s","params":{"_meta":{%q:%q,%q:{}},"notifications":%s}}`,
		id, core.MethodListen, core.MetaProtocolVersion, core.ProtocolVersion, core.MetaClientCapabilities, encoded)
}

// headers are those of every valid request.
func headers(method, principal string) http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {core.ProtocolVersion}, "Mcp-Method": {method},
		headerPrincipal: {principal},
	}
}

func (v *visit) request() []byte {
	body := listenBody(v.order.id, v.order.filter)
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", endpointPath, v.host, len(body))
	h := headers(core.MethodListen, v.order.principal)
	if v.deadline {
		h.Set(headerDeadline, "1")
	}
	_ = h.Write(&b) // a buffer takes all
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// refusal checks an answer that is no stream.
func (v *visit) refusal(res *http.Response) {
	v.markLeft()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	var body struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	switch limited := res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusTooManyRequests; {
	case err != nil || json.Unmarshal(raw, &body) != nil || body.JSONRPC != "2.0" || body.Error == nil || string(body.ID) != v.order.id:
		v.stream.fault(faultRefusal, fmt.Sprintf("status %d without a JSON-RPC error of the request", res.StatusCode))
	case limited && res.Header.Get("Retry-After") == "":
		v.stream.fault(faultRefusal, fmt.Sprintf("status %d without Retry-After", res.StatusCode))
	case !limited && res.StatusCode != v.refused:
		v.stream.fault(faultRefusal, fmt.Sprintf("status %d, want %d or a limit's", res.StatusCode, v.refused))
	}
	v.counts.refusals.Add(1)
}

// follow reads the stream to its end, and judges that.
func (v *visit) follow(ctx context.Context, body io.Reader) {
	events := sse.NewReader(body, 1<<16)
	var mustEnd time.Time
	stop := func() {}
	defer func() { stop() }()
	result, messages := false, 0
	for {
		_ = v.conn.SetReadDeadline(time.Now().Add(v.bound)) // a live stream is never silent for so long
		event, err := events.Next()
		now := time.Now()
		if err != nil {
			v.ended(err, result)
			return
		}
		if !event.Comment {
			result = v.stream.receive(event.Data, now) || result
			if v.opened.IsZero() && v.stream.isAcknowledged() {
				v.opened = now
				v.counts.opens.Add(1)
				if v.acked != nil {
					v.acked()
				}
				mustEnd = v.mustEnd()
				stop = v.leaveIn(ctx, v.stay)
				if v.stall {
					v.holdStill(ctx)
				}
			}
			if messages++; v.every > 0 && messages%v.every == 0 {
				pause(ctx, v.pause)
			}
		}
		switch left := v.leftAt.Load(); {
		case !mustEnd.IsZero() && now.After(mustEnd):
			v.stream.fault(faultEnd, "it goes on after its end was due")
			return
		case left != 0 && now.Sub(time.Unix(0, left)) > v.bound:
			v.stream.fault(faultEnd, "it goes on after the client left")
			return
		}
	}
}

// mustEnd returns when the server must have ended the stream; zero for never.
func (v *visit) mustEnd() time.Time {
	ends := v.endsIn
	if v.node == nodeA && (ends == 0 || maxLifetime < ends) {
		ends = maxLifetime + maxLifetime/10
	}
	if ends == 0 {
		return time.Time{}
	}
	return v.opened.Add(ends + v.bound)
}

// holdStill reads nothing until the server must have noticed, or until the client leaves.
func (v *visit) holdStill(ctx context.Context) {
	for wait := v.stay; wait > 0 && !v.hasLeft() && ctx.Err() == nil; wait -= 100 * time.Millisecond {
		pause(ctx, 100*time.Millisecond)
	}
}

// awaitOwed waits until the stream has been told of all that was published so far, so that a change that is lost shows also on a
// stream that is short. It gives up when the account has found that out.
func (v *visit) awaitOwed(ctx context.Context) {
	began := time.Now()
	for v.stream.owes(began) {
		if !pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// leaveIn leaves the stream after a while, unless it has ended by then. Every other client waits for what it is owed; the rest
// leaves in the middle of whatever there is.
func (v *visit) leaveIn(ctx context.Context, stay time.Duration) (stop func()) {
	if v.leave == stayOn || stay == 0 {
		return func() {}
	}
	patient := v.deck.chance.n(2) == 0
	t := time.AfterFunc(stay, func() {
		if patient && v.attention == prompt {
			v.awaitOwed(ctx)
		}
		v.markLeft()
		switch v.leave {
		case reset:
			_ = v.conn.SetLinger(0)
			_ = v.conn.Close()
		case halfClose:
			_ = v.conn.CloseWrite()
		case cancel:
			v.cancelIt(ctx)
		default:
			_ = v.conn.Close()
		}
	})
	return func() { t.Stop() }
}

// hangUp ends the stream because the whole client ends.
func (v *visit) hangUp() {
	v.markLeft()
	_ = v.conn.Close()
}

// cancelIt cancels the request, over another connection.
func (v *visit) cancelIt(ctx context.Context) {
	body := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + v.order.id + `}}`
	status, err := v.post(ctx, body, headers(core.MethodCancelled, v.order.principal))
	if ctx.Err() == nil && (err != nil || status != http.StatusAccepted) {
		v.stream.fault(faultRefusal, fmt.Sprintf("a cancellation was answered with status %d (%v)", status, err))
	}
}

// post sends a request that is no listen request, and returns its status.
func (e *endpoint) post(ctx context.Context, body string, h http.Header) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	req.Header = h
	return e.do(req)
}

func (e *endpoint) do(req *http.Request) (int, error) {
	res, err := e.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// ended judges how the stream ended. err is what the reader got.
func (v *visit) ended(err error, result bool) {
	timedOut := errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case v.opened.IsZero() && !v.hasLeft():
		v.stream.fault(faultEnd, "it ended before the acknowledgment: "+err.Error())
	case result && errors.Is(err, io.EOF):
		v.counts.results.Add(1)
	case v.hasLeft() && timedOut:
		v.stream.fault(faultEnd, "the client left, and the server did not end it")
	case v.hasLeft(), v.cutOK && !timedOut:
	case timedOut:
		v.stream.fault(faultEnd, "it went silent")
	default:
		v.stream.fault(faultEnd, "it was cut without a result: "+err.Error())
	}
}

func (v *visit) broken(doing string, err error) {
	if !v.hasLeft() {
		v.stream.fault(faultEnd, doing+": "+err.Error())
	}
}
