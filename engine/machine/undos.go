package machine

import (
	"container/heap"

	pb "github.com/engined/engined/proto/enginepb"
)

// undos are what is compensated in a run, so kept that an undo need not look at all
// the others. They follow from the entries: every put and drop keeps them.
type undos struct {
	// open has the unfinished entries of compensations, the newest scheduled first,
	// and queued those whose turn has not come, the last settled first. An entry that
	// is not that any more is taken out when it comes up.
	open, queued entryHeap
	covered      map[string]*covered
}

// covered are the entries of one compensation, of which some are unfinished.
type covered struct {
	entries    []*Entry
	unfinished int
}

// tracked is an entry's place in the undos of its run.
type tracked struct {
	in         *covered
	unfinished bool // counted in in.unfinished
	open       bool // in the heap of this name
	queued     bool
}

// track notes what has become of the entry.
func (r *Run) track(e *Entry) {
	a, t, in := e.activity(), &e.tracked, (*covered)(nil)
	if a != nil && a.Compensating && r.Entries[e.Op] == e {
		in = r.covered(a.UndoFor)
	}
	if t.in != in {
		if t.unfinished {
			t.in.unfinished--
			t.unfinished = false
		}
		if t.in = in; in != nil {
			in.entries = append(in.entries, e)
		}
	}
	if in == nil {
		return
	}
	switch unfinished := !finished(a); {
	case unfinished && !t.unfinished:
		in.unfinished++
	case !unfinished && t.unfinished:
		in.unfinished--
	}
	t.unfinished = !finished(a)
	if t.unfinished && !t.open {
		t.open = true
		r.undos.open.push(e, a.ScheduledEvent)
	}
	if a.Phase == pb.Phase_PHASE_UNDO_QUEUED && !t.queued {
		t.queued = true
		r.undos.queued.push(e, a.SettledEvent)
	}
}

func (r *Run) covered(by string) *covered {
	c := r.undos.covered[by]
	if c == nil {
		if r.undos.covered == nil {
			r.undos.covered = map[string]*covered{}
		}
		c = &covered{}
		r.undos.covered[by] = c
	}
	return c
}

// newest is when the newest unfinished entry was scheduled, 0 if there is none.
func (u *undos) newest() int64 {
	for len(u.open) > 0 {
		e := u.open[0].e
		if e.tracked.unfinished {
			return u.open[0].by
		}
		e.tracked.open = false
		heap.Pop(&u.open)
	}
	return 0
}

// ready takes the entries whose turn has come, in no order: an entry may start when
// every unfinished one that was scheduled after its forward side had settled is
// finished, so the newest of them decides.
func (u *undos) ready() []*Entry {
	var all []*Entry
	newest := u.newest()
	for len(u.queued) > 0 {
		e := u.queued[0].e
		waits := e.tracked.unfinished && e.activity().Phase == pb.Phase_PHASE_UNDO_QUEUED
		if waits && u.queued[0].by < newest {
			break
		}
		e.tracked.queued = false
		heap.Pop(&u.queued)
		if waits {
			all = append(all, e)
		}
	}
	return all
}

// entryHeap has entries by a number, the greatest first.
type entryHeap []ranked

type ranked struct {
	e  *Entry
	by int64
}

func (h *entryHeap) push(e *Entry, by int64) { heap.Push(h, ranked{e, by}) }

func (h entryHeap) Len() int           { return len(h) }
func (h entryHeap) Less(i, j int) bool { return h[i].by > h[j].by }
func (h entryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *entryHeap) Push(x any)        { *h = append(*h, x.(ranked)) }

func (h *entryHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = ranked{}
	*h = (*h)[:last]
	return x
}
