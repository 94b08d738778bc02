package server

// This file is what a stream costs with nothing but net/http: a handler that waits on a channel.

import (
	"context"
	"io"
	"net/http"
	"sync"
)

type bareNetHTTP struct {
	mu    sync.Mutex
	wakes map[chan struct{}]struct{}
}

func newBareNetHTTP() endpoint {
	b := &bareNetHTTP{wakes: map[chan struct{}]struct{}{}}
	return endpoint{handler: b, publish: b.publish, streams: b.streams}
}

func (b *bareNetHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Mcp-Method") == "tools/list" {
		otherMethods(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	id, err := requestID(body)
	if err != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	flusher, ok := w.(http.Flusher)
	if !ok {
		http.Error(w, "cannot flush", http.StatusInternalServerError)
		return
	}
	wake := make(chan struct{}, 1)
	b.mu.Lock()
	b.wakes[wake] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.wakes, wake)
		b.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	write := func(head, tail string) {
		// A failed write means a client that went, and the context tells that.
		_, _ = io.WriteString(w, head)
		_, _ = io.WriteString(w, id)
		_, _ = io.WriteString(w, tail)
		flusher.Flush()
	}
	write(ackHead, ackTail)
	for {
		select {
		case <-wake:
			write(changeHead, changeTail)
		case <-r.Context().Done():
			return
		}
	}
}

func (b *bareNetHTTP) publish(_ context.Context, c change) error {
	if c.kind != toolsChange {
		return errKind
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for wake := range b.wakes {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	return nil
}

func (b *bareNetHTTP) streams() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.wakes)
}
