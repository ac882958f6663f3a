package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/internal/clock"
)

func TestEngineTimeBeginsAtTheWallClockAndNeverGoesBack(t *testing.T) {
	before := time.Now().UnixNano()
	c := clock.System()
	last := c.Now()
	if last < before || last > time.Now().Add(time.Minute).UnixNano() {
		t.Errorf("it is %d by the engine, %d by the wall", last, before)
	}
	for range 10_000 {
		now := c.Now()
		if now < last {
			t.Fatalf("time went back by %d ns", last-now)
		}
		last = now
	}
}

func TestTheRuntimesClockIsVirtualInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Runtime()
		before := c.Now()
		if why := c.Wait(t.Context(), before+int64(time.Hour), nil, nil, nil); why != clock.AtTime {
			t.Errorf("the wait ended by %v", why)
		}
		if passed := c.Now() - before; passed != int64(time.Hour) {
			t.Errorf("an hour took %v", time.Duration(passed))
		}
	})
}

// The runtime's timers do not count a suspension, so no wait of the system's
// clock is long.
func TestNoWaitOfTheSystemClockIsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := time.Now()
		c := clock.System()
		c.Wait(t.Context(), c.Now()+int64(time.Hour), nil, nil, nil)
		if waited := time.Since(before); waited != clock.MaxWait {
			t.Errorf("it waited for %v, want %v", waited, clock.MaxWait)
		}
	})
}

func TestAWaitSaysWhatEndedIt(t *testing.T) {
	full := make(chan struct{}, 1)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]clock.Clock{"system": clock.System(), "runtime": clock.Runtime()} {
		for want, wait := range map[clock.Cause]func() clock.Cause{
			clock.A:      func() clock.Cause { return c.Wait(t.Context(), clock.Never, full, nil, nil) },
			clock.B:      func() clock.Cause { return c.Wait(t.Context(), clock.Never, nil, full, nil) },
			clock.C:      func() clock.Cause { return c.Wait(t.Context(), c.Now()+int64(time.Hour), nil, nil, full) },
			clock.AtTime: func() clock.Cause { return c.Wait(t.Context(), c.Now()-1, nil, nil, nil) },
			clock.Ended:  func() clock.Cause { return c.Wait(over, clock.Never, nil, nil, nil) },
		} {
			full <- struct{}{}
			if got := wait(); got != want {
				t.Errorf("%s: the wait ended by %v, want %v", name, got, want)
			}
			select {
			case <-full:
				if want < clock.AtTime {
					t.Errorf("%s: what ended the wait was not received", name)
				}
			default:
			}
		}
	}
}
