package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is the time since boot, suspensions included, in ns.
func bootTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return sinceStart()
	}
	return t.Nano()
}

var start = time.Now()

// sinceStart is the fall-back of a kernel without CLOCK_BOOTTIME.
func sinceStart() int64 { return int64(time.Since(start)) }
