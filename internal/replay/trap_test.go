package replay_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
)

var errNoReturn = errors.New("the code went on")

// faultOf folds everything that waits and returns the fault.
func faultOf(t *testing.T, e *engine) error {
	t.Helper()
	for len(e.unfolded) > 0 && e.err == nil {
		e.fold()
	}
	if e.err == nil {
		t.Fatalf("no fault:\n%s", lines(e.log))
	}
	if again, err := e.run.Fold(&pb.Event{Id: 1000, Body: &pb.Event_CancelRequested{CancelRequested: &pb.CancelRequested{}}}); again != nil || err != e.err {
		t.Errorf("a dead run folds: %v, %v", again, err)
	}
	if e.run.Err() != e.err {
		t.Errorf("Err is %v, the fold said %v", e.run.Err(), e.err)
	}
	return e.err
}

func TestAPanicIsCaughtWithTheStackOfItsCode(t *testing.T) {
	for name, fn := range map[string]func(workflow.Context, string) (string, error){
		"root": func(workflow.Context, string) (string, error) { return explode() },
		"child": func(ctx workflow.Context, _ string) (string, error) {
			workflow.Go(ctx, func(workflow.Context) { _, _ = explode() })
			return "", workflow.Sleep(ctx, time.Hour)
		},
		"condition": func(ctx workflow.Context, _ string) (string, error) {
			return "", workflow.Await(ctx, func() bool { _, err := explode(); return err != nil })
		},
	} {
		e := newEngine(t, fn, "")
		err := faultOf(t, e)
		var p *replay.Panic
		if !errors.As(err, &p) || !errors.Is(err, errNoReturn) || !strings.Contains(p.Stack, "replay_test.explode") {
			t.Errorf("%s: the fault is %T %v without the stack of explode", name, err, err)
		}
		if replay.FaultKind(err) != pb.FaultKind_FAULT_KIND_PANIC || replay.Stack(err) != p.Stack {
			t.Errorf("%s: fault kind %v", name, replay.FaultKind(err))
		}
	}
}

func explode() (string, error) { panic(errNoReturn) }

func TestGoexitIsAFaultAndEndsNobodyElse(t *testing.T) {
	for name, fn := range map[string]func(workflow.Context, string) (string, error){
		"root": func(workflow.Context, string) (string, error) { runtime.Goexit(); return "", nil },
		"child": func(ctx workflow.Context, _ string) (string, error) {
			workflow.Go(ctx, func(workflow.Context) { runtime.Goexit() })
			return "", workflow.Sleep(ctx, time.Hour)
		},
		"condition": func(ctx workflow.Context, _ string) (string, error) {
			return "", workflow.Await(ctx, func() bool { runtime.Goexit(); return false })
		},
		"while a panic unwinds": func(workflow.Context, string) (string, error) {
			defer runtime.Goexit()
			return explode()
		},
	} {
		synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
			e := newEngine(t, fn, "")
			var exited *replay.Exited
			if err := faultOf(t, e); !errors.As(err, &exited) || !strings.Contains(exited.Stack, "trap_test.go") {
				t.Errorf("%s: the fault is %T %v", name, err, err)
			}
			if err := e.run.Close(); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
		})
	}
}

func TestCloseRunsDeferredCodeAndEndsEveryCall(t *testing.T) {
	var trace []string
	note := func(what string, call func()) {
		defer func() {
			v := recover()
			trace = append(trace, fmt.Sprint(what, " panics: ", v != nil))
			panic(v)
		}()
		call()
	}
	e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		logger := workflow.Logger(ctx)
		scoped, cancel := workflow.WithCancel(ctx)
		defer cancel()                        // does nothing, and does not panic
		defer logger.Info("a logger is kept") // silent
		for what, call := range map[string]func(){
			"Do":       func() { _, _ = workflow.Do(workflow.Detached(ctx), shop.Ship, "x") },
			"Sleep":    func() { _ = workflow.Sleep(scoped, time.Second) },
			"Now":      func() { workflow.Now(ctx) },
			"Rand":     func() { workflow.Rand(ctx) },
			"Go":       func() { workflow.Go(ctx, func(workflow.Context) {}) },
			"Canceled": func() { _ = workflow.Canceled(ctx) },
			"Await":    func() { _ = workflow.Await(ctx, func() bool { return true }) },
			"Logger":   func() { workflow.Logger(ctx) },
		} {
			defer note(what, call)
		}
		return "", workflow.Sleep(ctx, time.Hour)
	}, "")
	e.fold()
	if err := e.run.Close(); err != nil {
		t.Fatal(err)
	}
	if len(trace) != 8 {
		t.Errorf("%d deferred calls ran, want 8: %v", len(trace), trace)
	}
	for _, s := range trace {
		if !strings.HasSuffix(s, "true") {
			t.Error(s)
		}
	}
	if err := e.run.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if _, err := e.run.Fold(&pb.Event{Id: 2}); !errors.Is(err, replay.ErrClosed) {
		t.Errorf("a fold after Close: %v", err)
	}
	if logs := e.run.Logs(); len(logs) != 0 {
		t.Errorf("unwinding left log records: %v", logs)
	}
}

// Close ends also what recovers the panic and goes on.
func TestCloseEndsCodeThatSwallowsItsPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds, left := 0, false
		e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
			defer func() { left = true }()
			for {
				func() {
					defer func() { _ = recover() }()
					rounds++
					_ = workflow.Sleep(ctx, time.Hour)
				}()
			}
		}, "")
		e.fold()
		err := e.run.Close()
		var unclean *replay.Unclean
		if !errors.As(err, &unclean) || len(unclean.Swallowed) != 1 || unclean.Left != nil {
			t.Errorf("close: %v", err)
		}
		if !left || rounds < 10 {
			t.Errorf("deferred code ran: %v, after %d rounds", left, rounds)
		}
	})
}

func TestCodeThatRecoversOnceIsUnwoundByItsNextCall(t *testing.T) {
	reached := false
	e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		func() {
			defer func() { _ = recover() }()
			_ = workflow.Sleep(ctx, time.Hour)
		}()
		_, _ = workflow.Do(ctx, shop.Ship, "x")
		reached = true
		return "", nil
	}, "")
	e.fold()
	if err := e.run.Close(); err != nil || reached {
		t.Errorf("close: %v, the code went on: %v", err, reached)
	}
}

func TestWithoutSpawnWhatExitsIsLeftAndSaid(t *testing.T) {
	r := replay.New(replay.Config{}, func(replay.Context, *pb.Payload) replay.Result {
		runtime.Goexit()
		return replay.Result{}
	})
	if _, err := r.Fold(started(1)); err == nil {
		t.Fatal("no fault")
	}
	var unclean *replay.Unclean
	if err := r.Close(); !errors.As(err, &unclean) || len(unclean.Left) != 1 {
		t.Errorf("close: %v", err)
	}
}

func started(semantics int32) *pb.Event {
	return &pb.Event{Id: 1, Body: &pb.Event_WorkflowStarted{WorkflowStarted: &pb.WorkflowStarted{Type: "W", Semantics: semantics}}}
}

func TestTenThousandCoroutinesLeaveNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	const n = 10_000
	woken := 0
	e := newEngine(t, func(ctx workflow.Context, _ string) (int, error) {
		for range n {
			workflow.Go(ctx, func(ctx workflow.Context) {
				if workflow.Sleep(ctx, time.Hour) == nil {
					woken++
				}
				_ = workflow.Sleep(ctx, time.Hour)
			})
		}
		return woken, workflow.Await(ctx, func() bool { return false })
	}, "")
	if d := e.fold(); len(d) != n {
		t.Fatalf("%d decisions", len(d))
	}
	if have := runtime.NumGoroutine(); have < before+n {
		t.Fatalf("only %d goroutines: the check below shows nothing", have)
	}
	for i := range 100 {
		in := input(&pb.TimerFired{Op: fmt.Sprint(i*100+1, "#1")})
		in.Id = int64(n + 2 + i)
		if d, err := e.run.Fold(in); err != nil || len(d) != 1 {
			t.Fatalf("fold: %v, %v", d, err)
		}
	}
	if woken != 100 {
		t.Errorf("%d woke", woken)
	}
	if err := e.run.Close(); err != nil {
		t.Fatal(err)
	}
	// The runtime takes a goroutine off its list a moment after it has ended.
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i > 1_000_000 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}

func TestACallFromAStrayGoroutineIsRefusedAndHoldsTheRun(t *testing.T) {
	for name, call := range map[string]func(workflow.Context) error{
		"Do":         func(ctx workflow.Context) error { _, err := workflow.Do(ctx, shop.Ship, "x"); return err },
		"Sleep":      func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) },
		"Select":     func(ctx workflow.Context) error { return workflow.Select(ctx, workflow.After(time.Hour, nil)) },
		"Await":      func(ctx workflow.Context) error { return workflow.Await(ctx, func() bool { return true }) },
		"Map":        func(ctx workflow.Context) error { _, err := workflow.Map(ctx, shop.Reserve, []string{"x"}); return err },
		"Compensate": func(ctx workflow.Context) error { return saga.Compensate(workflow.Detached(ctx)) },
	} {
		t.Run(name, func(t *testing.T) {
			var got error
			e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
				var wg sync.WaitGroup
				wg.Go(func() { got = call(ctx) }) // while the coroutine has control
				wg.Wait()
				return "", workflow.Sleep(ctx, time.Hour)
			}, "")
			err := faultOf(t, e)
			var held, returned *replay.Misuse
			if !errors.As(err, &held) || !errors.As(got, &returned) || held.Call != returned.Call {
				t.Errorf("the run is held for %v, the call returned %v", err, got)
			}
			if !strings.HasPrefix(held.Call, "trap_test.go:") || !strings.Contains(err.Error(), "goroutine") {
				t.Errorf("the fault does not say where and why: %v", err)
			}
		})
	}
}

// A panic in a goroutine that nobody watches would end the process.
func TestALookFromAStrayGoroutineFindsNothingAndHoldsTheRun(t *testing.T) {
	looks := map[string]func(workflow.Context) bool{
		"Now":      func(ctx workflow.Context) bool { return workflow.Now(ctx).IsZero() },
		"Rand":     func(ctx workflow.Context) bool { return workflow.Rand(ctx).IntN(2) == 0 },
		"NewID":    func(ctx workflow.Context) bool { return workflow.NewID(ctx) == "" },
		"GetInfo":  func(ctx workflow.Context) bool { return workflow.GetInfo(ctx) == workflow.Info{} },
		"Canceled": func(ctx workflow.Context) bool { return workflow.Canceled(ctx) != nil },
		"Logger": func(ctx workflow.Context) bool {
			return !workflow.Logger(ctx).Enabled(t.Context(), slog.LevelError)
		},
	}
	for name, look := range looks {
		nothing := false
		ask := func(ctx workflow.Context) {
			var wg sync.WaitGroup
			wg.Go(func() { nothing = look(ctx) })
			wg.Wait()
		}
		check := func(when string, err error) {
			t.Helper()
			var misuse *replay.Misuse
			if !nothing || !errors.As(err, &misuse) || !strings.HasPrefix(misuse.Call, "trap_test.go:") {
				t.Errorf("%s %s: found nothing: %v; the run is held for %v", name, when, nothing, err)
			}
			nothing = false
		}
		var kept workflow.Context
		e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
			kept = ctx
			return "", workflow.Sleep(ctx, time.Hour)
		}, "")
		e.fold()
		ask(kept)
		e.fired("#1")
		check("between folds", e.err)
		e = newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
			workflow.Go(ctx, func(workflow.Context) { ask(ctx) })
			return "", workflow.Sleep(ctx, time.Hour)
		}, "")
		check("while a sibling runs", faultOf(t, e))
		e = newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
			defer ask(ctx)
			return "", workflow.Sleep(ctx, time.Hour)
		}, "")
		e.fold()
		if err := e.run.Close(); err != nil || !nothing {
			t.Errorf("%s while the code is unwound: found nothing: %v; close: %v", name, nothing, err)
		}
	}
}

func TestAContextUsedOutsideAFoldIsRefusedAndHoldsTheRun(t *testing.T) {
	var kept workflow.Context
	e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		kept = ctx
		return "", workflow.Sleep(ctx, time.Hour)
	}, "")
	e.fold()
	var misuse *replay.Misuse
	_, err := workflow.Do(kept, shop.Ship, "x")
	if !errors.As(err, &misuse) {
		t.Fatalf("it shipped: %v", err)
	}
	if err := workflow.Canceled(kept); !errors.As(err, &misuse) {
		t.Errorf("it looked: %v", err)
	}
	if now := workflow.Now(kept); !now.IsZero() {
		t.Errorf("it is %v", now)
	}
	if e.fired("#1"); !errors.As(e.err, &misuse) {
		t.Errorf("the run goes on: %v", e.err)
	}
	func() {
		defer func() {
			if _, ok := recover().(*replay.Misuse); !ok {
				t.Error("the zero Context did not panic with a *Misuse")
			}
		}()
		_ = workflow.Sleep(workflow.Context{}, time.Hour)
	}()
}

func TestAnotherCoroutinesContextIsAFaultThatNamesBoth(t *testing.T) {
	for name, fn := range map[string]func(workflow.Context, string) (string, error){
		"parent's": func(ctx workflow.Context, _ string) (string, error) {
			workflow.Go(ctx, func(workflow.Context) { _ = workflow.Sleep(ctx, time.Hour) })
			return "", workflow.Sleep(ctx, time.Hour)
		},
		"recovered": func(ctx workflow.Context, _ string) (string, error) {
			workflow.Go(ctx, func(workflow.Context) {
				defer func() { _ = recover() }()
				workflow.Now(ctx)
			})
			return "", workflow.Sleep(ctx, time.Hour)
		},
	} {
		e := newEngine(t, fn, "")
		err := faultOf(t, e)
		var misuse *replay.Misuse
		if !errors.As(err, &misuse) || !strings.Contains(err.Error(), "the root coroutine in coroutine 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAConditionMayOnlyLook(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		return "", workflow.Await(ctx, func() bool { return workflow.Sleep(ctx, time.Second) == nil })
	}, "")
	var misuse *replay.Misuse
	if err := faultOf(t, e); !errors.As(err, &misuse) || !strings.Contains(err.Error(), "Await") {
		t.Error(err)
	}
	ok := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		until := workflow.Now(ctx).Add(3 * time.Second)
		return "late", workflow.Await(ctx, func() bool { return workflow.Now(ctx).After(until) })
	}, "")
	ok.fold()
	for range 3 {
		want(t, ok.take(&pb.SignalReceived{Name: "tick"}))
	}
	want(t, ok.take(&pb.SignalReceived{Name: "tick"}), "WorkflowCompleted")
}

func TestOneFoldAtATime(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	e := newEngine(t, func(workflow.Context, string) (string, error) {
		close(inside)
		<-release
		return "", nil
	}, "")
	var wg sync.WaitGroup
	wg.Go(func() { e.fold() })
	<-inside
	var bad *replay.BadHistory
	if _, err := e.run.Fold(e.log[0]); !errors.As(err, &bad) {
		t.Errorf("a second fold beside the first: %v", err)
	}
	if err := e.run.Close(); !errors.As(err, &bad) {
		t.Errorf("a Close beside a fold: %v", err)
	}
	close(release)
	wg.Wait()
	if !e.closed || e.err != nil {
		t.Errorf("the first fold was harmed: %v", e.err)
	}
}

func TestFoldsMayMoveBetweenGoroutines(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, _ string) (int, error) {
		for range 100 {
			if err := workflow.Sleep(ctx, time.Second); err != nil {
				return 0, err
			}
		}
		return 100, nil
	}, "")
	e.fold()
	for i := range 100 {
		var wg sync.WaitGroup
		wg.Go(func() { e.fired(fmt.Sprint("#", i+1)) })
		wg.Wait()
	}
	if resultOf[int](t, e.log) != 100 {
		t.Error(lines(e.log))
	}
}

func TestInputsThatCannotBeFoldedAreTypedErrors(t *testing.T) {
	sleeps := func(ctx replay.Context, _ *pb.Payload) replay.Result {
		_ = ctx.Wait(ctx.Timer(time.Hour))
		return replay.Result{}
	}
	var bad *replay.BadHistory
	var newer *replay.Newer
	var unsupported *replay.Unsupported
	for name, c := range map[string]struct {
		inputs []*pb.Event
		target any
		kind   pb.FaultKind
	}{
		"a newer runtime":         {[]*pb.Event{started(history.Semantics + 1)}, &newer, pb.FaultKind_FAULT_KIND_MISMATCH},
		"an update":               {[]*pb.Event{started(1), input(&pb.UpdateAccepted{Name: "u"})}, &unsupported, pb.FaultKind_FAULT_KIND_MISMATCH},
		"joined inputs":           {[]*pb.Event{started(1), input(&pb.Joined{First: 1, Last: 2})}, &unsupported, pb.FaultKind_FAULT_KIND_MISMATCH},
		"an event of no kind":     {[]*pb.Event{started(1), {}}, &unsupported, pb.FaultKind_FAULT_KIND_MISMATCH},
		"no start":                {[]*pb.Event{input(&pb.TimerFired{Op: "#1"})}, &bad, pb.FaultKind_FAULT_KIND_PANIC},
		"two starts":              {[]*pb.Event{started(1), started(1)}, &bad, pb.FaultKind_FAULT_KIND_PANIC},
		"a decision":              {[]*pb.Event{started(1), {Cause: 1, Body: started(1).Body}}, &bad, pb.FaultKind_FAULT_KIND_PANIC},
		"an input for a 2nd time": {[]*pb.Event{started(1), {Id: 1, Body: input(&pb.TimerFired{}).Body}}, &bad, pb.FaultKind_FAULT_KIND_PANIC},
	} {
		r := replay.New(replay.Config{}, sleeps)
		var err error
		for i, in := range c.inputs {
			if in.Id == 0 {
				in.Id = int64(i + 1)
			}
			if _, err = r.Fold(in); err != nil {
				break
			}
		}
		if !errors.As(err, c.target) || replay.FaultKind(err) != c.kind {
			t.Errorf("%s: %T %v, kind %v", name, err, err, replay.FaultKind(err))
		}
		closeClean(t, r)
	}
}

func TestNothingIsFoldedBehindTheClosingDecision(t *testing.T) {
	ran := false
	e := newEngine(t, func(ctx workflow.Context, _ string) (string, error) {
		workflow.Go(ctx, func(ctx workflow.Context) { ran = true; _, _ = workflow.Do(ctx, shop.Ship, "late") })
		return "done", nil
	}, "")
	want(t, e.fold(), "WorkflowCompleted")
	if ran || !e.run.Closed() {
		t.Errorf("a coroutine ran behind the end: %v", ran)
	}
	e.append(input(&pb.SignalReceived{Name: "late"}))
	if e.fold(); !errors.Is(e.err, replay.ErrClosed) {
		t.Errorf("a fold behind the end: %v", e.err)
	}
}

func TestAWorkflowWhoseInputOrResultDoesNotFitIsHeld(t *testing.T) {
	var undecodable *replay.Undecodable
	in := newEngineOf(t, workflow.Bind(func(workflow.Context, Order) (string, error) { return "", nil }, nil), replay.Config{}, 7)
	if err := faultOf(t, in); !errors.As(err, &undecodable) || replay.FaultKind(err) != pb.FaultKind_FAULT_KIND_UNDECODABLE {
		t.Errorf("%T %v", err, err)
	}
	var unencodable *replay.Unencodable
	out := newEngine(t, func(workflow.Context, string) (chan int, error) { return make(chan int), nil }, "")
	if err := faultOf(t, out); !errors.As(err, &unencodable) || replay.FaultKind(err) != pb.FaultKind_FAULT_KIND_REFUSED {
		t.Errorf("%T %v", err, err)
	}
	large := newEngine(t, func(workflow.Context, string) (string, error) { return strings.Repeat("x", 3<<20), nil }, "")
	if err := faultOf(t, large); !errors.As(err, &unencodable) {
		t.Errorf("%T %v", err, err)
	}
}
