// Package sim runs whole engines, workers, clients and services under a seed, with
// faults, and holds them against internal/check.
//
// # What is real
//
// The engine is: its shards, committer, loader and streams run as they are, on the
// store that a Disk opens. So is the folding machine (internal/replay), under
// workflow code written on the SDK. What a worker does around it (its sessions,
// tasks and answers), a network, clients and a service with a ledger are written
// anew here, small, and made to fail.
//
// # How it is deterministic
//
// One goroutine has control at a time. What the engine would start as a goroutine
// is a fiber, an iter.Pull coroutine; where it would wait it asks its clock, which
// is ours: the fiber gives control back and says what it waits for. The scheduler
// picks by the seed among those that can go on, and moves time when none can. All
// that is random comes from the seed. So a seed is one history of the world: run
// again, it has the same trace, of which a sum is kept.
//
// # A seed's life
//
// Plan draws a plan from the seed: how many engines, workers and clients, what they
// run, which faults and how often. In the safety phase faults happen; then they
// stop, and in the liveness phase everything must come to its end within a bound of
// virtual time. On the way, at each start of an engine, and at the end all
// invariants are checked. A violation comes with the seed, the plan and the story;
// Shrink looks for a smaller plan that still breaks.
//
// The package must not know what the engine's core decides, only what it promised.
package sim
