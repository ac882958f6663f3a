package property

import (
	"slices"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// calm writes what is left, and looks at what must be true then.
func (w *world) calm() {
	w.slow, w.hesitant, w.desk.slow = false, false, false
	for range 10 {
		w.commit(len(w.unsaved))
		w.follow()
	}
	w.valid()
	for no, n := range w.desk.bytes {
		if r := w.m.runs[no]; n < 0 || n > 0 && (r == nil || len(r.holder.given) == 0) {
			w.broken("the desk counts %d bytes of run %d, which nobody has to answer", n, no)
		}
	}
	for _, r := range w.m.memory() {
		// Who folds it need not be whom the desk gave it to: an offer may have been late.
		given := w.desk.runs[r.no] != nil || w.desk.find(r.holder.worker) != nil
		if len(r.unfolded) > 0 && !r.held() && !given && len(w.m.putOff[r.no]) == 0 && !w.wakes0(r.no) {
			w.broken("run %d has inputs that nobody is given", r.no)
		}
	}
}

// wakes0 says that the run itself will be looked at.
func (w *world) wakes0(no store.RunNo) bool {
	return slices.ContainsFunc(w.wakes, func(x machine.Wake) bool { return x.Run == no && x.Op == "" })
}

// heal ends all faults: a worker that does whatever it is given, and a code that ends
// when it is asked anything. Then every run ends, but for those that wait for people.
func (w *world) heal() {
	for _, p := range slices.Clone(w.desk.procs) {
		p.connected, p.dead = false, true
		w.desk.disconnect(p.id)
		w.step(&machine.WorkerGone{Worker: p.id})
	}
	w.connect(&proc{id: "healer", build: "new", slots: 100})
	for _, id := range ids {
		w.step(&machine.Cancel{To: w.caller("cancel"), Req: &pb.CancelRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: id}, RequestId: "end"}})
		w.follow()
	}
	for range 100 {
		if len(w.wrong) > 0 || len(w.runs(w.goesOn)) == 0 {
			return
		}
		w.commit(len(w.unsaved))
		w.follow()
		for w.endOne() {
			w.follow()
		}
		w.commit(len(w.unsaved))
		w.follow()
		if !slices.ContainsFunc(w.tasks, func(t *task) bool { return t.proc.connected && t.answer == nil }) {
			w.tick(drawn{"tick", 0, 0, 0, 0})
		}
	}
	for _, r := range w.runs(w.goesOn) {
		w.broken("run %d never ends: %+v", r.no, sorted(r.ops))
	}
}

// goesOn says that the run has not ended, and should by itself.
func (w *world) goesOn(r *run) bool {
	return r.undo != pb.UndoState_UNDO_STATE_FAILED && (r.open && !r.held() || r.undo == pb.UndoState_UNDO_STATE_COMPENSATING)
}

// endOne has a task answered, or the code of a run end.
func (w *world) endOne() bool {
	for _, t := range w.tasks {
		if t.proc.connected && t.answer == nil {
			t.answer = &pb.Done{Delivery: t.Delivery, Outcome: pb.Outcome_OUTCOME_COMPLETED}
			o := w.origin(t.proc)
			t.seq = o.Seq
			w.step(&machine.Done{Origin: o, Done: &pb.Done{Delivery: t.Delivery, Outcome: pb.Outcome_OUTCOME_COMPLETED}})
			return len(w.wrong) == 0
		}
	}
	for _, r := range w.m.memory() {
		p := w.desk.find(r.holder.worker)
		if p == nil || len(r.holder.given) == 0 {
			continue
		}
		through := r.holder.given[len(r.holder.given)-1]
		end := &pb.Event{Cause: through, Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: &pb.WorkflowCompleted{}}}
		w.step(&machine.Decided{Origin: w.origin(p), Decided: &pb.Decided{
			Run: int64(r.no), Stamp: &pb.Stamp{Incarnation: r.holder.stamp.Incarnation, Epoch: r.holder.stamp.Epoch},
			Through: through, Decisions: []*pb.Event{end},
		}})
		return len(w.wrong) == 0
	}
	return false
}
