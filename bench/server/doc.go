// Package server is the server under test, a process of its own so that its memory and processor time are its streams' alone.
//
// It serves one row of a comparison: mcplisten, or one of the two yardsticks that show what of its cost is net/http's and what is
// the kernel's. An admin listener on another port publishes changes and reports figures.
package server

// The rows.
const (
	Mcplisten   = "mcplisten"    // a hub behind mcphttp on net/http
	BareNetHTTP = "bare-nethttp" // the least handler that can hold a stream on stock net/http
	BareWrite   = "bare-write"   // a descriptor per stream and one write(2) per delivery
)

// Rows returns the names of all rows.
func Rows() []string { return []string{Mcplisten, BareNetHTTP, BareWrite} }

// Stats is what GET /stats answers. With gc=1 in the query the figures are taken after a collection, with free memory given back
// to the system; streams are counted with streams=1.
type Stats struct {
	Streams    int    `json:"streams"` // -1 if not asked for
	Goroutines int    `json:"goroutines"`
	RSSBytes   int64  `json:"rss_bytes"`   // resident memory of the process
	HeapBytes  int64  `json:"heap_bytes"`  // live heap objects
	StackBytes int64  `json:"stack_bytes"` // stacks in use
	AllocBytes int64  `json:"alloc_bytes"` // bytes allocated since the start
	CPUMicros  int64  `json:"cpu_us"`      // processor time since the start, user and system
	GoVersion  string `json:"go"`
}
