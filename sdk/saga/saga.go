// Package saga runs steps that can be undone.
//
// A step's undo is recorded in the same commit as the step, before the step is
// sent. If the run then fails or is cancelled, the engine undoes what was done,
// newest first, steps that ran side by side side by side: no code of the
// workflow is needed for it, so it also works when that code is broken or gone.
// A step whose outcome is unknown (it was sent, and never answered) is undone,
// too; its undo is told so.
//
//	if _, err := saga.Do(ctx, shop.Charge, order, shop.Refund); err != nil {
//		return Receipt{}, err // what was done so far is undone
//	}
//	slips, err := saga.Map(ctx, shop.Reserve, order.Items, shop.Release)
//	...
//	saga.Commit(ctx) // the pivot: nothing is undone any more
//
// A run that completes keeps what it did, with or without Commit.
//
// The package owns the words that users write sagas with. It must not know how
// the engine compensates.
package saga

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/engined/engined/internal/fn"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/workflow"
)

func init() {
	failure.RegisterType[*CompensationError]("engined.CompensationError")
}

// Do runs a step and waits for its result, like workflow.Do. undo is an activity
// that undoes it; see Undo for what it must do.
func Do[In, Out any](ctx workflow.Context, step func(context.Context, In) (Out, error), in In, undo func(context.Context, Undo[In, Out]) error, opts ...workflow.Option) (Out, error) {
	return Async(ctx, step, in, undo, opts...).Get(ctx)
}

// Exec is Do for a step without a result.
func Exec[In any](ctx workflow.Context, step func(context.Context, In) error, in In, undo func(context.Context, Undo[In, struct{}]) error, opts ...workflow.Option) error {
	_, err := ExecAsync(ctx, step, in, undo, opts...).Get(ctx)
	return err
}

// Async starts a step and returns its future.
func Async[In, Out any](ctx workflow.Context, step func(context.Context, In) (Out, error), in In, undo func(context.Context, Undo[In, Out]) error, opts ...workflow.Option) *workflow.Future[Out] {
	return workflow.Async(ctx, step, in, arm(ctx, undo, opts)...)
}

// ExecAsync is Async for a step without a result.
func ExecAsync[In any](ctx workflow.Context, step func(context.Context, In) error, in In, undo func(context.Context, Undo[In, struct{}]) error, opts ...workflow.Option) *workflow.Future[struct{}] {
	return workflow.ExecAsync(ctx, step, in, arm(ctx, undo, opts)...)
}

// Map runs a step for each item, all at once, each with its undo, and waits for
// all of them, like workflow.Map: when some fail the others are not left behind,
// and each that was done is undone if the run then fails. It returns the results
// by index and the first error by index.
func Map[In, Out any](ctx workflow.Context, step func(context.Context, In) (Out, error), items []In, undo func(context.Context, Undo[In, Out]) error, opts ...workflow.Option) ([]Out, error) {
	return workflow.Map(ctx, step, items, arm(ctx, undo, opts)...)
}

// UndoWith sets how the undo is run, with the options of package workflow:
// Retry, Timeouts, Queue and As. Where nothing is set, an undo is retried for 30
// days, on the queue of its step; after that its run waits for people. Its
// options are its own: those of the step do not count for it.
func UndoWith(opts ...workflow.Option) workflow.Option { return undoOptions(opts) }

type undoOptions []workflow.Option

// Apply sets the options of the undo.
func (o undoOptions) Apply(a *replay.Activity) error {
	if a.Event.Undo == nil {
		return errors.New("saga.UndoWith is for steps of package saga: this activity has no undo")
	}
	was := a.Event.Undo
	u := &replay.Activity{Event: &pb.ActivityScheduled{Type: was.Type, Queue: was.Queue, Retry: was.Retry, Timeouts: was.Timeouts}}
	for _, opt := range o {
		if err := opt.Apply(u); err != nil {
			return err
		}
	}
	if u.Event.WaitForCancel {
		return errors.New("workflow.WaitForCancel is not for an undo, which is never cancelled")
	}
	a.Event.Undo = &pb.Undo{Type: u.Event.Type, Queue: u.Event.Queue, Retry: u.Event.Retry, Timeouts: u.Event.Timeouts}
	return nil
}

// armed arms an undo. It stands before the options that a user gives.
type armed struct {
	ctx  workflow.Context
	undo any
}

// Apply sets the undo.
func (o armed) Apply(a *replay.Activity) error {
	name, err := fn.Name(o.undo)
	a.Event.Undo = &pb.Undo{Type: name}
	if err == nil {
		a.Event.Undo.Type = o.ctx.Runtime().ActivityName(name)
	}
	return nil
}

// named refuses an undo that has no name, neither of its own nor by an option.
// It stands behind the options that a user gives.
type named struct{ undo any }

// Apply checks the undo.
func (o named) Apply(a *replay.Activity) error {
	if a.Event.Undo.Type != "" {
		return nil
	}
	_, err := fn.Name(o.undo)
	return fmt.Errorf("the undo: %w", err)
}

func arm(ctx workflow.Context, undo any, opts []workflow.Option) []workflow.Option {
	all := make([]workflow.Option, 0, len(opts)+2)
	all = append(all, armed{ctx, undo})
	all = append(all, opts...)
	return append(all, named{undo})
}

// Commit keeps what was done so far: the undo of no step that was started before
// is run any more. A step that still runs goes on without its undo. It does not
// wait, and is not stopped by a cancel.
func Commit(ctx workflow.Context) { ctx.Runtime().Commit() }

// Compensate undoes what was done so far and not committed, newest first, and
// waits until that is over; then the workflow goes on. The error is a
// *CompensationError if something could not be undone. If ctx is cancelled before,
// nothing is asked for; if it is cancelled meanwhile the wait ends, and the
// compensation goes on: both errors have workflow.ErrCanceled in them.
func Compensate(ctx workflow.Context) error {
	rt := ctx.Runtime()
	done, entries := rt.Compensate()
	if done == nil {
		return nil
	}
	if err := rt.Wait(done); err != nil {
		return err
	}
	fact, err := done.Outcome()
	if err != nil {
		return err
	}
	ended := fact.GetCompensationEnded()
	if len(ended.GetFailed()) == 0 {
		return nil
	}
	e := &CompensationError{Undone: int(ended.Undone)}
	for _, op := range ended.Failed {
		step := Step{Op: op}
		for _, entry := range entries {
			if entry.Op == op {
				step.Activity = entry.Type
			}
		}
		e.Failed = append(e.Failed, step)
	}
	return e
}

// Step names a step of a saga.
type Step struct {
	// Op is the operation, "#1"; Activity is the step's type, "Shop.Charge".
	Op, Activity string
}

// CompensationError says that steps could not be undone. People have to look at
// them: the run's page shows what the undos returned.
type CompensationError struct {
	// Undone is how many steps were undone.
	Undone int
	Failed []Step
}

// Error names the steps.
func (e *CompensationError) Error() string {
	names := make([]string, len(e.Failed))
	for i, s := range e.Failed {
		names[i] = fmt.Sprintf("%s (%s)", s.Activity, s.Op)
	}
	return fmt.Sprintf("%d of %d steps could not be undone: %s", len(e.Failed), len(e.Failed)+e.Undone, strings.Join(names, ", "))
}
