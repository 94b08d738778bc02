// Package server is the server under test, a process of its own so that its memory and processor time are its streams' alone.
//
// It serves one row of a comparison: mcplisten in one of the ways that its users run it, what they would use instead, or one of the
// two yardsticks that show what of the cost is net/http's and what is the kernel's. An admin listener on another port publishes
// changes and reports figures.
//
// All rows but the yardsticks are written as their documentation writes them, with the settings that it comes to by default.
package server

import (
	"fmt"
	"slices"
	"strings"
)

// The rows, over plain HTTP/1.1.
const (
	BareWrite     = "bare-write"     // a descriptor per stream and one write(2) per delivery: the floor
	BareNetHTTP   = "bare-nethttp"   // the least handler that can hold a stream on stock net/http
	Mcplisten     = "mcplisten"      // a hub behind mcphttp on net/http, in front of a server of other methods
	McplistenChi  = "mcplisten-chi"  // the same on a chi router
	McplistenEcho = "mcplisten-echo" // on echo
	McplistenGin  = "mcplisten-gin"  // on gin
	McplistenLean = "mcplisten-lean" // on net/http, with mcphttp.WithLeanStreams; as it is where a connection cannot be taken over
	McplistenOTel = "mcplisten-otel" // on net/http, with mcpotel and the OpenTelemetry SDK
	GoSDK         = "go-sdk"         // github.com/modelcontextprotocol/go-sdk
	MCPGo         = "mcp-go"         // github.com/mark3labs/mcp-go
)

// What is appended to a row's name for another transport.
const (
	OverTLS   = "+tls" // HTTP/1.1 over TLS
	OverHTTP2 = "+h2"  // HTTP/2 over TLS
)

// Rows returns the names of all rows over plain HTTP/1.1.
func Rows() []string {
	return []string{BareWrite, BareNetHTTP, Mcplisten, McplistenChi, McplistenEcho, McplistenGin, McplistenLean, McplistenOTel, GoSDK, MCPGo}
}

// Split takes a row's name apart. The transport is empty, [OverTLS] or [OverHTTP2].
func Split(name string) (row, transport string, err error) {
	row = name
	for _, t := range []string{OverTLS, OverHTTP2} {
		if base, ok := strings.CutSuffix(name, t); ok {
			row, transport = base, t
		}
	}
	if !slices.Contains(Rows(), row) || row == BareWrite && transport != "" {
		return "", "", fmt.Errorf("server: no row %q: want one of %q, all but the first with %q or %q if wanted", name, Rows(), OverTLS, OverHTTP2)
	}
	return row, transport, nil
}

// Stats is what GET /stats answers. With gc=1 in the query the figures are taken after a collection, with free memory given back
// to the system; streams are counted with streams=1.
type Stats struct {
	Streams    int    `json:"streams"` // -1 if not asked for; connections where the server does not know its streams
	Goroutines int    `json:"goroutines"`
	RSSBytes   int64  `json:"rss_bytes"`   // resident memory of the process
	HeapBytes  int64  `json:"heap_bytes"`  // live heap objects
	StackBytes int64  `json:"stack_bytes"` // stacks in use
	AllocBytes int64  `json:"alloc_bytes"` // bytes allocated since the start
	Allocs     int64  `json:"allocs"`      // objects allocated since the start
	CPUMicros  int64  `json:"cpu_us"`      // processor time since the start, user and system
	GoVersion  string `json:"go"`
}

// Published is what POST /publish answers. Times are of the machine's clock, in nanoseconds since 1970, so that a load generator on
// the same machine can count from them.
type Published struct {
	Count       int   `json:"count"`
	BeganNS     int64 `json:"began_ns"`      // before the first publish
	LastBeganNS int64 `json:"last_began_ns"` // before the last one
	EndedNS     int64 `json:"ended_ns"`      // after the last one
	LongestNS   int64 `json:"longest_ns"`    // what the slowest of them took
	CallsNS     int64 `json:"calls_ns"`      // what all of them took together
}
