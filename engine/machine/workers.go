package machine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// inOrder returns the runs in memory by their number.
func (s *Shard) inOrder() []*Run {
	return slices.SortedFunc(maps.Values(s.runs), func(a, b *Run) int { return cmp.Compare(a.Row.Run, b.Row.Run) })
}

// workerGone gives the runs of a lost worker to others at once, and its
// activities a grace in which the same process may come back. What it had not
// answered may be what it died of.
func (s *Shard) workerGone(in *WorkerGone) {
	s.deaths = slices.DeleteFunc(s.deaths, func(d death) bool { return d.until < s.now })
	for _, r := range s.inOrder() {
		h := &r.holder
		folding := h.worker == in.Worker && (h.phase == holderReady || h.phase == holderReading)
		if folding {
			owed := len(h.unfolded) > 0
			s.unassign(r)
			if owed && !in.Orderly {
				s.attended(r, &r.fold, "the workflow code ("+r.Row.Type+")", in)
			}
		}
		for _, e := range r.entries() {
			if a := e.activity(); a != nil && started(a) && a.Worker == in.Worker {
				if !in.Orderly {
					s.attended(r, &e.suspicion, nameOf(e), in)
				}
				s.missing(r, e, s.cfg.Grace)
			}
		}
		if folding {
			s.reassign(r)
		}
	}
}

// missing starts the grace of a delivery whose worker is not here.
func (s *Shard) missing(r *Run, e *Entry, grace int64) {
	e.lostAt = later(s.now, grace)
	s.wake(r, e)
}

// workerBack lets the same process go on with what it has, and sends it again
// what never arrived: the delivery is the same, and the process refuses one that
// it has seen.
func (s *Shard) workerBack(in *WorkerBack) {
	received := map[handed]bool{}
	for _, d := range in.Received {
		received[handedOf(d)] = true
	}
	s.takeBack(in.Worker)
	for _, r := range s.inOrder() {
		for _, e := range r.entries() {
			a := e.activity()
			if a == nil || !started(a) || a.Worker != in.Worker || e.lostAt == 0 {
				continue
			}
			e.lostAt = 0
			s.wake(r, e) // the end of its grace may be all that was asked for
			s.cfg.Desk.Hold(thisDelivery(r, e), in.Worker, r.suspect(&e.suspicion))
			s.tellAgain(r, e, received[handedOf(delivery(r, e))])
		}
	}
	for _, d := range in.Received {
		s.stillHeld(&held{in.Worker, d})
	}
}

// stillHeld looks at a delivery that a worker has which comes back.
func (s *Shard) stillHeld(in *held) {
	no := storeRun(in.delivery.GetRun())
	if no <= 0 || no.Shard() != s.cfg.Lease.Shard {
		return
	}
	if r := s.runs[no]; r != nil {
		s.heldLoaded(in, r)
		return
	}
	s.load(store.Key{Run: no}, in)
}

// heldLoaded stops a process that was away, frozen perhaps, with a delivery that
// has been given up since: what it does could only do harm. It is told when it
// is durable that the delivery was given up.
func (s *Shard) heldLoaded(in *held, r *Run) {
	if r == nil {
		return
	}
	if e := r.Entries[in.delivery.Op]; e != nil && present(e, in.worker, in.delivery) {
		return
	}
	s.after(r, CancelTask{Worker: in.worker, Cancel: &pb.CancelTask{
		Delivery: in.delivery, Cause: "it was given up while the worker was away",
	}})
}

// present says that the entry's delivery under way is this one, with the worker.
func present(e *Entry, worker string, d *pb.Delivery) bool {
	a := e.activity()
	return a != nil && started(a) && a.Worker == worker && role(a) == d.Role &&
		a.Delivery == d.Delivery && a.Incarnation == d.Incarnation
}

// reclaim takes up a delivery that was started before the run came into memory.
func (s *Shard) reclaim(r *Run, e *Entry) {
	a := e.activity()
	if !s.cfg.Desk.Hold(thisDelivery(r, e), a.Worker, r.suspect(&e.suspicion)) {
		switch before := a.Incarnation != s.cfg.Incarnation; {
		case before && s.cfg.Orphans:
			s.lost(r, e)
		case before && s.cfg.RestartGrace > 0:
			s.missing(r, e, s.cfg.RestartGrace)
		default:
			s.missing(r, e, s.cfg.Grace)
		}
		return
	}
	// Whether it arrived is not known here. Sending it again is harmless: the
	// same process refuses a delivery that it has seen.
	s.tellAgain(r, e, false)
}

// tellAgain repeats what a worker was told of a delivery, which may have been
// lost on its way: the task, unless it has been received, and the cancel. It may
// not be durable yet that the delivery was started.
func (s *Shard) tellAgain(r *Run, e *Entry, received bool) {
	a := e.activity()
	if !received {
		e.resent = true
		s.after(r, Dispatch{Worker: a.Worker, Task: s.task(r, e)})
	}
	if a.Cancelled {
		s.after(r, cancelTask(r, e, a.CancelCause))
	}
}

func cancelTask(r *Run, e *Entry, cause string) CancelTask {
	return CancelTask{Worker: e.activity().Worker, Cancel: &pb.CancelTask{Delivery: delivery(r, e), Cause: cause}}
}

// Recall takes every run from its worker, when the shard is thrown away.
func (s *Shard) Recall() *Output {
	s.out.reset()
	for _, r := range s.inOrder() {
		s.recall(r)
	}
	return &s.out
}
