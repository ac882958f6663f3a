package machine

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// loads are the reads under way and the inputs that wait for them.
//
// A read may be older than what the shard has done since: the run may have been
// loaded by another key, changed, committed and evicted. So each load has a
// ticket, an eviction notes the last ticket given, and an answer to a ticket not
// newer than the eviction of its run is asked for again.
type loads struct {
	byKey   map[store.Key]*load
	ticket  int64
	evicted map[store.RunNo]int64
	// gone is the same for reads by id, whose answer may not name the run.
	gone map[ID]int64
}

type load struct {
	// ticket is 0 while the read is put off.
	ticket  int64
	waiting []Input
}

func newLoads() loads {
	return loads{byKey: map[store.Key]*load{}, evicted: map[store.RunNo]int64{}, gone: map[ID]int64{}}
}

// inOrder returns the reads as they were asked for; those that are put off come
// first, in no order: nobody waits for them.
func (l *loads) inOrder() []*load {
	return slices.SortedFunc(maps.Values(l.byKey), func(a, b *load) int { return cmp.Compare(a.ticket, b.ticket) })
}

// trim forgets the evictions that no read under way can be older than.
func (l *loads) trim() {
	if len(l.byKey) > 0 && len(l.gone) < trimAt {
		return
	}
	oldest := l.ticket + 1
	for _, x := range l.byKey {
		oldest = min(oldest, x.ticket)
	}
	maps.DeleteFunc(l.evicted, func(_ store.RunNo, t int64) bool { return t < oldest })
	maps.DeleteFunc(l.gone, func(_ ID, t int64) bool { return t < oldest })
}

// trimAt is how many evictions are kept before reads under way are looked at.
const trimAt = 1024

// load asks for rows; the input is taken again when they are here.
func (s *Shard) load(k store.Key, in Input) {
	l := s.loads.byKey[k]
	if l == nil {
		l = &load{}
		s.loads.byKey[k] = l
	}
	if l.ticket == 0 {
		s.ask(k, l)
	}
	l.waiting = append(l.waiting, in)
}

// putOff says whether the run's rows are to be read again.
func (s *Shard) putOff(run store.RunNo) bool {
	l := s.loads.byKey[store.Key{Run: run}]
	return l != nil && l.ticket == 0
}

func (s *Shard) ask(k store.Key, l *load) {
	s.loads.ticket++
	l.ticket = s.loads.ticket
	s.out.Loads = append(s.out.Loads, Load{Key: k, ticket: l.ticket})
}

// rowsRead brings the run into memory and takes the inputs that waited.
func (s *Shard) rowsRead(in *RowsRead) {
	l := s.loads.byKey[in.Load.Key]
	if l == nil || l.ticket != in.Load.ticket {
		return
	}
	if in.Err == nil && s.stale(in, l.ticket) {
		s.ask(in.Load.Key, l)
		return
	}
	delete(s.loads.byKey, in.Load.Key)
	s.loads.trim()
	if in.Err != nil {
		s.loadFailed(in.Load.Key, l, in.Err)
		return
	}
	r, err := s.install(in.Answer)
	if err != nil {
		s.loadFailed(in.Load.Key, l, err)
		return
	}
	if k := in.Load.Key; r != nil && k.WorkflowID != "" && k.RunID == "" && s.ids[r.id()] == r {
		r.newest = true
	}
	for _, w := range l.waiting {
		s.resume(w, r, in.Answer)
	}
}

// stale says that the answer may be older than the last thing that was done to
// a run which has left memory since.
func (s *Shard) stale(in *RowsRead, ticket int64) bool {
	k := in.Load.Key
	if id := (ID{k.Namespace, k.WorkflowID}); (s.ids[id] == nil || !s.ids[id].newest) && s.loads.gone[id] >= ticket {
		return true
	}
	row := in.Answer.Run
	return row != nil && s.runs[row.Run] == nil && s.loads.evicted[row.Run] >= ticket
}

// resume takes an input whose rows have been read; r is nil if there is no run.
func (s *Shard) resume(in Input, r *Run, a store.Loaded) {
	switch in := in.(type) {
	case *Start:
		// Another start of the id may have come first while this one waited.
		if newest := s.ids[ID{in.Req.Namespace, in.Req.WorkflowId}]; newest != nil {
			r = newest
		}
		s.startLoaded(in, r, a.ByRequest, a.Dedup)
	case *Cancel:
		s.cancelLoaded(in, s.newer(in.Req.Run, r), a.Dedup)
	case *Terminate:
		s.terminateLoaded(in, s.newer(in.Req.Run, r), a.Dedup)
	case *Await:
		s.awaitLoaded(in, s.newer(in.Ref, r))
	case *Follow:
		s.followLoaded(in, s.newer(in.Ref, r))
	case *Describe:
		s.describeLoaded(in, s.newer(in.Ref, r))
	case *Done:
		s.doneLoaded(in, r)
	case *Fault:
		if r == nil {
			s.ack(nil, in.Origin)
			return
		}
		s.recovered(r, in)
	case *held:
		s.heldLoaded(in, r)
	case *Woken:
		s.wokenLoaded(in, r)
	case *Refused:
		s.refusedLoaded(in, r)
	}
}

// newer returns the run that ref names in memory, where it may be newer than
// what was read, or else r.
func (s *Shard) newer(ref *pb.RunRef, r *Run) *Run {
	if m := s.find(ref); m != nil {
		return m
	}
	return r
}

// readAgain is how long a read that failed is put off.
const readAgain = int64(time.Second)

// loadFailed tells those who wait. For what comes from workers and timers the
// rows are read again, unless they are damaged: then it is given up.
func (s *Shard) loadFailed(k store.Key, l *load, err error) {
	code, lasting := apierr.Unavailable, damagedForGood(err)
	if lasting {
		code = apierr.Internal
	}
	again := &load{}
	for _, in := range l.waiting {
		if to := callerOf(in); to != nil {
			s.fail(to, apierr.Wrap(code, "read the run", err))
			continue
		}
		switch in := in.(type) {
		case *Done:
			if lasting {
				s.ack(nil, in.Origin)
				continue
			}
		case *Fault:
			if lasting {
				s.ack(nil, in.Origin)
				continue
			}
		case *Woken, *Refused:
			if lasting {
				continue
			}
		default:
			continue // a request of nobody
		}
		again.waiting = append(again.waiting, in)
	}
	if len(again.waiting) > 0 {
		s.loads.byKey[k] = again
		s.out.Wakes = append(s.out.Wakes, Wake{At: later(s.now, readAgain), Run: k.Run})
	}
}

// damagedForGood says that reading again would find the same.
func damagedForGood(err error) bool {
	var corrupt *store.CorruptError
	var newer *history.NewerFormatError
	return errors.As(err, &corrupt) || errors.As(err, &newer)
}

func callerOf(in Input) Caller {
	switch in := in.(type) {
	case *Start:
		return in.To
	case *Cancel:
		return in.To
	case *Terminate:
		return in.To
	case *Await:
		return in.To
	case *Follow:
		return in.To
	case *Describe:
		return in.To
	default:
		return nil
	}
}

// install puts the rows into memory, unless the run is there already.
func (s *Shard) install(a store.Loaded) (*Run, error) {
	if a.Run == nil {
		return nil, nil
	}
	if r := s.touch(a.Run.Run); r != nil {
		return r, nil
	}
	r := &Run{Row: *a.Run, State: &pb.RunState{}, Entries: make(map[string]*Entry, len(a.Pending))}
	if err := proto.Unmarshal(a.Run.State, r.State); err != nil {
		return nil, damaged("runs", r, err)
	}
	for i := range a.Pending {
		e := &Entry{Op: a.Pending[i].Op, P: &pb.Pending{}, Stored: true}
		if err := proto.Unmarshal(a.Pending[i].Data, e.P); err != nil {
			return nil, damaged("pending", r, err)
		}
		r.Entries[e.Op] = e
	}
	for _, e := range r.entries() {
		r.track(e)
	}
	r.excluded = slices.Clone(r.State.Hold.GetBuilds())
	if r.Attention() {
		r.behind = 1
	}
	r.used = s.tick
	s.runs[r.Row.Run] = r
	if newest := s.ids[r.id()]; newest == nil || newest.Row.Run < r.Row.Run {
		r.older = newest
		s.ids[r.id()] = r
	}
	if s.unwritable(r) {
		r.State.Hold = refusedHold("the database refuses to write it", s.now)
	} else {
		s.parole(r)
		s.wakeUp(r)
	}
	return r, nil
}

func damaged(table string, r *Run, err error) error {
	return &store.CorruptError{Table: table, Key: r.Row.RunID, Why: err.Error()}
}

// wakeUp derives again, from the rows, every effect that a run in this state
// has: whatever was under way before, and is lost, starts over here.
func (s *Shard) wakeUp(r *Run) {
	for _, e := range r.entries() {
		if r.Entries[e.Op] != e {
			continue // ended by what was found before it
		}
		if a := e.activity(); a != nil {
			switch a.Phase {
			case pb.Phase_PHASE_WAITING, pb.Phase_PHASE_UNDO_WAITING:
				s.dispatch(r, e)
			case pb.Phase_PHASE_STARTED, pb.Phase_PHASE_UNDO_STARTED:
				s.reclaim(r, e)
			}
		}
		if at := e.nextWake(); at > 0 {
			s.out.Wakes = append(s.out.Wakes, Wake{At: at, Run: r.Row.Run, Op: e.Op})
		}
	}
	s.compensate(r)
	s.reassign(r)
}

// Idle says whether the run may leave memory, as far as the rules go; the
// driver adds that nothing of it is uncommitted.
func (r *Run) Idle() bool {
	if len(r.waiters) > 0 || len(r.followers) > 0 || len(r.holder.unfolded) > 0 ||
		r.holder.phase == holderReading || r.holder.phase == holderWaiting {
		return false
	}
	for _, e := range r.Entries {
		if e.Wake() == 0 {
			return false
		}
	}
	return true
}

// Wakes lists when the entries of the runs in memory want to be woken, up to a
// time: what the database does not tell of yet.
func (s *Shard) Wakes(until int64) []Wake {
	var all []Wake
	for _, r := range s.inOrder() {
		for _, e := range r.entries() {
			if at := e.nextWake(); at > 0 && at <= until {
				all = append(all, Wake{At: at, Run: r.Row.Run, Op: e.Op})
			}
		}
	}
	return all
}

// Used orders runs by their last use, the smallest first.
func (r *Run) Used() int64 { return r.used }

// Closed says that nothing will happen to the run any more.
func (r *Run) Closed() bool { return !r.Row.Open }

// Runs returns the runs in memory, in no order.
func (s *Shard) Runs() map[store.RunNo]*Run { return s.runs }

// Evict takes an idle run out of memory. The driver has seen to it that the
// database has all of it.
func (s *Shard) Evict(r *Run) *Output {
	s.out.reset()
	s.recall(r)
	s.forget(r)
	if len(s.loads.byKey) > 0 {
		s.loads.evicted[r.Row.Run] = s.loads.ticket
		s.loads.gone[r.id()] = s.loads.ticket
	}
	return &s.out
}

func (s *Shard) forget(r *Run) {
	delete(s.runs, r.Row.Run)
	if s.ids[r.id()] == r {
		// What is older is durable if r is, and found by reading.
		delete(s.ids, r.id())
		return
	}
	for x := s.ids[r.id()]; x != nil; x = x.older {
		if x.older == r {
			x.older = r.older
		}
	}
}
