package property

import (
	"slices"

	"github.com/engined/engined/engine/machine"
	pb "github.com/engined/engined/proto/enginepb"
)

// The life of an activity, as engine/machine's doc.go draws it, with DESIGN's closed
// list of outcomes and rules 13, 15, 16, 19 and 20.

func (r *run) key(o *op, delivery int32) machine.DeliveryKey {
	return machine.DeliveryKey{Run: r.no, Op: o.name, Role: o.role(), Delivery: delivery}
}

// dispatch gives the side under way to a free slot, or lets it wait.
func (m *model) dispatch(r *run, o *op) {
	if at, limit := o.tooLate(); at <= m.now {
		m.timeOut(r, o, limit)
		return
	}
	if !m.paused(r, o) {
		if w, ok := m.choices.slot(r.key(o, o.delivery+1), false); ok {
			m.begin(r, o, w)
			return
		}
	}
	m.touched[r.no] = true
	undo := o.undoing()
	o.phase = pb.Phase_PHASE_WAITING
	if undo {
		o.phase = pb.Phase_PHASE_UNDO_WAITING
	}
}

func (m *model) paused(r *run, o *op) bool { return r.held() && !o.undoing() }

// begin starts an attempt: a delivery of its own.
func (m *model) begin(r *run, o *op, worker string) {
	undo := o.undoing()
	o.phase = pb.Phase_PHASE_STARTED
	if undo {
		o.phase, o.told = pb.Phase_PHASE_UNDO_STARTED, o.outcome
	}
	o.delivery++
	o.tally.deliveries++
	o.tally.attempts = o.attempt
	o.worker, o.by, o.begun = worker, m.incarnation, m.now
	o.lostAt, o.resent = 0, false
	m.say(r, "task %s to %s", r.task(o), worker)
}

// task names the delivery under way.
func (r *run) task(o *op) string { return taskName(o.name, o.role(), o.delivery) }

func (m *model) tellCancel(r *run, o *op) { m.say(r, "cancel %s at %s", r.task(o), o.worker) }

// stop ends a step that does not run, and asks one that runs to end.
func (m *model) stop(r *run, o *op) {
	if o.cancelled || o.undoing() || o.phase == pb.Phase_PHASE_ARMED {
		return
	}
	o.cancelled = true
	if o.started() {
		m.tellCancel(r, o)
		return
	}
	m.end(r, o, "cancelled")
}

// end records the end of the forward side. A step with an undo stays, unless it is
// known that it did nothing.
func (m *model) end(r *run, o *op, how string) {
	event := m.record(r, "%s %s: %v", how, o.name, o.tally)
	switch {
	case how == "completed" || o.known:
		o.outcome = pb.EntryOutcome_ENTRY_OUTCOME_DONE
	case o.tally.unanswered == 0 && o.tally.inconclusive == 0:
		o.outcome = pb.EntryOutcome_ENTRY_OUTCOME_NOT_DONE
	default:
		o.outcome = pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN
	}
	if o.undo == nil || o.outcome == pb.EntryOutcome_ENTRY_OUTCOME_NOT_DONE {
		delete(r.ops, o.name)
		m.compensate(r)
		return
	}
	o.settled, o.phase, o.forward = event, pb.Phase_PHASE_ARMED, o.tally
	if o.comp {
		m.queue(o)
		m.compensate(r)
	}
}

// giveUp ends the side under way without success.
func (m *model) giveUp(r *run, o *op, how string) {
	if o.undoing() {
		m.ended(r, o, false)
		return
	}
	m.end(r, o, how)
}

func (m *model) timeOut(r *run, o *op, limit pb.Limit) {
	m.giveUp(r, o, "timed out by "+limit.String())
}

// again is what follows an attempt that came to nothing; at once if it may have no
// backoff.
func (m *model) again(r *run, o *op, noBackoff bool) {
	forward := !o.undoing()
	switch {
	case o.cancelled && forward:
		m.end(r, o, "cancelled")
		return
	case o.comp && forward, o.last():
		m.giveUp(r, o, "failed")
		return
	}
	l, since := o.bounds()
	next, end := m.now, since+l.all
	if !noBackoff {
		longest := second << min(max(o.attempt-1, 0), 6)
		longest = min(longest, 60*second)
		switch next = m.choices.backoff(r.no, o.name, longest); {
		case next == 0 && m.now+longest <= end:
			m.choices.broken("run %d: %s should be tried again after a backoff", r.no, o.name)
		case next > m.now+longest || next != 0 && next < m.now:
			m.choices.broken("run %d: %s is put off by %d ns, its policy allows %d", r.no, o.name, next-m.now, longest)
		case next == 0:
			next = end
		}
	}
	if next >= end {
		m.timeOut(r, o, pb.Limit_LIMIT_SCHEDULE_TO_CLOSE)
		return
	}
	o.attempt++
	if noBackoff {
		m.dispatch(r, o)
		return
	}
	o.next, o.phase = next, pb.Phase_PHASE_BACKOFF
	if !forward {
		o.phase = pb.Phase_PHASE_UNDO_BACKOFF
	}
	m.touched[r.no] = true
}

// giveDelivery counts a delivery to which no answer is taken any more.
func (m *model) giveDelivery(o *op) {
	o.tally.unanswered++
	o.tally.tries = append(o.tally.tries, try{o.delivery, o.worker, o.by, true})
	o.lostAt = 0
}

// due looks at what has fallen due.
func (m *model) due(r *run, o *op) {
	at := o.deadline()
	if at == 0 || at > m.now {
		return
	}
	m.touched[r.no] = true
	switch {
	case o.name == "!grace":
		delete(r.ops, o.name)
		m.note(r, "closed as cancelled")
		m.close(r, pb.Status_STATUS_CANCELLED)
	case o.timer:
		delete(r.ops, o.name)
		m.record(r, "fired %s", o.name)
	case o.listens():
		delete(r.ops, o.name)
	case o.waits():
		_, limit := o.tooLate()
		m.timeOut(r, o, limit)
	case o.started():
		m.overdue(r, o)
	default:
		m.dispatch(r, o)
	}
}

// overdue settles a delivery that ran too long, or whose worker is lost.
func (m *model) overdue(r *run, o *op) {
	at, limit := o.tooLong()
	m.tellCancel(r, o)
	if at > m.now { // lost with its worker: it has used an attempt
		o.losses++
		m.giveDelivery(o)
		m.again(r, o, o.losses == 1)
		return
	}
	m.giveDelivery(o)
	if (limit == pb.Limit_LIMIT_SCHEDULE_TO_CLOSE || o.last()) && !o.cancelled {
		m.timeOut(r, o, limit)
		return
	}
	m.again(r, o, false)
}

// present says that the delivery is the one under way.
func (o *op) present(worker string, d *pb.Delivery) bool {
	return o != nil && o.started() && o.worker == worker && o.role() == d.Role && o.delivery == d.Delivery && o.by == d.Incarnation
}

// answered takes a worker's answer to a task.
func (m *model) answered(r *run, in *machine.Done) {
	o := r.ops[in.Delivery.Op]
	if o == nil || o.timer {
		return
	}
	m.touched[r.no] = true
	if !o.present(in.Worker, in.Delivery) {
		m.late(r, o, in)
		return
	}
	o.losses = 0
	// One that says itself that its time was up is listened for as if it had been given
	// up: it costs a row for a day, and nothing else.
	o.tally.tries = append(o.tally.tries, try{o.delivery, o.worker, o.by, in.Outcome == pb.Outcome_OUTCOME_TIMED_OUT})
	switch in.Outcome {
	case pb.Outcome_OUTCOME_COMPLETED:
		if o.undoing() {
			m.ended(r, o, true)
		} else {
			m.end(r, o, "completed")
		}
	case pb.Outcome_OUTCOME_FAILED_FINAL, pb.Outcome_OUTCOME_UNDECODABLE:
		m.giveUp(r, o, "failed") // nothing has happened, it says
	case pb.Outcome_OUTCOME_TOO_LARGE:
		o.tally.inconclusive++
		m.giveUp(r, o, "failed")
	case pb.Outcome_OUTCOME_UNKNOWN_TYPE: // it was never run: the same attempt, later
		o.attempt--
		m.again(r, o, false)
	case pb.Outcome_OUTCOME_INTERRUPTED:
		m.interrupted(r, o, in.Unbegun)
	case pb.Outcome_OUTCOME_TIMED_OUT:
		o.tally.inconclusive++
		_, limit := o.tooLong()
		if (limit == pb.Limit_LIMIT_SCHEDULE_TO_CLOSE || o.last()) && !o.cancelled {
			m.timeOut(r, o, limit)
			return
		}
		m.again(r, o, false)
	default:
		o.tally.inconclusive++
		m.again(r, o, false)
	}
}

// interrupted gives the same attempt to another: a drain costs nothing. What may run
// once at most is run again only if it never began.
func (m *model) interrupted(r *run, o *op, unbegun bool) {
	if !unbegun {
		o.tally.inconclusive++
	}
	once := o.attempts
	if o.undoing() {
		once = o.undo.attempts
	}
	if o.cancelled || o.comp && !o.undoing() || once == 1 && !unbegun {
		m.again(r, o, false)
		return
	}
	m.dispatch(r, o)
}

// late takes the answer to a delivery that was given up: only a success of the step
// changes anything, and that once.
func (m *model) late(r *run, o *op, in *machine.Done) {
	done := in.Outcome == pb.Outcome_OUTCOME_COMPLETED
	if in.Delivery.Role == o.role() && o.phase != pb.Phase_PHASE_ARMED {
		if o.finished() || !hear(&o.tally, in) {
			return
		}
		if done && !o.undoing() && o.undo != nil && !o.known {
			o.known = true
			m.record(r, "late answer of %s", o.name)
		}
		return
	}
	if in.Delivery.Role != pb.Role_ROLE_FORWARD || o.outcome == pb.EntryOutcome_ENTRY_OUTCOME_DONE || !hear(&o.forward, in) {
		return
	}
	if !done {
		if o.listens() && !o.mayAnswer() {
			delete(r.ops, o.name)
		}
		return
	}
	o.outcome = pb.EntryOutcome_ENTRY_OUTCOME_DONE
	m.record(r, "late answer of %s", o.name)
	if o.phase == pb.Phase_PHASE_UNDONE {
		m.onceMore(r, o)
	}
}

// hear notes that a delivery which was given up has been answered after all.
func hear(t *tally, in *machine.Done) bool {
	i := slices.IndexFunc(t.tries, func(x try) bool {
		return x.givenUp && x.delivery == in.Delivery.Delivery && x.worker == in.Worker && x.incarnation == in.Delivery.Incarnation
	})
	if i >= 0 {
		t.tries[i].givenUp = false
	}
	return i >= 0
}
