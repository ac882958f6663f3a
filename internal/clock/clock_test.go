package clock_test

import (
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
		fired, stop := c.Timer(time.Hour)
		defer stop()
		<-fired
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
		fired, stop := clock.System().Timer(time.Hour)
		defer stop()
		<-fired
		if waited := time.Since(before); waited != clock.MaxWait {
			t.Errorf("it waited for %v, want %v", waited, clock.MaxWait)
		}
	})
}
