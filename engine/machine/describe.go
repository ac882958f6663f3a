package machine

import (
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
	}
	if d.Info.Hold == nil && r.holder.phase == holderWaiting {
		d.Info.Hold = &pb.Hold{
			Kind:   pb.HoldKind_HOLD_KIND_NO_WORKER,
			Reason: "no connected worker on queue " + r.State.Queue + " knows the workflow type " + r.Row.Type,
			Since:  r.State.LastTime,
		}
	}
	for _, e := range r.entries() {
		d.Waiting = append(d.Waiting, waitingFor(r, e))
	}
	s.reply(r, in.To, d)
}

func waitingFor(r *Run, e *Entry) *pb.Waiting {
	w := &pb.Waiting{Op: e.Op, Until: e.nextWake()}
	switch b := e.P.Body.(type) {
	case *pb.Pending_Timer:
		w.Kind, w.State = "timer", "running"
	case *pb.Pending_Grace:
		w.Kind, w.State = "grace", "the code may end by itself until then"
	case *pb.Pending_Activity:
		a := b.Activity
		w.Kind, w.Type, w.Queue, w.Since = "activity", a.Type, a.Queue, a.ScheduledTime
		if undoing(a) {
			w.Kind, w.Type, w.Since = "undo", a.Undo.Type, a.UndoSince
		}
		w.State, w.Attempt, w.Failure, w.Attempts = phaseText(a.Phase), a.Attempt, a.LastFailure, a.Tally.GetLog()
		if started(a) {
			w.Worker, w.Since = a.Worker, a.Started
		}
		if len(a.Roads) > 0 {
			w.Outcome = a.Roads[0].Outcome
		}
		if a.Phase == pb.Phase_PHASE_ARMED {
			w.Kind, w.Attempts = "ledger", a.Roads[0].Forward.GetLog()
		}
	}
	return w
}

func phaseText(p pb.Phase) string {
	switch p {
	case pb.Phase_PHASE_WAITING, pb.Phase_PHASE_UNDO_WAITING:
		return "waiting for a slot"
	case pb.Phase_PHASE_STARTED, pb.Phase_PHASE_UNDO_STARTED:
		return "started"
	case pb.Phase_PHASE_BACKOFF, pb.Phase_PHASE_UNDO_BACKOFF:
		return "backoff"
	case pb.Phase_PHASE_ARMED:
		return "armed"
	case pb.Phase_PHASE_UNDO_QUEUED:
		return "waiting for its turn"
	case pb.Phase_PHASE_UNDO_FAILED:
		return "failed for good"
	case pb.Phase_PHASE_UNDONE:
		return "undone"
	default:
		return "unknown"
	}
}

// InfoOf tells what a run's row says.
func InfoOf(row *store.RunRow, state *pb.RunState) *pb.RunInfo {
	return &pb.RunInfo{
		Namespace: row.Namespace, WorkflowId: row.WorkflowID, RunId: row.RunID, Type: row.Type,
		Queue: state.Queue, Status: pb.Status(row.Status), UndoState: state.UndoState, Hold: state.Hold,
		Started: row.Started, Closed: row.Closed, Events: row.NextEvent - 1, Run: int64(row.Run),
	}
}
