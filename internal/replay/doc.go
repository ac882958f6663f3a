// Package replay is the folding machine: it runs workflow code over the inputs of
// a run, one at a time, and compares what the code asks for with what was
// recorded. The worker, the test kit and the replay checker all use this one.
//
// It owns the coroutines of workflow code, their order, the names of operations,
// and what a replay compares. It must not know the engine, the wire, a codec, a
// clock or a real source of randomness: all of these come in with the inputs.
//
// # The fold
//
// Fold takes one input and does three things:
//
//  1. deliver: note what the input says. A fact ends the operation that it is
//     about and wakes the coroutines that wait for it; a cancel ends all that is
//     open below the root scope; the first input starts the root coroutine.
//  2. run every ready coroutine until all wait.
//  3. collect the decisions: events that carry the input's id as their cause.
//     They go out together or, if anything went wrong, not at all.
//
// Load folds a whole history that way. Up to the position whose decisions are
// recorded, it compares them (replaying); behind it, it returns them (live). The
// code cannot tell the two apart; only its log can, which is silent on replay.
//
// The cost of a fold is that of what happens in it. Operations are found by
// name; waits, scopes and coroutines are in lists that are left in constant
// time; nothing runs over what is open, done or recorded, but the conditions of
// those who wait in Await.
//
// # The order
//
// Coroutines run one at a time. Ready ones stand in a queue, first come, first
// run, and one that runs goes on until it waits or ends. Those who wait for one
// thing are woken in the order in which they began to. A new coroutine stands
// behind those that are ready already, so Go returns before it runs. When the
// queue is empty, the conditions of Await are asked in the order of their waits,
// each on its own coroutine, which goes on at once if it holds; then the queue
// is run again, until no condition holds. When the root returns, nothing runs any
// more: the closing decision is the last.
//
// Select takes the first case in its list that is ready.
//
// All of this is frozen by history.Semantics, whose value a run keeps in its
// first event: a change to any of it needs a new version, and the old order for
// the runs that have the old one.
//
// # Identity
//
// An operation is named by the path of its coroutine and a number that counts in
// it: "#1" and "#2" in the root, "2.1#3" in the first child of the root's second,
// "1[4]#1" for item 4 of the root's first Map. So a change in one coroutine does
// not shift the others. Every call that could come to ask for something takes a
// number, also when it does not (it is refused, its context is cancelled, its
// timer is begun and ended in one fold): what a call finds does not change the
// names of those behind it. Looking (Now, Rand, NewID, Logger, Await) takes none.
//
// A replay compares operation, kind, activity type and the type of the undo, of
// all decisions of one cause, as a map: their order says nothing that the numbers
// do not. Of commits and compensations it also compares which operations they
// cover. An undo that the history does not have was never armed: code that
// believes in it would compensate nothing. Payloads, policies and durations are
// no part of it, so that these may change under a running history. An activity's
// old name is as good as its new one, if Config.SameActivity says so. The first difference ends the run's fold with a
// Mismatch, which tells people both sides with their places in the source.
//
// The first terminal fact of an operation counts. What comes for one that has
// ended, that the code gave up, or that never was, is delivered and ignored, live
// and on replay alike.
//
// # Cancellation
//
// Scopes are a tree. Cancelling one ends its operations, oldest first, wakes
// those who wait under it, and then does the same to the scopes below it. The
// futures of what ended are done at once, but those of activities that asked to
// be waited for. What is ready is taken; only a call that would have to wait
// returns the cancel. Detached contexts have a scope outside of the tree.
//
// # Traps
//
// Coroutines are made of iter.Pull (pull.go), which sets these traps:
//
//   - A panic would come out of the resume without its stack. Coroutine.main
//     catches it and keeps the stack.
//   - Goexit would end the goroutine that folds. Coroutine.main parks the
//     coroutine on its way out; Close lets it go on, on a goroutine made for that
//     (Config.Spawn).
//   - A coroutine that is dropped stays in memory for ever. Close unwinds each
//     one by a panic in the call in which it waits. Deferred code of the user
//     runs then, and each of its calls panics again. Code that recovers these
//     panics and goes on calling is ended by Goexit after some rounds.
//   - A yield from another goroutine is not noticed, or kills the process. So
//     each call checks that its coroutine is the one that has control, and calls
//     that ask or wait also whose stack they are on (source.go, whose.go). On that
//     of a goroutine which workflow code started itself they return an error, or
//     nothing, since a panic there would end the process; the run is held. On that
//     of another run's coroutine, to which a context or a future has leaked, they
//     panic: that run is held, and not the one to which these belong, which has
//     done nothing. Code that recovers this panic goes on, with nothing asked for.
//   - A goroutine locked to its thread must not fold, and workflow code must not
//     lock one: the runtime ends the process. Nothing here can prevent it.
//   - Code that blocks (on a lock, a channel, the network) blocks its Fold, and
//     code that swallows panics without ever calling the SDK blocks Close. The
//     worker watches for it.
package replay
