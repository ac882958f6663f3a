// Package retry holds the one backoff policy of the system. Activities, undos,
// the client, a worker's reconnect and the engine's own store all wait by it.
//
// It owns the arithmetic and the defaults; it must not know a clock or a random
// source: both are handed in, so that the engine's core can use it.
package retry

import "time"

// Policy bounds a series of tries. The zero value means the defaults.
type Policy struct {
	// Attempts counts all tries, the first included: 0 is DefaultAttempts,
	// negative is without end.
	Attempts int
	// Base is the ceiling of the first wait: 0 is DefaultBase.
	Base time.Duration
	// Cap is the ceiling of every wait: 0 is DefaultCap.
	Cap time.Duration
}

// The defaults of activities.
const (
	DefaultAttempts = 20
	DefaultBase     = time.Second
	DefaultCap      = time.Minute
)

// WithDefaults fills in what is zero.
func (p Policy) WithDefaults() Policy {
	if p.Attempts == 0 {
		p.Attempts = DefaultAttempts
	}
	if p.Base <= 0 {
		p.Base = DefaultBase
	}
	if p.Cap <= 0 {
		p.Cap = DefaultCap
	}
	return p
}

// Exhausted says whether no try is left after the given number of them.
func (p Policy) Exhausted(tries int) bool {
	p = p.WithDefaults()
	return p.Attempts > 0 && tries >= p.Attempts
}

// Ceiling is the longest wait after try number n, counted from 0:
// min(Cap, Base·2ⁿ).
func (p Policy) Ceiling(n int) time.Duration {
	p = p.WithDefaults()
	// Doubling stops at Cap, so it cannot overflow: Cap is at most half of the
	// largest Duration when the next doubling happens.
	d := p.Base
	for range n {
		if d >= p.Cap/2+p.Cap%2 {
			return p.Cap
		}
		d *= 2
	}
	return min(d, p.Cap)
}

// Delay is the wait after try number n, counted from 0, with full jitter:
// uniform in [0, Ceiling(n)). random is a uniform 64-bit number. Full jitter
// spreads a herd of retries best for the work it costs (M. Brooker,
// "Exponential Backoff and Jitter", 2015).
func (p Policy) Delay(n int, random uint64) time.Duration {
	// 53 bits make an exact float in [0, 1).
	u := float64(random>>11) / (1 << 53)
	return time.Duration(u * float64(p.Ceiling(n)))
}
