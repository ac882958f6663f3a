package client

import (
	"errors"
	"fmt"

	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// Error is an error of the engine's interface: Code says what can be done about
// it, RunID which run is in the way of a start.
type Error = apierr.Error

// IsNotFound says that there is no such run.
func IsNotFound(err error) bool { return apierr.Is(err, apierr.NotFound) }

// IsAlreadyExists says that the workflow id is taken.
func IsAlreadyExists(err error) bool { return apierr.Is(err, apierr.AlreadyExists) }

// IsInvalidArgument says that the request can never succeed as it is.
func IsInvalidArgument(err error) bool { return apierr.Is(err, apierr.InvalidArgument) }

// IsUnavailable says that no engine answered before the context ended. What was
// asked for may have been done; a repeat under the same request id tells.
func IsUnavailable(err error) bool { return apierr.Is(err, apierr.Unavailable) }

// IsResourceExhausted says that the engine was too busy, or a limit of it was
// reached, until the context ended.
func IsResourceExhausted(err error) bool { return apierr.Is(err, apierr.ResourceExhausted) }

// IsNotRunning says that the run's end had been decided before: nothing was done.
func IsNotRunning(err error) bool { return apierr.Is(err, apierr.FailedPrecondition) }

// IsClosed says that the client has been closed, or the engine in this process.
func IsClosed(err error) bool { return apierr.Is(err, apierr.Closed) }

// How a run ended is in the tree of its RunError, for errors.Is. A run that
// failed has what its code returned there, and none of these.
var (
	// ErrCanceled: the run was cancelled.
	ErrCanceled = errors.New("the run was cancelled")
	// ErrTerminated: the run was terminated.
	ErrTerminated = errors.New("the run was terminated")
	// ErrTimedOut: the run reached its hard deadline.
	ErrTimedOut = errors.New("the run timed out")
)

// RunError says that a run did not complete. Its tree holds what the workflow
// failed with, so errors.Is and errors.As reach registered errors.
type RunError struct {
	WorkflowID string
	RunID      string
	Status     pb.Status
	// UndoState says what became of the steps that had an undo.
	UndoState pb.UndoState
	// Err is the failure as the workflow returned it; it may be nil.
	Err error
}

func (e *RunError) Error() string {
	s := fmt.Sprintf("workflow %s (run %s) %s", e.WorkflowID, e.RunID, statusText(e.Status))
	switch e.UndoState {
	case pb.UndoState_UNDO_STATE_COMPENSATED:
		s += ", compensated"
	case pb.UndoState_UNDO_STATE_FAILED:
		s += ", compensation failed"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the failure and, by the status, ErrCanceled, ErrTerminated or
// ErrTimedOut.
func (e *RunError) Unwrap() []error {
	var errs []error
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	switch e.Status {
	case pb.Status_STATUS_CANCELLED:
		errs = append(errs, ErrCanceled)
	case pb.Status_STATUS_TERMINATED:
		errs = append(errs, ErrTerminated)
	case pb.Status_STATUS_TIMED_OUT:
		errs = append(errs, ErrTimedOut)
	}
	return errs
}

func statusText(s pb.Status) string {
	switch s {
	case pb.Status_STATUS_COMPLETED:
		return "completed"
	case pb.Status_STATUS_FAILED:
		return "failed"
	case pb.Status_STATUS_CANCELLED:
		return "was cancelled"
	case pb.Status_STATUS_TERMINATED:
		return "was terminated"
	case pb.Status_STATUS_TIMED_OUT:
		return "timed out"
	default:
		return "ended as " + s.String()
	}
}
