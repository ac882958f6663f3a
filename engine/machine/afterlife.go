package machine

import (
	"slices"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// What follows when all is over. A step was given up, undone as unknown, and the
// compensation has ended; but a worker that does not heed its cancels may still run
// the step, and do it. While that is possible the entry stays as a row and listens,
// also when its run has closed: it holds neither the run nor its id. A success that
// comes is recorded, and undone by itself, beside whatever the run does. An answer
// that says otherwise, or the end of the time, ends it.

// listenFor is how long a late answer is waited for at least.
const listenFor = int64(24 * time.Hour)

// listens says that the entry is there for a late answer alone.
func listens(a *pb.PendingActivity) bool {
	return a.GetPhase() == pb.Phase_PHASE_UNDONE && !a.Compensating
}

// alone says that the undo runs by itself, in no compensation.
func alone(a *pb.PendingActivity) bool {
	return a != nil && undoing(a) && !finished(a) && !a.Compensating
}

// mayAnswer says whether a delivery of the step, which was undone as unknown, may
// still say that the step is done.
func mayAnswer(a *pb.PendingActivity) bool {
	road := a.Roads[0]
	return road.Outcome != pb.EntryOutcome_ENTRY_OUTCOME_DONE && road.Forward.GetUnanswered() > 0 &&
		slices.ContainsFunc(road.Forward.GetLog(), unheard)
}

// unheard says that the attempt was given up and has not been answered.
func unheard(x *pb.Attempt) bool {
	return !x.Late && (x.Outcome == pb.Outcome_OUTCOME_TIMED_OUT || x.Outcome == pb.Outcome_OUTCOME_LOST)
}

// leaveBehind takes an entry that is undone out of its compensation: it is gone, or
// listens.
func (s *Shard) leaveBehind(r *Run, e *Entry) {
	a := e.activity()
	if !mayAnswer(a) {
		s.drop(r, e)
		return
	}
	a.Compensating, a.UndoFor = false, ""
	a.SettleBy = later(s.now, max(listenFor, a.Timeouts.GetStartToClose()))
	s.put(r, e)
}

// overheard goes on when a delivery has said that it has not done the step.
func (s *Shard) overheard(r *Run, e *Entry) {
	if a := e.activity(); listens(a) && !mayAnswer(a) {
		s.drop(r, e)
		return
	}
	s.put(r, e)
}

// undoOnceMore undoes as done what was undone as unknown: within the compensation
// that is under way, or alone.
func (s *Shard) undoOnceMore(r *Run, e *Entry) {
	a := e.activity()
	if listens(a) && r.compensation("") != nil {
		a.Compensating = true
	}
	s.queueUndo(r, e)
	if a.Compensating {
		s.compensate(r)
		return
	}
	if r.decided() {
		r.State.UndoState = pb.UndoState_UNDO_STATE_COMPENSATING
	}
	a.UndoSince = s.now
	s.dispatch(r, e)
}
