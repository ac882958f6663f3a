package machine

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// answered is what a worker is done with: a process runs no delivery again.
type answered struct {
	worker   string
	delivery DeliveryKey
}

// watch notes which deliveries end at their workers.
func (r *rig) watch(in Input) {
	switch in := in.(type) {
	case *Done:
		k := KeyOf(in.Delivery)
		r.over[answered{in.Worker, k}] = true
		if r.with[k] == in.Worker {
			delete(r.with, k)
		}
	case *Refused:
		// The desk forgets what the run had, and answers that were not written are
		// given again.
		maps.DeleteFunc(r.with, func(k DeliveryKey, _ string) bool { return k.Run == in.Run })
		maps.DeleteFunc(r.over, func(a answered, _ bool) bool { return a.delivery.Run == in.Run })
	case *WorkerGone:
		maps.DeleteFunc(r.with, func(_ DeliveryKey, w string) bool { return w == in.Worker })
	}
}

// unanswered are the deliveries that a worker was given and has not answered.
func (r *rig) unanswered(worker string) []*pb.Delivery {
	seen := map[handed]bool{}
	return slices.DeleteFunc(slices.Clone(r.got[worker]), func(d *pb.Delivery) bool {
		twice := seen[handedOf(d)]
		seen[handedOf(d)] = true
		return twice || r.over[answered{worker, KeyOf(d)}]
	})
}

// checkRows holds the database against what every well-formed one is.
func (r *rig) checkRows() {
	open, requests := map[string]bool{}, map[string]bool{}
	for _, no := range r.numbers() {
		d := r.db[no]
		id := d.row.WorkflowID
		if err := history.Validate(d.events); err != nil {
			r.t.Errorf("%s: %v", id, err)
		}
		if int64(len(d.events)) != d.row.NextEvent-1 || int64(len(d.pending)) != d.row.Pending {
			r.t.Errorf("%s: the row counts %d events and %d entries, there are %d and %d",
				id, d.row.NextEvent-1, d.row.Pending, len(d.events), len(d.pending))
		}
		if d.row.Open && open[id] {
			r.t.Errorf("%s has two open runs", id)
		}
		open[id] = open[id] || d.row.Open
		asked := []string{"start " + d.row.Request}
		for _, x := range d.dedup {
			asked = append(asked, x.Request)
		}
		for _, q := range asked {
			if q = id + " " + q; requests[q] {
				r.t.Errorf("request %s was carried out twice", q)
			}
			requests[q] = true
		}
		for _, op := range sortedKeys(d.pending) {
			if a := r.pending(d, op).GetActivity(); !d.row.Open && !(listens(a) || alone(a) || a.GetPhase() == pb.Phase_PHASE_UNDO_FAILED) {
				r.t.Errorf("%s has closed with entry %s", id, op)
			}
		}
	}
}

// checkMemory holds what is in memory against the database, when all of it is
// durable, and sees that whatever can go on will: rule 7.
func (r *rig) checkMemory() {
	if len(r.unsaved) > 0 || len(r.queue) > 0 || len(r.reads) > 0 || r.unreadable {
		return
	}
	// A slot is in use for each delivery that is started. It may be for one that
	// was given up and is not answered; never for anything else.
	slots, least, lines := map[string]map[DeliveryKey]bool{}, map[string]int{}, 0
	alone := false
	use := func(w string, k DeliveryKey) {
		if slots[w] == nil {
			slots[w] = map[DeliveryKey]bool{}
		}
		slots[w][k] = true
	}
	for k, w := range r.with {
		use(w, k)
	}
	for _, l := range r.s.loads.inOrder() {
		for _, in := range l.waiting {
			if d, ok := in.(*Done); ok {
				use(d.Worker, KeyOf(d.Delivery)) // it is freed when its run is read
			}
		}
	}
	for _, no := range r.numbers() {
		run := r.s.runs[no]
		if run == nil {
			r.checkAway(no, r.db[no])
			continue
		}
		if r.s.unwritable(run) {
			alone = true
			continue // held in memory alone: nothing goes on
		}
		r.checkRun(run, r.db[no])
		for _, e := range run.entries() {
			if a := e.activity(); a != nil && started(a) && r.m.Connected(a.Worker) {
				use(a.Worker, thisDelivery(run, e))
				least[a.Worker]++
			} else if a != nil && waiting(a) && !run.paused(e) {
				lines++
			}
		}
	}
	if n := r.m.Load().WaitingSlots; n != lines && !alone {
		r.t.Errorf("%d deliveries wait at the desk, %d in the rows", n, lines)
	}
	for w := range r.builds {
		if used, _ := r.m.Usage(w); used < least[w] || used > len(slots[w]) {
			r.t.Errorf("%s has %d slots in use, %d deliveries are started there, and it may have %v", w, used, least[w], slots[w])
		}
	}
}

// checkAway: nothing of a run that is not in memory is due.
func (r *rig) checkAway(no store.RunNo, d *rows) {
	if r.s.putOff(no) && r.readAgain(no) || r.s.refusals[d.row.RunID] > 1 {
		return // it will be read again; or it was held in memory alone
	}
	for _, op := range sortedKeys(d.pending) {
		w := Wake{At: d.pending[op].Wake, Run: no, Op: op}
		switch {
		case w.At == 0:
			r.t.Errorf("%s is not in memory, and its entry %s must be", d.row.WorkflowID, op)
		case w.At != never && !r.wakes1(w):
			r.t.Errorf("%s: nothing wakes entry %s at %s", d.row.WorkflowID, op, clockText(w.At))
		}
	}
}

// readAgain says that a read of the run failed and is going to be tried again.
func (r *rig) readAgain(no store.RunNo) bool {
	return slices.ContainsFunc(r.wakes, func(x Wake) bool { return x.Run == no && x.Op == "" })
}

// wakes1 says whether the wake-up is due some time.
func (r *rig) wakes1(w Wake) bool {
	return slices.ContainsFunc(r.wakes, func(x Wake) bool { return x.Run == w.Run && x.Op == w.Op && x.At == w.At })
}

func (r *rig) checkRun(run *Run, d *rows) {
	id, why := run.Row.WorkflowID, ""
	if d == nil {
		r.t.Errorf("%s (run %d) is in memory alone", id, run.Row.Run)
		return
	}
	var state pb.RunState
	if err := proto.Unmarshal(d.row.State, &state); err != nil {
		r.t.Fatal(err)
	}
	// A position alone is no reason to write.
	state.Processed, state.Folded = run.State.Processed, run.State.Folded
	if run.State.Hold.GetKind() == pb.HoldKind_HOLD_KIND_QUARANTINED {
		state.Hold = run.State.Hold // perhaps it could not even be written as held
	}
	switch {
	case run.Row.NextEvent != d.row.NextEvent || run.Row.Open != d.row.Open || run.Row.Status != d.row.Status:
		why = "has another row in memory"
	case !proto.Equal(&state, run.State):
		why = fmt.Sprintf("has another state: %v in memory, %v in the database", run.State, &state)
	case !slices.Equal(sortedKeys(run.Entries), sortedKeys(d.pending)):
		why = fmt.Sprintf("has entries %v in memory, %v in the database", sortedKeys(run.Entries), sortedKeys(d.pending))
	case slices.ContainsFunc(run.followers, func(f follower) bool { return run.beyond(f.after) }):
		why = "has something to tell to those who follow it"
	case !run.decided() && (run.behind > 0) != run.Attention() || run.holder.phase == holderReady && run.behind != int64(len(run.holder.unfolded)):
		why = fmt.Sprintf("counts %d inputs that are not answered", run.behind)
	case run.Attention() && run.holder.phase == holderNone && !r.readAgain(run.Row.Run) && run.State.Hold.GetKind() != pb.HoldKind_HOLD_KIND_QUARANTINED:
		why = "has inputs that nobody is given"
	}
	if why != "" {
		r.t.Errorf("%s %s", id, why)
		return
	}
	for _, e := range run.entries() {
		r.checkEntry(run, e, d)
	}
	r.checkUndos(run)
}

// checkUndos: what is kept of the compensations follows from the entries.
func (r *rig) checkUndos(run *Run) {
	unfinished, newest := map[string]int{}, int64(0)
	for _, e := range run.entries() {
		a := e.activity()
		if a == nil || !a.Compensating {
			continue
		}
		if run.compensation(a.UndoFor) == nil {
			r.t.Errorf("%s: entry %s is in no compensation", run.Row.WorkflowID, e.Op)
		}
		if !finished(a) {
			unfinished[a.UndoFor]++
			newest = max(newest, a.ScheduledEvent)
		}
	}
	for _, c := range run.State.Compensations {
		if n := run.covered(c.Op).unfinished; n != unfinished[c.Op] || n == 0 {
			r.t.Errorf("%s: %d entries of compensation %q are unfinished, it counts %d", run.Row.WorkflowID, unfinished[c.Op], c.Op, n)
		}
	}
	if n := run.undos.newest(); n != newest {
		r.t.Errorf("%s: the newest unfinished entry was scheduled at %d, not at %d", run.Row.WorkflowID, newest, n)
	}
	for _, e := range run.entries() {
		if a := e.activity(); a != nil && a.Phase == pb.Phase_PHASE_UNDO_QUEUED && (a.SettledEvent >= newest || !e.tracked.queued) {
			r.t.Errorf("%s: the undo of %s waits, and could start", run.Row.WorkflowID, e.Op)
		}
	}
}

// checkFollowed holds that a follower is told of what is durable alone.
func (r *rig) checkFollowed(f *Followed) {
	d := r.db[f.Run]
	if d == nil || int64(len(d.events)) < f.Last || !f.Open && d.row.Open {
		r.t.Errorf("run %d: somebody was told of event %d, open %v, before it was durable", f.Run, f.Last, f.Open)
	}
}

func (r *rig) pending(d *rows, op string) *pb.Pending {
	p := &pb.Pending{}
	if err := proto.Unmarshal(d.pending[op].Data, p); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) checkEntry(run *Run, e *Entry, d *rows) {
	id, p := run.Row.WorkflowID, r.pending(d, e.Op)
	if !proto.Equal(p, e.P) || d.pending[e.Op].Wake != e.Wake() {
		r.t.Errorf("%s: entry %s is %v in memory, %v in the database", id, e.Op, e.P, p)
	}
	if at := e.nextWake(); at > 0 && at != never && !r.wakes1(Wake{At: at, Run: run.Row.Run, Op: e.Op}) && !(r.s.putOff(run.Row.Run) && r.readAgain(run.Row.Run)) {
		r.t.Errorf("%s: nothing wakes entry %s at %s", id, e.Op, clockText(at))
	}
	a := e.activity()
	if a != nil && started(a) && r.m.Connected(a.Worker) != (e.lostAt == 0) {
		r.t.Errorf("%s: entry %s, its worker %s connected %v, lost at %d", id, e.Op, a.Worker, r.m.Connected(a.Worker), e.lostAt)
	}
	if a != nil && a.Phase == pb.Phase_PHASE_UNDO_QUEUED && len(run.State.Compensations) == 0 {
		r.t.Errorf("%s: the undo of %s waits for its turn in no compensation", id, e.Op)
	}
}
