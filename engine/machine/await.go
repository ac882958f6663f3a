package machine

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

func (s *Shard) await(in *Await) {
	if r := s.find(in.Ref); r != nil {
		s.awaitRun(r, waiter{to: in.To, joined: in.Joined})
		return
	}
	s.load(refKey(in.Ref, ""), in)
}

func (s *Shard) awaitLoaded(in *Await, r *Run) {
	if r == nil {
		s.fail(in.To, notFound("await", in.Ref))
		return
	}
	s.awaitRun(r, waiter{to: in.To, joined: in.Joined})
}

// find returns the run that ref names if it is in memory, and known to be that one:
// an old run of an id may be in memory, read by its number, and the newest not.
func (s *Shard) find(ref *pb.RunRef) *Run {
	for r := s.ids[ID{ref.Namespace, ref.WorkflowId}]; r != nil; r = r.older {
		if ref.RunId == "" && r.newest || ref.RunId != "" && r.Row.RunID == ref.RunId {
			return s.touch(r.Row.Run)
		}
	}
	return nil
}

// awaitRun answers when the outcome stands: at once for a run that is settled,
// or whose compensation has failed and waits for people.
func (s *Shard) awaitRun(r *Run, w waiter) {
	if w.to == nil {
		return
	}
	if !r.final() {
		r.waiters = append(r.waiters, w)
		return
	}
	s.after(r, Reply{To: w.to, Value: r.outcome(), Joined: w.joined})
}

// waiter is one that awaits a run; by a start that found the run there, if joined.
type waiter struct {
	to     Caller
	joined bool
}

// final says that the outcome will not change without somebody's doing.
func (r *Run) final() bool {
	return !r.Row.Open || r.State.UndoState == pb.UndoState_UNDO_STATE_FAILED
}

// outcome is what those who await the run are told: a *pb.Result, or a *Settled
// where the closing event was never in memory.
func (r *Run) outcome() any {
	if r.closing == nil {
		return &Settled{Row: r.Row, State: proto.CloneOf(r.State)}
	}
	return ResultOf(&r.Row, r.State, r.closing)
}

// ResultOf tells what a run came to, from its closing event.
func ResultOf(row *store.RunRow, state *pb.RunState, closing *pb.Event) *pb.Result {
	res := &pb.Result{RunId: row.RunID, Status: pb.Status(row.Status), UndoState: state.UndoState}
	switch b := closing.Body.(type) {
	case *pb.Event_WorkflowCompleted:
		res.Result = b.WorkflowCompleted.Result
	case *pb.Event_WorkflowFailed:
		res.Failure = b.WorkflowFailed.Failure
	case *pb.Event_WorkflowCancelled:
		res.Failure = b.WorkflowCancelled.Failure
		if res.Failure == nil {
			res.Failure = &pb.Failure{Outcome: pb.Outcome_OUTCOME_CANCELLED, Message: b.WorkflowCancelled.Reason}
		}
	case *pb.Event_WorkflowTerminated:
		res.Failure = &pb.Failure{Message: b.WorkflowTerminated.Reason}
	case *pb.Event_WorkflowTimedOut:
		res.Failure = &pb.Failure{Outcome: pb.Outcome_OUTCOME_TIMED_OUT, Limit: b.WorkflowTimedOut.Limit}
	}
	return res
}

// callers are all who wait for something of the run.
func (r *Run) callers() []Caller {
	var all []Caller
	for _, w := range r.waiters {
		all = append(all, w.to)
	}
	for _, f := range r.followers {
		all = append(all, f.to)
	}
	return all
}

// tellWaiters answers those who await the run.
func (s *Shard) tellWaiters(r *Run) {
	for _, w := range r.waiters {
		s.after(r, Reply{To: w.to, Value: r.outcome(), Joined: w.joined})
	}
	r.waiters = nil
}

func (s *Shard) abandon(in *Abandon) {
	for r := s.ids[in.ID]; r != nil; r = r.older {
		r.waiters = slices.DeleteFunc(r.waiters, func(w waiter) bool { return w.to == in.To })
		r.followers = slices.DeleteFunc(r.followers, func(f follower) bool { return f.to == in.To })
	}
	for _, l := range s.loads.inOrder() {
		for _, w := range l.waiting {
			if callerOf(w) == in.To {
				leave(w)
			}
		}
	}
}

// leave takes the caller off an input that waits for rows; the input itself is
// still taken.
func leave(in Input) {
	switch in := in.(type) {
	case *Start:
		in.To = nil
	case *Cancel:
		in.To = nil
	case *Terminate:
		in.To = nil
	case *Await:
		in.To = nil
	case *Follow:
		in.To = nil
	case *Describe:
		in.To = nil
	}
}

// Abandon hands over every caller that the shard still owes an answer, when it
// is thrown away.
func (s *Shard) Abandon(tell func(Caller)) {
	for _, r := range s.inOrder() {
		for _, to := range r.callers() {
			tell(to)
		}
		r.waiters, r.followers = nil, nil
	}
	for _, l := range s.loads.inOrder() {
		for _, in := range l.waiting {
			if to := callerOf(in); to != nil {
				tell(to)
			}
		}
		l.waiting = nil
	}
}
