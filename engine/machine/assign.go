package machine

import (
	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// push hands an input to the run's code: to the worker that holds the run, or
// to one that is now asked for.
func (s *Shard) push(r *Run, e *pb.Event) {
	switch h := &r.holder; h.phase {
	case holderReady:
		s.pushTo(r, e)
	case holderReading:
		h.backlog = append(h.backlog, e)
	case holderNone:
		s.assign(r)
	case holderWaiting:
		// The history will be read when a worker comes.
	}
}

func (s *Shard) pushTo(r *Run, e *pb.Event) {
	s.given(r, e)
	s.send(Send{Worker: r.holder.worker, Input: &pb.Input{Run: int64(r.Row.Run), Stamp: s.stamp(r).proto(), Event: e}})
}

// given counts an input that the worker has and has to answer.
func (s *Shard) given(r *Run, e *pb.Event) {
	n := int64(proto.Size(e))
	r.holder.unfolded = append(r.holder.unfolded, unfolded{e.Id, n})
	s.cfg.Desk.Unfolded(r.Row.Run, r.holder.worker, n)
}

func (s *Shard) stamp(r *Run) Stamp {
	return Stamp{Incarnation: s.cfg.Incarnation, Epoch: r.holder.epoch}
}

// assign asks for a worker that folds the run.
func (s *Shard) assign(r *Run) {
	if r.decided() || r.State.Hold.GetKind() == pb.HoldKind_HOLD_KIND_QUARANTINED {
		return
	}
	need := Need{Namespace: r.Row.Namespace, Queue: r.State.Queue, Type: r.Row.Type, Suspect: r.suspect(&r.fold)}
	w, ok := s.cfg.Desk.Assign(r.Row.Run, need, r.excluded)
	if !ok {
		r.holder.phase = holderWaiting
		return
	}
	s.assignTo(r, w)
}

// assignTo begins an assignment under a new epoch.
func (s *Shard) assignTo(r *Run, worker string) {
	h := &r.holder
	s.epoch++
	h.epoch = s.epoch
	h.worker = worker
	if r.fresh != nil && r.Row.NextEvent == 2 {
		s.give(r, []*pb.Event{r.fresh})
		return
	}
	// The history is read when all of it is durable; what comes meanwhile is
	// kept in the backlog.
	h.phase = holderReading
	// Its bytes count from now on: a worker is not given more histories at once
	// than it may have inputs to answer.
	h.reserved = max(r.State.HistoryBytes, 1)
	s.cfg.Desk.Unfolded(r.Row.Run, worker, h.reserved)
	s.after(r, ReadHistory{Run: r.Row.Run, Stamp: s.stamp(r), Upto: r.Row.NextEvent - 1})
}

// give sends the history and counts what the worker has to answer.
func (s *Shard) give(r *Run, events []*pb.Event) {
	h := &r.holder
	h.phase = holderReady
	for _, e := range unprocessed(events, r.State.Processed) {
		s.given(r, e)
	}
	s.spend(r)
	s.send(Send{Worker: h.worker, Assign: &pb.Assign{
		Run: int64(r.Row.Run), Stamp: s.stamp(r).proto(), History: events,
		Processed: r.State.Processed, Folded: r.State.Folded,
	}})
	for _, e := range h.backlog {
		s.pushTo(r, e)
	}
	h.backlog = nil
	r.behind = int64(len(h.unfolded))
}

// spend lets the history that was reserved for count with the first input that it
// brings, until that is answered.
func (s *Shard) spend(r *Run) {
	h := &r.holder
	if len(h.unfolded) > 0 {
		h.unfolded[0].bytes += h.reserved
	} else if h.reserved > 0 {
		s.cfg.Desk.Unfolded(r.Row.Run, h.worker, -h.reserved)
	}
	h.reserved = 0
}

// unprocessed returns the inputs behind the position processed, in fold order.
func unprocessed(events []*pb.Event, processed int64) []*pb.Event {
	var out []*pb.Event
	for _, e := range events {
		if history.IsInput(e) && e.Id > processed {
			out = append(out, e)
		}
	}
	return out
}

// unassign takes the run from its holder, without a word to the worker.
func (s *Shard) unassign(r *Run) {
	h := &r.holder
	if h.phase == holderNone {
		return
	}
	for _, u := range h.unfolded {
		s.cfg.Desk.Unfolded(r.Row.Run, h.worker, -u.bytes)
	}
	if h.reserved > 0 {
		s.cfg.Desk.Unfolded(r.Row.Run, h.worker, -h.reserved)
	}
	s.cfg.Desk.Unassign(r.Row.Run)
	*h = holder{}
}

// recall takes the run from its worker; whatever comes under the old stamp is
// refused from here on.
func (s *Shard) recall(r *Run) {
	if h := &r.holder; h.phase == holderReady || h.phase == holderReading {
		s.send(Send{Worker: h.worker, Drop: &pb.Drop{Run: int64(r.Row.Run), Stamp: s.stamp(r).proto()}})
	}
	s.unassign(r)
}

// reassign hands the run to another copy, if there is something to fold.
func (s *Shard) reassign(r *Run) {
	// Recording a fact may have assigned it already.
	if r.Attention() && r.holder.phase == holderNone {
		s.assign(r)
	}
}

func (s *Shard) runOffered(in *RunOffered) {
	r := s.touch(in.Run)
	if r == nil || r.holder.phase != holderWaiting {
		if r == nil || r.holder.phase == holderNone {
			s.cfg.Desk.Unassign(in.Run)
		}
		return
	}
	s.assignTo(r, in.Worker)
}

func (s *Shard) historyRead(in *HistoryRead) {
	r := s.runs[in.Run]
	if r == nil || r.holder.phase != holderReading || s.stamp(r) != in.Stamp {
		return
	}
	if in.Err != nil && !damagedForGood(in.Err) {
		s.unassign(r)
		s.out.Wakes = append(s.out.Wakes, Wake{At: later(s.now, readAgain), Run: in.Run})
		return
	}
	if in.Err != nil {
		s.unassign(r)
		s.hold(r, pb.HoldKind_HOLD_KIND_QUARANTINED, "its history cannot be read: "+in.Err.Error(), nil)
		return
	}
	s.give(r, in.Events)
}
