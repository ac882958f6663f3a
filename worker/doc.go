// Package worker runs user code: workflows by folding them, activities by
// calling them. It is one end of the worker stream.
//
// # The loop
//
// A worker opens a stream to the engine, says what it can run (hello), and from
// then on takes what comes:
//
//	assign, inputs, drops → the run's queue → a fold on a goroutine of
//	                        the run's own (fold.go) → Decided or Fault
//	tasks, cancels        → a goroutine for each task (task.go) → Done
//	durable               → results are forgotten, log records are released
//
// and all that goes up passes through one outbox (outbox.go), in order, as few
// and as full messages as the moment allows. When the stream breaks, another one
// is opened after a backoff (session.go).
//
// # A worker process
//
// A worker reaches its engine in the same process (engine/embed) or by gRPC
// (Dial). A process that only works needs no more than this:
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
//	defer stop()
//	w, err := worker.Dial("engine.example:7450", worker.Options{Queue: "orders"})
//	...
//	worker.Workflow(w, PlaceOrder)
//	w.Activities(&Shop{...})
//	err = w.Run(ctx)
//
// Run ends in order when the signal comes: Options.Grace for what runs, then its
// context. No engine need be there at the start, and one that is restarted has
// its workers back within about a second.
//
// # What holds
//
//  1. The goroutine that reads the stream never runs user code and never waits
//     for it.
//  2. A run is never folded twice at once, and what its folds decide goes up in
//     their order.
//  3. A delivery that the process has seen is not run again. Its result is kept,
//     and sent again on the next stream, until the engine says that it is
//     durable.
//  4. Copies of runs live as long as the stream that assigned them: the engine
//     assigns them elsewhere when it breaks. Activities go on.
//  5. A fault of user code (a panic, runtime.Goexit, a value that cannot be
//     encoded) ends that fold or that attempt and nothing else. Two things no
//     worker can keep from its process: a panic in a goroutine that user code
//     starts by itself (an activity that starts some should recover in them, or
//     have them return errors), and what Go calls a fatal error, such as two
//     writes to one map at once or no memory.
//  6. What workflow code logs is released when the decisions of that fold are
//     durable. The log is written apart: it may block, too (logs.go).
//  7. A stream over a network that is silent is a broken one (silence.go). No
//     user code can keep the worker from pinging.
//  8. Nothing waits for a fold. Code that blocks, or computes without end, costs
//     its run after 10 s, and the thread or memory that it holds (watch.go).
//
// # What it must not know
//
// How the engine decides, stores or retries, and which transport carries the
// stream: Conn is all it sees.
package worker
