package sdktest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

func monthLong(ctx workflow.Context, n int) (int, error) {
	before, err := workflow.Do(ctx, double, n)
	if err != nil {
		return 0, err
	}
	if err := workflow.Sleep(ctx, 30*24*time.Hour); err != nil {
		return 0, err
	}
	return workflow.Do(ctx, double, before)
}

// A run asleep for 30 days while engine and worker are replaced goes on where
// it was, at its time.
func TestASleepingRunSurvivesItsEngineAndItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := sdktest.New(t)
		register := func() {
			worker.Workflow(env.Worker, monthLong)
			worker.Activity(env.Worker, double)
			env.Start()
		}
		register()
		run, err := client.Start(t.Context(), env.Client, monthLong, 3, client.ID("asleep"))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 5 {
			env.Pass(5 * 24 * time.Hour)
			env.Restart()
			register()
		}
		got, err := client.Get[int](env.Client, "asleep", run.RunID).Result(t.Context())
		if err != nil || got != 12 {
			t.Fatalf("result %d, %v; want 12", got, err)
		}
		if slept := time.Since(began); slept < 30*24*time.Hour || slept > 30*24*time.Hour+time.Minute {
			t.Errorf("it slept for %v, want 30 days", slept)
		}
	})
}

// versionA and versionB are the same workflow before and after a careless change.
func versionA(ctx workflow.Context, n int) (int, error) {
	if _, err := workflow.Do(ctx, double, n); err != nil {
		return 0, err
	}
	if err := workflow.Sleep(ctx, time.Hour); err != nil {
		return 0, err
	}
	return workflow.Do(ctx, double, n)
}

func versionB(ctx workflow.Context, n int) (int, error) {
	if err := workflow.Sleep(ctx, time.Minute); err != nil {
		return 0, err
	}
	return workflow.Do(ctx, double, n)
}

// Changed code under a running history holds the run, with the diff; the right
// code back, it goes on.
func TestChangedCodeHoldsTheRunAndTheRightCodeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := sdktest.New(t, sdktest.Options{Worker: worker.Options{Build: "a"}})
		worker.Workflow(env.Worker, versionA, worker.Name("Versioned"))
		worker.Activity(env.Worker, double)
		env.Start()
		run, err := client.Start(t.Context(), env.Client, versionA, 4, client.ID("v"), client.Name("Versioned"))
		if err != nil {
			t.Fatal(err)
		}
		env.Pass(time.Minute)
		if err := env.Worker.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := env.NewWorker(worker.Options{Build: "b"})
		worker.Workflow(b, versionB, worker.Name("Versioned"))
		worker.Activity(b, double)
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		env.Pass(2 * time.Hour) // the timer fires, and build b gets the run
		d, err := run.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h := d.Info.Hold
		if h.GetKind() != pb.HoldKind_HOLD_KIND_STUCK || d.Info.Status != pb.Status_STATUS_RUNNING {
			t.Fatalf("the run is %v, held as %v; want running and stuck", d.Info.Status, h)
		}
		for _, part := range []string{"ActivityScheduled", "TimerStarted", "sdktest_test.go"} {
			if !strings.Contains(h.Reason, part) {
				t.Errorf("the reason does not say %q:\n%s", part, h.Reason)
			}
		}
		a := env.NewWorker(worker.Options{Build: "a"})
		worker.Workflow(a, versionA, worker.Name("Versioned"))
		worker.Activity(a, double)
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(t.Context()); err != nil || got != 8 {
			t.Errorf("result %d, %v; want 8", got, err)
		}
		if d, err = run.Describe(t.Context()); err != nil || d.Info.Hold != nil {
			t.Errorf("after it went on: %v, %v", d.GetInfo().GetHold(), err)
		}
	})
}

func unknownHere(ctx workflow.Context, n int) (int, error) { return workflow.Do(ctx, double, n) }

// A workflow type that no worker knows is seen to wait, and runs when a worker
// that knows it comes.
func TestAnUnknownTypeWaitsVisiblyForAWorkerThatKnowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := sdktest.New(t)
		worker.Workflow(env.Worker, monthLong)
		env.Start()
		run, err := client.Start(t.Context(), env.Client, unknownHere, 5)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d, err := run.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h := d.Info.Hold; h.GetKind() != pb.HoldKind_HOLD_KIND_NO_WORKER || !strings.Contains(h.Reason, "unknownHere") {
			t.Errorf("the run is held as %v, want: no worker knows unknownHere", h)
		}
		w := env.NewWorker(worker.Options{})
		worker.Workflow(w, unknownHere)
		worker.Activity(w, double)
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(t.Context()); err != nil || got != 10 {
			t.Errorf("result %d, %v; want 10", got, err)
		}
	})
}

var cancelled atomic.Bool

func waits(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	cancelled.Store(true)
	return 0, context.Cause(ctx)
}

func patient(ctx workflow.Context, n int) (int, error) {
	return workflow.Do(ctx, waits, n, workflow.Timeouts{StartToClose: time.Hour})
}

// A cancelled run ends as cancelled, and what it runs hears of it.
func TestCancelReachesTheActivityAndTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled.Store(false)
		env := sdktest.New(t)
		worker.Workflow(env.Worker, patient)
		worker.Activity(env.Worker, waits)
		env.Start()
		run, err := client.Start(t.Context(), env.Client, patient, 1)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := run.Cancel(t.Context(), "changed my mind"); err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(t.Context())
		if !errors.Is(err, client.ErrCanceled) {
			t.Errorf("the result is %v, want cancelled", err)
		}
		synctest.Wait()
		if !cancelled.Load() {
			t.Error("the activity was not told")
		}
	})
}
