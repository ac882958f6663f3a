package workflow

import (
	"slices"
	"time"

	"github.com/engined/engined/internal/replay"
)

// Case is one branch of a Select: On, After or Default.
type Case struct {
	op      *replay.Future
	after   time.Duration
	isAfter bool
	then    func()
}

// On is taken when the future is ready. then gets what Get would return; nil is
// allowed.
func On[T any](f *Future[T], then func(T, error)) Case {
	return Case{op: f.op, then: func() {
		if then != nil {
			then(f.result())
		}
	}}
}

// After is taken when d has passed since the Select began. Its timer ends with
// the Select. then may be nil.
func After(d time.Duration, then func()) Case {
	return Case{after: d, isAfter: true, then: then}
}

// Default is taken when no other case is ready: the Select does not wait. then
// may be nil.
func Default(then func()) Case { return Case{then: then} }

// Select waits until one of its cases is ready, and runs it. If several are, it
// is the one that stands first: there is no chance in it, so a loop whose first
// case is always ready never comes to the second. A future stays ready, so a
// loop has to leave out those that it has taken.
//
// The error is nil if a case ran. It has ErrCanceled in it if ctx is cancelled
// and no case is ready but by that very cancel, and ErrRefused if a timer of an
// After could not be started.
func Select(ctx Context, cases ...Case) error {
	var (
		ops      []*replay.Future
		taken    []func()
		timers   []*replay.Future
		fallback func()
		block    = true
	)
	for _, c := range cases {
		switch {
		case c.isAfter:
			// Each takes its number, whichever case wins. One that a cancelled
			// context refused is done, with an error.
			c.op = ctx.rt.Timer(c.after)
			timers = append(timers, c.op)
			fallthrough
		case c.op != nil:
			ops, taken = append(ops, c.op), append(taken, c.then)
		default:
			fallback, block = c.then, false
		}
	}
	i, err := ctx.rt.Select(ops, block)
	for _, t := range timers {
		ctx.rt.CancelTimer(t)
	}
	if err != nil {
		return err
	}
	if i >= 0 && slices.Contains(timers, ops[i]) {
		if _, err := ops[i].Outcome(); err != nil {
			return err // it was refused, and has not begun
		}
	}
	then := fallback
	if i >= 0 {
		then = taken[i]
	}
	if then != nil {
		then()
	}
	return nil
}

// Await waits until the condition holds. It is asked when every other coroutine
// waits, after each input, in the order of those who wait; the first for whom it
// holds goes on first. The condition may look at variables and at Now, and must
// not change anything. The error is nil, or has ErrCanceled in it.
func Await(ctx Context, condition func() bool) error { return ctx.rt.Await(condition) }
