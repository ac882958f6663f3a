package machine

import (
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// refused throws away what is in memory of a run that the database would not
// write: nothing of it was said to anyone but its worker, whose copy is dropped.
// The run is read again and held with the reason.
//
// What was stepped after the refused write, and before this input came, is refused
// as well: a second word about the same memory says nothing new. And where memory
// has another run than the one that was refused, or a later reading of it, that one
// has not been refused; if it is, there will be a word about it.
func (s *Shard) refused(in *Refused) {
	r := s.runs[in.Run]
	if in.Of == nil {
		in.Of = r
	}
	if in.Of != nil {
		if in.Of.refused || r != nil && r != in.Of {
			return
		}
		in.Of.refused = true
		s.refusals[in.Of.Row.RunID]++
	}
	if r != nil {
		s.recall(r)
		// Also the slots of deliveries that were given up and are not answered:
		// if they were not written, they never left.
		s.cfg.Desk.Leave(in.Run)
		s.forget(r)
		for _, to := range r.callers() {
			s.fail(to, errRefused(r, in.Reason))
		}
	}
	s.loads.evicted[in.Run] = s.loads.ticket
	if in.Of != nil {
		s.loads.gone[in.Of.id()] = s.loads.ticket
	}
	s.load(store.Key{Run: in.Run}, in)
}

// refusedLoaded goes on when the run has been read again; r is nil if it never
// began, and then the one before it is the newest of its id. The number may belong
// to another run: it has done nothing.
func (s *Shard) refusedLoaded(in *Refused, r *Run) {
	if r != nil && (in.Of == nil || in.Of.Row.RunID == r.Row.RunID) {
		if s.unwritable(r) {
			r.State.Hold = refusedHold(in.Reason, s.now)
			return
		}
		s.hold(r, pb.HoldKind_HOLD_KIND_QUARANTINED, in.Reason, nil)
		return
	}
	if in.Of == nil {
		return
	}
	if o := in.Of.older; o != nil && s.runs[o.Row.Run] == o && s.ids[o.id()] == nil {
		s.ids[o.id()] = o
	}
}

// unwritable says that the run was refused again after it had been read: not even
// its hold can be written. It is kept in memory, and nothing of the run is begun,
// or it would be refused and read again without end.
func (s *Shard) unwritable(r *Run) bool { return s.refusals[r.Row.RunID] > 1 }

func refusedHold(reason string, now int64) *pb.Hold {
	return &pb.Hold{Kind: pb.HoldKind_HOLD_KIND_QUARANTINED, Reason: reason, Since: now}
}

func errRefused(r *Run, reason string) error {
	return apierr.New(apierr.Internal, "write run "+r.Row.RunID, reason, "the run is held; see its reason with describe")
}
