package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/internal/replay"
	"github.com/engined/engined/internal/retry"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/workflow"
)

type Shop struct{}

var shop *Shop

func (*Shop) Charge(context.Context, int) (string, error)   { return "", errors.New("not run here") }
func (*Shop) Mail(context.Context, string) error            { return errors.New("not run here") }
func generic[T any](context.Context, T) (T, error)          { var none T; return none, nil }
func unsendable(context.Context, chan int) (string, error)  { return "", nil }
func big(context.Context, string) (map[string]int64, error) { return nil, nil }

var errDeclined = errors.New("card declined")

type limitError struct{ Cents int }

func (e *limitError) Error() string { return fmt.Sprint("over the limit by ", e.Cents) }

func init() {
	failure.Register("workflow_test.ErrDeclined", errDeclined)
	failure.RegisterType[*limitError]("workflow_test.LimitError")
}

func TestOptionsStandInTheSchedule(t *testing.T) {
	_, d := begin(t, replay.Config{}, func(ctx workflow.Context, in int) (string, error) {
		return workflow.Do(ctx, shop.Charge, in,
			workflow.Retry{Attempts: 7, Base: time.Second, Cap: time.Minute},
			workflow.Timeouts{StartToClose: 1, ScheduleToClose: 2, ScheduleToStart: 3},
			workflow.Queue("pay"), workflow.WaitForCancel())
	}, 12)
	a := only(t, d).GetActivityScheduled()
	if a.Op != "#1" || a.Type != "Shop.Charge" || a.Queue != "pay" || !a.WaitForCancel || string(a.Input.Data) != "12" {
		t.Errorf("%v", a)
	}
	if r := a.Retry; r.Attempts != 7 || r.Base != 1e9 || r.Cap != 60e9 {
		t.Errorf("%v", r)
	}
	if o := a.Timeouts; o.StartToClose != 1 || o.ScheduleToClose != 2 || o.ScheduleToStart != 3 {
		t.Errorf("%v", o)
	}
	if !strings.HasPrefix(a.Source, "workflow_test.go:") {
		t.Errorf("source %q", a.Source)
	}
}

// The table of defaults is what the engine does.
func TestDefaultsAreTheEngines(t *testing.T) {
	engine := retry.Policy{}.WithDefaults()
	if workflow.DefaultAttempts != engine.Attempts || workflow.DefaultBase != engine.Base || workflow.DefaultCap != engine.Cap {
		t.Errorf("the engine retries by %+v", engine)
	}
	if int64(workflow.DefaultStartToClose) != machine.DefaultStartToClose ||
		int64(workflow.DefaultScheduleToClose) != machine.DefaultScheduleToClose ||
		int64(workflow.DefaultUndoScheduleToClose) != machine.UndoScheduleToClose {
		t.Error("the engine's limits differ")
	}
}

func TestErrorsOfActivitiesKeepTheirIdentity(t *testing.T) {
	limit := &limitError{Cents: 5}
	for name, c := range map[string]struct {
		err     error
		outcome workflow.Outcome
	}{
		"sentinel": {fmt.Errorf("charge: %w", errDeclined), workflow.OutcomeFailed},
		"struct":   {errors.Join(errDeclined, limit), workflow.OutcomeFailed},
		"final":    {failure.Final(fmt.Errorf("charge: %w", errDeclined)), workflow.OutcomeFailedFinal},
	} {
		x, _ := begin(t, replay.Config{}, func(ctx workflow.Context, in int) (string, error) {
			_, err := workflow.Do(ctx, shop.Charge, in)
			var a *workflow.ActivityError
			if !errors.As(err, &a) || a.Activity != "Shop.Charge" || a.Op != "#1" || a.Attempts != 3 || a.Unanswered != 1 || a.Outcome != c.outcome {
				t.Errorf("%s: %+v", name, a)
			}
			if !errors.Is(err, errDeclined) || failure.IsFinal(err) != failure.IsFinal(c.err) {
				t.Errorf("%s: %v", name, err)
			}
			return "", fmt.Errorf("order: %w", err)
		}, 1)
		f := only(t, x.failed("#1", failure.Encode(c.err, nil))).GetWorkflowFailed()
		// The client decodes what the workflow returned: the same still match.
		back := failure.Decode(f.Failure, nil)
		var a *workflow.ActivityError
		var l *limitError
		if !errors.Is(back, errDeclined) || !errors.As(back, &a) || a.Attempts != 3 || !errors.Is(a, errDeclined) {
			t.Errorf("%s at the client: %v", name, back)
		}
		if name == "struct" && (!errors.As(back, &l) || l.Cents != 5) {
			t.Errorf("%s at the client: %v", name, l)
		}
		if strings.Count(back.Error(), "declined") != 1 {
			t.Errorf("%s says it twice: %v", name, back)
		}
	}
}

func TestEveryOutcomeHasItsWord(t *testing.T) {
	seen := map[workflow.Outcome]bool{}
	for o := range pb.Outcome_name {
		outcome := pb.Outcome(o)
		if outcome == pb.Outcome_OUTCOME_UNSPECIFIED || outcome == pb.Outcome_OUTCOME_COMPLETED {
			continue
		}
		x, _ := begin(t, replay.Config{}, func(ctx workflow.Context, in int) (string, error) {
			_, err := workflow.Do(ctx, shop.Charge, in)
			var a *workflow.ActivityError
			if !errors.As(err, &a) || seen[a.Outcome] {
				t.Errorf("%v: the word %q stands for two outcomes, or none", outcome, a.Outcome)
			}
			seen[a.Outcome] = true
			return "", err
		}, 1)
		x.failed("#1", &pb.Failure{Outcome: outcome})
	}
}

func TestTimeoutsNameTheLimitAndTheLastError(t *testing.T) {
	x, _ := begin(t, replay.Config{}, func(ctx workflow.Context, in int) (string, error) {
		_, err := workflow.Do(ctx, shop.Charge, in)
		return "", err
	}, 1)
	d := x.fold(&pb.Event{Body: &pb.Event_ActivityTimedOut{ActivityTimedOut: &pb.ActivityTimedOut{
		Op: "#1", Limit: pb.Limit_LIMIT_SCHEDULE_TO_CLOSE, Failure: failure.Encode(errDeclined, nil), Tally: &pb.Tally{Attempts: 2},
	}}})
	err := failure.Decode(only(t, d).GetWorkflowFailed().Failure, nil)
	var out *workflow.TimeoutError
	if !errors.Is(err, workflow.ErrTimeout) || !errors.Is(err, errDeclined) || !errors.As(err, &out) || out.Limit != "schedule-to-close" {
		t.Errorf("%v", err)
	}
	const text = "activity Shop.Charge (#1) timed out after 2 attempts: the schedule-to-close limit passed, after the error: card declined"
	if err.Error() != text {
		t.Errorf("the text is %q", err)
	}
}

func TestACancelledActivityIsErrCanceled(t *testing.T) {
	x, _ := begin(t, replay.Config{}, func(ctx workflow.Context, in int) (string, error) {
		_, err := workflow.Do(ctx, shop.Charge, in, workflow.WaitForCancel())
		return "", err
	}, 1)
	x.fold(&pb.Event{Body: &pb.Event_CancelRequested{CancelRequested: &pb.CancelRequested{Reason: "enough"}}})
	d := x.fold(&pb.Event{Body: &pb.Event_ActivityCancelled{ActivityCancelled: &pb.ActivityCancelled{Op: "#1", Cause: "enough"}}})
	c := only(t, d).GetWorkflowCancelled()
	if c == nil || c.Reason != "enough" {
		t.Fatalf("%v", d)
	}
	var a *workflow.ActivityError
	if err := failure.Decode(c.Failure, nil); !errors.Is(err, workflow.ErrCanceled) || !errors.As(err, &a) || a.Outcome != workflow.OutcomeCancelled {
		t.Errorf("%v", err)
	}
}

func TestAResultThatDoesNotFitIsATypedError(t *testing.T) {
	x, _ := begin(t, replay.Config{}, func(ctx workflow.Context, in int) (string, error) {
		half, err := workflow.Do(ctx, big, "x")
		if half != nil {
			t.Errorf("what was decoded before the error came out: %v", half)
		}
		var r *workflow.ResultError
		var d *codec.DecodeError
		if !errors.As(err, &r) || r.Activity != "big" || r.Op != "#1" || !errors.As(err, &d) {
			t.Errorf("%T %v", err, err)
		}
		return "handled", nil
	}, 1)
	if only(t, x.completed("#1", map[string]any{"a": 1, "b": "x"})).GetWorkflowCompleted() == nil {
		t.Error("the code could not handle it")
	}
}

func TestResultsAreExactAndMayBeAskedForAgain(t *testing.T) {
	x, _ := begin(t, replay.Config{}, func(ctx workflow.Context, in string) (string, error) {
		f := workflow.Async(ctx, big, in)
		if f.Ready() {
			t.Error("ready before it was answered")
		}
		first, err := f.Get(ctx)
		if err != nil {
			return "", err
		}
		first["n"]++ // must not change what the next one gets
		second, err := f.Get(ctx)
		if err != nil {
			return "", err
		}
		if !f.Ready() || second["n"] != 9007199254740993 {
			t.Errorf("second is %v", second)
		}
		var v any
		v, err = workflow.DoNamed[any](ctx, "Legacy.Count", in)
		return fmt.Sprintf("%v %T", v, v), err
	}, "x")
	d := x.completed("#1", map[string]int64{"n": 9007199254740993})
	if a := only(t, d).GetActivityScheduled(); a.Type != "Legacy.Count" || string(a.Input.Data) != `"x"` {
		t.Fatalf("%v", d)
	}
	d = x.completed("#2", json.Number("9007199254740993"))
	if got := string(only(t, d).GetWorkflowCompleted().GetResult().GetData()); got != `"9007199254740993 json.Number"` {
		t.Error(got)
	}
}

func TestWhatCannotBeSentIsRefusedWithItsReason(t *testing.T) {
	var (
		tooLarge *codec.TooLargeError
		encoding *codec.EncodeError
		any1     error
	)
	closure := func(context.Context, int) (string, error) { return "", nil }
	var none func(context.Context, int) (string, error)
	for name, c := range map[string]struct {
		call   func(workflow.Context) error
		target any
		text   string
	}{
		"too large": {func(ctx workflow.Context) error {
			return exec(workflow.Async(ctx, big, strings.Repeat("x", 2<<20)), ctx)
		}, &tooLarge, "big (#1)"},
		"no encoding":  {func(ctx workflow.Context) error { return exec(workflow.Async(ctx, unsendable, nil), ctx) }, &encoding, "unsendable"},
		"closure":      {func(ctx workflow.Context) error { return exec(workflow.Async(ctx, closure, 1), ctx) }, &any1, "closure"},
		"generic":      {func(ctx workflow.Context) error { return exec(workflow.Async(ctx, generic[int], 1), ctx) }, &any1, "generic"},
		"nil function": {func(ctx workflow.Context) error { return exec(workflow.Async(ctx, none, 1), ctx) }, &any1, "nil"},
		"empty name":   {func(ctx workflow.Context) error { return exec(workflow.AsyncNamed[int](ctx, "", 1), ctx) }, &any1, "is empty"},
		"attempts": {func(ctx workflow.Context) error {
			return exec(workflow.Async(ctx, shop.Charge, 1, workflow.Retry{Attempts: -2}), ctx)
		}, &any1, "-2"},
		"attempts, many": {func(ctx workflow.Context) error {
			return exec(workflow.Async(ctx, shop.Charge, 1, workflow.Retry{Attempts: 1 << 40}), ctx)
		}, &any1, "too many"},
		"negative limit": {func(ctx workflow.Context) error {
			return exec(workflow.Async(ctx, shop.Charge, 1, workflow.Timeouts{StartToClose: -1}), ctx)
		}, &any1, "negative"},
		"long queue": {func(ctx workflow.Context) error {
			return exec(workflow.Async(ctx, shop.Charge, 1, workflow.Queue(strings.Repeat("q", 256))), ctx)
		}, &any1, "the queue"},
	} {
		t.Run(name, func(t *testing.T) {
			_, d := begin(t, replay.Config{}, func(ctx workflow.Context, _ int) (string, error) {
				err := c.call(ctx)
				if !errors.Is(err, workflow.ErrRefused) || !errors.As(err, c.target) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%T %v", err, err)
				}
				return "", err
			}, 0)
			// No decision but the end; and the client sees what it was.
			f := only(t, d).GetWorkflowFailed()
			if back := failure.Decode(f.GetFailure(), nil); !errors.Is(back, workflow.ErrRefused) {
				t.Errorf("at the client: %v", back)
			}
		})
	}
}

func exec[Out any](f *workflow.Future[Out], ctx workflow.Context) error {
	_, err := f.Get(ctx)
	return err
}

func TestNamesMayBeGiven(t *testing.T) {
	cfg := replay.Config{ActivityName: func(function string) string { return "registered." + function }}
	_, d := begin(t, cfg, func(ctx workflow.Context, _ int) (string, error) {
		workflow.Async(ctx, shop.Charge, 1)
		workflow.Async(ctx, shop.Charge, 1, workflow.As("A"))
		workflow.Async(ctx, generic[int], 1, workflow.As("B"))
		workflow.AsyncNamed[int](ctx, "C", 1)
		return "", workflow.Sleep(ctx, time.Hour)
	}, 0)
	for i, name := range []string{"registered.Shop.Charge", "A", "B", "C"} {
		if got := d[i].GetActivityScheduled().GetType(); got != name {
			t.Errorf("activity %d is %q, want %q", i, got, name)
		}
	}
}

func TestMapWaitsForAllAndReturnsTheFirstErrorByIndex(t *testing.T) {
	x, d := begin(t, replay.Config{}, func(ctx workflow.Context, n int) (string, error) {
		out, err := workflow.Map(ctx, shop.Charge, make([]int, n))
		if err == nil {
			return strings.Join(out, ","), nil
		}
		return "", fmt.Errorf("%q: %w", out, err)
	}, 4)
	if len(d) != 4 {
		t.Fatal(d)
	}
	x.failed("1[3]#1", &pb.Failure{Message: "three"})
	x.completed("1[0]#1", "zero")
	if d := x.failed("1[1]#1", failure.Encode(errDeclined, nil)); len(d) != 0 {
		t.Fatalf("it did not wait: %v", d)
	}
	err := failure.Decode(only(t, x.completed("1[2]#1", "two")).GetWorkflowFailed().Failure, nil)
	if !errors.Is(err, errDeclined) || !strings.HasPrefix(err.Error(), `["zero" "" "two" ""]: item 1: activity Shop.Charge (1[1]#1) failed`) {
		t.Error(err)
	}
	if _, d := begin(t, replay.Config{}, func(ctx workflow.Context, _ int) ([]string, error) {
		return workflow.Map(ctx, shop.Charge, nil)
	}, 0); only(t, d).GetWorkflowCompleted() == nil {
		t.Error("a Map of nothing waits")
	}
}

func TestFailIsFinalThroughAnyWrapping(t *testing.T) {
	err := fmt.Errorf("a: %w", errors.Join(errors.New("b"), workflow.Fail("order %s: %w", "o1", errDeclined)))
	if !failure.IsFinal(err) || !errors.Is(err, errDeclined) {
		t.Error(err)
	}
	_, d := begin(t, replay.Config{}, func(workflow.Context, int) (string, error) { return "", err }, 0)
	if f := only(t, d).GetWorkflowFailed().GetFailure(); !f.GetFinal() {
		t.Errorf("%v", f)
	}
}

func TestInfoTellsTheRun(t *testing.T) {
	_, d := begin(t, replay.Config{}, func(ctx workflow.Context, _ int) (workflow.Info, error) { return workflow.GetInfo(ctx), nil }, 0)
	var got workflow.Info
	if err := codec.Default.Decode(only(t, d).GetWorkflowCompleted().GetResult(), &got); err != nil {
		t.Fatal(err)
	}
	want := workflow.Info{
		Namespace: "shop", WorkflowID: "order-1", RunID: "01JRUN", ChainID: "01JCHAIN", Type: "W", Queue: "q",
		Started: time.Unix(1, 0).UTC(),
	}
	if got != want {
		t.Errorf("%+v", got)
	}
}

func TestExecTakesAnyResult(t *testing.T) {
	x, _ := begin(t, replay.Config{}, func(ctx workflow.Context, _ int) (string, error) {
		return "sent", workflow.Exec(ctx, shop.Mail, "x")
	}, 0)
	if only(t, x.completed("#1", map[string]int{"a result": 1})).GetWorkflowCompleted() == nil {
		t.Error("a step without a result failed for one")
	}
}
