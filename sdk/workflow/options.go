package workflow

import (
	"fmt"
	"math"
	"time"

	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
)

// The defaults of an activity, for what its options leave at zero. The engine
// applies them. The wait before the n-th retry is drawn from 0 up to
// min(DefaultCap, DefaultBase·2ⁿ⁻¹): full jitter. An undo differs where there is
// a constant of its own.
//
//	start-to-close     1 minute     one attempt
//	schedule-to-close  1 hour       all attempts and the waits between; an undo: 30 days
//	schedule-to-start  none         the wait for a worker
//	attempts           20           an undo: without end
//	base               1 second
//	cap                1 minute
//	worker lost        after 3 s of silence
//	cancel grace       1 minute     what a cancelled run's code has to clean up
const (
	DefaultStartToClose    = time.Minute
	DefaultScheduleToClose = time.Hour
	DefaultAttempts        = 20
	DefaultBase            = time.Second
	DefaultCap             = time.Minute
	DefaultWorkerLost      = 3 * time.Second
	DefaultCancelGrace     = time.Minute

	DefaultUndoScheduleToClose = 30 * 24 * time.Hour
	DefaultUndoAttempts        = Endless
)

// Endless attempts are bounded by time alone.
const Endless = -1

// Option changes how an activity is run: Retry, Timeouts, Queue, As,
// WaitForCancel, and those of package saga. The set is closed, as the type that
// Apply takes is internal.
type Option interface {
	// Apply is called by this module.
	Apply(*replay.Activity) error
}

// Retry bounds the attempts of an activity. Zero is the default.
type Retry struct {
	// Attempts counts all tries, the first included; Endless leaves the bound to
	// Timeouts.ScheduleToClose. With 1 the engine also never hands the activity
	// out a second time without proof that the first was not received.
	Attempts int
	// Base is the ceiling of the first wait, doubled each time up to Cap.
	Base, Cap time.Duration
}

// Apply sets the retry policy.
func (o Retry) Apply(a *replay.Activity) error {
	if o.Attempts > math.MaxInt32 {
		return fmt.Errorf("%d attempts are too many: workflow.Endless is without end", o.Attempts)
	}
	// What is below -1 stays so, and is refused with the other limits.
	a.Event.Retry = &pb.RetryPolicy{Attempts: int32(max(o.Attempts, math.MinInt32)), Base: int64(o.Base), Cap: int64(o.Cap)}
	return nil
}

// Timeouts of an activity. Zero is the default.
type Timeouts struct {
	// StartToClose bounds one attempt.
	StartToClose time.Duration
	// ScheduleToClose bounds all attempts and the waits between them.
	ScheduleToClose time.Duration
	// ScheduleToStart bounds the wait for a worker, before the first attempt.
	ScheduleToStart time.Duration
}

// Apply sets the time limits.
func (o Timeouts) Apply(a *replay.Activity) error {
	a.Event.Timeouts = &pb.Timeouts{
		StartToClose: int64(o.StartToClose), ScheduleToClose: int64(o.ScheduleToClose),
		ScheduleToStart: int64(o.ScheduleToStart),
	}
	return nil
}

type optionFunc func(*replay.Activity) error

// Apply calls the function.
func (f optionFunc) Apply(a *replay.Activity) error { return f(a) }

// Queue runs the activity by the workers of another task queue than the run's.
func Queue(name string) Option {
	return optionFunc(func(a *replay.Activity) error {
		a.Event.Queue = name
		return nil
	})
}

// As gives the activity's stored name in place of its function's own: for
// functions without one, such as closures and generic instances, and for those
// that workers of other programs know by another name.
func As(name string) Option {
	return optionFunc(func(a *replay.Activity) error {
		a.Event.Type = name
		return nil
	})
}

// WaitForCancel makes the workflow wait, when the activity is cancelled, until
// it has really ended: its outcome is then what it returned, which may be a
// success. Without it the workflow goes on at once.
func WaitForCancel() Option {
	return optionFunc(func(a *replay.Activity) error {
		a.Event.WaitForCancel = true
		return nil
	})
}
