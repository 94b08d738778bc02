// The admin endpoints, on a listener of their own: publish changes from outside,
// and look at the process.

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	mcphttp "github.com/mcplisten/mcplisten/adapters/nethttp"
	"github.com/mcplisten/mcplisten/core"
)

// ends counts ended streams by their reason. It is what the hub's OnEnd feeds.
type ends struct {
	mu     sync.Mutex
	counts map[core.Reason]int
}

func (e *ends) add(end core.End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts = make(map[core.Reason]int)
	}
	e.counts[end.Reason]++
}

// byReason returns the count of every reason there is.
func (e *ends) byReason() map[core.Reason]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := make(map[core.Reason]int)
	for _, reason := range core.Reasons() {
		counts[reason] = e.counts[reason]
	}
	return counts
}

// adminHandler serves POST /publish, GET /stats, and GET /status for people. No web
// page may call it.
func adminHandler(hub *core.Hub, closed *ends) (http.Handler, error) {
	guard, err := mcphttp.New(hub) // for its rules against DNS rebinding
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /publish", func(w http.ResponseWriter, r *http.Request) { publish(w, r, hub) })
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { stats(w, hub, closed) })
	mux.Handle("GET /status", mcphttp.Status(hub, mcphttp.StatusPrincipals()))
	return guard.Guard(http.NewCrossOriginProtection().Handler(mux)), nil
}

// publish publishes the change that the query names, n times, one by one. It
// answers once the last Publish has returned.
func publish(w http.ResponseWriter, r *http.Request, hub *core.Hub) {
	query := r.URL.Query()
	change, err := changeOf(query.Get("kind"), query.Get("uri"))
	n := 1
	if err == nil && query.Has("n") {
		if n, err = strconv.Atoi(query.Get("n")); err != nil || n < 0 {
			err = fmt.Errorf("n is no count")
		}
	}
	for range n {
		if err == nil {
			err = hub.Publish(r.Context(), change)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func changeOf(kind, uri string) (core.Change, error) {
	switch kind {
	case "tools":
		return core.ToolsListChanged(), nil
	case "prompts":
		return core.PromptsListChanged(), nil
	case "resources":
		return core.ResourcesListChanged(), nil
	case "updated":
		return core.ResourceUpdated(uri), nil
	default:
		return core.Change{}, fmt.Errorf("kind is none of tools, prompts, resources and updated")
	}
}

// statistics is the answer to GET /stats.
type statistics struct {
	Streams    int                 `json:"streams"`
	Goroutines int                 `json:"goroutines"`
	HeapBytes  uint64              `json:"heap_bytes"` // live: it is collected before
	RSSBytes   int64               `json:"rss_bytes"`  // 0 where the system does not tell
	Closed     map[core.Reason]int `json:"closed"`
}

func stats(w http.ResponseWriter, hub *core.Hub, closed *ends) {
	s := statistics{Streams: len(hub.Streams()), Goroutines: runtime.NumGoroutine(), Closed: closed.byReason()}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s.HeapBytes, s.RSSBytes = memory.HeapAlloc, residentBytes()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s)
}

// residentBytes returns the memory that the process occupies, as Linux counts it.
func residentBytes() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kB, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kB << 10
		}
	}
	return 0
}
