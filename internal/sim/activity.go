package sim

import (
	"encoding/json"
	"fmt"
	"slices"

	pb "github.com/engined/engined/proto/enginepb"
)

// begin runs a task. A delivery that the process has seen is not run again; if its
// answer is there, it is given again.
func (x *worker) begin(pt *pb.Task) {
	w := x.w
	if old := x.taskOf(pt.Delivery); old != nil {
		if old.answer != nil && x.conn != nil {
			x.give(old)
		}
		return
	}
	t := &task{t: pt}
	x.tasks = append(x.tasks, t)
	if x.leave {
		x.end(t, pb.Outcome_OUTCOME_INTERRUPTED, "it was not begun", true)
		return
	}
	w.begun(x, t)
	t.ran = w.service.begun(pt)
	t.deaf = w.chance(0.2)
	span := w.rnd.Int64N(int64(1e6) << w.rnd.IntN(15)) // up to 16 s: some are longer than they may be
	w.after(&x.process, span/2, func() { x.request(t, span/2) })
	if !t.deaf {
		w.after(&x.process, pt.Deadline-pt.Started, func() {
			if t.answer == nil {
				x.end(t, pb.Outcome_OUTCOME_TIMED_OUT, "it has heeded its limit", false)
			}
		})
	}
}

// request is when the activity calls the service.
func (x *worker) request(t *task, rest int64) {
	w := x.w
	if t.answer != nil {
		return
	}
	if t.cancelled && !t.deaf {
		if w.chance(0.3) {
			// Its request is on the way, and will come.
			w.service.callLate(t.t, t.ran, w.rnd.Int64N(10e9))
		}
		if t.interrupted {
			x.end(t, pb.Outcome_OUTCOME_INTERRUPTED, "its worker hears nothing from the engine", false)
		} else {
			x.end(t, pb.Outcome_OUTCOME_CANCELLED, "cancelled", false)
		}
		return
	}
	if x.declined(t) {
		x.end(t, pb.Outcome_OUTCOME_FAILED_FINAL, "declined", false)
		return
	}
	if w.chance(0.1) {
		w.hit("activity fails")
		x.end(t, pb.Outcome_OUTCOME_FAILED, "no connection", false)
		return
	}
	err := w.service.call(t.t, t.ran)
	w.after(&x.process, rest, func() {
		switch {
		case t.answer != nil:
		case err != nil:
			x.end(t, pb.Outcome_OUTCOME_FAILED_FINAL, err.Error(), false)
		case w.chance(0.1):
			w.hit("activity fails, done")
			x.end(t, pb.Outcome_OUTCOME_FAILED, "the answer got lost", false)
		default:
			x.end(t, pb.Outcome_OUTCOME_COMPLETED, "", false)
		}
	})
}

// declined says whether the service refuses a step for good. It does so each time,
// or never.
func (x *worker) declined(t *task) bool {
	if t.t.Undo != nil {
		return t.t.Type == "acts.UndoBadly"
	}
	var in step
	if err := json.Unmarshal(t.t.Input.GetData(), &in); err != nil {
		x.w.fail("the input of %s is %q: %v", t.t.Delivery.Op, t.t.Input.GetData(), err)
	}
	return in.Decline
}

func (x *worker) end(t *task, o pb.Outcome, why string, unbegun bool) {
	t.answer = &pb.Done{Delivery: t.t.Delivery, Outcome: o, Unbegun: unbegun}
	if o == pb.Outcome_OUTCOME_COMPLETED {
		t.answer.Result = encoded("ok")
	} else {
		t.answer.Failure = &pb.Failure{Message: why, Final: o == pb.Outcome_OUTCOME_FAILED_FINAL}
	}
	if x.conn != nil {
		x.give(t)
	}
}

// begun holds what must be true when an activity begins: its start is durable, it
// may begin, and no other process has begun this delivery.
func (w *World) begun(x *worker, t *task) {
	d := t.t.Delivery
	w.say("%s begins %s %s of run %d, delivery %d, attempt %d", x.name, t.t.Type, d.Op, d.Run, d.Delivery, t.t.Attempt)
	if !w.durablyStarted(d) {
		w.fail("I1: %s begins delivery %d of %s of run %d, and its start is not durable", x.name, d.Delivery, d.Op, d.Run)
	}
	if t.t.Once {
		same := func(y pb.Role, runID, op string) bool { return y == d.Role && runID == t.t.RunId && op == d.Op }
		for _, r := range w.service.ran {
			if same(r.Role, r.RunID, r.Op) && d.Role == pb.Role_ROLE_FORWARD {
				w.fail("I5: %s of %s may begin once, and begins again", d.Op, t.t.RunId)
			}
		}
	}
}

func (a *account) String() string {
	words := []string{}
	for word, is := range map[string]bool{"done": a.done, "undone": a.undone, "sealed": a.sealed} {
		if is {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return fmt.Sprint(a.op, " of ", a.runID, " ", words)
}
