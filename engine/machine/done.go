package machine

import (
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// done takes the answer to a task.
func (s *Shard) done(in *Done) {
	// Every answer ends its delivery's use of a slot, also a late one.
	s.cfg.Desk.Answered(KeyOf(in.Delivery), in.Worker)
	if r := s.touch(storeRun(in.Delivery.Run)); r != nil {
		s.answer(r, in)
		return
	}
	s.load(store.Key{Run: storeRun(in.Delivery.Run)}, in)
}

func (s *Shard) doneLoaded(in *Done, r *Run) {
	if r == nil {
		s.ack(nil, in.Origin)
		return
	}
	s.answer(r, in)
}

func (s *Shard) answer(r *Run, in *Done) {
	defer s.ack(r, in.Origin)
	e := r.Entries[in.Delivery.Op]
	if e == nil || e.activity() == nil {
		return // ended, and forgotten: too late for anything
	}
	a := e.activity()
	if !started(a) || role(a) != in.Delivery.Role || a.Delivery != in.Delivery.Delivery ||
		a.Incarnation != in.Delivery.Incarnation || a.Worker != in.Worker {
		s.late(r, e, in)
		return
	}
	f := in.Failure
	if f != nil {
		f.Outcome = in.Outcome
	}
	s.logAttempt(e, in.Outcome, f)
	switch in.Outcome {
	case pb.Outcome_OUTCOME_COMPLETED:
		s.succeed(r, e, in.Result)
	case pb.Outcome_OUTCOME_FAILED_FINAL, pb.Outcome_OUTCOME_UNDECODABLE:
		// The service, or the worker before it, said that nothing happened.
		s.giveUp(r, e, failureEvent(e, f))
	case pb.Outcome_OUTCOME_TOO_LARGE:
		a.Tally.Inconclusive++
		s.giveUp(r, e, failureEvent(e, f))
	case pb.Outcome_OUTCOME_UNKNOWN_TYPE:
		a.Attempt-- // it never ran; the next attempt is the same one
		s.again(r, e, f)
	case pb.Outcome_OUTCOME_INTERRUPTED:
		a.Tally.Inconclusive++
		s.interrupted(r, e, f)
	default: // failed, code fault, cancelled: the effect may have happened
		a.Tally.Inconclusive++
		s.again(r, e, f)
	}
}

// succeed ends the side under way with its result.
func (s *Shard) succeed(r *Run, e *Entry, result *pb.Payload) {
	a := e.activity()
	if undoing(a) {
		s.undone(r, e, result)
		return
	}
	s.endWith(r, e, &pb.Event{Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{
		Op: e.Op, Result: result, Tally: a.Tally,
	}}}, result)
}

// giveUp ends the side under way without success; ev is the forward side's.
func (s *Shard) giveUp(r *Run, e *Entry, ev *pb.Event) {
	if undoing(e.activity()) {
		s.undoFailed(r, e)
		return
	}
	s.end(r, e, ev)
}

func (s *Shard) end(r *Run, e *Entry, ev *pb.Event) { s.endWith(r, e, ev, nil) }

// endWith records the forward side's terminal event. An entry with an undo
// stays if there may be something to undo.
func (s *Shard) endWith(r *Run, e *Entry, ev *pb.Event, result *pb.Payload) {
	a := e.activity()
	s.cfg.Desk.Free(nextDelivery(r, e))
	// The event and the entry share the tally from here on; it does not change
	// any more, since the undo counts in one of its own.
	s.record(r, ev)
	outcome := entryOutcome(a, ev.GetActivityCompleted() != nil)
	if a.Undo == nil || outcome == pb.EntryOutcome_ENTRY_OUTCOME_NOT_DONE {
		s.drop(r, e)
		s.compensate(r)
		return
	}
	a.SettledEvent = r.Row.NextEvent - 1
	a.Roads = []*pb.Road{{Queue: a.Queue, Outcome: outcome, Forward: a.Tally, Result: result}}
	a.Phase = pb.Phase_PHASE_ARMED
	s.put(r, e)
	if a.Compensating {
		s.queueUndo(r, e)
		s.compensate(r)
	}
}

// entryOutcome is what the facts say of the forward effect. Only a delivery
// that was refused for good is known to have had none.
func entryOutcome(a *pb.PendingActivity, completed bool) pb.EntryOutcome {
	switch {
	case completed:
		return pb.EntryOutcome_ENTRY_OUTCOME_DONE
	case a.Tally.Unanswered == 0 && a.Tally.Inconclusive == 0:
		return pb.EntryOutcome_ENTRY_OUTCOME_NOT_DONE
	default:
		return pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN
	}
}

func failureEvent(e *Entry, f *pb.Failure) *pb.Event {
	return &pb.Event{Body: &pb.Event_ActivityFailed{ActivityFailed: &pb.ActivityFailed{
		Op: e.Op, Failure: f, Tally: e.activity().Tally,
	}}}
}

// logAttempt writes the attempt into the list that people read; the newest are
// kept.
func (s *Shard) logAttempt(e *Entry, o pb.Outcome, f *pb.Failure) {
	a := e.activity()
	t := a.Tally
	if len(t.Log) == history.MaxAttemptLog {
		t.Log = append(t.Log[:0:0], t.Log[1:]...)
	}
	t.Log = append(t.Log, &pb.Attempt{
		Attempt: a.Attempt, Delivery: a.Delivery, Worker: a.Worker,
		Started: a.Started, Ended: s.now, Outcome: o, Failure: f,
	})
	if f != nil {
		a.LastFailure = f
	}
}

// late records an answer to a delivery that was given up. Before compensation
// it is one of the attempts; when the undo ran on an unknown outcome, a success
// makes it run once more, as done.
func (s *Shard) late(r *Run, e *Entry, in *Done) {
	a := e.activity()
	if in.Delivery.Role != pb.Role_ROLE_FORWARD || in.Outcome != pb.Outcome_OUTCOME_COMPLETED {
		return
	}
	if !undoing(a) && a.Phase != pb.Phase_PHASE_ARMED {
		return // a newer attempt of the same key is under way, or will be
	}
	road := a.Roads[0]
	if road.Outcome == pb.EntryOutcome_ENTRY_OUTCOME_DONE {
		return
	}
	s.record(r, &pb.Event{Body: &pb.Event_LateAnswer{LateAnswer: &pb.LateAnswer{
		Op: e.Op, Delivery: in.Delivery.Delivery, Outcome: in.Outcome, Result: in.Result,
	}}})
	road.Outcome, road.Result = pb.EntryOutcome_ENTRY_OUTCOME_DONE, in.Result
	s.put(r, e)
	if a.Phase == pb.Phase_PHASE_UNDONE {
		s.queueUndo(r, e)
		s.compensate(r)
	}
}
