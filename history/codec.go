package history

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "github.com/engined/engined/proto/enginepb"
)

// Deterministic, so that equal events are equal bytes: golden files, checksums
// and the simulator's traces rest on it.
var marshal = proto.MarshalOptions{Deterministic: true}

// NewerFormatError says that a history was written by a newer build.
type NewerFormatError struct{ Have, Want int32 }

func (e *NewerFormatError) Error() string {
	return fmt.Sprintf("the history has format %d, this build reads formats up to %d: use a newer engined", e.Have, e.Want)
}

// Append encodes the events as one batch and appends it to dst.
func Append(dst []byte, events []*pb.Event) ([]byte, error) {
	out, err := marshal.MarshalAppend(dst, &pb.EventBatch{Format: Format, Events: events})
	if err != nil {
		return dst, fmt.Errorf("encode events: %w", err)
	}
	return out, nil
}

// Decode reads one batch.
func Decode(data []byte) ([]*pb.Event, error) {
	var b pb.EventBatch
	if err := proto.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("decode events: %w", err)
	}
	if b.Format > Format {
		return nil, &NewerFormatError{Have: b.Format, Want: Format}
	}
	return b.Events, nil
}

// body returns the message inside the event's oneof, or nil.
func body(e *pb.Event) any {
	switch b := e.GetBody().(type) {
	case *pb.Event_WorkflowStarted:
		return b.WorkflowStarted
	case *pb.Event_ActivityCompleted:
		return b.ActivityCompleted
	case *pb.Event_ActivityFailed:
		return b.ActivityFailed
	case *pb.Event_ActivityTimedOut:
		return b.ActivityTimedOut
	case *pb.Event_ActivityCancelled:
		return b.ActivityCancelled
	case *pb.Event_TimerFired:
		return b.TimerFired
	case *pb.Event_CancelRequested:
		return b.CancelRequested
	case *pb.Event_SignalReceived:
		return b.SignalReceived
	case *pb.Event_UpdateAccepted:
		return b.UpdateAccepted
	case *pb.Event_Joined:
		return b.Joined
	case *pb.Event_WorkflowTerminated:
		return b.WorkflowTerminated
	case *pb.Event_WorkflowTimedOut:
		return b.WorkflowTimedOut
	case *pb.Event_CompensationStarted:
		return b.CompensationStarted
	case *pb.Event_UndoCompleted:
		return b.UndoCompleted
	case *pb.Event_UndoFailed:
		return b.UndoFailed
	case *pb.Event_CompensationEnded:
		return b.CompensationEnded
	case *pb.Event_LateAnswer:
		return b.LateAnswer
	case *pb.Event_ActivityScheduled:
		return b.ActivityScheduled
	case *pb.Event_ActivityCancelRequested:
		return b.ActivityCancelRequested
	case *pb.Event_TimerStarted:
		return b.TimerStarted
	case *pb.Event_TimerCancelled:
		return b.TimerCancelled
	case *pb.Event_SagaCommitted:
		return b.SagaCommitted
	case *pb.Event_SagaCompensate:
		return b.SagaCompensate
	case *pb.Event_WorkflowCompleted:
		return b.WorkflowCompleted
	case *pb.Event_WorkflowFailed:
		return b.WorkflowFailed
	case *pb.Event_WorkflowCancelled:
		return b.WorkflowCancelled
	default:
		return nil
	}
}
