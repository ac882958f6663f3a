package machine

import (
	"cmp"
	"slices"

	pb "github.com/engined/engined/proto/enginepb"
)

// Compensation. An entry is undone before every entry that was settled before
// it was scheduled; entries that ran side by side are undone side by side: the
// forward order, turned around, and no stricter.

// beginCompensation takes the entries named under compensation, for the
// saga.Compensate of op `by`, or ("") because the run closes.
func (s *Shard) beginCompensation(r *Run, ops []string, by string) {
	var taken []*Entry
	for _, op := range ops {
		if e := r.Entries[op]; undoable(e) && !listens(e.activity()) && (by == "" || !e.activity().Compensating) {
			taken = append(taken, e)
		}
	}
	slices.SortFunc(taken, func(a, b *Entry) int { return cmp.Compare(b.scheduled(), a.scheduled()) })
	if by == "" {
		if len(taken) == 0 {
			return
		}
		r.State.UndoState = pb.UndoState_UNDO_STATE_COMPENSATING
		s.note(r, &pb.Event{Body: &pb.Event_CompensationStarted{CompensationStarted: &pb.CompensationStarted{Ops: opsOf(taken)}}})
	}
	c := &pb.Compensation{Op: by}
	r.State.Compensations = append(r.State.Compensations, c)
	for _, e := range taken {
		a := e.activity()
		a.Compensating, a.UndoFor = true, by
		if a.Phase == pb.Phase_PHASE_UNDO_FAILED {
			c.Failed = append(c.Failed, e.Op) // by an earlier compensation
		}
		r.track(e)
	}
	for _, e := range taken {
		s.takeUp(r, e)
	}
	s.compensate(r)
}

func opsOf(entries []*Entry) []string {
	ops := make([]string, len(entries))
	for i, e := range entries {
		ops[i] = e.Op
	}
	return ops
}

func undoable(e *Entry) bool { return e != nil && e.activity().GetUndo() != nil }

// takeUp begins with one entry. No undo overtakes its forward step: one that
// runs is asked to stop and waited for, one that does not run never starts.
func (s *Shard) takeUp(r *Run, e *Entry) {
	a := e.activity()
	switch {
	case a.Phase == pb.Phase_PHASE_ARMED:
		s.queueUndo(r, e)
	case undoing(a) || a.Cancelled:
		s.put(r, e) // under way already, or asked to stop before
	default:
		s.cancelActivity(r, e, "compensation has begun")
	}
}

// queueUndo lets an entry whose forward side is settled wait for its turn.
func (s *Shard) queueUndo(r *Run, e *Entry) {
	a := e.activity()
	if !undoing(a) {
		a.Delivery = 0
	} // else it runs once more: its worker must not take it for the first time
	a.Phase = pb.Phase_PHASE_UNDO_QUEUED
	a.Attempt, a.Tally, a.LastFailure = 1, &pb.Tally{}, nil
	a.Cancelled, a.CancelCause = false, "" // that was the step, not its undo
	s.put(r, e)
}

// compensate starts every undo whose turn has come, and ends the compensations
// that are over.
func (s *Shard) compensate(r *Run) {
	if len(r.State.Compensations) == 0 {
		return
	}
	ready := r.undos.ready()
	slices.SortFunc(ready, inOrder)
	for _, e := range ready {
		e.activity().UndoSince = s.now
		s.dispatch(r, e)
	}
	s.endCompensations(r)
}

func finished(a *pb.PendingActivity) bool {
	return a.Phase == pb.Phase_PHASE_UNDO_FAILED || a.Phase == pb.Phase_PHASE_UNDONE
}

// undone takes the success of an undo. One that ran on an unknown outcome stays
// until the compensation is over, and perhaps longer (afterlife.go), for an answer
// of the forward step that comes late; if it came while the undo ran, the undo runs
// once more.
func (s *Shard) undone(r *Run, e *Entry, result *pb.Payload) {
	a := e.activity()
	s.acquit(r, &e.suspicion)
	s.record(r, &pb.Event{Body: &pb.Event_UndoCompleted{UndoCompleted: &pb.UndoCompleted{
		Op: e.Op, Outcome: a.UndoTold, Road: a.Roads[0].Queue, Result: result, Tally: a.Tally,
	}}})
	switch {
	case alone(a):
		s.drop(r, e)
		s.settle(r)
	case overtaken(a):
		s.queueUndo(r, e)
	default:
		a.Phase = pb.Phase_PHASE_UNDONE
		s.put(r, e)
		if c := r.compensation(a.UndoFor); c != nil {
			c.Undone++
		}
	}
	s.compensate(r)
}

func (s *Shard) undoFailed(r *Run, e *Entry) {
	a := e.activity()
	s.cfg.Desk.Free(nextDelivery(r, e), anyone)
	s.acquit(r, &e.suspicion)
	s.record(r, &pb.Event{Body: &pb.Event_UndoFailed{UndoFailed: &pb.UndoFailed{
		Op: e.Op, Outcome: a.UndoTold, Road: a.Roads[0].Queue, Failure: a.LastFailure, Tally: a.Tally,
	}}})
	switch {
	case alone(a):
		a.Phase = pb.Phase_PHASE_UNDO_FAILED
		s.put(r, e)
		s.settle(r)
	case overtaken(a):
		s.queueUndo(r, e)
	default:
		a.Phase = pb.Phase_PHASE_UNDO_FAILED
		s.put(r, e)
		if c := r.compensation(a.UndoFor); c != nil {
			c.Failed = append(c.Failed, e.Op)
		}
	}
	s.compensate(r)
}

// overtaken says that the undo was told less than is known by now: an answer of
// its step has come late. It runs once more, as done.
func overtaken(a *pb.PendingActivity) bool {
	return a.UndoTold == pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN && a.Roads[0].Outcome == pb.EntryOutcome_ENTRY_OUTCOME_DONE
}

func (r *Run) compensation(by string) *pb.Compensation {
	for _, c := range r.State.Compensations {
		if c.Op == by {
			return c
		}
	}
	return nil
}

// endCompensations records the end of each compensation that is over. What
// could not be undone stays as an entry, for people.
func (s *Shard) endCompensations(r *Run) {
	for _, c := range slices.Clone(r.State.Compensations) {
		of := r.covered(c.Op)
		if of.unfinished > 0 {
			continue
		}
		delete(r.undos.covered, c.Op)
		r.State.Compensations = slices.DeleteFunc(r.State.Compensations, func(x *pb.Compensation) bool { return x == c })
		slices.SortFunc(of.entries, inOrder)
		for _, e := range of.entries {
			switch a := e.activity(); {
			case e.tracked.in != of: // gone, or in another compensation by now
			case a.Phase == pb.Phase_PHASE_UNDONE:
				s.leaveBehind(r, e)
			default:
				a.Compensating = false
				s.put(r, e)
			}
		}
		s.record(r, &pb.Event{Body: &pb.Event_CompensationEnded{CompensationEnded: &pb.CompensationEnded{
			Op: c.Op, Undone: c.Undone, Failed: c.Failed,
		}}})
		if c.Op == "" {
			s.settle(r)
		}
	}
}

// sagaCommit drops what is armed: nothing named is undone any more. A step that
// still runs goes on without its undo.
func (s *Shard) sagaCommit(r *Run, ops []string) {
	for _, op := range ops {
		e := r.Entries[op]
		if !undoable(e) || e.activity().Compensating {
			continue
		}
		switch a := e.activity(); {
		case a.Phase == pb.Phase_PHASE_ARMED || a.Phase == pb.Phase_PHASE_UNDO_FAILED:
			s.drop(r, e)
		case undoing(a): // by itself, or done: it was given back before
		default:
			a.Undo = nil
			s.put(r, e)
		}
	}
}

// sagaCompensate undoes the entries named while the code goes on.
func (s *Shard) sagaCompensate(r *Run, d *pb.SagaCompensate) {
	s.beginCompensation(r, d.Ops, d.Op)
}
