package history

import (
	pb "github.com/engined/engined/proto/enginepb"
)

// Format is the version of the stored form that this build writes. A build
// reads every format up to its own, for ever, and refuses newer ones.
const Format = 1

// Semantics is the newest version of the folding runtime. A run keeps the one
// it was started with, so that a later change to the order of select or cancel
// never breaks it.
const Semantics = 1

// IsDecision says whether the event was asked for by workflow code.
func IsDecision(e *pb.Event) bool { return e.GetCause() != 0 }

// IsInput says whether the event is a fact that a fold takes in. The engine's
// own bookkeeping of a closing run is an input too; no code is left to fold it.
func IsInput(e *pb.Event) bool { return e.GetCause() == 0 }

// Op returns the operation that the event is about, or "".
func Op(e *pb.Event) string {
	type hasOp interface{ GetOp() string }
	if b, ok := body(e).(hasOp); ok {
		return b.GetOp()
	}
	return ""
}

// Closes says whether the event decides the outcome of its run.
func Closes(e *pb.Event) bool { return ClosingStatus(e) != pb.Status_STATUS_UNSPECIFIED }

// ClosingStatus is the status that the event gives to its run, or unspecified.
func ClosingStatus(e *pb.Event) pb.Status {
	switch e.GetBody().(type) {
	case *pb.Event_WorkflowCompleted:
		return pb.Status_STATUS_COMPLETED
	case *pb.Event_WorkflowFailed:
		return pb.Status_STATUS_FAILED
	case *pb.Event_WorkflowCancelled:
		return pb.Status_STATUS_CANCELLED
	case *pb.Event_WorkflowTerminated:
		return pb.Status_STATUS_TERMINATED
	case *pb.Event_WorkflowTimedOut:
		return pb.Status_STATUS_TIMED_OUT
	default:
		return pb.Status_STATUS_UNSPECIFIED
	}
}

// Name returns what the event's operation is called by people: the activity
// type, or "".
func Name(e *pb.Event) string {
	switch b := e.GetBody().(type) {
	case *pb.Event_WorkflowStarted:
		return b.WorkflowStarted.GetType()
	case *pb.Event_ActivityScheduled:
		return b.ActivityScheduled.GetType()
	default:
		return ""
	}
}

// Source returns where in the workflow code a decision was asked for, "shop.go:42".
func Source(e *pb.Event) string {
	type hasSource interface{ GetSource() string }
	if b, ok := body(e).(hasSource); ok {
		return b.GetSource()
	}
	return ""
}
