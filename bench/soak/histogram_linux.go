package main

// This file keeps latencies: as counts in buckets that grow by a twentieth, so that a minute of them is small, two of them can be
// added, and a percentile is right to 5 %.

import (
	"math"
	"time"
)

const (
	bucketGrowth = 1.05
	buckets      = 400 // up to 300 s
)

// histogram counts durations by size. The zero value is empty.
type histogram struct {
	Counts []int `json:"counts,omitempty"`
	N      int   `json:"n"`
}

func (h *histogram) add(d time.Duration) {
	if h.Counts == nil {
		h.Counts = make([]int, buckets)
	}
	us := max(1, float64(d)/float64(time.Microsecond))
	h.Counts[min(buckets-1, int(math.Log(us)/math.Log(bucketGrowth)))]++
	h.N++
}

// merge adds another's counts.
func (h *histogram) merge(other histogram) {
	if other.N == 0 {
		return
	}
	if h.Counts == nil {
		h.Counts = make([]int, buckets)
	}
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
	h.N += other.N
}

// percentile returns the duration that the share p, between 0 and 1, does not exceed; zero where there is none.
func (h *histogram) percentile(p float64) time.Duration {
	rest := int(math.Ceil(p * float64(h.N)))
	for i, n := range h.Counts {
		if rest -= n; n > 0 && rest <= 0 {
			return time.Duration(math.Pow(bucketGrowth, float64(i)+0.5) * float64(time.Microsecond))
		}
	}
	return 0
}
