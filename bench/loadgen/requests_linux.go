package loadgen

// This file sends requests of another method to the same endpoint, as the service's ordinary traffic, over a few kept connections.

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Requests sends tools/list requests over so many connections, one after the other on each, for so long.
func (c *Client) Requests(ctx context.Context, connections int, long time.Duration) Answered {
	urls, err := parseURLs(c.cfg.URL)
	if err == nil && urls[0].Scheme != "http" {
		err = errors.New("loadgen: other requests are for plain HTTP")
	}
	if err != nil {
		return Answered{Error: err.Error()}
	}
	const body = `{"jsonrpc":"2.0","id":"r-1","method":"tools/list","params":{` + meta + `}}`
	u := urls[0]
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"+
		"Content-Length: %d\r\n\r\n%s", u.RequestURI(), u.Host, len(body), body)
	var (
		mu    sync.Mutex
		took  []time.Duration
		fault error
		all   sync.WaitGroup
	)
	began := time.Now()
	until := began.Add(long)
	for range connections {
		all.Go(func() {
			mine, err := requestsOn(ctx, u.Host, request, until)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if fault == nil {
				fault = err
			}
		})
	}
	all.Wait()
	a := Answered{Requests: len(took), PerSecond: float64(len(took)) / time.Since(began).Seconds(), Error: text(fault)}
	if n := len(took); n > 0 {
		slices.Sort(took)
		a.MedianMS, a.P99MS = ms(took[(n-1)/2]), ms(took[(n-1)*99/100])
	}
	return a
}

// requestsOn returns what each request on one connection took.
func requestsOn(ctx context.Context, host string, request []byte, until time.Time) (took []time.Duration, err error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp4", host)
	if err != nil {
		return nil, fmt.Errorf("loadgen: connecting: %w", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // to end the reading is all that it is for
	defer stop()
	if err := c.SetDeadline(until.Add(10 * time.Second)); err != nil {
		return nil, fmt.Errorf("loadgen: %w", err)
	}
	in := bufio.NewReader(c)
	for began := time.Now(); len(took) == 0 || began.Before(until); began = time.Now() { // one at least
		if _, err := c.Write(request); err != nil {
			return took, fmt.Errorf("loadgen: sending a request: %w", err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return took, fmt.Errorf("loadgen: reading an answer: %w", err)
		}
		answer, err := io.ReadAll(res.Body)
		_ = res.Body.Close() // it was read to its end, or the connection is given up
		if err != nil {
			return took, fmt.Errorf("loadgen: reading an answer: %w", err)
		}
		if res.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"tools"`)) {
			return took, fmt.Errorf("loadgen: tools/list was answered %q, without tools", res.Status)
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
