package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// Suspects. When a worker dies, what it had not answered may be what killed it:
// a fold, an attempt of an activity. What has been there twice in a row is a
// suspect and is kept apart: no worker has two, so that the next death tells
// which it was. A run that was the only suspect at three deaths is held. An
// answer clears: whoever gives one has killed nobody.

const (
	// suspectAt deaths in a row make a suspect.
	suspectAt = 2
	// maxDeaths as the only suspect hold a run.
	maxDeaths = 3
	// mayReturn is how long a process that was cut off may take to come back and
	// show that it has not died. What it had was given to others long before.
	mayReturn = int64(10 * time.Minute)
)

// suspicion is what speaks against a fold or an entry.
type suspicion struct {
	// id is drawn by the first death and gone with the next answer: what is taken
	// back later is taken back from the same row of deaths.
	id      int64
	deaths  int      // in a row
	workers []string // the newest of them
}

// death is one worker's, seen by one fold or entry. It is no longer of interest
// when the process will not come back.
type death struct {
	worker string
	until  int64
	run    *Run
	of     *suspicion
	id     int64
	// counted in the run's deaths as the only suspect.
	counted bool
}

// suspect says whether x is kept apart. After a restart only the deaths of the
// run are known, and not which of its parts they speak against.
func (r *Run) suspect(x *suspicion) bool {
	return x.deaths >= suspectAt || r.State.Deaths > 0 && (r.accused == nil || slices.Contains(r.accused, x))
}

// attended notes that a worker has died while it had x to answer; what names it.
func (s *Shard) attended(r *Run, x *suspicion, what string, in *WorkerGone) {
	counted := in.Suspects == 1 && r.suspect(x)
	if x.deaths == 0 {
		s.suspicions++
		x.id = s.suspicions
	}
	x.deaths++
	x.workers = append(x.workers, in.Worker)
	x.workers = slices.Clone(x.workers[max(len(x.workers)-maxDeaths, 0):])
	s.deaths = append(s.deaths, death{in.Worker, later(s.now, mayReturn), r, x, x.id, counted})
	if !counted {
		return
	}
	r.State.Deaths++
	s.accuse(r, x)
	s.change(r).Touched = true
	if r.State.Deaths >= maxDeaths && !r.quarantined {
		s.quarantine(r, fmt.Sprintf("%d workers in a row have died with %s, the only suspect on each, the last: %s; "+
			"terminate the run, or deploy a fix and restart the engine, which tries it once more",
			r.State.Deaths, what, strings.Join(x.workers, ", ")))
	}
}

// accuse says what the run's deaths speak against: the last that was the only
// suspect. While the run is quarantined for one, others may be found that ran on:
// then it is all of them, and these are held, too.
func (s *Shard) accuse(r *Run, x *suspicion) {
	switch {
	case !r.quarantined:
		r.accused = []*suspicion{x}
	case !slices.Contains(r.accused, x):
		r.accused = append(r.accused, x)
		s.holdBack(r)
	}
}

// takeBack clears the name of what a worker had that is here again.
func (s *Shard) takeBack(worker string) {
	for _, d := range s.deaths {
		if d.worker != worker || d.until < s.now || d.of.id != d.id || s.runs[d.run.Row.Run] != d.run {
			continue
		}
		d.of.deaths--
		d.of.workers = slices.DeleteFunc(d.of.workers, func(w string) bool { return w == worker })
		if d.counted && d.run.State.Deaths > 0 {
			d.run.State.Deaths--
			s.change(d.run).Touched = true
			if d.run.State.Deaths < maxDeaths {
				s.lift(d.run)
			}
		}
		if h := &d.run.holder; d.of == &d.run.fold && h.phase == holderWaiting {
			s.unassign(d.run) // it need not be kept apart any more
			s.assign(d.run)
		}
	}
	s.deaths = slices.DeleteFunc(s.deaths, func(d death) bool { return d.worker == worker })
}

// acquit clears x, which was answered, or has ended.
func (s *Shard) acquit(r *Run, x *suspicion) {
	if x.deaths > 0 {
		*x = suspicion{}
	}
	if r.State.Deaths == 0 || r.accused != nil && !slices.Contains(r.accused, x) {
		return
	}
	if len(r.accused) <= 1 {
		s.exonerate(r)
		return
	}
	before := r.pausedEntries()
	r.accused = slices.DeleteFunc(r.accused, func(y *suspicion) bool { return y == x })
	s.resumeAll(r, before)
}

// quarantine holds the run: none of its code is given to a worker, and none of its
// activities. Facts are recorded as before. It is ended by terminate, or by the
// grace of a cancel; its undos then run, and those that run already go on, but for
// one that is itself the suspect: it waits for people, or for its time limit.
func (s *Shard) quarantine(r *Run, reason string) {
	s.recall(r)
	r.State.Hold = &pb.Hold{
		Kind: pb.HoldKind_HOLD_KIND_QUARANTINED, Reason: reason, Since: s.now, Builds: slices.Clone(r.excluded),
	}
	r.quarantined = true
	s.quarantined[r.Row.Run] = true
	s.change(r).Touched = true
	s.holdBack(r)
}

// holdBack takes what is not to be given to a worker off the lines at the desk.
func (s *Shard) holdBack(r *Run) {
	for _, e := range r.pausedEntries() {
		s.cfg.Desk.Free(nextDelivery(r, e), anyone)
	}
}

// paused says that the entry is not given to a worker at present.
func (r *Run) paused(e *Entry) bool {
	if r.State.Hold.GetKind() != pb.HoldKind_HOLD_KIND_QUARANTINED {
		return false
	}
	return !undoing(e.activity()) || slices.Contains(r.accused, &e.suspicion)
}

// pausedEntries are those that wait and are not given to a worker at present. What
// changes why they are not looks at them before and after: resumeAll.
func (r *Run) pausedEntries() []*Entry {
	if r.State.Hold.GetKind() != pb.HoldKind_HOLD_KIND_QUARANTINED {
		return nil
	}
	var all []*Entry
	for _, e := range r.entries() {
		if a := e.activity(); a != nil && waiting(a) && r.paused(e) {
			all = append(all, e)
		}
	}
	return all
}

// resumeAll dispatches those that were paused and are not any more.
func (s *Shard) resumeAll(r *Run, before []*Entry) {
	for _, e := range before {
		// No forward attempt starts when the run has closed.
		if r.Entries[e.Op] == e && waiting(e.activity()) && !r.paused(e) && (undoing(e.activity()) || !r.decided()) {
			s.dispatch(r, e)
		}
	}
}

// lift ends a quarantine, when what it rests on is gone or the run has closed.
func (s *Shard) lift(r *Run) {
	if !r.quarantined {
		return
	}
	before := r.pausedEntries()
	r.State.Hold, r.quarantined = nil, false
	delete(s.quarantined, r.Row.Run)
	s.change(r).Touched = true
	s.resumeAll(r, before)
	if r.holder.phase == holderNone {
		s.reassign(r)
	}
}

// parole tries a run once more that an earlier load of the shard has quarantined:
// the next death that it alone can have caused holds it again.
func (s *Shard) parole(r *Run) {
	if r.State.Deaths < maxDeaths || r.State.Hold.GetKind() != pb.HoldKind_HOLD_KIND_QUARANTINED {
		return
	}
	if s.quarantined[r.Row.Run] {
		r.quarantined = true // by this load: it had only left memory
		return
	}
	r.State.Deaths, r.State.Hold = maxDeaths-1, nil
	s.change(r).Touched = true
}

// exonerate forgets the deaths of the run: their cause has answered, or is not run
// any more.
func (s *Shard) exonerate(r *Run) {
	if r.State.Deaths > 0 {
		r.State.Deaths = 0
		s.change(r).Touched = true
	}
	s.lift(r)
	r.accused = nil
}

// nameOf tells people which part of the run it is.
func nameOf(e *Entry) string {
	a := e.activity()
	if undoing(a) {
		return fmt.Sprintf("the undo %s of %s", a.Undo.Type, e.Op)
	}
	return fmt.Sprintf("the activity %s (%s)", e.Op, a.Type)
}
