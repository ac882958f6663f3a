package view

import (
	"fmt"

	pb "github.com/engined/engined/proto/enginepb"
)

// ToDo says what somebody can do about a run that is held and open; "" for others.
func ToDo(r *pb.RunInfo) string {
	if r.Status != pb.Status_STATUS_RUNNING {
		return ""
	}
	end := fmt.Sprintf("`engined workflow terminate %s`", Arg(r.WorkflowId))
	switch r.Hold.GetKind() {
	case pb.HoldKind_HOLD_KIND_STUCK:
		return "start a worker of a build that fits, and it goes on; or end it: " + end
	case pb.HoldKind_HOLD_KIND_QUARANTINED:
		return "end it: " + end + "; or, if workers died with it, deploy a fix and start the engine again, which tries it once more"
	case pb.HoldKind_HOLD_KIND_NO_WORKER:
		return fmt.Sprintf("start a worker that knows %s on queue %s; or end it: %s", Clean(r.Type), Clean(r.Queue), end)
	default:
		return ""
	}
}
