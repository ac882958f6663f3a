package machine

import (
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// refused throws away what is in memory of a run that the database would not
// write: nothing of it was said to anyone but its worker, whose copy is dropped.
// The run is read again and held with the reason.
func (s *Shard) refused(in *Refused) {
	if r := s.runs[in.Run]; r != nil {
		s.recall(r)
		s.leaveDesk(r)
		s.forget(r)
		in.older = r.older
		for _, to := range r.waiters {
			s.fail(to, errRefused(r, in.Reason))
		}
	}
	s.loads.evicted[in.Run] = s.loads.ticket
	s.load(store.Key{Run: in.Run}, in)
}

// refusedLoaded goes on when the run has been read again; r is nil if it never
// began, and then the one before it is the newest of its id.
func (s *Shard) refusedLoaded(in *Refused, r *Run) {
	if r != nil {
		s.hold(r, pb.HoldKind_HOLD_KIND_QUARANTINED, in.Reason, nil)
		if s.refusals[in.Run]++; s.refusals[in.Run] > 1 {
			// Not even the hold can be written: it is kept in memory, or the run
			// would be refused and read again without end.
			s.change(r).Touched = false
		}
		return
	}
	if o := in.older; o != nil && s.runs[o.Row.Run] == o && s.ids[o.id()] == nil {
		s.ids[o.id()] = o
	}
}

func errRefused(r *Run, reason string) error {
	return apierr.New(apierr.Internal, "write run "+r.Row.RunID, reason, "the run is held; see its reason with describe")
}
