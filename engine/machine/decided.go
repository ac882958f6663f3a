package machine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// decidedBy takes what a fold asked for. The message is taken whole or not at
// all: all decisions of a cause commit together.
func (s *Shard) decidedBy(in *Decided) {
	r := s.runs[storeRun(in.Run)]
	if !s.current(r, in.Origin, in.Stamp) {
		s.send(Send{Worker: in.Worker, Drop: &pb.Drop{Run: in.Run, Stamp: in.Stamp}})
		s.ack(nil, in.Origin)
		return
	}
	r.used = s.tick
	if in.Through <= r.State.Processed {
		// An answer that has been taken, once more: the first counts.
		s.ack(nil, in.Origin)
		return
	}
	if err := s.check(r, in); err != nil {
		// The worker's copy is not what the engine thinks it is.
		s.ack(nil, in.Origin)
		s.misfit(r, in.Build, &pb.Failure{Outcome: pb.Outcome_OUTCOME_CODE_FAULT, Message: err.Error()})
		return
	}
	s.settleFold(r, in.Through)
	for _, e := range in.Decisions {
		s.append(r, e)
		s.apply(r, e)
	}
	s.ack(r, in.Origin)
}

// current says whether the message comes from the present holder of the run.
func (s *Shard) current(r *Run, o Origin, stamp *pb.Stamp) bool {
	return r != nil && r.holder.phase == holderReady && r.holder.worker == o.Worker &&
		s.stamp(r) == stampOf(stamp)
}

// settleFold notes the position up to which the run's code has folded.
func (s *Shard) settleFold(r *Run, through int64) {
	h := &r.holder
	n := 0
	for n < len(h.unfolded) && h.unfolded[n].id <= through {
		s.cfg.Desk.Unfolded(r.Row.Run, h.worker, -h.unfolded[n].bytes)
		n++
	}
	h.unfolded = append(h.unfolded[:0], h.unfolded[n:]...)
	r.State.Processed = through
	r.State.Folded += int64(n)
	r.behind -= int64(n)
	r.fresh = nil
	s.acquit(r, &r.fold)
	// A position alone is no reason to write; a write under way takes it along.
	s.change(r)
	if r.State.Hold != nil {
		r.State.Hold = nil
		s.change(r).Touched = true
	}
}

// find returns the place among the unfolded inputs of the one with the id.
func (h *holder) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(h.unfolded, id, func(u unfolded, id int64) int { return cmp.Compare(u.id, id) })
}

// check refuses what a worker that follows the rules does not send.
func (s *Shard) check(r *Run, in *Decided) error {
	h := &r.holder
	known, ok := h.find(in.Through)
	if !ok {
		return fmt.Errorf("the worker answers for input %d, which it was not given or has answered", in.Through)
	}
	cause := r.State.Processed
	folded := h.unfolded[:known+1]
	seen := map[string]bool{}
	for i, d := range in.Decisions {
		if at, ok := h.find(d.Cause); d.Cause < cause || !ok || at >= len(folded) {
			return fmt.Errorf("decision %d (%s) has cause %d, which is no input from %d to %d", i+1, history.Line(d), d.Cause, cause, in.Through)
		}
		cause = d.Cause
		if history.Closes(d) && i != len(in.Decisions)-1 {
			return fmt.Errorf("decision %d (%s) closes the run, and is not the last", i+1, history.Line(d))
		}
		if err := checkDecision(r, d, seen); err != nil {
			return fmt.Errorf("decision %d (%s): %w", i+1, history.Line(d), err)
		}
	}
	return nil
}

func checkDecision(r *Run, d *pb.Event, seen map[string]bool) error {
	switch b := d.Body.(type) {
	case *pb.Event_ActivityScheduled:
		if err := newOp(r, b.ActivityScheduled.Op, seen); err != nil {
			return err
		}
		return history.CheckScheduled(b.ActivityScheduled)
	case *pb.Event_TimerStarted:
		return newOp(r, b.TimerStarted.Op, seen)
	case *pb.Event_SagaCompensate:
		return newOp(r, b.SagaCompensate.Op, seen)
	case *pb.Event_SagaCommitted:
		return newOp(r, b.SagaCommitted.Op, seen)
	case *pb.Event_WorkflowCompleted:
		return history.CheckPayload("the result", b.WorkflowCompleted.Result)
	case *pb.Event_WorkflowFailed:
		return history.CheckFailure(b.WorkflowFailed.Failure)
	case *pb.Event_WorkflowCancelled:
		return errors.Join(history.CheckText("the reason", b.WorkflowCancelled.Reason), history.CheckFailure(b.WorkflowCancelled.Failure))
	case *pb.Event_ActivityCancelRequested:
		return history.CheckText("the cause", b.ActivityCancelRequested.Cause)
	case *pb.Event_TimerCancelled:
		return nil
	default:
		return fmt.Errorf("it is no decision")
	}
}

// newOp refuses an operation that is open already. One that has ended is not in
// memory; its number cannot come again from code that replays as recorded.
func newOp(r *Run, op string, seen map[string]bool) error {
	if op == graceOp {
		return fmt.Errorf("operation %s is the engine's own", op)
	}
	if err := history.CheckID("the operation", op); err != nil {
		return err
	}
	if seen[op] || r.Entries[op] != nil {
		return fmt.Errorf("operation %s is there already", op)
	}
	seen[op] = true
	return nil
}

// apply does what the decision asks for. One about an operation that has ended
// was recorded and does nothing.
func (s *Shard) apply(r *Run, e *pb.Event) {
	switch b := e.Body.(type) {
	case *pb.Event_ActivityScheduled:
		s.schedule(r, e, b.ActivityScheduled)
	case *pb.Event_ActivityCancelRequested:
		if x := r.Entries[b.ActivityCancelRequested.Op]; x != nil && x.activity() != nil {
			s.cancelActivity(r, x, b.ActivityCancelRequested.Cause)
		}
	case *pb.Event_TimerStarted:
		// Due at its own event's time: the input it answers may be hours old.
		x := &Entry{Op: b.TimerStarted.Op, P: &pb.Pending{Body: &pb.Pending_Timer{Timer: &pb.PendingTimer{
			StartedEvent: e.Id, Due: later(e.Time, max(b.TimerStarted.Duration, 0)),
		}}}}
		r.Entries[x.Op] = x
		s.put(r, x)
	case *pb.Event_TimerCancelled:
		if x := r.Entries[b.TimerCancelled.Op]; x != nil && x.P.GetTimer() != nil {
			s.drop(r, x)
		}
	case *pb.Event_SagaCommitted:
		s.sagaCommit(r, b.SagaCommitted.Ops)
	case *pb.Event_SagaCompensate:
		s.sagaCompensate(r, b.SagaCompensate)
	default:
		s.closeRun(r, e)
	}
}

// later adds a duration to a time; a sum beyond the last time is never.
func later(at, d int64) int64 {
	if d > never-at {
		return never
	}
	return at + d
}

// ack tells the worker that its message is dealt with, when the run's writes
// are durable (r nil: there is nothing to wait for).
func (s *Shard) ack(r *Run, o Origin) {
	a := Ack{Worker: o.Worker, Stream: o.Stream, Seq: o.Seq}
	if r == nil {
		s.out.Acks = append(s.out.Acks, a)
		return
	}
	c := s.change(r)
	c.Acks = append(c.Acks, a)
}
