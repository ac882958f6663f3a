package svc_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/internal/svc"
)

var errWork = errors.New("work failed")

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestFirstErrorEndsTheGroupByItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := svc.New(t.Context())
		g.Go("waiter", untilDone)
		g.Go("failer", func(context.Context) error { return errWork })
		g.Go("later", func(ctx context.Context) error { <-ctx.Done(); return errors.New("second") })
		if err := g.Wait(); err != errWork {
			t.Errorf("Wait: %v", err)
		}
		if cause := context.Cause(g.Context()); cause != errWork {
			t.Errorf("cause %v", cause)
		}
	})
}

func TestPanicIsAnErrorWithItsStack(t *testing.T) {
	for name, value := range map[string]any{"string": "boom", "error": errWork, "nil": nil} {
		g := svc.New(t.Context())
		g.Go("worker", func(context.Context) error { explode(value); return nil })
		err := g.Wait()
		var pe *svc.PanicError
		if !errors.As(err, &pe) || !strings.Contains(string(pe.Stack), "explode") || !strings.HasPrefix(err.Error(), "worker: panic: ") {
			t.Errorf("%s: %v", name, err)
		}
		if value == errWork && !errors.Is(err, errWork) {
			t.Errorf("%s: the error panicked with is not found", name)
		}
	}
}

func explode(v any) { panic(v) }

func TestGoexitIsAnError(t *testing.T) {
	g := svc.New(t.Context())
	g.Go("worker", func(context.Context) error { runtime.Goexit(); return nil })
	var ee *svc.ExitError
	if err := g.Wait(); !errors.As(err, &ee) || ee.Name != "worker" {
		t.Errorf("Wait: %v", err)
	}
}

func TestDoReportsExactlyOnce(t *testing.T) {
	for name, work := range map[string]func() error{
		"return": func() error { return nil },
		"error":  func() error { return errWork },
		"panic":  func() error { panic("x") },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		var reports atomic.Int32
		g := svc.New(t.Context())
		g.Go("outer", func(context.Context) error {
			svc.Do(name, work, func(error) { reports.Add(1) })
			return nil
		})
		_ = g.Wait() // Goexit goes on unwinding, and is the group's error
		if n := reports.Load(); n != 1 {
			t.Errorf("%s: %d reports", name, n)
		}
	}
}

func TestWaitWaitsForGoroutinesStartedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := svc.New(t.Context())
		var last atomic.Bool
		g.Go("first", func(ctx context.Context) error {
			g.Go("second", func(context.Context) error {
				g.Go("third", func(context.Context) error { last.Store(true); return nil })
				return nil
			})
			return nil
		})
		if err := g.Wait(); err != nil || !last.Load() {
			t.Errorf("Wait: %v, last ran: %v", err, last.Load())
		}
		g.Go("after", func(ctx context.Context) error { return ctx.Err() })
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("a goroutine started after the end: %v", err)
		}
	})
}

func TestStopEndsByItsCauseAndParentCancelToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		a, b := svc.New(parent), svc.New(parent)
		a.Go("a", untilDone)
		b.Go("b", untilDone)
		a.Stop(errWork)
		if err := a.Wait(); err != nil || context.Cause(a.Context()) != errWork {
			t.Errorf("Wait: %v, cause %v", err, context.Cause(a.Context()))
		}
		if b.Context().Err() != nil {
			t.Error("stopping one group ended another")
		}
		cancel()
		if err := b.Wait(); err != nil {
			t.Errorf("Wait: %v", err)
		}
	})
}

func TestRunHandsTheEndToItsCaller(t *testing.T) {
	g := svc.New(t.Context())
	var ee *svc.ExitError
	seen := false
	g.Run("user code", func(context.Context) error { runtime.Goexit(); return nil }, func(err error) error {
		seen = errors.As(err, &ee)
		return nil
	})
	if err := g.Wait(); err != nil || !seen {
		t.Errorf("Wait: %v, end saw the exit: %v", err, seen)
	}
}

func TestWaitForEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := svc.New(t.Context())
		release := make(chan struct{})
		g.Go("stuck", func(context.Context) error { <-release; return errWork })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.WaitFor(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitFor: %v", err)
		}
		close(release)
		if err := g.Wait(); err != errWork {
			t.Errorf("Wait: %v", err)
		}
	})
}
