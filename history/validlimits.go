package history

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "github.com/engined/engined/proto/enginepb"
)

// checkLimits checks V14: what every event of its kind may hold.
func checkLimits(e *pb.Event) error {
	switch b := e.Body.(type) {
	case *pb.Event_WorkflowStarted:
		return checkStarted(b.WorkflowStarted)
	case *pb.Event_ActivityScheduled:
		return CheckScheduled(b.ActivityScheduled)
	case *pb.Event_UpdateAccepted:
		if err := CheckID("the update id", b.UpdateAccepted.GetUpdateId()); err != nil {
			return err
		}
	}
	return checkParts(e)
}

func checkStarted(s *pb.WorkflowStarted) error {
	return first(
		CheckID("the namespace", s.GetNamespace()),
		CheckID("the workflow id", s.GetWorkflowId()),
		CheckID("the run id", s.GetRunId()),
		CheckID("the chain id", s.GetChainId()),
		CheckName("the workflow type", s.GetType()),
		CheckName("the queue", s.GetQueue()),
		CheckPayload("the input", s.GetInput()),
		checkString("the request id", s.GetRequestId(), MaxRequestID, optional),
		checkString("the identity", s.GetIdentity(), MaxIdentity, optional),
		CheckHeader(s.GetHeader()),
	)
}

// checkParts checks the fields that many kinds share, by their getters.
func checkParts(e *pb.Event) error {
	b := body(e)
	var errs []error
	text := func(what, s string, limit int) {
		errs = append(errs, checkString(what, s, limit, optional))
	}
	text("the operation", Op(e), MaxOp)
	text("the source", Source(e), MaxSource)
	if m, ok := b.(interface{ GetName() string }); ok {
		errs = append(errs, CheckName("the name", m.GetName()))
	}
	if m, ok := b.(interface{ GetRequestId() string }); ok {
		text("the request id", m.GetRequestId(), MaxRequestID)
	}
	if m, ok := b.(interface{ GetIdentity() string }); ok {
		text("the identity", m.GetIdentity(), MaxIdentity)
	}
	if m, ok := b.(interface{ GetReason() string }); ok {
		text("the reason", m.GetReason(), MaxReason)
	}
	if m, ok := b.(interface{ GetCause() string }); ok {
		text("the cause", m.GetCause(), MaxReason)
	}
	if m, ok := b.(interface{ GetRoad() string }); ok {
		text("the queue", m.GetRoad(), MaxName)
	}
	if m, ok := b.(interface{ GetInput() *pb.Payload }); ok {
		errs = append(errs, CheckPayload("the input", m.GetInput()))
	}
	if m, ok := b.(interface{ GetResult() *pb.Payload }); ok {
		errs = append(errs, CheckPayload("the result", m.GetResult()))
	}
	if m, ok := b.(interface{ GetFailure() *pb.Failure }); ok {
		errs = append(errs, CheckFailure(m.GetFailure()))
	}
	if m, ok := b.(interface{ GetTally() *pb.Tally }); ok {
		errs = append(errs, checkTally(m.GetTally()))
	}
	return first(errs...)
}

// CheckFailure checks the size of a failure. The error is a *LimitError.
func CheckFailure(f *pb.Failure) error {
	if n := proto.Size(f); n > MaxFailure {
		return &LimitError{What: "the failure", Have: n, Limit: MaxFailure}
	}
	return nil
}

func checkTally(t *pb.Tally) error {
	if n := len(t.GetLog()); n > MaxAttemptLog {
		return &LimitError{What: "the list of attempts", Have: n, Limit: MaxAttemptLog}
	}
	for _, a := range t.GetLog() {
		if err := CheckFailure(a.GetFailure()); err != nil {
			return fmt.Errorf("attempt %d: %w", a.GetAttempt(), err)
		}
	}
	return nil
}
