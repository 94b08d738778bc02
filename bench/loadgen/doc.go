// Package loadgen holds many subscriptions/listen streams open from one small process, and times what arrives on them.
//
// It works against any server of protocol revision 2026-07-28:
//
//	printf 'open\nwatch 30s\n' | go run ./bench/compare loadgen -url http://127.0.0.1:8080/mcp -n 5000
//
// opens 5,000 streams, tells how that went, and what came on them within 30 s. Commands are read from standard input, and each is
// answered with one line of JSON on standard output:
//
//	open             opens all streams                                               Opened
//	publish [QUERY]  POSTs to -trigger and waits until each stream has a change      Delivered
//	burst [QUERY]    the same, and waits until nothing more comes                    Burst
//	repeat N [QUERY] N times publish, one after the other, or 3 s long               Repeated
//	watch DURATION   takes what comes, for so long                                   Burst
//	requests N D     N connections send other requests (tools/list) for so long      Answered
//	hangup           closes all streams                                              null
//	quit             ends the program, as the end of the input does
//
// QUERY is appended to the trigger's URL. Where the trigger answers as this module's server does (began_ns and the like), times
// count from the publish itself, else from the trigger request.
//
// What the streams ask for, and how, is up to flags: -url (several, separated by commas, share the streams), -filter (the
// notifications member; {n} in it stands for the stream's number), -header (repeatable), -stall (so many of the streams are never
// read from). It needs Linux and servers on IPv4 addresses.
//
// Over plain HTTP/1.1 it is one thread on one epoll set, with one read buffer for all streams and a few dozen bytes of state for
// each: it shares its machine with the server that it measures, and what it costs must not become part of the figures. For https
// URLs it has another client, a goroutine and a connection per stream, or with -http2 the streams of shared HTTP/2 connections;
// figures of the two are not comparable.
package loadgen

// Opened tells how the opening of all streams went.
type Opened struct {
	Streams   int     `json:"streams"`              // streams that have their acknowledgment
	Failed    int     `json:"failed"`               // streams that were refused, cut, or silent until the time limit
	Early     int     `json:"early"`                // streams on which something came before the acknowledgment
	Seconds   float64 `json:"seconds"`              // from the first connect to the last acknowledgment
	PerSecond float64 `json:"per_second"`           // streams opened per second
	Error     string  `json:"error,omitempty"`      // the first fault, in words
	Sources   int     `json:"source_addresses"`     // loopback addresses that the connections came from
	RSSBytes  int64   `json:"loadgen_rss_bytes"`    // memory of the load generator itself
	CPUMicros int64   `json:"loadgen_cpu_us_total"` // processor time of the load generator itself, since its start
}

// Delivered tells how one published change arrived.
type Delivered struct {
	Streams  int     `json:"streams"`         // streams that were open, and read from
	Got      int     `json:"got"`             // streams that got the notification
	Extra    int     `json:"extra"`           // notifications beyond one per stream
	MedianMS float64 `json:"median_ms"`       // until half of the streams had it
	P99MS    float64 `json:"p99_ms"`          // until 99 % had it
	LastMS   float64 `json:"last_ms"`         // until the last one had it
	CallerMS float64 `json:"caller_ms"`       // what the publisher waited
	Error    string  `json:"error,omitempty"` // the first fault, in words
}

// Burst tells what came of many changes.
type Burst struct {
	Streams       int     `json:"streams"`       // streams that were open, and read from
	Notifications int     `json:"notifications"` // in all
	Fewest        int     `json:"fewest"`        // on one stream
	Median        int     `json:"median"`        // likewise
	Most          int     `json:"most"`          // likewise
	Stale         int     `json:"stale"`         // streams whose last notification, if any, is older than the last publish
	LastMS        float64 `json:"last_ms"`       // from the last publish until the last notification came
	CallsMS       float64 `json:"calls_ms"`      // what the publisher waited in all
	LongestMS     float64 `json:"longest_ms"`    // what it waited for the slowest publish
	Error         string  `json:"error,omitempty"`
}

// Repeated has the time to the last stream of each of several publishes.
type Repeated struct {
	LastMS   []float64 `json:"last_ms"`
	CallerMS []float64 `json:"caller_ms"`
	Lost     int       `json:"lost"` // publishes that not all streams got; they are no part of the above, and the first one ends it
	Error    string    `json:"error,omitempty"`
}

// Answered tells how requests of another method were answered.
type Answered struct {
	Requests  int     `json:"requests"`
	PerSecond float64 `json:"per_second"`
	MedianMS  float64 `json:"median_ms"`
	P99MS     float64 `json:"p99_ms"`
	Error     string  `json:"error,omitempty"`
}
