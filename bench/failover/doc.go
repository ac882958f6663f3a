// Command failover measures how long it takes until another worker goes on with
// an activity whose worker was killed with -9, frozen with SIGSTOP, or cut off by
// a connection that swallows everything, at default settings.
//
//	go run ./bench/failover [-n 50] [-lanes 5] [-engined PATH]
//
// Engine and workers are processes of their own; the engine is the shipped
// binary, built for the occasion. In each trial worker A has the activity and
// worker B waits; the time is from the blow to the moment at which B's code is
// called with the next attempt. B then finishes the run. A frozen A is let go
// after that: its context must be cancelled, and its answer must change nothing.
// A trial in which this does not come to pass fails the program.
package main
