package machine

import (
	"cmp"
	"maps"
	"slices"
)

// inOrder returns the runs in memory by their number.
func (s *Shard) inOrder() []*Run {
	return slices.SortedFunc(maps.Values(s.runs), func(a, b *Run) int { return cmp.Compare(a.Row.Run, b.Row.Run) })
}

// workerGone gives the runs of a lost worker to others at once, and its
// activities a grace in which the same process may come back.
func (s *Shard) workerGone(in *WorkerGone) {
	for _, r := range s.inOrder() {
		if h := r.holder; h.worker == in.Worker && (h.phase == holderReady || h.phase == holderReading) {
			s.unassign(r)
			s.reassign(r)
		}
		for _, e := range r.entries() {
			if a := e.activity(); a != nil && started(a) && a.Worker == in.Worker {
				s.missing(r, e)
			}
		}
	}
}

// missing starts the grace of a delivery whose worker is not here.
func (s *Shard) missing(r *Run, e *Entry) {
	e.lostAt = later(s.now, s.cfg.Grace)
	s.out.Wakes = append(s.out.Wakes, Wake{At: e.nextWake(), Run: r.Row.Run, Op: e.Op})
}

// workerBack lets the same process go on with what it has, and sends it again
// what never arrived: the delivery is the same, and the process refuses one that
// it has seen.
func (s *Shard) workerBack(in *WorkerBack) {
	for _, r := range s.inOrder() {
		for _, e := range r.entries() {
			a := e.activity()
			if a == nil || !started(a) || a.Worker != in.Worker || e.lostAt == 0 {
				continue
			}
			e.lostAt = 0
			s.cfg.Desk.Hold(thisDelivery(r, e), in.Worker)
			if !in.Received[thisDelivery(r, e)] {
				// It may not be durable yet that the delivery was started.
				s.after(r, Dispatch{Worker: in.Worker, Task: s.task(r, e)})
			}
		}
	}
}

// reclaim takes up a delivery that was started before the run came into memory.
func (s *Shard) reclaim(r *Run, e *Entry) {
	a := e.activity()
	if !s.cfg.Desk.Hold(thisDelivery(r, e), a.Worker) {
		if s.cfg.Orphans && a.Incarnation != s.cfg.Incarnation {
			s.lost(r, e)
			return
		}
		s.missing(r, e)
		return
	}
	// Whether it arrived is not known here. Sending it again is harmless: the
	// same process refuses a delivery that it has seen.
	s.send(Send{Worker: a.Worker, Task: s.task(r, e)})
}

// Recall takes every run from its worker, when the shard is thrown away.
func (s *Shard) Recall() *Output {
	s.out.reset()
	for _, r := range s.inOrder() {
		s.recall(r)
	}
	return &s.out
}
