package engine

import (
	"cmp"
	"slices"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/internal/fault"
)

// tidy takes runs out of memory: those that are closed, and, above the bound,
// those not used for longest. Nothing with an uncommitted write leaves.
func (s *shard) tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return
	}
	var closed []*machine.Run
	for no, w := range s.last {
		if w.done.Load() {
			delete(s.last, no)
			if w.run.Closed() {
				closed = append(closed, w.run)
			}
		}
	}
	slices.SortFunc(closed, byNumber)
	for _, r := range closed {
		s.evict(r)
	}
	bound := s.e.cfg.ResidentRuns / len(s.e.shards)
	over := len(s.m.Runs()) - bound
	// Looking for the idle ones costs as much as there are runs: not for each
	// new run, but for a sixteenth of the bound at once.
	if over <= 0 {
		s.retry = 0
	}
	if over <= 0 || len(s.m.Runs()) < s.retry {
		return
	}
	var idle []*machine.Run
	for _, r := range s.m.Runs() {
		if r.Idle() {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *machine.Run) int { return cmp.Or(cmp.Compare(a.Used(), b.Used()), byNumber(a, b)) })
	for _, r := range idle[:min(len(idle), over+bound/16)] {
		s.evict(r)
	}
	s.retry = len(s.m.Runs()) + bound/16
}

func byNumber(a, b *machine.Run) int { return cmp.Compare(a.Row.Run, b.Row.Run) }

func (s *shard) evict(r *machine.Run) {
	no := r.Row.Run
	if s.m.Runs()[no] != r || !r.Idle() {
		return
	}
	if !s.settled(no) {
		return
	}
	delete(s.last, no)
	fault.At(fault.Evict)
	s.apply(s.m.Evict(r))
}
