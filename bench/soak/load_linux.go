package main

// This file is the client process: it keeps the endpoints of all servers busy with streams of every kind and with requests that
// are none, publishes to them, and says what it saw.

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcplisten/mcplisten/bench/internal/openfiles"
	"github.com/mcplisten/mcplisten/core"
)

// target is a server as the client gets it on its command line.
type target struct {
	Name string `json:"name"`
	addresses
}

// window is what the client has done in one stretch of time.
type window struct {
	Opens     int64                `json:"opens"`
	Refusals  int64                `json:"refusals"`
	Invalid   int64                `json:"invalid"`
	Published int64                `json:"published"`
	Results   int64                `json:"results"`
	Delivered int                  `json:"delivered"`
	Latency   map[string]histogram `json:"latency"` // by mount
}

// load is the whole of the client process.
type load struct {
	chance  *chance
	fields  []*field
	counts  counts
	client  *http.Client
	streams int // of each endpoint
	hold    bool
	serial  int
	mu      sync.Mutex // guards serial
}

// field is the part of a load that one server gets, with an account of its own.
type field struct {
	target
	load      *load
	ledger    *ledger
	endpoints [nodes]*endpoint
}

// runLoad is the client process. It loads the servers from its start until it is told to stop.
func runLoad(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var seed uint64
	var bound time.Duration
	var targets string
	l := &load{}
	flags := flag.NewFlagSet("soak load", flag.ContinueOnError)
	flags.StringVar(&targets, "targets", "", "the servers, as JSON")
	flags.Uint64Var(&seed, "seed", 1, "seed of all decisions")
	flags.IntVar(&l.streams, "streams", 60, "streams of each node")
	flags.DurationVar(&bound, "bound", 10*time.Second, "time within which a change must arrive and an end must come")
	flags.BoolVar(&l.hold, "hold", false, "only open the streams and wait for their results")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var all []target
	if err := json.Unmarshal([]byte(targets), &all); err != nil {
		return fmt.Errorf("soak load: the targets: %w", err)
	}
	if err := openfiles.Raise(4 * l.streams * nodes * len(all)); err != nil {
		return err
	}
	l.chance = newChance(seed, 1000)
	l.client = &http.Client{Timeout: bound, Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 5 * time.Second}}
	for _, t := range all {
		f, err := l.newField(t, bound)
		if err != nil {
			return err
		}
		l.fields = append(l.fields, f)
	}
	return l.run(ctx, in, out)
}

func (l *load) newField(t target, bound time.Duration) (*field, error) {
	f := &field{target: t, load: l, ledger: newLedger(bound)}
	for i, at := range t.Nodes {
		u, err := url.Parse(at)
		if err != nil {
			return nil, fmt.Errorf("soak load: %w", err)
		}
		f.endpoints[i] = &endpoint{
			name: t.Name + "/" + string(rune('a'+i)), url: at, host: u.Host, node: i, ledger: f.ledger, client: l.client,
			bound: bound, counts: &l.counts, deck: newDeck(l.chance),
		}
	}
	return f, nil
}

func (l *load) run(ctx context.Context, in io.Reader, out io.Writer) error {
	living, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	held := make(chan bool, l.streams*nodes*len(l.fields))
	for _, f := range l.fields {
		if l.hold {
			f.holdAll(living, &running, held)
			continue
		}
		running.Go(func() { f.publishes(living) })
		running.Go(func() { f.watch(living) })
		for _, e := range f.endpoints {
			for range l.streams {
				running.Go(func() { f.churn(living, e) })
			}
			if e.node == nodeB {
				for range veterans {
					running.Go(func() { f.stay(living, e) })
				}
			}
		}
	}
	return answer(in, out, nil, func(command string) (any, error) {
		switch command {
		case "window":
			return l.window(), nil
		case "held": // until all are open
			for range cap(held) {
				select {
				case ok := <-held:
					if !ok {
						return nil, errors.New("soak load: a stream did not open")
					}
				case <-living.Done():
					return nil, living.Err()
				}
			}
			return nil, nil
		case "stop":
			if !l.hold { // else they end of themselves
				stop()
			}
			running.Wait()
			l.client.CloseIdleConnections()
			return l.findings(), nil
		default:
			return nil, fmt.Errorf("soak load: no command %q", command)
		}
	})
}

func (l *load) window() window {
	w := window{
		Opens: l.counts.opens.Swap(0), Refusals: l.counts.refusals.Swap(0), Invalid: l.counts.invalid.Swap(0),
		Published: l.counts.publish.Swap(0), Results: l.counts.results.Swap(0), Latency: make(map[string]histogram),
	}
	for _, f := range l.fields {
		h, n := f.ledger.take()
		w.Latency[f.Name] = h
		w.Delivered += n
	}
	return w
}

func (l *load) findings() (all findings) {
	for _, f := range l.fields {
		all.merge(f.ledger.findings())
	}
	return all
}

const (
	users    = 40 // principals of each policy
	topics   = 24 // resources
	parts    = 3  // resources below each of them
	veterans = 3  // streams that stay for the whole run, on node b of each server
)

func topic(i int) string { return "soak:///r/" + strconv.Itoa(i) }

// order makes up what a stream asks for.
func (l *load) order(k life) order {
	c := l.chance
	l.mu.Lock()
	l.serial++
	id := strconv.Itoa(l.serial)
	l.mu.Unlock()
	if c.n(2) == 0 {
		id = `"s` + id + `"`
	}
	if k.stall { // so that a socket's buffers are full soon
		id = strings.TrimSuffix(`"`+strings.Trim(id, `"`)+strings.Repeat("x", 1000), `"`) + `"`
	}
	o := order{id: id, principal: k.policy + strconv.Itoa(c.n(users))}
	if k.empty {
		return o
	}
	o.filter.ToolsListChanged = k.stall || c.n(3) == 0
	o.filter.PromptsListChanged = k.stall || c.n(3) == 0
	o.filter.ResourcesListChanged = k.stall || c.n(3) == 0
	for i := range topics {
		if k.stall || c.n(topics/3) == 0 {
			o.filter.ResourceSubscriptions = append(o.filter.ResourceSubscriptions, topic(i))
		}
	}
	if k.uri != "" {
		o.filter.ResourceSubscriptions = append(o.filter.ResourceSubscriptions, k.uri)
	}
	if o.filter.Empty() {
		o.filter.ToolsListChanged = true
	}
	return o
}

// deck deals the kinds of life, and the kinds of misuse, in an order of chance but each as often as its weight says.
type deck struct {
	chance *chance
	mu     sync.Mutex
	cards  []any // each a life or a misuse
	next   int
}

func newDeck(c *chance) *deck {
	d := &deck{chance: c}
	for _, k := range lives() {
		for range k.weight {
			d.cards = append(d.cards, k)
		}
	}
	for _, m := range misuses {
		d.cards = append(d.cards, m)
	}
	return d
}

func (d *deck) deal() any {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == 0 {
		for i := range d.cards {
			j := i + d.chance.n(len(d.cards)-i)
			d.cards[i], d.cards[j] = d.cards[j], d.cards[i]
		}
	}
	card := d.cards[d.next]
	d.next = (d.next + 1) % len(d.cards)
	return card
}

// churn lives one life after the other on an endpoint, with a misuse now and then.
func (f *field) churn(ctx context.Context, e *endpoint) {
	c := f.load.chance
	for pause(ctx, c.between(0, 300*time.Millisecond)) {
		switch card := e.deck.deal().(type) {
		case misuse:
			e.misuse(ctx, card)
		case life:
			if card.stay > 0 && !card.whole {
				card.stay = c.between(time.Millisecond, card.stay)
			}
			f.liveOut(ctx, e, card)
		}
	}
}

// liveOut lives one life, or a burst of them.
func (f *field) liveOut(ctx context.Context, e *endpoint, k life) {
	o := f.load.order(k)
	var together sync.WaitGroup
	for range k.burst - 1 {
		another := f.load.order(k)
		another.principal = o.principal
		together.Go(func() { e.live(ctx, k, another) })
	}
	if !e.live(ctx, k, o) && k.leave != vanish {
		pause(ctx, f.load.chance.between(50*time.Millisecond, 250*time.Millisecond))
	}
	together.Wait()
}

// stay keeps a stream open for as long as the load lasts.
func (f *field) stay(ctx context.Context, e *endpoint) {
	k := life{name: "veteran", policy: policyVeteran, leave: stayOn}
	for e.live(ctx, k, f.load.order(k)) || pause(ctx, 100*time.Millisecond) {
		if ctx.Err() != nil {
			return
		}
	}
}

// holdAll opens all streams of a server and waits for the server to end each with its result.
func (f *field) holdAll(ctx context.Context, running *sync.WaitGroup, held chan<- bool) {
	for _, e := range f.endpoints {
		for i := range f.load.streams {
			k := life{name: "held", policy: policyUser, leave: stayOn, acked: func() { held <- true }}
			o := f.load.order(k)
			o.principal = policyUser + "held" + strconv.Itoa(i) // else some have too many
			running.Go(func() {
				for range 100 { // all come at once, and some of them are too many at a time
					if e.live(ctx, k, o) {
						return
					}
					pause(ctx, f.load.chance.between(10*time.Millisecond, 100*time.Millisecond))
				}
				held <- false
			})
		}
	}
}

// watch looks for what is overdue.
func (f *field) watch(ctx context.Context) {
	for pause(ctx, time.Second) {
		f.ledger.check(time.Now())
	}
}

// publishes publishes to a server at a rate that changes all the time: now and then, steadily, fast, and in bursts.
func (f *field) publishes(ctx context.Context) {
	c := f.load.chance
	for ctx.Err() == nil {
		wait := []time.Duration{200 * time.Millisecond, 50 * time.Millisecond, 10 * time.Millisecond}[c.n(3)]
		for until := time.Now().Add(c.between(time.Second, 5*time.Second)); time.Now().Before(until); {
			if !pause(ctx, c.between(wait/2, wait*3/2)) {
				return
			}
			f.publish(ctx)
		}
	}
}

// publish publishes something that nobody waits for any more.
func (f *field) publish(ctx context.Context) {
	c := f.load.chance
	p := publication{Node: c.n(nodes), Times: 1}
	if c.n(20) == 0 {
		p.Times = 1 + c.n(50)
	}
	for range 1 + c.n(3) {
		change := core.Change{Kind: core.Kind(c.n(int(core.KindResourceUpdated) + 1))}
		if change.Kind == core.KindResourceUpdated || c.n(2) == 0 {
			change = core.ResourceUpdated(topic(c.n(topics + 1))) // the last one is nobody's
			if c.n(4) == 0 {
				change.URI += "/" + strconv.Itoa(c.n(parts))
			}
		}
		if f.ledger.settled(change) && !slices.Contains(p.Changes, change) {
			p.Changes = append(p.Changes, change)
		}
	}
	switch c.n(6) {
	case 0:
		p.To = []string{policyUser + strconv.Itoa(c.n(users)), policyRevocable + strconv.Itoa(c.n(users)), "nobody"}
	case 1:
		p.Prefix = policyUser + strconv.Itoa(c.n(10))
	}
	if len(p.Changes) == 0 {
		return
	}
	f.ledger.publishing(p.audience(), p.Changes, p.Times, time.Now())
	if err := f.ask(ctx, p); err != nil && ctx.Err() == nil {
		f.ledger.fault(faultPublish, f.Name+": "+err.Error())
	}
	f.load.counts.publish.Add(int64(p.Times * len(p.Changes)))
}

func (f *field) ask(ctx context.Context, p publication) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.Admin, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	status, err := f.endpoints[0].do(req)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

// misuse is a request that is wrong in one way.
type misuse struct {
	name   string
	status int    // that it must get; 0: it is only half sent
	method string // of HTTP, where not POST
	body   string // where not a valid one
	header string // to set
	value  string
}

var misuses = []misuse{
	{name: "half a request"},
	{name: "GET", status: http.StatusMethodNotAllowed, method: http.MethodGet},
	{name: "DELETE", status: http.StatusMethodNotAllowed, method: http.MethodDelete},
	{name: "no JSON", status: http.StatusBadRequest, body: `{"jsonrpc":`},
	{name: "batch", status: http.StatusBadRequest, body: `[` + string(valid) + `]`},
	{name: "id with a fraction", status: http.StatusBadRequest, body: string(listenBody("1.5", core.Filter{ToolsListChanged: true}))},
	{name: "a member twice", status: http.StatusBadRequest, body: `{"id":1,` + string(valid[1:])},
	{name: "too many URIs", status: http.StatusBadRequest, body: string(listenBody("1", core.Filter{ResourceSubscriptions: make([]string, maxURIs+1)}))},
	{name: "too large", status: http.StatusRequestEntityTooLarge, body: `{"x":"` + strings.Repeat("x", maxBody) + `"}`},
	{name: "unknown version", status: http.StatusBadRequest, header: "Mcp-Protocol-Version", value: "2025-11-25",
		body: strings.Replace(string(valid), core.ProtocolVersion, "2025-11-25", 1)},
	{name: "unknown method", status: http.StatusNotFound, header: "Mcp-Method", value: "tools/list",
		body: strings.Replace(string(valid), core.MethodListen, "tools/list", 1)},
	{name: "another version", status: http.StatusBadRequest, header: "Mcp-Protocol-Version", value: "2025-11-25"},
	{name: "another method", status: http.StatusBadRequest, header: "Mcp-Method", value: "tools/list"},
	{name: "no event stream", status: http.StatusNotAcceptable, header: "Accept", value: "application/json"},
	{name: "no JSON type", status: http.StatusUnsupportedMediaType, header: "Content-Type", value: "text/plain"},
	{name: "foreign origin", status: http.StatusForbidden, header: "Origin", value: "https://elsewhere.example"},
}

var valid = listenBody("1", core.Filter{ToolsListChanged: true})

// misuse sends a request that is wrong, or half of one.
func (e *endpoint) misuse(ctx context.Context, m misuse) {
	e.counts.invalid.Add(1)
	if m.status == 0 {
		e.half(ctx)
		return
	}
	body, method := string(valid), http.MethodPost
	if m.body != "" {
		body = m.body
	}
	if m.method != "" {
		method, body = m.method, ""
	}
	req, err := http.NewRequestWithContext(ctx, method, e.url, strings.NewReader(body))
	if err != nil {
		e.ledger.fault(faultRefusal, err.Error())
		return
	}
	req.Header = headers(core.MethodListen, policyUser+"misuse")
	if m.header != "" {
		req.Header.Set(m.header, m.value)
	}
	status, err := e.do(req)
	if ctx.Err() == nil && (err != nil || status != m.status) {
		e.ledger.fault(faultRefusal, fmt.Sprintf("%s, %s: status %d (%v), want %d", e.name, m.name, status, err, m.status))
	}
}

// half sends the beginning of a request and closes the connection.
func (e *endpoint) half(ctx context.Context) {
	d := net.Dialer{Timeout: e.bound}
	c, err := d.DialContext(ctx, "tcp", e.host)
	if err != nil {
		return // the next listen request tells what is wrong
	}
	defer c.Close()
	_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		endpointPath, e.host, len(valid), valid[:len(valid)/2])
}
