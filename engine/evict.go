package engine

import (
	"slices"

	"github.com/engined/engined/engine/machine"
)

// tidy takes runs out of memory: those that are closed, and, above the bound,
// those not used for longest. Nothing with an uncommitted write leaves.
func (s *shard) tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return
	}
	for no, w := range s.last {
		if w.done.Load() {
			delete(s.last, no)
			if w.run.Closed() {
				s.evict(w.run)
			}
		}
	}
	over := len(s.m.Runs()) - s.e.cfg.ResidentRuns/len(s.e.shards)
	if over <= 0 {
		return
	}
	var idle []*machine.Run
	for _, r := range s.m.Runs() {
		if r.Idle() {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *machine.Run) int { return int(a.Used() - b.Used()) })
	// A little more than needed, so that this is not done for every run.
	for _, r := range idle[:min(len(idle), over+over/4)] {
		s.evict(r)
	}
}

func (s *shard) evict(r *machine.Run) {
	no := r.Row.Run
	if s.m.Runs()[no] != r || s.open[no] != nil || !r.Idle() {
		return
	}
	if w := s.last[no]; w != nil && !w.done.Load() {
		return
	}
	delete(s.last, no)
	s.apply(s.m.Evict(r))
}
