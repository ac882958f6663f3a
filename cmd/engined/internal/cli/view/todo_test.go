package view

import (
	"strings"
	"testing"

	pb "github.com/engined/engined/proto/enginepb"
)

func TestAHeldRunTellsWhatToDo(t *testing.T) {
	for kind, parts := range map[pb.HoldKind][]string{
		pb.HoldKind_HOLD_KIND_STUCK:       {"a build that fits", "`engined workflow terminate 'order 1'`"},
		pb.HoldKind_HOLD_KIND_QUARANTINED: {"deploy a fix", "start the engine again", "`engined workflow terminate 'order 1'`"},
		pb.HoldKind_HOLD_KIND_NO_WORKER:   {"start a worker that knows PlaceOrder on queue fast"},
	} {
		r := &pb.RunInfo{WorkflowId: "order 1", Type: "PlaceOrder", Queue: "fast", Status: pb.Status_STATUS_RUNNING, Hold: &pb.Hold{Kind: kind}}
		var b strings.Builder
		if err := (&Description{DescribeResponse: &pb.DescribeResponse{Info: r}}).Describe(&b); err != nil {
			t.Fatal(err)
		}
		for _, p := range append(parts, "what to do ") {
			if !strings.Contains(b.String(), p) {
				t.Errorf("%v does not say %q:\n%s", kind, p, b.String())
			}
		}
		if r.Status = pb.Status_STATUS_FAILED; ToDo(r) != "" {
			t.Errorf("%v: there is something to do about a run that is closed: %s", kind, ToDo(r))
		}
	}
}
