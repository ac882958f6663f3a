package machine

import (
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// closeRun takes the event that decides the outcome. Between this moment and
// the one when its compensation has settled the run is compensating: it holds
// its workflow id and folds no code.
func (s *Shard) closeRun(r *Run, e *pb.Event) {
	r.Row.Status = int32(history.ClosingStatus(e))
	r.State.ClosingEvent = e.Id
	s.unassign(r)
	s.exonerate(r)
	r.State.Hold = nil
	done := pb.Status(r.Row.Status) == pb.Status_STATUS_COMPLETED
	var undo []string
	for _, x := range r.entries() {
		a := x.activity()
		switch {
		case a == nil:
			s.drop(r, x)
		case waitsForward(a):
			// It never runs again; what it leaves behind is told by its tally.
			s.cancelActivity(r, x, "the run has closed")
			if undoable(r.Entries[x.Op]) {
				undo = append(undo, x.Op)
			}
		case a.Undo == nil:
			s.stopForGood(r, x)
		case a.Phase == pb.Phase_PHASE_ARMED && done && a.Roads[0].Outcome == pb.EntryOutcome_ENTRY_OUTCOME_DONE:
			// Success keeps what was done.
			s.drop(r, x)
		default:
			undo = append(undo, x.Op)
		}
	}
	s.beginCompensation(r, undo, "")
	s.settle(r)
}

// waitsForward says that the forward side waits for its next attempt.
func waitsForward(a *pb.PendingActivity) bool {
	return a.Undo != nil && (a.Phase == pb.Phase_PHASE_WAITING || a.Phase == pb.Phase_PHASE_BACKOFF)
}

// stopForGood ends an activity that nobody waits for any more.
func (s *Shard) stopForGood(r *Run, e *Entry) {
	a := e.activity()
	if started(a) {
		s.after(r, cancelTask(r, e, "the run has closed"))
	} else {
		s.cfg.Desk.Free(nextDelivery(r, e), anyone)
	}
	s.drop(r, e)
}

// settle closes a decided run whose compensation is over, and tells those who
// await it. One with an undo that failed for good stays open until people
// decide; those who await it are told now.
func (s *Shard) settle(r *Run) {
	if !r.decided() || r.compensation("") != nil {
		return
	}
	failed := false
	for _, e := range r.entries() {
		a := e.activity()
		if alone(a) {
			return // the run is told when it is over
		}
		failed = failed || a.GetPhase() == pb.Phase_PHASE_UNDO_FAILED
	}
	s.change(r).Touched = true
	switch {
	case failed:
		r.State.UndoState = pb.UndoState_UNDO_STATE_FAILED
	case r.State.UndoState != pb.UndoState_UNDO_STATE_NONE:
		r.State.UndoState = pb.UndoState_UNDO_STATE_COMPENSATED
	}
	if r.Row.Open && !failed {
		s.shut(r)
	}
	s.tellWaiters(r)
}

// shut closes the run's row. What listens for a late answer stays.
func (s *Shard) shut(r *Run) {
	for _, e := range r.entries() {
		if !listens(e.activity()) {
			s.drop(r, e)
		}
	}
	r.State.Hold = nil
	r.Row.Open = false
	r.Row.Closed = max(s.now, r.State.LastTime)
}
