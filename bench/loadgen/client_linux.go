package loadgen

// This file keeps the account of the streams and has the commands. How bytes come and go is a transport's affair; whoever calls a
// command works it, and between calls nothing is read: what comes then waits in the kernel.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config says where to open streams, how many, and what they ask for.
type Config struct {
	URL      string        // MCP endpoints, separated by commas
	Streams  int           // streams to hold
	Stall    int           // of these, how many are never read from after their acknowledgment
	Filter   string        // the notifications member of the request; a change of the tools list if empty
	Header   []string      // more headers, NAME: VALUE
	HTTP2    bool          // over https, HTTP/2
	Insecure bool          // over https, do not verify the server's certificate
	Window   int           // streams being opened at a time; 64 if zero
	Trigger  string        // URL that a POST is sent to for each publish
	Timeout  time.Duration // limit for one command; a minute if zero
	Patience time.Duration // publish waits no longer for those that got nothing yet once nothing has come for so long; 5 s if zero
	Quiet    time.Duration // burst is over when nothing has come for so long; 1 s if zero
}

// transport opens streams and hands what comes on them to a sink.
type transport interface {
	// dial begins to open a stream. What becomes of it comes by pump.
	dial(i int) error
	// pump gives what has come to the sink, waiting for it at most so long, and returns how much that was.
	pump(wait time.Duration) (int, error)
	// stall stops reading from a stream.
	stall(i int) error
	hangup(i int)
	settle() // all are hung up, and nothing of them may come any more
	close()
	sources() int // addresses that the connections come from
}

// arrival is something that came on a stream: a message, or its end.
type arrival struct {
	stream int
	kind   message
	at     time.Time
	err    error // the stream is over
}

// Client holds the streams. It is not safe for concurrent use.
type Client struct {
	cfg       Config
	transport transport
	http      *http.Client
	streams   []stream

	open    int // streams that have their acknowledgment, and are read from
	stalled int // streams that have it, and are not
	failed  int
	early   int
	lost    int // streams that ended during this round without a change
	fault   error

	start time.Time       // of this round
	last  time.Time       // when something came last in this round
	extra int             // changes beyond the first of a stream in this round
	times []time.Duration // when each stream had its first change of this round
}

// stream is what is known of one stream.
type stream struct {
	acked   bool
	over    bool
	stalled bool
	got     int           // changes in this round
	last    time.Duration // when the last of them came
}

// New returns a client that has no stream open yet.
func New(cfg Config) (*Client, error) {
	if cfg.Window <= 0 {
		cfg.Window = 64
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Patience <= 0 {
		cfg.Patience = 5 * time.Second
	}
	if cfg.Quiet <= 0 {
		cfg.Quiet = time.Second
	}
	if cfg.Streams < 1 || cfg.Streams > MaxStreams || cfg.Stall < 0 || cfg.Stall > cfg.Streams {
		return nil, fmt.Errorf("loadgen: %d streams, %d of them stalled: want 1 to %d, and no more stalled than that", cfg.Streams, cfg.Stall, MaxStreams)
	}
	urls, err := parseURLs(cfg.URL)
	if err != nil {
		return nil, err
	}
	requests := make([]*request, len(urls))
	for i, u := range urls {
		if requests[i], err = newRequest(u, cfg.Filter, cfg.Header); err != nil {
			return nil, err
		}
	}
	c := &Client{
		cfg:     cfg,
		streams: make([]stream, cfg.Streams),
		times:   make([]time.Duration, 0, cfg.Streams),
		http:    &http.Client{Timeout: cfg.Timeout},
	}
	if urls[0].Scheme == "https" {
		c.transport = newSecure(cfg, requests, c.take)
	} else if c.transport, err = newEpoll(cfg, requests, c.take); err != nil {
		return nil, err
	}
	return c, nil
}

// stalls reports whether stream i is one of those that are not read from: the last ones.
func (c *Client) stalls(i int) bool { return i >= c.cfg.Streams-c.cfg.Stall }

// Open opens all streams and returns when each has its acknowledgment or has failed. Streams of an earlier Open must be closed.
func (c *Client) Open(ctx context.Context) Opened {
	if c.open+c.stalled != 0 {
		return Opened{Error: "loadgen: streams are open already"}
	}
	c.failed, c.early, c.fault = 0, 0, nil
	began := time.Now()
	last := began
	next := 0
	for done := 0; done < len(c.streams); {
		for next < len(c.streams) && next-done < c.cfg.Window {
			if err := c.transport.dial(next); err != nil {
				c.end(next, err)
			}
			next++
		}
		c.pump(100 * time.Millisecond)
		if now := c.open + c.stalled + c.failed; now != done {
			done, last = now, time.Now()
		}
		if err := c.overdue(ctx, began); err != nil {
			c.blame(err)
			break
		}
	}
	seconds := last.Sub(began).Seconds()
	held := c.open + c.stalled
	o := Opened{
		Streams: held, Failed: len(c.streams) - held, Early: c.early, Seconds: seconds,
		Sources: c.transport.sources(), Error: text(c.fault),
	}
	if seconds > 0 {
		o.PerSecond = float64(held) / seconds
	}
	o.RSSBytes, o.CPUMicros = self()
	return o
}

// begin begins a round.
func (c *Client) begin() {
	c.fault = nil
	for range 1000 { // what is left of earlier rounds, keep-alives among it, is no part of this one
		if c.pump(0) == 0 {
			break
		}
	}
	c.times, c.extra, c.lost = c.times[:0], 0, 0
	for i := range c.streams {
		c.streams[i].got, c.streams[i].last = 0, 0
	}
	c.start = time.Now()
	c.last = c.start
}

// published is what a trigger answers, if it is one of this module.
type published struct {
	BeganNS     int64 `json:"began_ns"`
	LastBeganNS int64 `json:"last_began_ns"`
	EndedNS     int64 `json:"ended_ns"`
	LongestNS   int64 `json:"longest_ns"`
	CallsNS     int64 `json:"calls_ns"`
}

// trigger sends the trigger request on a goroutine of its own.
func (c *Client) trigger(ctx context.Context, query string) <-chan outcome {
	done := make(chan outcome, 1)
	begin := c.start
	go func() {
		p, err := c.post(ctx, query)
		if p.BeganNS == 0 { // then the request is all that is known
			now := time.Now()
			p.BeganNS, p.LastBeganNS, p.EndedNS = begin.UnixNano(), begin.UnixNano(), now.UnixNano()
			p.LongestNS = now.Sub(begin).Nanoseconds()
			p.CallsNS = p.LongestNS
		}
		done <- outcome{p, err}
	}()
	return done
}

type outcome struct {
	published
	err error
}

// since returns how long after the round's start a time of the trigger was.
func (c *Client) since(unixNano int64) time.Duration {
	return time.Duration(unixNano - c.start.UnixNano())
}

// Publish sends the trigger request and returns when every open stream has a change, or no more are to be expected.
func (c *Client) Publish(ctx context.Context, query string) Delivered {
	c.begin()
	want := c.open
	answered := c.trigger(ctx, query)
	var o *outcome
	for len(c.times)+c.lost < want {
		c.pump(100 * time.Millisecond)
		if o == nil {
			select {
			case got := <-answered:
				o = &got
				c.last = time.Now()
			default:
			}
		}
		if o != nil && (o.err != nil || time.Since(c.last) > c.cfg.Patience) {
			break
		}
		if err := c.overdue(ctx, c.start); err != nil {
			c.blame(err)
			break
		}
	}
	if o == nil {
		got := <-answered // bounded by the time limit of c.http
		o = &got
	}
	c.blame(o.err)
	d := Delivered{Streams: want, Got: len(c.times), Extra: c.extra, CallerMS: ms(time.Duration(o.CallsNS)), Error: text(c.fault)}
	if n := len(c.times); n > 0 {
		slices.Sort(c.times)
		began := c.since(o.BeganNS)
		d.MedianMS, d.P99MS, d.LastMS = ms(c.times[(n-1)/2]-began), ms(c.times[(n-1)*99/100]-began), ms(c.times[n-1]-began)
	}
	return d
}

// Burst sends the trigger request and returns when it is answered and nothing more comes.
func (c *Client) Burst(ctx context.Context, query string) Burst {
	c.begin()
	answered := c.trigger(ctx, query)
	var o *outcome
	for o == nil || time.Since(c.last) < c.cfg.Quiet {
		c.pump(10 * time.Millisecond)
		if o == nil {
			select {
			case got := <-answered:
				o = &got
				if now := time.Now(); c.last.Before(now) {
					c.last = now
				}
			default:
			}
		}
		if err := c.overdue(ctx, c.start); err != nil {
			c.blame(err)
			break
		}
	}
	if o == nil {
		got := <-answered
		o = &got
	}
	c.blame(o.err)
	return c.burst(o.published)
}

// Watch takes what comes, for so long.
func (c *Client) Watch(ctx context.Context, long time.Duration) Burst {
	c.begin()
	for time.Since(c.start) < long && ctx.Err() == nil {
		c.pump(100 * time.Millisecond)
	}
	began := c.start.UnixNano()
	return c.burst(published{BeganNS: began, LastBeganNS: began})
}

func (c *Client) burst(p published) Burst {
	b := Burst{CallsMS: ms(time.Duration(p.CallsNS)), LongestMS: ms(time.Duration(p.LongestNS)), Error: text(c.fault)}
	began := c.since(p.LastBeganNS)
	var counts []int
	for i := range c.streams {
		s := &c.streams[i]
		if s.stalled || !s.acked || s.over {
			continue
		}
		counts = append(counts, s.got)
		b.Notifications += s.got
		if s.got == 0 || s.last < began {
			b.Stale++
		}
		b.LastMS = max(b.LastMS, ms(s.last-began))
	}
	if b.Streams = len(counts); b.Streams > 0 {
		slices.Sort(counts)
		b.Fewest, b.Median, b.Most = counts[0], counts[(len(counts)-1)/2], counts[len(counts)-1]
	}
	return b
}

// repeatLimit is for how long Repeat begins anew.
const repeatLimit = 3 * time.Second

// Repeat publishes so many times, one after the other. It ends early when a change does not arrive, or after three seconds.
func (c *Client) Repeat(ctx context.Context, times int, query string) Repeated {
	var r Repeated
	for began := time.Now(); times > 0 && time.Since(began) < repeatLimit; times-- {
		d := c.Publish(ctx, query)
		if d.Got != d.Streams || d.Error != "" {
			r.Lost++
			r.Error = d.Error
			return r
		}
		r.LastMS, r.CallerMS = append(r.LastMS, d.LastMS), append(r.CallerMS, d.CallerMS)
	}
	return r
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func (c *Client) post(ctx context.Context, query string) (p published, err error) {
	target := c.cfg.Trigger
	if query != "" {
		separator := "?"
		if strings.Contains(target, "?") {
			separator = "&"
		}
		target += separator + query
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return p, fmt.Errorf("loadgen: publishing: %w", err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return p, fmt.Errorf("loadgen: publishing: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end below; nothing is lost
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return p, fmt.Errorf("loadgen: publishing: %w", err)
	}
	if res.StatusCode/100 != 2 {
		return p, fmt.Errorf("loadgen: the publish request was answered %s", res.Status)
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return published{}, nil // somebody else's trigger: the answer is its own affair
	}
	return p, nil
}

func (c *Client) overdue(ctx context.Context, began time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if time.Since(began) > c.cfg.Timeout {
		return fmt.Errorf("loadgen: not done after %v", c.cfg.Timeout)
	}
	return nil
}

func (c *Client) pump(wait time.Duration) int {
	n, err := c.transport.pump(wait)
	c.blame(err)
	return n
}

// blame keeps the first fault.
func (c *Client) blame(err error) {
	if c.fault == nil && err != nil {
		c.fault = err
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// take is the transports' sink.
func (c *Client) take(a arrival) {
	s := &c.streams[a.stream]
	if s.over {
		return
	}
	if a.err != nil {
		c.end(a.stream, a.err)
		return
	}
	c.last = a.at
	switch a.kind {
	case msgAck:
		if s.acked {
			return
		}
		s.acked = true
		if !c.stalls(a.stream) {
			c.open++
			return
		}
		s.stalled = true
		c.stalled++
		if err := c.transport.stall(a.stream); err != nil {
			c.end(a.stream, err)
		}
	case msgChange:
		if !s.acked {
			c.early++
			c.end(a.stream, errors.New("loadgen: a notification before the acknowledgment"))
			return
		}
		s.got++
		s.last = a.at.Sub(c.start)
		if s.got > 1 {
			c.extra++
		} else {
			c.times = append(c.times, s.last)
		}
	case msgEnd:
		c.end(a.stream, errors.New("loadgen: the server ended the stream"))
	case msgOther:
	}
}

// end gives a stream up. One that was open no longer counts as such.
func (c *Client) end(i int, err error) {
	s := &c.streams[i]
	c.blame(fmt.Errorf("stream %d: %w", i, err))
	switch {
	case s.stalled:
		c.stalled--
	case s.acked:
		c.open--
		if s.got == 0 {
			c.lost++
		}
	}
	c.failed++
	s.over = true
	c.transport.hangup(i)
}

// Hangup closes all streams; the client can open them anew afterwards.
func (c *Client) Hangup() {
	for i := range c.streams {
		c.transport.hangup(i)
		c.streams[i] = stream{}
	}
	c.transport.settle()
	c.open, c.stalled = 0, 0
}

// Close hangs up and releases the client.
func (c *Client) Close() {
	c.Hangup()
	c.http.CloseIdleConnections()
	c.transport.close()
}

// check finds out what a message is, and that it is one of this stream.
func check(i int, data []byte) (message, error) {
	kind := classify(data)
	if kind == msgAck || kind == msgChange {
		var id [idDigits + 4]byte
		if !bytes.Contains(data, appendID(id[:0], i)) {
			return kind, errors.New("loadgen: a message without the subscription's id")
		}
	}
	return kind, nil
}

// self returns the load generator's own resident memory and processor time.
func self() (rss, cpuMicros int64) {
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64) // zero says that it is not known
			rss = pages * int64(os.Getpagesize())
		}
	}
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err == nil {
		cpuMicros = (ru.Utime.Nano() + ru.Stime.Nano()) / 1000
	}
	return rss, cpuMicros
}
