package machine

import (
	"strings"
	"testing"

	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// A number that was not reserved could be given again by the next lease: none is
// given, and the driver hears of it long before.
func TestNoNumberIsGivenThatTheLeaseHasNotReserved(t *testing.T) {
	r := newRig(t)
	first := r.s.cfg.Lease.NextRun
	exhausted := func(id string) bool {
		in := &Start{RunID: "run-" + id, To: "start " + id, Req: &pb.StartRequest{
			Namespace: "default", WorkflowId: id, RequestId: id, Type: "W", Queue: "default",
		}}
		loads := r.s.Step(r.now, in).Loads
		out := r.s.Step(r.now, &RowsRead{Load: loads[0]})
		is := out.Exhausted
		r.apply(out)
		return is
	}
	if exhausted("a") {
		t.Error("the first number exhausts the lease")
	}
	r.s.nextRun = first + store.ReservedRuns - 1
	if !exhausted("b") || r.run("b").Row.Run != store.MakeRunNo(0, first+store.ReservedRuns-1) {
		t.Error("the last number is not given, or nobody hears that it is the last")
	}
	if !exhausted("c") || r.s.ids[ID{"default", "c"}] != nil || !strings.Contains(r.story.String(), "answer to start c: error: ") {
		t.Errorf("a number beyond the last:\n%s", r.story.String())
	}
	r.script("save", "crash", "start c", "save")
	if r.run("c").Row.Run == 0 {
		t.Error("it is not started under the next lease")
	}
}
