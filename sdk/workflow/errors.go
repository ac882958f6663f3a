package workflow

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/failure"
)

var (
	// ErrCanceled is found (errors.Is) in the errors of calls that a cancel
	// ended.
	ErrCanceled = replay.ErrCanceled
	// ErrTimeout is found in the errors of activities that ran out of time.
	ErrTimeout = errors.New("timed out")
	// ErrRefused is found in the errors of activities that were not started,
	// because they cannot be: their input is too large (*codec.TooLargeError) or
	// has no encoding (*codec.EncodeError), their function has no name, an option
	// is wrong. Nothing was recorded.
	ErrRefused = replay.ErrRefused
)

func init() {
	failure.Register("engined.ErrCanceled", ErrCanceled)
	failure.Register("engined.ErrTimeout", ErrTimeout)
	failure.Register("engined.ErrRefused", ErrRefused)
	failure.RegisterType[*replay.Canceled]("engined.Canceled")
	failure.RegisterType[*replay.Refused]("engined.Refused")
	failure.RegisterType[*ActivityError]("engined.ActivityError")
	failure.RegisterType[*TimeoutError]("engined.TimeoutError")
	failure.RegisterType[*ResultError]("engined.ResultError")
}

// Fail returns a final error: a workflow that returns it fails, what it did as a
// saga is compensated, and nothing is tried again, whatever wraps the error.
// Formats are those of fmt.Errorf, %w included.
func Fail(format string, args ...any) error { return failure.Final(fmt.Errorf(format, args...)) }

// Outcome is how an activity ended, in the words that are used everywhere.
type Outcome string

// The outcomes of an activity that did not complete.
const (
	OutcomeFailed       Outcome = "failed"          // its attempts are used up
	OutcomeFailedFinal  Outcome = "failed for good" // a final error: not tried again
	OutcomeInterrupted  Outcome = "interrupted"     // by the stop of its worker
	OutcomeLost         Outcome = "lost with its worker"
	OutcomeUndecodable  Outcome = "undecodable"  // the worker could not decode its input
	OutcomeUnknownType  Outcome = "unknown type" // no worker knows it
	OutcomeTooLarge     Outcome = "too large"    // its result
	OutcomeCodeFault    Outcome = "code fault"   // it panicked
	OutcomeCancelled    Outcome = "cancelled"
	OutcomeTimedOut     Outcome = "timed out"
	outcomeUnclassified Outcome = "not completed"
)

var outcomes = map[pb.Outcome]Outcome{
	pb.Outcome_OUTCOME_FAILED:       OutcomeFailed,
	pb.Outcome_OUTCOME_FAILED_FINAL: OutcomeFailedFinal,
	pb.Outcome_OUTCOME_INTERRUPTED:  OutcomeInterrupted,
	pb.Outcome_OUTCOME_LOST:         OutcomeLost,
	pb.Outcome_OUTCOME_UNDECODABLE:  OutcomeUndecodable,
	pb.Outcome_OUTCOME_UNKNOWN_TYPE: OutcomeUnknownType,
	pb.Outcome_OUTCOME_TOO_LARGE:    OutcomeTooLarge,
	pb.Outcome_OUTCOME_CODE_FAULT:   OutcomeCodeFault,
	pb.Outcome_OUTCOME_CANCELLED:    OutcomeCancelled,
	pb.Outcome_OUTCOME_TIMED_OUT:    OutcomeTimedOut,
}

// ActivityError says that an activity did not complete. errors.Is and errors.As
// look through it at what the activity returned: registered sentinels and error
// structs, ErrTimeout, ErrCanceled.
type ActivityError struct {
	// Activity is the type, "Shop.Charge", and Op the operation, "#1".
	Activity string
	Op       string
	Outcome  Outcome
	// Attempts is how often it was tried.
	Attempts int
	// Unanswered is how many times it was handed to a worker that never
	// answered: these may have had their effect, whatever the others said.
	Unanswered int
	// Err is what the last attempt returned, or which limit passed.
	Err error
}

// Error tells all of it in a line.
func (e *ActivityError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "activity %s (%s) %s", e.Activity, e.Op, e.Outcome)
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " after %d attempts", e.Attempts)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *ActivityError) Unwrap() error { return e.Err }

// TimeoutError says which limit of an activity passed. errors.Is finds
// ErrTimeout in it.
type TimeoutError struct {
	// Limit is "start-to-close", "schedule-to-close", "schedule-to-start",
	// "heartbeat", or empty.
	Limit string
	// Err is what the last attempt that was answered returned, or nil.
	Err error
}

// Error names the limit and the last error.
func (e *TimeoutError) Error() string {
	s := ErrTimeout.Error()
	if e.Limit != "" {
		s = "the " + e.Limit + " limit passed"
	}
	if e.Err != nil {
		s += ", after the error: " + e.Err.Error()
	}
	return s
}

// Is says that it is ErrTimeout.
func (e *TimeoutError) Is(target error) bool { return target == ErrTimeout }

// Unwrap returns Err.
func (e *TimeoutError) Unwrap() error { return e.Err }

// ResultError says that an activity completed, and its result does not decode
// into the type that the workflow asks for.
type ResultError struct {
	Activity string
	Op       string
	Err      error
}

// Error tells the decoder's reason.
func (e *ResultError) Error() string {
	return fmt.Sprintf("activity %s (%s) completed, but its result cannot be decoded: %v", e.Activity, e.Op, e.Err)
}

// Unwrap returns the decoder's error.
func (e *ResultError) Unwrap() error { return e.Err }

// notCompleted turns the terminal fact of an activity that did not complete into
// an error.
func notCompleted(activity string, fact *pb.Event, c codec.Codec) error {
	e := &ActivityError{Activity: activity, Outcome: outcomeUnclassified}
	var tally *pb.Tally
	switch b := fact.Body.(type) {
	case *pb.Event_ActivityFailed:
		f := b.ActivityFailed
		e.Op, tally, e.Err, e.Outcome = f.Op, f.Tally, failure.Decode(f.Failure, c), outcomeOf(f.Failure)
	case *pb.Event_ActivityTimedOut:
		t := b.ActivityTimedOut
		e.Op, tally, e.Outcome = t.Op, t.Tally, OutcomeTimedOut
		e.Err = &TimeoutError{Limit: limitName(t.Limit), Err: failure.Decode(t.Failure, c)}
	case *pb.Event_ActivityCancelled:
		a := b.ActivityCancelled
		e.Op, tally, e.Outcome, e.Err = a.Op, a.Tally, OutcomeCancelled, &replay.Canceled{Reason: a.Cause}
	}
	e.Attempts, e.Unanswered = int(tally.GetAttempts()), int(tally.GetUnanswered())
	return e
}

func outcomeOf(f *pb.Failure) Outcome {
	if o, ok := outcomes[f.GetOutcome()]; ok {
		return o
	}
	if f.GetFinal() {
		return OutcomeFailedFinal
	}
	return OutcomeFailed
}

// limitName is "start-to-close" for LIMIT_START_TO_CLOSE.
func limitName(l pb.Limit) string {
	if l == pb.Limit_LIMIT_UNSPECIFIED {
		return ""
	}
	name := strings.TrimPrefix(l.String(), "LIMIT_")
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}

// timeOf is an event's time as Now gives it.
func timeOf(e *pb.Event) time.Time { return time.Unix(0, e.Time).UTC() }
