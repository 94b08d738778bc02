package main

import (
	"testing"
	"time"
)

func TestPercentiles(t *testing.T) {
	t.Parallel()
	var h, other histogram
	if got := h.percentile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v, want 0", got)
	}
	for i := range 1000 {
		one := &h
		if i%2 == 0 {
			one = &other
		}
		one.add(time.Duration(i+1) * time.Millisecond)
	}
	h.merge(other)
	h.add(time.Hour) // beyond the last bucket
	h.add(0)
	if h.N != 1002 {
		t.Errorf("%d durations, want 1002", h.N)
	}
	for p, want := range map[float64]time.Duration{0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 0.01: 10 * time.Millisecond} {
		if got := h.percentile(p); got < want*94/100 || got > want*106/100 {
			t.Errorf("percentile %v is %v, want about %v", p, got, want)
		}
	}
}
