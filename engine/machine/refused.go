package machine

import (
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/apierr"
)

// refused throws away what is in memory of a run that the database would not
// write: nothing of it was said to anyone but its worker, whose copy is dropped.
// The run is read again and held with the reason.
func (s *Shard) refused(in *Refused) {
	if r := s.runs[in.Run]; r != nil {
		s.recall(r)
		s.leaveDesk(r)
		s.forget(r)
		for _, to := range r.waiters {
			s.fail(to, errRefused(r, in.Reason))
		}
	}
	s.loads.evicted[in.Run] = s.loads.ticket
	s.load(store.Key{Run: in.Run}, in)
}

func errRefused(r *Run, reason string) error {
	return apierr.New(apierr.Internal, "write run "+r.Row.RunID, reason, "the run is held; see its reason with describe")
}
