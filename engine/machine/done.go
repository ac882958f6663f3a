package machine

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// done takes the answer to a task.
func (s *Shard) done(in *Done) {
	if in.Delivery == nil {
		s.ack(nil, in.Origin) // it answers nothing
		return
	}
	if s.provesNothing(in) {
		return
	}
	// Every answer ends its delivery's use of a slot, also a late one.
	s.cfg.Desk.Free(KeyOf(in.Delivery), in.Worker)
	if r := s.touch(storeRun(in.Delivery.Run)); r != nil {
		s.answer(r, in)
		return
	}
	s.load(store.Key{Run: storeRun(in.Delivery.Run)}, in)
}

// provesNothing says of the engine's own word that a delivery never left (no
// message carries it), that the delivery was sent once more meanwhile, when its
// worker had come back: that sending may still arrive.
func (s *Shard) provesNothing(in *Done) bool {
	if !in.Unbegun || in.Seq != 0 {
		return false
	}
	r := s.runs[storeRun(in.Delivery.Run)]
	if r == nil {
		return false
	}
	e := r.Entries[in.Delivery.Op]
	return e != nil && e.resent && present(e, in.Worker, in.Delivery)
}

func (s *Shard) doneLoaded(in *Done, r *Run) {
	if s.provesNothing(in) {
		return
	}
	// The delivery may have been given its slot back when its run was read.
	s.cfg.Desk.Free(KeyOf(in.Delivery), in.Worker)
	if r == nil {
		s.ack(nil, in.Origin)
		return
	}
	s.answer(r, in)
}

func (s *Shard) answer(r *Run, in *Done) {
	defer s.ack(r, in.Origin)
	check(in.Done)
	e := r.Entries[in.Delivery.Op]
	if e == nil || e.activity() == nil {
		return // ended, and forgotten: too late for anything
	}
	a := e.activity()
	s.acquit(r, &e.suspicion)
	if !present(e, in.Worker, in.Delivery) {
		s.late(r, e, in)
		return
	}
	e.losses = 0
	f := in.Failure
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
		if !in.Unbegun {
			a.Tally.Inconclusive++
		}
		s.interrupted(r, e, f, in.Unbegun)
	case pb.Outcome_OUTCOME_TIMED_OUT:
		// The activity has heeded its limit, and says so before the engine does.
		a.Tally.Inconclusive++
		s.heeded(r, e, f)
	default: // failed, code fault, cancelled: the effect may have happened
		a.Tally.Inconclusive++
		s.again(r, e, f)
	}
}

// check brings an answer into the form that a history may hold, whatever the
// worker has sent.
func check(d *pb.Done) {
	completed := d.Outcome == pb.Outcome_OUTCOME_COMPLETED
	if err := history.CheckPayload("the result", d.Result); completed && err != nil {
		completed = false
		d.Outcome, d.Failure = pb.Outcome_OUTCOME_TOO_LARGE, &pb.Failure{Message: err.Error()}
	}
	if completed {
		d.Failure = nil
		return
	}
	d.Result = nil
	if err := history.CheckFailure(d.Failure); err != nil {
		d.Failure = &pb.Failure{Message: err.Error(), Final: d.Failure.GetFinal()}
	}
	if d.Failure == nil {
		d.Failure = &pb.Failure{Message: "the worker gave no reason"}
	}
	d.Failure.Outcome = d.Outcome
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
	s.cfg.Desk.Free(nextDelivery(r, e), anyone)
	// The event and the entry share the tally from here on; it does not change
	// any more, since the undo counts in one of its own.
	s.acquit(r, &e.suspicion)
	s.record(r, ev)
	done := ev.GetActivityCompleted() != nil
	if !done && len(a.Roads) > 0 {
		done, result = true, a.Roads[0].Result // by a delivery that had been given up
	}
	outcome := entryOutcome(a, done)
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
		Started: a.Started, Ended: s.now, Outcome: o, Failure: f, Incarnation: a.Incarnation,
	})
	s.out.Outcomes = append(s.out.Outcomes, o)
	if f != nil {
		a.LastFailure = f
	}
}

// late records an answer to a delivery that was given up. While its side is
// under way it is one of the attempts: a newer one of the same key goes on, or
// will, and its end is the step's; but whatever that is, the step has been done if
// this is a success. When the side is settled as unknown, a success of the step
// makes it done; the undo that ran on the unknown outcome runs once more.
func (s *Shard) late(r *Run, e *Entry, in *Done) {
	a := e.activity()
	if role(a) == in.Delivery.Role && a.Phase != pb.Phase_PHASE_ARMED {
		t := lateAttempt(a.Tally, in, s.now)
		if finished(a) || t == nil {
			return
		}
		a.Tally = t
		if in.Outcome == pb.Outcome_OUTCOME_COMPLETED && !undoing(a) && a.Undo != nil && len(a.Roads) == 0 {
			s.answeredLate(r, e, in)
			a.Roads = []*pb.Road{{Queue: a.Queue, Outcome: pb.EntryOutcome_ENTRY_OUTCOME_DONE, Result: in.Result}}
		}
		s.put(r, e)
		return
	}
	if in.Delivery.Role != pb.Role_ROLE_FORWARD || a.Roads[0].Outcome == pb.EntryOutcome_ENTRY_OUTCOME_DONE {
		return
	}
	road := a.Roads[0]
	t := lateAttempt(road.Forward, in, s.now)
	if t == nil {
		return
	}
	road.Forward = t
	if in.Outcome != pb.Outcome_OUTCOME_COMPLETED {
		s.overheard(r, e)
		return
	}
	s.answeredLate(r, e, in)
	road.Outcome, road.Result = pb.EntryOutcome_ENTRY_OUTCOME_DONE, in.Result
	s.put(r, e)
	if a.Phase == pb.Phase_PHASE_UNDONE {
		s.undoOnceMore(r, e)
	}
}

// answeredLate records that a delivery which had been given up has done the step.
func (s *Shard) answeredLate(r *Run, e *Entry, in *Done) {
	s.record(r, &pb.Event{Body: &pb.Event_LateAnswer{LateAnswer: &pb.LateAnswer{
		Op: e.Op, Delivery: in.Delivery.Delivery, Outcome: in.Outcome, Result: in.Result,
	}}})
}

// givenUp finds the attempt that was given up and is answered now: of this very
// delivery, by the worker that had it. Others have nothing to say about it.
func givenUp(t *pb.Tally, in *Done) int {
	return slices.IndexFunc(t.GetLog(), func(x *pb.Attempt) bool {
		return x.Delivery == in.Delivery.Delivery && x.Worker == in.Worker && x.Incarnation == in.Delivery.Incarnation && unheard(x)
	})
}

// lateAttempt notes in the list of attempts that one which was given up has been
// answered after all, and returns the new tally, or nil. What its effect may be is
// counted as before.
func lateAttempt(t *pb.Tally, in *Done, now int64) *pb.Tally {
	at := givenUp(t, in)
	if at < 0 {
		return nil
	}
	// A copy: who has described the run may still be reading the list, and an event
	// may have the tally.
	t = proto.CloneOf(t)
	x := t.Log[at]
	x.Late, x.Ended, x.Outcome, x.Failure = true, now, in.Outcome, in.Failure
	return t
}
