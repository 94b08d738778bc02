package server

// This file is the admin listener: publishing, figures, profiles.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"
)

const maxCount = 1_000_000

func adminHandler(r row) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /publish", func(w http.ResponseWriter, req *http.Request) { publish(w, req, r) })
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, req *http.Request) {
		query := req.URL.Query()
		var streams func() int
		if query.Get("streams") == "1" {
			streams = r.streams
		}
		s, err := measure(streams, query.Get("gc") == "1")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, s)
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	return mux
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a client that went needs no answer
}

// publish serves POST /publish?kind=tools|resource&uri=URI&count=N&pause=DURATION&each=N: count changes, one right after the other,
// with a pause after each so many of them.
func publish(w http.ResponseWriter, req *http.Request, r row) {
	query := req.URL.Query()
	c := change{kind: query.Get("kind"), uri: query.Get("uri")}
	count, err := positive(query.Get("count"), maxCount)
	if err != nil {
		http.Error(w, "count: "+err.Error(), http.StatusBadRequest)
		return
	}
	each, err := positive(query.Get("each"), maxCount)
	if err != nil {
		http.Error(w, "each: "+err.Error(), http.StatusBadRequest)
		return
	}
	var pause time.Duration
	if s := query.Get("pause"); s != "" {
		if pause, err = time.ParseDuration(s); err != nil || pause < 0 {
			http.Error(w, "pause: want a duration", http.StatusBadRequest)
			return
		}
	}
	if c.kind != toolsChange && c.kind != resourceChange {
		http.Error(w, "the kind must be tools or resource", http.StatusBadRequest)
		return
	}
	p, err := publishMany(req.Context(), r, c, count, each, pause)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, p)
}

func positive(s string, most int) (int, error) {
	if s == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("want a number from 1 to %d", most)
	}
	return n, nil
}

func publishMany(ctx context.Context, r row, c change, count, each int, pause time.Duration) (Published, error) {
	p := Published{Count: count}
	for i := range count {
		began := time.Now()
		if i == 0 {
			p.BeganNS = began.UnixNano()
		}
		if err := r.publish(ctx, c); err != nil {
			return p, err
		}
		took := time.Since(began)
		p.LongestNS = max(p.LongestNS, took.Nanoseconds())
		p.CallsNS += took.Nanoseconds()
		p.LastBeganNS, p.EndedNS = began.UnixNano(), began.Add(took).UnixNano()
		if pause > 0 && (i+1)%each == 0 && i+1 < count {
			select {
			case <-ctx.Done():
				return p, ctx.Err()
			case <-time.After(pause):
			}
		}
	}
	return p, nil
}
