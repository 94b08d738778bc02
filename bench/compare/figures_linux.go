package main

// This file makes one figure of many, and text of figures.

import (
	"fmt"
	"math"
	"slices"
)

func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// over divides round by round.
func over(a, b []float64) []float64 {
	all := make([]float64, min(len(a), len(b)))
	for i := range all {
		all[i] = a[i] / b[i]
	}
	return all
}

const none = "–"

// number writes a figure with three digits at least, and no more decimals than these take.
func number(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return none
	case a >= 10_000:
		s := fmt.Sprintf("%.0f", f)
		return s[:len(s)-3] + "," + s[len(s)-3:]
	case a >= 100:
		return fmt.Sprintf("%.0f", f)
	case a >= 10:
		return fmt.Sprintf("%.1f", f)
	case a == 0:
		return "0"
	case a < 0.1:
		return fmt.Sprintf("%.2g", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

// spread writes the median, and from the least to the greatest.
func spread(all []float64) string {
	switch {
	case len(all) == 0:
		return none
	case len(all) == 1:
		return number(all[0])
	}
	return fmt.Sprintf("%s (%s to %s)", number(median(all)), number(slices.Min(all)), number(slices.Max(all)))
}
