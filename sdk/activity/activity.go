// Package activity is what the code of an activity uses: what it is told about
// its attempt, and how it tells the engine what to do about an error.
//
// An activity is a function or method of (context.Context, In) (Out, error) or
// (context.Context, In) error. It may run more than once for one step: it should
// give Info.Key to every service that deduplicates by one, and Info.Fence to
// every one that can refuse older callers.
//
// The package owns those names. It must not know how an activity is run: worker
// does that.
package activity

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/engined/engined/sdk/failure"
)

// Info tells an activity about its attempt.
type Info struct {
	Namespace    string
	WorkflowID   string
	RunID        string
	WorkflowType string
	// Type is the activity's stored name, as the workflow asked for it.
	Type string
	// Queue is the task queue that it came by.
	Queue string
	// Attempt counts the tries of the retry policy from 1.
	Attempt int64
	// Delivery counts the hand-overs to a process from 1: it is above Attempt
	// when a drain gave the attempt back.
	Delivery int64
	// Fence grows with each delivery of a step and then of its undo.
	// A resource that keeps the highest it saw can refuse attempts that were
	// given up and still run.
	Fence int64
	// Key is the idempotency key: the same for every attempt of the step, of its
	// own for the step's undo. 26 letters and digits.
	Key string
	// Scheduled and Started are by the engine's clock.
	Scheduled, Started time.Time
	// Deadline is when this attempt times out, by the worker's own clock; the
	// context's deadline is the same. Zero is none.
	Deadline time.Time
	// Undo says that the attempt undoes a saga's step.
	Undo bool
}

type attempt struct {
	info   Info
	logger *slog.Logger
}

type contextKey struct{}

// NewContext returns a context in which the code of an activity finds info and
// logger (nil is slog's default). The worker calls it for each attempt; tests of
// an activity may, too.
func NewContext(ctx context.Context, info Info, logger *slog.Logger) context.Context {
	return context.WithValue(ctx, contextKey{}, &attempt{info: info, logger: logger})
}

// GetInfo returns what is known about the attempt that ctx belongs to. Outside
// of an activity it is the zero Info.
func GetInfo(ctx context.Context) Info {
	if a, ok := ctx.Value(contextKey{}).(*attempt); ok {
		return a.info
	}
	return Info{}
}

// Logger returns the worker's logger with the attempt's names added. Outside of
// an activity it is slog's default.
func Logger(ctx context.Context) *slog.Logger {
	a, ok := ctx.Value(contextKey{}).(*attempt)
	if !ok {
		return slog.Default()
	}
	logger := a.logger
	if logger == nil {
		logger = slog.Default()
	}
	return logger.With(a.info.LogAttrs()...)
}

// LogAttrs returns the names of the attempt as arguments for slog.
func (i Info) LogAttrs() []any {
	return []any{
		slog.String("workflow_id", i.WorkflowID), slog.String("run_id", i.RunID),
		slog.String("activity", i.Type), slog.Int64("attempt", i.Attempt),
	}
}

// Final marks err as final: the step is not tried again, whatever wraps the
// error. It also says that the step did nothing, so a saga does not undo it. An
// error that came from elsewhere, as that of a workflow which failed for good, is
// not final by itself: that is for this activity to say. Final(nil) is nil.
func Final(err error) error { return failure.Final(err) }

// Fail returns a final error; see Final. Formats are those of fmt.Errorf, %w
// included.
func Fail(format string, args ...any) error { return failure.Final(fmt.Errorf(format, args...)) }

// RetryAfter marks err with the delay until the next attempt, in place of the
// policy's backoff. It does not add attempts to the policy's, nor time to its
// limits. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error { return failure.RetryAfter(err, d) }

// CancelledError is the cause (context.Cause) of an activity's context that the
// engine ended: its run was cancelled or has closed, or its time was up.
// errors.Is also finds context.Canceled.
type CancelledError struct {
	// Reason is who or what asked for it.
	Reason string
}

func (e *CancelledError) Error() string { return "the activity was cancelled: " + e.Reason }

// Unwrap returns context.Canceled.
func (e *CancelledError) Unwrap() error { return context.Canceled }

// InterruptedError is the cause of an activity's context when its worker stops.
// An activity that returns an error then is handed to another worker, without
// the use of an attempt. errors.Is also finds context.Canceled.
type InterruptedError struct{}

func (e *InterruptedError) Error() string { return "the activity was interrupted: its worker stops" }

// Unwrap returns context.Canceled.
func (e *InterruptedError) Unwrap() error { return context.Canceled }
