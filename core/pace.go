// Pace: waking somebody once, and doing much over a time.

package core

import (
	"context"
	"math"
	"time"
)

// signal fills a channel of one slot.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// paced calls f with 0 to n-1, the first at once and the last after spread. It
// does not wait any more once ctx has ended; f can ask ctx whether to go on.
func paced(ctx context.Context, n int, spread time.Duration, f func(i int)) {
	start := time.Now()
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for i := range n {
		if i > 0 && spread > 0 {
			at := start.Add(time.Duration(float64(spread) * float64(i) / float64(n-1)))
			timer.Reset(time.Until(at))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		f(i)
	}
}
