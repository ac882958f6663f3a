package workflow

import (
	"context"
	"fmt"

	"github.com/engined/engined/internal/fn"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
)

// Do runs an activity and waits for its result. activity is a declared function
// or method; methods of a nil pointer will do, since only the name counts.
//
// The error is an *ActivityError if it did not complete, has ErrRefused in it if
// it was not started, and ErrCanceled if ctx ended the wait.
func Do[In, Out any](ctx Context, activity func(context.Context, In) (Out, error), in In, opts ...Option) (Out, error) {
	return Async(ctx, activity, in, opts...).Get(ctx)
}

// Exec is Do for an activity without a result.
func Exec[In any](ctx Context, activity func(context.Context, In) error, in In, opts ...Option) error {
	_, err := ExecAsync(ctx, activity, in, opts...).Get(ctx)
	return err
}

// Async starts an activity and returns its future. It begins when the workflow
// waits next.
func Async[In, Out any](ctx Context, activity func(context.Context, In) (Out, error), in In, opts ...Option) *Future[Out] {
	return begin[Out](ctx, activity, in, opts)
}

// ExecAsync is Async for an activity without a result.
func ExecAsync[In any](ctx Context, activity func(context.Context, In) error, in In, opts ...Option) *Future[struct{}] {
	return begin[struct{}](ctx, activity, in, opts)
}

// DoNamed is Do for an activity that is not linked into this program, by its
// stored name, "Shop.Charge". Out must fit what it returns; for one without a
// result it is struct{}.
func DoNamed[Out any](ctx Context, name string, in any, opts ...Option) (Out, error) {
	return AsyncNamed[Out](ctx, name, in, opts...).Get(ctx)
}

// AsyncNamed is Async for an activity that is not linked into this program.
func AsyncNamed[Out any](ctx Context, name string, in any, opts ...Option) *Future[Out] {
	return begin[Out](ctx, nil, in, append([]Option{As(name)}, opts...))
}

// Map runs an activity for each item, all at once, and waits for all of them,
// also when some fail: what is under way is not left behind. It returns the
// results by index, with zero values where there is none, and the first error by
// index. The operations are named by the item's index.
func Map[In, Out any](ctx Context, activity func(context.Context, In) (Out, error), items []In, opts ...Option) ([]Out, error) {
	number := ctx.rt.Map()
	futures := make([]*Future[Out], len(items))
	for i, in := range items {
		at := optionFunc(func(a *replay.Activity) error {
			a.Map, a.Item = number, int32(i)
			return nil
		})
		futures[i] = Async(ctx, activity, in, append([]Option{at}, opts...)...)
	}
	out := make([]Out, len(items))
	var first error
	for i, f := range futures {
		v, err := f.Get(ctx)
		if err != nil && first == nil {
			first = fmt.Errorf("item %d: %w", i, err)
		}
		out[i] = v
	}
	return out, first
}

// begin asks for an activity: a function, or nil if an option names it. What is
// wrong becomes the outcome of the future; the call's number is used all the
// same.
func begin[Out any](ctx Context, activity, in any, opts []Option) *Future[Out] {
	a := &replay.Activity{Event: &pb.ActivityScheduled{}}
	err := prepare(ctx, a, activity, opts)
	if err == nil {
		a.Event.Input, err = ctx.codec.Encode(in)
	}
	if err != nil {
		return future[Out](ctx, ctx.rt.Refuse(a, err), a.Event.Type)
	}
	return future[Out](ctx, ctx.rt.Schedule(a), a.Event.Type)
}

// prepare fills in everything but the input.
func prepare(ctx Context, a *replay.Activity, activity any, opts []Option) error {
	var unnamed, wrong error
	if activity != nil {
		if a.Event.Type, unnamed = fn.Name(activity); unnamed == nil {
			a.Event.Type = ctx.rt.ActivityName(a.Event.Type)
		}
	}
	// All are applied whatever comes of it: one of them says what number the
	// call takes.
	for _, o := range opts {
		if err := o.Apply(a); err != nil && wrong == nil {
			wrong = err
		}
	}
	if unnamed != nil && a.Event.Type == "" {
		return unnamed
	}
	return wrong
}
