package saga_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
)

type Shop struct{}

var shop *Shop

func (*Shop) Charge(context.Context, int) (string, error)          { return "", errors.New("not run here") }
func (*Shop) Refund(context.Context, saga.Undo[int, string]) error { return errors.New("not run here") }
func (*Shop) Hold(context.Context, int) error                      { return errors.New("not run here") }
func (*Shop) Drop(context.Context, saga.Undo[int, struct{}]) error { return errors.New("not run here") }
func forget[T any](context.Context, saga.Undo[int, T]) error       { return nil }

// run folds a workflow over hand-made inputs.
type run struct {
	t    *testing.T
	r    *replay.Run
	last int64
}

func begin(t *testing.T, fn func(workflow.Context, int) (string, error)) (*run, []*pb.Event) {
	t.Helper()
	x := &run{t: t, r: replay.New(replay.Config{}, workflow.Bind(fn, nil))}
	t.Cleanup(func() {
		if err := x.r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return x, x.fold(&pb.Event{Body: &pb.Event_WorkflowStarted{WorkflowStarted: &pb.WorkflowStarted{Semantics: history.Semantics, Input: encode(t, 7)}}})
}

func (x *run) fold(in *pb.Event) []*pb.Event {
	x.t.Helper()
	x.last++
	in.Id = x.last
	d, err := x.r.Fold(in)
	if err != nil {
		x.t.Fatal(err)
	}
	return d
}

func (x *run) completed(op string) []*pb.Event {
	x.t.Helper()
	return x.fold(&pb.Event{Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{Op: op, Result: encode(x.t, "done "+op)}}})
}

func (x *run) ended(c *pb.CompensationEnded) []*pb.Event {
	x.t.Helper()
	return x.fold(&pb.Event{Body: &pb.Event_CompensationEnded{CompensationEnded: c}})
}

func (x *run) canceled() []*pb.Event {
	x.t.Helper()
	return x.fold(&pb.Event{Body: &pb.Event_CancelRequested{CancelRequested: &pb.CancelRequested{Reason: "enough"}}})
}

func encode(t *testing.T, v any) *pb.Payload {
	t.Helper()
	p, err := codec.Default.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheUndoIsArmedWithItsStep(t *testing.T) {
	_, d := begin(t, func(ctx workflow.Context, in int) (string, error) {
		saga.Async(ctx, shop.Charge, in, shop.Refund)
		saga.ExecAsync(ctx, shop.Hold, in, shop.Drop, workflow.Queue("fast"), workflow.Retry{Attempts: 2},
			saga.UndoWith(workflow.Queue("slow"), workflow.Retry{Attempts: 9}),
			saga.UndoWith(workflow.Timeouts{ScheduleToClose: time.Hour}))
		saga.Async(ctx, shop.Charge, in, forget[string], saga.UndoWith(workflow.As("Forget")))
		return "", workflow.Sleep(ctx, time.Hour)
	})
	first, second, third := d[0].GetActivityScheduled(), d[1].GetActivityScheduled(), d[2].GetActivityScheduled()
	if u := first.Undo; first.Type != "Shop.Charge" || u.Type != "Shop.Refund" || u.Queue != "" || u.Retry != nil || u.Timeouts != nil {
		t.Errorf("%v", first)
	}
	if u := second.Undo; u.Type != "Shop.Drop" || u.Queue != "slow" || u.Retry.Attempts != 9 || u.Timeouts.ScheduleToClose != int64(time.Hour) {
		t.Errorf("%v", u)
	}
	if second.Queue != "fast" || second.Retry.Attempts != 2 || second.Timeouts != nil {
		t.Errorf("the undo's options are the step's: %v", second)
	}
	if third.Undo.Type != "Forget" || !strings.HasPrefix(third.Source, "saga_test.go:") {
		t.Errorf("%v", third)
	}
}

func TestAnUndoThatCannotBeArmedRefusesTheStep(t *testing.T) {
	closure := func(context.Context, saga.Undo[int, string]) error { return nil }
	for name, c := range map[string]struct {
		call func(workflow.Context) error
		why  string
	}{
		"closure": {func(ctx workflow.Context) error { _, err := saga.Do(ctx, shop.Charge, 1, closure); return err }, "the undo: "},
		"nil":     {func(ctx workflow.Context) error { return saga.Exec(ctx, shop.Hold, 1, nil) }, "the undo: "},
		"generic": {func(ctx workflow.Context) error { _, err := saga.Do(ctx, shop.Charge, 1, forget[string]); return err }, "the undo: "},
		"no undo": {func(ctx workflow.Context) error {
			_, err := workflow.Do(ctx, shop.Charge, 1, saga.UndoWith(workflow.Queue("q")))
			return err
		}, "has no undo"},
		"option": {func(ctx workflow.Context) error {
			_, err := saga.Do(ctx, shop.Charge, 1, shop.Refund, saga.UndoWith(workflow.WaitForCancel()))
			return err
		}, "WaitForCancel"},
		"limit": {func(ctx workflow.Context) error {
			_, err := saga.Do(ctx, shop.Charge, 1, shop.Refund, saga.UndoWith(workflow.Retry{Attempts: -3}))
			return err
		}, "of the undo, -3"},
	} {
		_, d := begin(t, func(ctx workflow.Context, _ int) (string, error) {
			err := c.call(ctx)
			if !errors.Is(err, workflow.ErrRefused) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v", name, err)
			}
			return "", nil
		})
		if len(d) != 1 || d[0].GetWorkflowCompleted() == nil {
			t.Errorf("%s was asked for: %v", name, d)
		}
	}
}

func TestCommitAndCompensateCoverWhatIsArmed(t *testing.T) {
	x, d := begin(t, func(ctx workflow.Context, in int) (string, error) {
		saga.Commit(ctx) // nothing yet
		running := saga.Async(ctx, shop.Charge, in, shop.Refund)
		if _, err := saga.Map(ctx, shop.Charge, []int{1, 2}, shop.Refund); err != nil {
			return "", err
		}
		saga.Commit(ctx)
		saga.Commit(ctx) // covered already
		if err := saga.Exec(ctx, shop.Hold, in, shop.Drop); err != nil {
			return "", err
		}
		if err := saga.Compensate(ctx); err != nil {
			return "", err
		}
		if err := saga.Compensate(ctx); err != nil { // nothing is left
			return "", err
		}
		return running.Get(ctx)
	})
	if len(d) != 3 {
		t.Fatal(d)
	}
	x.completed("1[1]#1")
	d = x.completed("1[0]#1")
	if c := d[0].GetSagaCommitted(); c.GetOp() != "#3" || !slices.Equal(c.Ops, []string{"#2", "1[0]#1", "1[1]#1"}) {
		t.Errorf("%v", d)
	}
	d = x.completed("#5")
	if c := d[0].GetSagaCompensate(); len(d) != 1 || c.GetOp() != "#6" || !slices.Equal(c.Ops, []string{"#5"}) {
		t.Errorf("%v", d)
	}
	if d := x.ended(&pb.CompensationEnded{Op: "#6", Undone: 1}); len(d) != 0 {
		t.Errorf("%v", d)
	}
	if d := x.completed("#2"); len(d) != 1 || d[0].GetWorkflowCompleted() == nil {
		t.Errorf("%v", d)
	}
}

func TestWhatCouldNotBeUndoneIsNamed(t *testing.T) {
	x, _ := begin(t, func(ctx workflow.Context, in int) (string, error) {
		if _, err := saga.Map(ctx, shop.Charge, []int{1, 2, 3}, shop.Refund); err != nil {
			return "", err
		}
		return "", saga.Compensate(ctx)
	})
	x.completed("1[0]#1")
	x.completed("1[1]#1")
	x.completed("1[2]#1")
	d := x.ended(&pb.CompensationEnded{Op: "#1", Undone: 1, Failed: []string{"1[2]#1", "1[0]#1"}})
	err := failure.Decode(d[0].GetWorkflowFailed().GetFailure(), nil)
	var c *saga.CompensationError
	if !errors.As(err, &c) || c.Undone != 1 || len(c.Failed) != 2 || c.Failed[0] != (saga.Step{Op: "1[2]#1", Activity: "Shop.Charge"}) {
		t.Fatalf("%v", err)
	}
	if err.Error() != "2 of 3 steps could not be undone: Shop.Charge (1[2]#1), Shop.Charge (1[0]#1)" {
		t.Error(err)
	}
}

func TestACancelEndsTheWaitAndNotTheCompensation(t *testing.T) {
	x, _ := begin(t, func(ctx workflow.Context, in int) (string, error) {
		saga.Async(ctx, shop.Charge, in, shop.Refund)
		first := saga.Compensate(ctx)
		saga.Async(workflow.Detached(ctx), shop.Charge, in, shop.Refund)
		second := saga.Compensate(ctx) // under the cancel: not asked for
		if !errors.Is(first, workflow.ErrCanceled) || !errors.Is(second, workflow.ErrCanceled) {
			t.Errorf("%v, %v", first, second)
		}
		return "", saga.Compensate(workflow.Detached(ctx))
	})
	d := x.canceled()
	// The charge under compensation is asked to end; the compensation is not.
	if len(d) != 3 || d[0].GetActivityCancelRequested() == nil || d[1].GetActivityScheduled() == nil ||
		!slices.Equal(d[2].GetSagaCompensate().GetOps(), []string{"#3"}) {
		t.Fatalf("%v", d)
	}
	if d := x.ended(&pb.CompensationEnded{Op: "#2"}); len(d) != 0 {
		t.Errorf("%v", d)
	}
	if d := x.ended(&pb.CompensationEnded{Op: "#5", Undone: 1}); len(d) != 1 || d[0].GetWorkflowCompleted() == nil {
		t.Errorf("%v", d)
	}
}

func TestAnUndoIsToldWhatItNeeds(t *testing.T) {
	type slip struct{ N int64 }
	in, result := encode(t, 9007199254740993), encode(t, slip{N: 4})
	done := &pb.UndoEnvelope{Input: in, Result: result, Outcome: pb.EntryOutcome_ENTRY_OUTCOME_DONE, ForwardKey: "f"}
	var u saga.Undo[int64, slip]
	if err := u.UnmarshalUndo(done, "k", codec.Default); err != nil {
		t.Fatal(err)
	}
	if want := (saga.Undo[int64, slip]{Input: 9007199254740993, Result: slip{N: 4}, Outcome: saga.Done, Key: "k", ForwardKey: "f"}); u != want {
		t.Errorf("%+v", u)
	}
	// An unknown outcome has no result, whatever comes with it; what was in the
	// variable before is gone.
	unknown := &pb.UndoEnvelope{Input: in, Result: result, Outcome: pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN, ForwardKey: "g"}
	if err := u.UnmarshalUndo(unknown, "k2", codec.Default); err != nil {
		t.Fatal(err)
	}
	if want := (saga.Undo[int64, slip]{Input: 9007199254740993, Outcome: saga.Unknown, Key: "k2", ForwardKey: "g"}); u != want {
		t.Errorf("%+v", u)
	}
	var none saga.Undo[int64, struct{}]
	if err := none.UnmarshalUndo(done, "k", codec.Default); err != nil || none.Outcome != saga.Done {
		t.Errorf("an undo of a step without a result: %+v, %v", none, err)
	}
	var wrong saga.Undo[string, slip]
	var decode *codec.DecodeError
	if err := wrong.UnmarshalUndo(done, "k", codec.Default); !errors.As(err, &decode) || !strings.Contains(err.Error(), "input") {
		t.Errorf("%v", err)
	}
	var wrongResult saga.Undo[int64, []int]
	if err := wrongResult.UnmarshalUndo(done, "k", codec.Default); !errors.As(err, &decode) || !strings.Contains(err.Error(), "result") {
		t.Errorf("%v", err)
	}
}
