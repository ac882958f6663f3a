package activity_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/failure"
)

type wrapping struct{}

func TestInfoAndLoggerComeFromTheContext(t *testing.T) {
	var log bytes.Buffer
	info := activity.Info{WorkflowID: "order-1", RunID: "R", Type: "Shop.Charge", Attempt: 3, Key: "k", Fence: 7}
	ctx := activity.NewContext(t.Context(), info, slog.New(slog.NewTextHandler(&log, nil)))
	ctx = context.WithValue(ctx, wrapping{}, "wrapped")
	if got := activity.GetInfo(ctx); got != info {
		t.Errorf("info %+v", got)
	}
	activity.Logger(ctx).Info("hello")
	for _, want := range []string{"hello", "workflow_id=order-1", "run_id=R", "activity=Shop.Charge", "attempt=3"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in %q", want, log.String())
		}
	}
}

func TestOutsideOfAnActivityNothingIsNil(t *testing.T) {
	if activity.GetInfo(t.Context()) != (activity.Info{}) || activity.Logger(t.Context()) != slog.Default() {
		t.Error("not the defaults")
	}
	if activity.Logger(activity.NewContext(t.Context(), activity.Info{}, nil)) == nil {
		t.Error("no logger")
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	base := errors.New("base")
	err := activity.Fail("order %d: %w", 1, base)
	if !failure.IsFinal(err) || !errors.Is(err, base) || err.Error() != "order 1: base" {
		t.Errorf("Fail: %v", err)
	}
	if err := fmt.Errorf("x: %w", activity.Final(base)); !failure.IsFinal(err) {
		t.Error("Final is not final")
	}
	if d := failure.Delay(activity.RetryAfter(base, time.Minute)); d != time.Minute {
		t.Errorf("RetryAfter: %v", d)
	}
}

func TestCausesAreCancellations(t *testing.T) {
	for _, err := range []error{&activity.CancelledError{Reason: "by hand"}, &activity.InterruptedError{}} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v is no context.Canceled", err)
		}
	}
}
