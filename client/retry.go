// Retrying: whether and when to come back after an end.

package client

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Backoff says how [Follow] spreads its attempts. The wait before an attempt is
// random, between nothing and a bound (full jitter), so that the clients of a
// server that restarts do not come back together. The bound starts at First and
// doubles with each attempt up to Max. Zero means the default.
type Backoff struct {
	First time.Duration // 2 s
	Max   time.Duration // 1 min

	// Reset is the age of a stream that makes the bound start at First again:
	// 30 s. A server that acknowledges and ends at once does not become a server
	// that is asked all the time.
	Reset time.Duration
}

func (b Backoff) withDefaults() Backoff {
	if b.First == 0 {
		b.First = 2 * time.Second
	}
	if b.Max == 0 {
		b.Max = max(time.Minute, b.First)
	}
	if b.Reset == 0 {
		b.Reset = 30 * time.Second
	}
	return b
}

// Retry is what [WithOnRetry] is told of.
type Retry struct {
	End     End
	Wait    time.Duration // until the next attempt
	Attempt int           // how many in a row led to no stream of age Backoff.Reset
}

const (
	// maxRetryAfter is the longest time that a server can ask for.
	maxRetryAfter = time.Hour
	// maxRenewals is how many tokens in a row may be refused.
	maxRenewals = 5
	// maxViolations is how many streams in a row may end by a violation.
	maxViolations = 5
	// maxIdle is the longest silence that a server without keep-alives is granted.
	maxIdle = 10 * time.Minute
)

// retrier decides after each end.
type retrier struct {
	config     *config
	backoff    *backoff.ExponentialBackOff
	attempt    int
	renewals   int
	violations int
	known      bool // the server has acknowledged before
	idle       time.Duration
}

func newRetrier(c *config) *retrier {
	r := &retrier{config: c, idle: idleLimit(c.keepAlive)}
	// A factor of one around half of the bound is full jitter: from nothing to the
	// bound.
	r.backoff = &backoff.ExponentialBackOff{
		InitialInterval: c.backoff.First / 2, MaxInterval: c.backoff.Max / 2,
		Multiplier: 2, RandomizationFactor: 1,
	}
	r.backoff.Reset()
	return r
}

// after returns how long to wait after an end, or that there is no point in
// coming back. age is negative where there was no acknowledgment. quiet says that
// nothing came after it.
func (r *retrier) after(end End, age time.Duration, quiet bool) (wait time.Duration, again bool) {
	var refused *RefusedError
	isRefused := errors.As(end.Err, &refused)
	if !isRefused {
		r.renewals = 0
	}
	if age >= 0 {
		r.known = true
	}
	if age >= r.config.backoff.Reset {
		r.attempt, r.violations = 0, 0
		r.backoff.Reset()
	}
	r.attempt++
	wait = r.backoff.NextBackOff()
	switch {
	case end.Cause == Local:
		return 0, false
	case errors.Is(end.Err, ErrCommand) && !r.known: // else a deploy may put it back
		return 0, false
	case isRefused:
		if !r.mayAskAgain(refused) {
			return 0, false
		}
		if asked := min(refused.RetryAfter, maxRetryAfter); asked > 0 {
			wait += asked // and a little later, each at another time
		}
	case end.Cause == Violation:
		r.violations++
		return wait, r.violations < maxViolations
	case errors.Is(end.Err, ErrIdle) && quiet && r.idle < maxIdle:
		r.idle = min(2*r.idle, maxIdle)
		r.config.log.Warn("mcplisten: the server sends no keep-alives: waiting longer before it counts as dead", "idle", r.idle)
	}
	return wait, true
}

func (r *retrier) mayAskAgain(refused *RefusedError) bool {
	switch {
	case refused.Status == http.StatusUnauthorized && r.config.token != nil:
		r.renewals++
		return r.renewals < maxRenewals
	case r.known && refused.Code == 0 && refused.Status == http.StatusNotFound:
		// Of a server that was there, by something in front of it: a deploy.
		return true
	default:
		return !refused.Permanent()
	}
}

// retryAfter reads the Retry-After header: seconds, or a date (RFC 9110, section
// 10.2.3). What cannot be read counts as absent.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	// What is out of range comes back as the largest that is in it.
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(0, date.Sub(now))
}
