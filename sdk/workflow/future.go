package workflow

import (
	"time"

	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
)

// Future is what an activity or a timer that was started will come to. It
// belongs to its run, and may be asked by every coroutine of it.
type Future[Out any] struct {
	op *replay.Future
	// take turns the terminal fact into the result.
	take func(fact *pb.Event) (Out, error)
}

// Ready says whether Get would return without waiting.
func (f *Future[Out]) Ready() bool { return f.op.Done() }

// Get waits for the result. It may be called more than once. If ctx is cancelled
// while it waits the error has ErrCanceled in it, and the operation goes on
// unless it was started under that cancel, too.
func (f *Future[Out]) Get(ctx Context) (Out, error) {
	if err := ctx.rt.Wait(f.op); err != nil {
		var none Out
		return none, err
	}
	return f.result()
}

// result is the outcome of a future that is ready.
func (f *Future[Out]) result() (Out, error) {
	fact, err := f.op.Outcome()
	if err != nil {
		var none Out
		return none, err
	}
	return f.take(fact)
}

// future makes the typed future of an activity.
func future[Out any](ctx Context, op *replay.Future, activity string) *Future[Out] {
	c := ctx.codec
	return &Future[Out]{op: op, take: func(fact *pb.Event) (out Out, err error) {
		done := fact.GetActivityCompleted()
		if done == nil {
			return out, notCompleted(activity, fact, c)
		}
		if _, nothing := any(out).(struct{}); nothing {
			return out, nil
		}
		if err := c.Decode(done.Result, &out); err != nil {
			var none Out
			return none, &ResultError{Activity: activity, Op: op.Op(), Err: err}
		}
		return out, nil
	}}
}

// NewTimer starts a timer and returns its future, whose result is the time at
// which it fired. One of zero or less fires at once. Timers are durable: they
// fire at their time or later, whatever was restarted meanwhile.
func NewTimer(ctx Context, d time.Duration) *Future[time.Time] {
	return &Future[time.Time]{op: ctx.rt.Timer(d), take: func(fact *pb.Event) (time.Time, error) {
		return timeOf(fact), nil
	}}
}

// Sleep waits for d. The error is nil, or has ErrCanceled in it. In coroutines that
// are nested hundreds deep it has ErrRefused in it, as an activity's has there.
func Sleep(ctx Context, d time.Duration) error {
	_, err := NewTimer(ctx, d).Get(ctx)
	return err
}
