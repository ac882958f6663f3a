package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
)

// program is what a run does: its input, which the workflow function walks through.
type program struct {
	Ops []op `json:",omitempty"`
	// Fails: the code fails when all is done.
	Fails bool `json:",omitempty"`
}

// op is one thing that workflow code asks for.
type op struct {
	// Do is "do", "once", "saga", "sleep", "race", "all", "beside", "commit",
	// "compensate", "scope", "clean up"; "by now", "by chance" and "by id" go on
	// with one of Sub, as the time, a draw or a new id says.
	Do string
	// Decline: the service refuses the step for good. Ignore: the code goes on.
	Decline, Ignore bool `json:",omitempty"`
	// BadUndo: the undo is refused for good.
	BadUndo  bool  `json:",omitempty"`
	Attempts int   `json:",omitempty"`
	For      int64 `json:",omitempty"` // ns
	Sub      []op  `json:",omitempty"`
}

// step is the input of an activity.
type step struct {
	Decline bool `json:",omitempty"`
}

// newProgram draws one. The depth bounds what stands inside of what.
func newProgram(rnd *rand.Rand) program {
	return program{Ops: newOps(rnd, 1+rnd.IntN(5), 2), Fails: rnd.IntN(4) == 0}
}

func newOps(rnd *rand.Rand, n, depth int) []op {
	ops := make([]op, n)
	for i := range ops {
		ops[i] = newOp(rnd, depth)
	}
	return ops
}

func newOp(rnd *rand.Rand, depth int) op {
	o := op{Attempts: 1 + rnd.IntN(4), Decline: rnd.IntN(10) == 0, Ignore: rnd.IntN(3) == 0, BadUndo: rnd.IntN(25) == 0, For: int64(1e6) << rnd.IntN(18)}
	switch n := rnd.IntN(27); {
	case n < 8:
		o.Do = "saga"
	case n < 11:
		o.Do = "do"
	case n < 12:
		o.Do = "once"
	case n < 14:
		o.Do = "sleep"
	case n < 16:
		o.Do = "race"
	case n < 17:
		o.Do = "commit"
	case n < 18:
		o.Do = "compensate"
	case depth == 0:
		o.Do = "saga"
	default:
		o.Do = []string{"all", "beside", "scope", "clean up", "all", "beside", "by now", "by chance", "by id"}[n-18]
		o.Sub = newOps(rnd, 1+rnd.IntN(3), depth-1)
	}
	return o
}

// acts names the activities; workers of this package run them by name.
type acts struct{}

var act *acts

var errNotRun = errors.New("sim: not run here")

func (*acts) Do(context.Context, step) (string, error)                 { return "", errNotRun }
func (*acts) Undo(context.Context, saga.Undo[step, string]) error      { return errNotRun }
func (*acts) UndoBadly(context.Context, saga.Undo[step, string]) error { return errNotRun }

var (
	activityTypes = []string{"acts.Do", "acts.Undo", "acts.UndoBadly"}
	workflowType  = "program"
	body          = workflow.Bind(runProgram, nil)
)

// newRun makes the code of a run, as a worker would.
func newRun() *replay.Run {
	return replay.New(replay.Config{Spawn: func(f func()) { f() }}, body)
}

func encoded(v any) *pb.Payload {
	p, err := codec.Default.Encode(v)
	if err != nil {
		panic(err) // a value of this package
	}
	return p
}

func runProgram(ctx workflow.Context, p program) (string, error) {
	if err := walk(ctx, p.Ops); err != nil {
		return "", err
	}
	if p.Fails {
		return "", workflow.Fail("it is made to fail")
	}
	return "done", nil
}

func walk(ctx workflow.Context, ops []op) error {
	for _, o := range ops {
		if err := do(ctx, o); err != nil && (!o.Ignore || workflow.Canceled(ctx) != nil) {
			return err
		}
	}
	return nil
}

func (o op) options() []workflow.Option {
	return []workflow.Option{
		workflow.Retry{Attempts: o.Attempts, Base: 100 * time.Millisecond, Cap: 2 * time.Second},
		workflow.Timeouts{StartToClose: 5 * time.Second, ScheduleToClose: 2 * time.Minute},
		saga.UndoWith(workflow.Retry{Attempts: 50, Base: 100 * time.Millisecond, Cap: 10 * time.Second}, workflow.Timeouts{StartToClose: 5 * time.Second}),
	}
}

// async begins what o asks for, and gives its future.
func async(ctx workflow.Context, o op) *workflow.Future[string] {
	in := step{Decline: o.Decline}
	if o.Do == "saga" {
		if o.BadUndo {
			return saga.Async(ctx, act.Do, in, act.UndoBadly, o.options()...)
		}
		return saga.Async(ctx, act.Do, in, act.Undo, o.options()...)
	}
	return workflow.Async(ctx, act.Do, in, o.options()[:2]...)
}

func do(ctx workflow.Context, o op) error {
	switch o.Do {
	case "once":
		o.Attempts = 1
		_, err := async(ctx, o).Get(ctx)
		return err
	case "sleep":
		return workflow.Sleep(ctx, time.Duration(o.For))
	case "race":
		var failed error
		err := workflow.Select(ctx,
			workflow.On(async(ctx, o), func(_ string, err error) { failed = err }),
			workflow.After(time.Duration(o.For%int64(10*time.Second)), func() {}),
		)
		return errors.Join(err, failed)
	case "commit":
		saga.Commit(ctx)
		return nil
	case "compensate":
		return saga.Compensate(ctx)
	case "all":
		futures := make([]*workflow.Future[string], len(o.Sub))
		for i, sub := range o.Sub {
			futures[i] = async(ctx, sub)
		}
		var errs []error
		for _, f := range futures {
			_, err := f.Get(ctx)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	case "by now":
		return do(ctx, o.Sub[int(workflow.Now(ctx).UnixMicro())%len(o.Sub)])
	case "by chance":
		return do(ctx, o.Sub[workflow.Rand(ctx).IntN(len(o.Sub))])
	case "by id":
		id := workflow.NewID(ctx)
		return do(ctx, o.Sub[int(id[len(id)-1])%len(o.Sub)])
	case "beside":
		return beside(ctx, o.Sub)
	case "scope":
		scoped, cancel := workflow.WithCancel(ctx)
		f := async(scoped, o.Sub[0])
		err := workflow.Sleep(ctx, time.Duration(o.For%int64(3*time.Second)))
		cancel()
		_, gone := f.Get(ctx)
		return errors.Join(err, gone)
	case "clean up":
		err := walk(ctx, o.Sub)
		if workflow.Canceled(ctx) != nil {
			_, cleaned := async(workflow.Detached(ctx), op{Do: "do", Attempts: 2}).Get(workflow.Detached(ctx))
			return errors.Join(err, cleaned)
		}
		return err
	default:
		_, err := async(ctx, o).Get(ctx)
		return err
	}
}

// beside walks each of the ops in a coroutine of its own.
func beside(ctx workflow.Context, ops []op) error {
	left := len(ops)
	var errs []error
	for _, o := range ops {
		workflow.Go(ctx, func(ctx workflow.Context) {
			if err := do(ctx, o); err != nil {
				errs = append(errs, err)
			}
			left--
		})
	}
	err := workflow.Await(ctx, func() bool { return left == 0 })
	return errors.Join(append(errs, err)...)
}
