//go:build race

package property

// One goroutine has no races: the detector only makes it slow.
const sequences = 2000
