// Package engine is the shell around the pure core: it owns the goroutines, the
// order of commits, the timers and the streams of workers, and carries out what
// engine/machine decides.
//
// # The loop
//
//	request, worker's message, wake-up, rows read
//	      │ post
//	      ▼
//	shard: mailbox ─▶ machine.Step ─▶ open writes ──────────┐ take
//	      │                  │                               ▼
//	      │                  └─▶ inputs to workers,     committer: one transaction,
//	      │                      at once                one sync ─▶ release effects:
//	      ◀── offers, rows, leases, refusals ──────── tasks, answers, cancels
//
// A shard (shard.go) takes what its mailbox holds, steps the machine, and merges
// each step's changes into the run's open write (write.go). The committer
// (committer.go) takes the writes of all shards that something waits on, commits
// them together, and releases their effects in order. Workflow code is pure, so
// its inputs go to the worker before they are durable; what it decides joins the
// same write. Tasks, answers and cancels wait.
//
// # Goroutines
//
//	goroutine       owns                               fed by            ends when
//	shard × N       its machine, timers, open writes   its mailbox       mailbox closed and drained
//	committer × 1   the order of commits, the leases   shards' writes    stopped and nothing left
//	loader × 1      reads of rows and histories        its mailbox       closed and drained
//
// Worker streams and client calls run on goroutines of their callers; they post
// and wait, and own nothing. Every goroutine is started through internal/svc.
//
// Nothing here blocks on a send: mailboxes are unbounded, and only requests from
// outside are bounded, by being refused. A shard's lock is held for a turn of
// steps, and by the committer while it takes writes; the desk's and a stream's
// locks are leaves.
//
// # How a commit ends
//
//	done          the effects are released
//	lease lost    those shards are thrown away and loaded anew, the rest written again
//	refused       the run at fault is taken out, read again and held; the rest written again
//	unavailable   nothing was written: tried again until it works; requests that would write are refused meanwhile
//	unknown       the shards are fenced first and then loaded anew; nothing was said to anyone
//	fatal         the engine stops and its owner ends the process; a failed sync is never retried
//
// # Recovery
//
// Opening and reloading are the same: fence, draw a new incarnation, read what is
// due, and derive every effect again from the rows (machine.wakeUp). There is no
// task table: what can be dispatched is a property of the run's own rows.
//
// The package must not know SQL, gRPC or user code.
package engine
