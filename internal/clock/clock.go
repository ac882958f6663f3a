// Package clock is the engine's time: the seam through which everything that is
// not pure learns what time it is and waits.
//
// Engine time is the wall clock at start plus the boot time elapsed since. It
// counts the time that the machine was suspended, and a wall clock that is
// stepped while the engine runs does not move it: timers come late after a
// clock was set back, never early.
package clock

import "time"

// Clock tells time in nanoseconds since 1970 and makes timers.
type Clock interface {
	Now() int64
	// Timer returns a channel that delivers once when d has passed, or later,
	// and a function that gives the timer back.
	Timer(d time.Duration) (<-chan time.Time, func())
}

// MaxWait bounds one wait of a timer. The runtime's timers do not count the
// time that a machine was suspended; whoever waits for long looks at Now again
// after this.
const MaxWait = 10 * time.Second

type system struct{ wall, boot int64 }

// System returns the clock of production.
func System() Clock {
	return system{wall: time.Now().UnixNano(), boot: bootTime()}
}

func (c system) Now() int64 { return c.wall + bootTime() - c.boot }

func (c system) Timer(d time.Duration) (<-chan time.Time, func()) { return timer(min(d, MaxWait)) }

type runtime struct{}

// Runtime returns a clock that follows package time alone, so that in a
// testing/synctest bubble it is virtual.
func Runtime() Clock { return runtime{} }

func (runtime) Now() int64 { return time.Now().UnixNano() }

func (runtime) Timer(d time.Duration) (<-chan time.Time, func()) { return timer(d) }

func timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
