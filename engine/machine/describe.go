package machine

import (
	"strings"

	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

func (s *Shard) describe(in *Describe) {
	if r := s.find(in.Ref); r != nil {
		s.describeLoaded(in, r)
		return
	}
	s.load(refKey(in.Ref, ""), in)
}

func (s *Shard) describeLoaded(in *Describe, r *Run) {
	if r == nil {
		s.fail(in.To, notFound("describe", in.Ref))
		return
	}
	d := &pb.DescribeResponse{
		Info: InfoOf(&r.Row, r.State), CancelRequested: r.State.CancelEvent != 0, Worker: r.holder.worker,
		HistoryBytes: r.State.HistoryBytes, Last: r.State.LastTime,
	}
	if !r.decided() {
		d.Unfolded = r.behind
	}
	if d.Info.Hold == nil && r.holder.phase == holderWaiting {
		d.Info.Hold = &pb.Hold{Kind: pb.HoldKind_HOLD_KIND_NO_WORKER, Reason: noWorker(r), Since: r.State.LastTime}
	}
	for _, e := range r.entries() {
		d.Waiting = append(d.Waiting, s.waitingFor(r, e))
	}
	s.reply(r, in.To, d)
}

func noWorker(r *Run) string {
	reason := "no connected worker on queue " + r.State.Queue + " knows the workflow type " + r.Row.Type
	if len(r.excluded) > 0 {
		reason += ", but for builds that cannot go on with the run: " + strings.Join(r.excluded, ", ")
	}
	if r.suspect(&r.fold) {
		reason += "; workers have died with the run, and it is given to none that has another such run"
	}
	return reason
}

// InfoOf tells what a run's row says.
func InfoOf(row *store.RunRow, state *pb.RunState) *pb.RunInfo {
	return &pb.RunInfo{
		Namespace: row.Namespace, WorkflowId: row.WorkflowID, RunId: row.RunID, Type: row.Type,
		Queue: state.Queue, Status: pb.Status(row.Status), UndoState: state.UndoState, Hold: state.Hold,
		Started: row.Started, Closed: row.Closed, Events: row.NextEvent - 1, Run: int64(row.Run),
	}
}
