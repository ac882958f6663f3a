//go:build !linux

package clock

import "time"

var start = time.Now()

// bootTime is the monotonic time since start. Outside Linux it may not count
// the time that the machine was suspended: timers are then late, never early.
func bootTime() int64 { return int64(time.Since(start)) }
