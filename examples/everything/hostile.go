// Hostile middleware: what real services have in front of their handlers, and
// what streams have to get through. This file has net/http's; where a framework
// has its own, it is with the framework's mount.

package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

// middlewares are the values of the flag.
var middlewares = []string{
	"none",
	"timeout",        // ends the request's context, and answers 504
	"contexttimeout", // ends the request's context
	"compress",       // gzip, if the client takes it
	"throttle",       // bounds the requests in progress
	"bodydump",       // keeps what was answered
	"timeouthandler", // http.TimeoutHandler, which buffers
	"naive",          // a wrapper that neither flushes nor unwraps
}

const (
	hostileTimeout = 5 * time.Second
	throttleLimit  = 100
)

// inFront returns next behind the middleware called name.
func inFront(name string, next http.Handler) http.Handler {
	switch name {
	case "timeout":
		return timeout(next, true)
	case "contexttimeout":
		return timeout(next, false)
	case "compress":
		return gzhttp.GzipHandler(next)
	case "throttle":
		return throttle(next)
	case "bodydump":
		return bodyDump(next)
	case "timeouthandler":
		return http.TimeoutHandler(next, hostileTimeout, "timeout")
	case "naive":
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(naive{w}, r) })
	default:
		return next
	}
}

// timeout ends the request's context, and may answer for a handler that did not.
func timeout(next http.Handler, answer bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), hostileTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
		if answer && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	})
}

// throttle refuses what goes beyond the limit. A stream counts as long as it is open.
func throttle(next http.Handler) http.Handler {
	places := make(chan struct{}, throttleLimit)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "too many requests in progress", http.StatusServiceUnavailable)
		}
	})
}

// bodyDump keeps a copy of each answer for as long as the request lasts.
func bodyDump(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&dumped{ResponseWriter: w}, r)
	})
}

type dumped struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (d *dumped) Write(b []byte) (int, error) {
	d.body.Write(b)
	return d.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController through.
func (d *dumped) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// naive is a wrapper that passes on the three methods of a response writer, and
// hides all else.
type naive struct{ w http.ResponseWriter }

func (n naive) Header() http.Header         { return n.w.Header() }
func (n naive) Write(b []byte) (int, error) { return n.w.Write(b) }
func (n naive) WriteHeader(status int)      { n.w.WriteHeader(status) }
