// Package loadgen holds many subscriptions/listen streams open from one small process, and times what arrives on them.
//
// It speaks plain HTTP/1.1 to any server of protocol revision 2026-07-28. It shares its machine with the server that it measures,
// so it is one thread on one epoll set, with one read buffer for all streams and a few dozen bytes of state for each: what it
// costs must not become part of the figures. It needs Linux and a server on an IPv4 address.
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

// Delivered tells how one published change arrived. Times count from just before the publish request is sent.
type Delivered struct {
	Streams  int     `json:"streams"`         // streams that were open
	Got      int     `json:"got"`             // streams that got the notification
	Extra    int     `json:"extra"`           // notifications beyond one per stream
	MedianMS float64 `json:"median_ms"`       // until half of the streams had it
	P99MS    float64 `json:"p99_ms"`          // until 99 % had it
	LastMS   float64 `json:"last_ms"`         // until the last one had it
	CallerMS float64 `json:"caller_ms"`       // until the publish request was answered
	Error    string  `json:"error,omitempty"` // the first fault, in words
}
