// Package machine is the engine's core: the rules by which a run goes on.
//
// A Shard holds the runs of one range of workflow ids. Step takes one input
// (a request, a worker's message, a wake-up, rows that were read) at one moment
// and returns what follows from it:
//
//	Step(now, input) → Output{Changes, Sends, Loads, Wakes}
//
// A Change is what a run's rows become, together with the effects that may be
// released only when those rows are durable: tasks, answers, cancels. Sends go
// out at once, before anything is durable, because workflow code is pure: what
// it decides upon an input cannot be committed earlier than the input itself.
//
// # What the package owns
//
// The state of a run: its row, its open operations (entries), who holds it under
// which stamp, what was pushed and not folded yet. The decisions about
// conflicts, retries, deliveries, fences, time limits and compensation. One
// file an input: start.go, cancel.go (with terminate), await.go, follow.go,
// describe.go, decided.go, done.go, fault.go, woken.go, workers.go, loaded.go,
// refused.go; and one a subject that several inputs share: assign.go, activity.go,
// attempts.go, saga.go, undos.go, afterlife.go, closing.go, suspect.go.
//
// # What it must not know
//
// No clock, disk, network, goroutine, lock or map order: time and random seeds
// come in with the inputs, rows are read by whoever drives the shard, and which
// worker is free is asked of a Desk. So a whole cluster runs in one thread
// under a seed, and a step can be told as a story (testdata/*.txt).
//
// # Duties of the driver
//
//  1. Steps of one shard never overlap, and what a step changed is written
//     before or together with what a later step changes of the same run.
//  2. Effects of a Change are released when its rows, and all earlier changes
//     of the run, are durable; never before. If they never become durable,
//     the effects are dropped and whoever waits is told that the outcome is not
//     known.
//  3. Sends and Loads are carried out in order and may be lost only together
//     with the worker's stream or the shard.
//  4. After a commit whose outcome is unknown the shard is thrown away, fenced
//     and loaded anew under another incarnation.
//  5. A wake-up comes at its time or later, never earlier, possibly twice.
//  6. Evict is called only for runs without uncommitted changes.
//  7. When a step is Exhausted, the shard is fenced and loaded anew, as in 4.
//  8. A refused write is told of by what was in memory of its run (Refused.Of).
//
// # The life of an activity
//
//	waiting ──slot──▶ started ──answer──▶ (terminal event)
//	   ▲                 │ failure, time limit, lost worker
//	   └────backoff◀─────┘
//
// With an undo the entry stays when its forward side is settled:
//
//	armed ──compensation──▶ queued ─▶ undo waiting ⇄ started ⇄ backoff ─▶ undone | failed
//
// An entry whose every delivery was refused for good, or never ran, is dropped:
// there is nothing to undo. One that was undone as unknown stays for as long as its
// step may still be done by a worker that heeds nothing, also when the run has
// closed (afterlife.go).
//
// # Runs that kill their workers
//
// What a worker had not answered when it died, folds and attempts alike, was at
// that death. At two in a row it is a suspect: of those a worker has one at most,
// and other work beside it. At the third death as the only suspect its run is
// quarantined. An answer clears, as does a worker that comes back alive. The rest
// stands in suspect.go, and in the stories testdata/suspect_*.txt.
package machine
