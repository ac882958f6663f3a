// Package workflow is what workflow code is written with.
//
// A workflow is an ordinary function of (workflow.Context, In) (Out, error). It
// is folded over the inputs of its run, one at a time, and folded again from the
// recorded history whenever a worker takes it over. So it must be deterministic:
// the same inputs make it ask for the same things. In practice:
//
//   - everything with an effect, and everything that reads the world, is an
//     activity: Do, Exec, Async, Map;
//   - the time is Now, randomness is Rand and NewID, logs go to Logger;
//   - coroutines are started by Go and wait by Sleep, Get, Select and Await;
//     there is no go statement, no channel, no lock, no ranging over a map
//     whose order matters.
//
// Coroutines run one at a time, and each until it waits, so they may share
// variables. Whichever became ready first runs first.
//
// # Cancellation
//
// A cancel of the run (or of a scope made by WithCancel) reaches everything that
// was started with the context: timers end, activities are asked to end, and
// calls that wait return ErrCanceled. There is one rule: what is ready is taken,
// and only a call that would have to wait returns ErrCanceled. Under a cancelled
// context nothing new is started; Detached makes a context for cleaning up. A
// run whose function then returns ErrCanceled, however wrapped, ends as
// cancelled; one that returns something else ends as that.
//
// # Panics
//
// A panic does not fail the run. It is held, shown as stuck with the stack, and
// goes on when a build without the fault takes it over. Code that recovers
// panics must pass on the ones that are not its own: a run that leaves memory is
// unwound by one.
//
// The package owns the types that users see. What it asks for is decided in
// internal/replay; it must not know the engine, the worker, or a transport.
package workflow
