package replay_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
)

func TestCoroutinesRunInTheOrderInWhichTheyBecameReady(t *testing.T) {
	var trace []string
	e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		shared := workflow.NewTimer(ctx, time.Hour)
		for _, name := range []string{"a", "b", "c"} {
			workflow.Go(ctx, func(ctx workflow.Context) {
				trace = append(trace, name+" starts")
				if name == "b" {
					workflow.Go(ctx, func(workflow.Context) { trace = append(trace, "child of b") })
				}
				_, _ = shared.Get(ctx)
				trace = append(trace, name+" wakes")
			})
		}
		trace = append(trace, "root waits")
		err := workflow.Await(ctx, func() bool { return len(trace) > 7 })
		return strings.Join(trace, ", "), err
	}, "")
	e.fold()
	e.fired("#1")
	const order = "root waits, a starts, b starts, c starts, child of b, a wakes, b wakes, c wakes"
	if got := resultOf[string](t, e.log); got != order {
		t.Errorf("order is %s", got)
	}
}

func TestAwaitingCoroutinesGoOnInTheOrderOfTheirWaits(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, _ string) ([]int, error) {
		var got []int
		tokens := 0
		for n := range 4 {
			workflow.Go(ctx, func(ctx workflow.Context) {
				// Each takes the one token and so makes the next wait on.
				_ = workflow.Await(ctx, func() bool { return tokens > 0 })
				tokens--
				got = append(got, n)
				_ = workflow.Sleep(ctx, time.Second)
				tokens++
			})
		}
		_ = workflow.Sleep(ctx, time.Second)
		tokens++
		err := workflow.Await(ctx, func() bool { return len(got) == 4 })
		return got, err
	}, "")
	e.fold()
	e.fired("#1")
	for n := range 3 {
		want(t, e.fired(fmt.Sprint(n+1, "#1")), func() []string {
			if n == 2 {
				return []string{"TimerStarted 4#1", "WorkflowCompleted"}
			}
			return []string{fmt.Sprint("TimerStarted ", n+2, "#1")}
		}()...)
	}
	if got := resultOf[[]int](t, e.log); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Error(got)
	}
}

func TestSelectTakesTheFirstCaseThatIsReady(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, _ string) ([]string, error) {
		a, b := workflow.Async(ctx, shop.Ship, "a"), workflow.Async(ctx, shop.Ship, "b")
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return nil, err
		}
		var got []string
		take := func(v string, err error) { got = append(got, fmt.Sprint(v, err)) }
		for _, cases := range [][]workflow.Case{
			{workflow.On(b, take), workflow.On(a, take)},
			{workflow.On(a, take), workflow.On(b, take), workflow.After(0, nil)},
			{workflow.After(time.Hour, nil), workflow.Default(nil), workflow.On(b, take)},
			{workflow.After(time.Hour, nil), workflow.Default(func() { got = append(got, "default") })},
		} {
			if err := workflow.Select(ctx, cases...); err != nil {
				return nil, err
			}
		}
		return got, nil
	}, "")
	e.fold()
	e.completed("#1", "A")
	e.failed("#2", errDeclined)
	// The timers of the selects are begun and ended in one fold: never asked for.
	want(t, e.fired("#3"), "WorkflowCompleted")
	got := resultOf[[]string](t, e.log)
	if len(got) != 4 || !strings.Contains(got[0], "declined") || got[1] != "A<nil>" || !strings.Contains(got[2], "declined") || got[3] != "default" {
		t.Error(got)
	}
}

func TestSelectOnACancelledContext(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, _ string) ([]string, error) {
		var got []string
		note := func(what string, err error) { got = append(got, fmt.Sprint(what, ": ", err)) }
		own, cancel := workflow.WithCancel(ctx)
		f := workflow.Async(own, shop.Ship, "x")
		ready := workflow.Async(ctx, shop.Ship, "y")
		// It waits; the cancel ends both its future and its timer.
		note("waiting", workflow.Select(ctx, workflow.After(time.Hour, nil), workflow.On(f, nil)))
		note("ready", workflow.Select(ctx, workflow.On(ready, nil), workflow.After(time.Hour, nil)))
		note("timer", workflow.Select(ctx, workflow.After(time.Hour, nil)))
		note("default", workflow.Select(ctx, workflow.After(time.Hour, nil), workflow.Default(nil)))
		cancel()
		clean := workflow.Detached(ctx)
		note("detached", workflow.Select(clean, workflow.On(f, func(_ string, err error) { note("f", err) })))
		return got, nil
	}, "")
	e.fold()
	e.completed("#2", "Y")
	want(t, e.canceled("enough"), "TimerCancelled #3", "ActivityCancelRequested #1", "WorkflowCompleted")
	golden(t, "select-cancelled", strings.Join(resultOf[[]string](t, e.log), "\n")+"\n")
}

func TestAScopeIsCancelledWithWhatIsBelowIt(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, _ string) ([]string, error) {
		var got []string
		outer, cancel := workflow.WithCancel(ctx)
		inner, cancelInner := workflow.WithCancel(outer)
		defer cancelInner()
		for name, c := range map[string]workflow.Context{"inner": inner} {
			workflow.Go(c, func(ctx workflow.Context) {
				_, err := workflow.Do(ctx, shop.Ship, name)
				got = append(got, fmt.Sprint(name, ": ", err))
				late, stop := workflow.WithCancel(ctx)
				defer stop()
				got = append(got, fmt.Sprint("below: ", workflow.Canceled(late) != nil))
			})
		}
		f := workflow.Async(ctx, shop.Ship, "root")
		if err := workflow.Sleep(outer, time.Second); err != nil {
			return nil, err
		}
		cancel()
		cancel()
		got = append(got, fmt.Sprint("sleep: ", workflow.Sleep(inner, time.Second)))
		v, err := f.Get(ctx)
		return append(got, fmt.Sprint(v, err, workflow.Canceled(ctx))), nil
	}, "")
	want(t, e.fold(), "ActivityScheduled #1 Shop.Ship", "TimerStarted #2", "ActivityScheduled 1#1 Shop.Ship")
	want(t, e.fired("#2"), "ActivityCancelRequested 1#1")
	e.completed("#1", "shipped")
	golden(t, "scopes", strings.Join(resultOf[[]string](t, e.log), "\n")+"\n")
}

func TestWhatIsReadyIsTakenUnderACancel(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		f := workflow.Async(ctx, shop.Ship, "x")
		_ = workflow.Sleep(ctx, time.Hour)
		if err := workflow.Await(ctx, func() bool { return true }); err != nil {
			return "", err
		}
		if err := workflow.Await(ctx, func() bool { return false }); !errors.Is(err, workflow.ErrCanceled) {
			return "", fmt.Errorf("await: %w", err)
		}
		return f.Get(ctx)
	}, "")
	e.fold()
	e.completed("#1", "shipped")
	want(t, e.canceled(""), "TimerCancelled #2", "WorkflowCompleted")
	if got := resultOf[string](t, e.log); got != "shipped" {
		t.Error(got)
	}
}

func TestARunEndsAsCancelledOnlyIfThatWasAskedFor(t *testing.T) {
	gaveUp := func(ctx workflow.Context, _ string) (string, error) {
		scoped, cancel := workflow.WithCancel(ctx)
		cancel()
		err := workflow.Sleep(scoped, time.Hour)
		if _, slept := workflow.Do(ctx, shop.Ship, ""); slept != nil {
			err = errors.Join(slept, err)
		}
		return "", fmt.Errorf("gave up: %w", err)
	}
	e := newEngine(t, gaveUp, "")
	e.fold()
	want(t, e.completed("#2", ""), "WorkflowFailed")
	e = newEngine(t, gaveUp, "")
	e.fold()
	want(t, e.canceled("stop"), "ActivityCancelRequested #2", "WorkflowCancelled")
	if c := e.log[len(e.log)-1].GetWorkflowCancelled(); c.Reason != "stop" || c.Failure == nil {
		t.Errorf("%+v", c)
	}
	if err := failureOf(t, e.log); !errors.Is(err, workflow.ErrCanceled) {
		t.Error(err)
	}
}

func TestTheFirstTerminalFactCounts(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		f := workflow.Async(ctx, shop.Ship, "x")
		first, err := f.Get(ctx)
		if err != nil {
			return "", err
		}
		_ = workflow.Sleep(ctx, time.Hour)
		second, err := f.Get(ctx)
		return first + second, err
	}, "")
	e.fold()
	e.completed("#1", "1")
	for _, body := range []any{
		&pb.ActivityCompleted{Op: "#1", Result: encode(t, "2")},
		&pb.TimerFired{Op: "#1"}, &pb.CompensationEnded{Op: "#2"}, &pb.ActivityCancelled{Op: "#2"}, // of other kinds
		&pb.TimerFired{Op: "#77"},
	} {
		in := input(body)
		in.Id = int64(100 + len(e.log))
		e.log = append(e.log, nil) // for the id only
		if d, err := e.run.Fold(in); err != nil || len(d) > 0 {
			t.Fatalf("%v: %v, %v", body, d, err)
		}
	}
	in := input(&pb.TimerFired{Op: "#2"})
	in.Id = 1000
	d, err := e.run.Fold(in)
	if err != nil || resultOf[string](t, d) != "11" {
		t.Errorf("%v, %v", d, err)
	}
}

func TestTimeIsTheInputsAndNeverGoesBack(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, _ string) ([]time.Time, error) {
		at := []time.Time{workflow.Now(ctx), workflow.GetInfo(ctx).Started}
		fired, err := workflow.NewTimer(ctx, time.Hour).Get(ctx)
		at = append(at, fired, workflow.Now(ctx))
		_ = workflow.Sleep(ctx, time.Hour)
		return append(at, workflow.Now(ctx)), err
	}, "")
	e.fold()
	e.fired("#1")
	back := input(&pb.TimerFired{Op: "#2"})
	back.Id, back.Time = 1000, epoch.UnixNano()
	d, err := e.run.Fold(back)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range resultOf[[]time.Time](t, d) {
		want := epoch
		if i >= 2 {
			want = epoch.Add(time.Second)
		}
		if !at.Equal(want) || at.Location() != time.UTC {
			t.Errorf("time %d is %v, want %v", i, at, want)
		}
	}
}

// The numbers are of recorded histories by now: they must never change.
func TestRandomnessIsAFunctionOfSeedChainAndPath(t *testing.T) {
	draws := func(extra int) *engine {
		e := newEngine(t, func(ctx workflow.Context, _ string) ([]string, error) {
			got := []string{fmt.Sprint(workflow.Rand(ctx).Uint64()), workflow.NewID(ctx), workflow.NewID(ctx)}
			for n := range 2 {
				workflow.Go(ctx, func(ctx workflow.Context) {
					for range extra * (1 - n) {
						workflow.Rand(ctx).Int()
						workflow.NewID(ctx)
					}
					got = append(got, fmt.Sprint(workflow.Rand(ctx).IntN(1000)), workflow.NewID(ctx))
				})
			}
			err := workflow.Await(ctx, func() bool { return len(got) == 7 })
			return got, err
		}, "")
		e.fold()
		return e
	}
	got := resultOf[[]string](t, draws(0).log)
	golden(t, "random", strings.Join(got, "\n")+"\n")
	// What the first child draws more does not touch its sibling.
	more := resultOf[[]string](t, draws(3).log)
	if !slices.Equal(got[5:], more[5:]) || slices.Equal(got[3:5], more[3:5]) {
		t.Errorf("%v\n%v", got, more)
	}
	seen := map[string]bool{}
	for _, s := range got {
		seen[s] = true
	}
	if len(seen) != len(got) {
		t.Errorf("a draw came twice: %v", got)
	}
}

func TestLogsAreSilentOnReplayAndBelongToTheirInput(t *testing.T) {
	type secret struct{ N int }
	fn := func(ctx workflow.Context, o Order) (string, error) {
		shared := &secret{N: 1}
		log := workflow.Logger(ctx).With("order", o.ID).WithGroup("g").With("a", 1)
		log.Info("charging", "who", shared, slog.Group("h", "b", 2))
		log.Debug("not kept")
		shared.N = 2
		if _, err := workflow.Do(ctx, shop.Charge, o); err != nil {
			return "", err
		}
		log.Warn("charged")
		for range 1005 {
			log.Info("again")
		}
		return "", nil
	}
	e := newEngine(t, fn, Order{ID: "o1"})
	e.fold()
	logs := e.run.Logs()
	if len(logs) != 1 || len(e.run.Logs()) != 0 {
		t.Fatalf("%d records", len(logs))
	}
	text := &strings.Builder{}
	h := slog.NewTextHandler(text, nil)
	if err := h.Handle(t.Context(), logs[0].Record); err != nil {
		t.Fatal(err)
	}
	const line = "time=2026-03-01T12:00:00.000Z level=INFO msg=charging order=o1 g.a=1 g.who=&{N:1} g.h.b=2\n"
	if text.String() != line || logs[0].Cause != 1 {
		t.Errorf("cause %d, record %s", logs[0].Cause, text)
	}
	if src := logs[0].Source(); src == nil || !strings.HasSuffix(src.File, "behaviour_test.go") {
		t.Errorf("source %v", src)
	}
	e.completed("#1", "p1")
	if logs := e.run.Logs(); len(logs) != 1001 || logs[0].Message != "charged" || !strings.HasPrefix(logs[1000].Message, "6 more") {
		t.Errorf("%d records, the last: %v", len(logs), logs[len(logs)-1].Message)
	}

	r := replay.New(replay.Config{LogLevel: slog.LevelDebug}, workflow.Bind(fn, nil))
	defer closeClean(t, r)
	if _, _, err := r.Load(e.log[:3], 1, 1); err != nil {
		t.Fatal(err)
	}
	// The first fold was a replay, and silent; the second was live.
	if logs := r.Logs(); len(logs) != 1001 || logs[0].Message != "charged" {
		t.Errorf("%d records after a load", len(logs))
	}
	r2 := replay.New(replay.Config{LogLevel: slog.LevelDebug}, workflow.Bind(fn, nil))
	defer closeClean(t, r2)
	if _, err := r2.Fold(e.log[0]); err != nil {
		t.Fatal(err)
	}
	if logs := r2.Logs(); len(logs) != 2 {
		t.Errorf("%d records with debug", len(logs))
	}
}

func TestWhatIsRefusedUsesItsNumberAndWritesNothing(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		_, large := workflow.Do(ctx, shop.Reserve, strings.Repeat("x", 3<<20))
		if !errors.Is(large, workflow.ErrRefused) {
			return "", fmt.Errorf("large: %w", large)
		}
		many, err := workflow.Map(ctx, shop.Reserve, []string{"ok", strings.Repeat("x", 3<<20)})
		if !errors.Is(err, workflow.ErrRefused) || many[0] != "slip" {
			return "", fmt.Errorf("map: %v %w", many, err)
		}
		if _, err := saga.Do(ctx, shop.Reserve, strings.Repeat("x", 3<<20), shop.Release); !errors.Is(err, workflow.ErrRefused) {
			return "", fmt.Errorf("saga: %w", err)
		}
		saga.Commit(ctx) // covers nothing
		return workflow.Do(ctx, shop.Ship, "x")
	}, "")
	want(t, e.fold(), "ActivityScheduled 1[0]#1 Shop.Reserve")
	want(t, e.completed("1[0]#1", "slip"), "ActivityScheduled #4 Shop.Ship")
}

func TestAWithdrawnStepIsNotArmed(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, o Order) (string, error) {
		scoped, cancel := workflow.WithCancel(ctx)
		saga.Async(ctx, shop.Charge, o, shop.Refund)
		saga.Async(scoped, shop.Charge, o, shop.Refund)
		cancel()
		saga.Commit(ctx)
		return "", workflow.Sleep(ctx, time.Hour)
	}, Order{})
	d := e.fold()
	want(t, d, "ActivityScheduled #1 Shop.Charge", "SagaCommitted #3", "TimerStarted #4")
	if ops := d[1].GetSagaCommitted().Ops; !slices.Equal(ops, []string{"#1"}) {
		t.Errorf("commit covers %v", ops)
	}
}

func TestDecisionsCarryTheirPlaceInUserCode(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, o Order) (string, error) {
		saga.Async(ctx, shop.Charge, o, shop.Refund)
		workflow.NewTimer(ctx, time.Hour)
		_, _ = workflow.Map(ctx, shop.Reserve, []string{"x"})
		saga.Commit(ctx)
		func() { // a helper of the user's is a place of the user's
			defer func() { _ = workflow.Select(ctx, workflow.After(time.Hour, nil)) }()
		}()
		return "", nil
	}, Order{})
	decisions := append(e.fold(), e.completed("1[0]#1", "s")...)
	var got []int
	for _, d := range decisions {
		var file string
		var line int
		for _, ev := range []interface{ GetSource() string }{d.GetActivityScheduled(), d.GetTimerStarted(), d.GetSagaCommitted()} {
			if s := ev.GetSource(); s != "" {
				if _, err := fmt.Sscanf(strings.Replace(s, ":", " ", 1), "%s %d", &file, &line); err != nil {
					t.Fatalf("source %q: %v", s, err)
				}
			}
		}
		if file != "behaviour_test.go" {
			t.Errorf("%v has the file %q", d, file)
		}
		got = append(got, line)
	}
	if len(got) != 5 {
		t.Fatalf("%d decisions", len(got))
	}
	for i, offset := range []int{0, 1, 2, 3, 5} {
		if got[i]-got[0] != offset {
			t.Errorf("decision %d is %d lines below the first, want %d", i, got[i]-got[0], offset)
		}
	}
}

// below runs fn in a coroutine that is n deep, and waits for it.
func below(ctx workflow.Context, n int, fn func(workflow.Context)) {
	done := false
	var nest func(workflow.Context, int)
	nest = func(ctx workflow.Context, n int) {
		if n == 0 {
			fn(ctx)
			done = true
			return
		}
		workflow.Go(ctx, func(ctx workflow.Context) { nest(ctx, n-1) })
	}
	nest(ctx, n)
	_ = workflow.Await(ctx, func() bool { return done })
}

func TestWhatIsNestedTooDeepToBeNamedIsRefused(t *testing.T) {
	for name, call := range map[string]func(workflow.Context) error{
		"Do":         func(ctx workflow.Context) error { _, err := workflow.Do(ctx, shop.Ship, "x"); return err },
		"Sleep":      func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) },
		"Compensate": saga.Compensate,
		"After": func(ctx workflow.Context) error {
			return workflow.Select(ctx, workflow.After(time.Hour, func() { t.Error("a timer that was never started has fired") }))
		},
	} {
		var got error
		e := newEngine(t, func(ctx workflow.Context, o Order) (string, error) {
			saga.Async(ctx, shop.Charge, o, shop.Refund)
			below(ctx, 600, func(ctx workflow.Context) { got = call(ctx) })
			return "gone on", nil
		}, Order{})
		want(t, e.fold(), "ActivityScheduled #1 Shop.Charge", "WorkflowCompleted")
		var limit *history.LimitError
		if !errors.Is(got, workflow.ErrRefused) || !errors.As(got, &limit) || limit.Limit != history.MaxOp {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A commit has no error to return, and must not be passed over.
func TestACommitThatIsNestedTooDeepHoldsTheRun(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, o Order) (string, error) {
		below(ctx, 600, saga.Commit) // nothing to commit: nothing to record
		saga.Async(ctx, shop.Charge, o, shop.Refund)
		below(ctx, 600, saga.Commit)
		return "", nil
	}, Order{})
	var misuse *replay.Misuse
	if err := faultOf(t, e); !errors.As(err, &misuse) || !strings.Contains(err.Error(), "deep") {
		t.Error(err)
	}
}
