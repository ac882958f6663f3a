package machine

import (
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// woken looks at what may be due. It is told at its time or later, and perhaps
// in vain: the entry is asked, not the wake-up.
func (s *Shard) woken(in *Woken) {
	if r := s.runs[in.Run]; r != nil && !s.putOff(in.Run) {
		s.wokenLoaded(in, r)
		return
	}
	s.load(store.Key{Run: in.Run}, in)
}

func (s *Shard) wokenLoaded(in *Woken, r *Run) {
	if r == nil {
		return
	}
	if in.Op == "" && r.holder.phase == holderNone {
		s.reassign(r)
		return
	}
	e := r.Entries[in.Op]
	if e == nil {
		return
	}
	r.used = s.tick
	switch b := e.P.Body.(type) {
	case *pb.Pending_Timer:
		if b.Timer.Due <= s.now {
			s.drop(r, e)
			s.record(r, &pb.Event{Body: &pb.Event_TimerFired{TimerFired: &pb.TimerFired{Op: e.Op}}})
		}
	case *pb.Pending_Grace:
		if b.Grace.Due <= s.now {
			s.graceOver(r, e)
		}
	case *pb.Pending_Activity:
		s.activityDue(r, e)
	}
}

func (s *Shard) activityDue(r *Run, e *Entry) {
	a := e.activity()
	switch a.Phase {
	case pb.Phase_PHASE_BACKOFF, pb.Phase_PHASE_UNDO_BACKOFF:
		if a.NextTime <= s.now {
			s.dispatch(r, e)
		}
	case pb.Phase_PHASE_WAITING, pb.Phase_PHASE_UNDO_WAITING:
		if at, limit := waitLimit(a); at <= s.now {
			s.cfg.Desk.Free(nextDelivery(r, e), anyone)
			s.timeOut(r, e, limit)
		}
	case pb.Phase_PHASE_UNDONE:
		if listens(a) && a.SettleBy <= s.now {
			s.drop(r, e) // nobody answers any more
		}
	case pb.Phase_PHASE_STARTED, pb.Phase_PHASE_UNDO_STARTED:
		at, limit := runLimit(a)
		switch {
		case at <= s.now:
			s.overdue(r, e, limit)
		case e.lostAt > 0 && e.lostAt <= s.now:
			s.lost(r, e)
		}
	}
}

// lost settles a delivery whose worker did not come back in time: it uses an
// attempt. Its task may still wait for its commit, and leave when the worker is here
// again: the cancel follows it.
func (s *Shard) lost(r *Run, e *Entry) {
	s.after(r, cancelTask(r, e, "its worker was lost"))
	s.cfg.Desk.Free(thisDelivery(r, e), anyone)
	e.losses++
	s.unanswered(r, e, pb.Outcome_OUTCOME_LOST, &pb.Failure{
		Message: "the worker " + e.activity().Worker + " was lost with it",
	})
}
