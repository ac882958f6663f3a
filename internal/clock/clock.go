// Package clock is the engine's time: the seam through which everything that is
// not pure learns what time it is and waits.
//
// Engine time is the wall clock at start plus the boot time elapsed since. It
// counts the time that the machine was suspended, and a wall clock that is
// stepped while the engine runs does not move it: timers come late after a
// clock was set back, never early.
package clock

import (
	"context"
	"time"
)

// Clock tells time in nanoseconds since 1970, and is how goroutines of the engine
// wait: for a time, for each other, for the end. A simulator whose goroutines run
// one at a time has its own.
type Clock interface {
	Now() int64
	// Wait returns when something can be received from a, b or c (it is received;
	// a nil channel never has anything), when it is at (or Never), or when ctx has
	// ended, and says which. It may also return AtTime before it is at: whoever
	// waits for a time looks at Now again.
	Wait(ctx context.Context, at int64, a, b, c <-chan struct{}) Cause
}

// Never is a time that does not come.
const Never = int64(0)

// Cause is what ended a wait.
type Cause int

const (
	A      Cause = iota // the first channel
	B                   // the second
	C                   // the third
	AtTime              // the time, or MaxWait
	Ended               // the context: context.Cause tells why
)

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

func (c system) Wait(ctx context.Context, at int64, x, y, z <-chan struct{}) Cause {
	if at == Never {
		return wait(ctx, nil, x, y, z)
	}
	t := time.NewTimer(min(max(time.Duration(at-c.Now()), 0), MaxWait))
	defer t.Stop()
	return wait(ctx, t.C, x, y, z)
}

type runtime struct{}

// Runtime returns a clock that follows package time alone, so that in a
// testing/synctest bubble it is virtual.
func Runtime() Clock { return runtime{} }

func (runtime) Now() int64 { return time.Now().UnixNano() }

func (c runtime) Wait(ctx context.Context, at int64, x, y, z <-chan struct{}) Cause {
	if at == Never {
		return wait(ctx, nil, x, y, z)
	}
	t := time.NewTimer(max(time.Duration(at-c.Now()), 0))
	defer t.Stop()
	return wait(ctx, t.C, x, y, z)
}

func wait(ctx context.Context, t <-chan time.Time, x, y, z <-chan struct{}) Cause {
	select {
	case <-x:
		return A
	case <-y:
		return B
	case <-z:
		return C
	case <-t:
		return AtTime
	case <-ctx.Done():
		return Ended
	}
}
