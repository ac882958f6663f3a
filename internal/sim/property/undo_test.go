package property

import (
	"slices"

	pb "github.com/engined/engined/proto/enginepb"
)

// Compensation, as docs/architecture.md 7 and 8 and DESIGN's rules 19 to 22 have it.

// close takes the event that decides the outcome.
func (m *model) close(r *run, status pb.Status) {
	r.status, r.closing, r.hold, r.builds = status, r.events, 0, nil
	r.unfolded, r.holder = nil, holder{}
	var undo []string
	for _, o := range r.inOrder() {
		switch {
		case o.timer:
			delete(r.ops, o.name)
		case o.undo != nil && (o.phase == pb.Phase_PHASE_WAITING || o.phase == pb.Phase_PHASE_BACKOFF):
			m.stop(r, o)
			if r.ops[o.name] != nil {
				undo = append(undo, o.name)
			}
		case o.undo == nil:
			if o.started() {
				m.tellCancel(r, o)
			}
			delete(r.ops, o.name)
		case o.phase == pb.Phase_PHASE_ARMED && status == pb.Status_STATUS_COMPLETED && o.outcome == pb.EntryOutcome_ENTRY_OUTCOME_DONE:
			delete(r.ops, o.name) // success keeps what was done
		default:
			undo = append(undo, o.name)
		}
	}
	m.compensation(r, undo, "")
	m.settle(r)
}

// compensation takes the steps named under one.
func (m *model) compensation(r *run, ops []string, by string) {
	var taken []*op
	for _, name := range ops {
		if o := r.ops[name]; o != nil && o.undo != nil && !o.listens() && (by == "" || !o.comp) {
			taken = append(taken, o)
		}
	}
	slices.SortFunc(taken, func(a, b *op) int { return int(b.scheduled - a.scheduled) })
	if by == "" && len(taken) == 0 {
		return
	}
	c := &comp{by: by}
	var names []string
	for _, o := range taken {
		names = append(names, o.name)
		o.comp, o.compFor = true, by
		if o.phase == pb.Phase_PHASE_UNDO_FAILED {
			c.failed = append(c.failed, o.name)
		}
	}
	if by == "" {
		r.undo = pb.UndoState_UNDO_STATE_COMPENSATING
		m.note(r, "compensation of %v", names)
	}
	r.comps = append(r.comps, c)
	for _, o := range taken {
		switch {
		case o.phase == pb.Phase_PHASE_ARMED:
			m.queue(o)
		case !o.undoing() && !o.cancelled:
			m.stop(r, o) // no undo overtakes its step: it is asked to end, and waited for
		}
	}
	m.compensate(r)
}

// queue lets an undo wait for its turn.
func (m *model) queue(o *op) {
	if !o.undoing() {
		o.delivery = 0
	}
	o.phase, o.attempt, o.tally, o.cancelled = pb.Phase_PHASE_UNDO_QUEUED, 1, tally{}, false
}

// compensate starts the undos whose turn has come: a step is undone when every
// unfinished one that was scheduled after it had settled is undone. Then it ends the
// compensations that are over.
func (m *model) compensate(r *run) {
	if len(r.comps) == 0 {
		return
	}
	newest := int64(0)
	for _, o := range r.ops {
		if o.comp && !o.finished() {
			newest = max(newest, o.scheduled)
		}
	}
	for _, o := range r.inOrder() {
		if o.comp && o.phase == pb.Phase_PHASE_UNDO_QUEUED && o.settled >= newest {
			o.undoSince = m.now
			m.dispatch(r, o)
		}
	}
	for _, c := range slices.Clone(r.comps) {
		mine := func(o *op) bool { return o.comp && o.compFor == c.by }
		of := slices.DeleteFunc(r.inOrder(), func(o *op) bool { return !mine(o) })
		if slices.ContainsFunc(of, func(o *op) bool { return !o.finished() }) {
			continue
		}
		r.comps = slices.DeleteFunc(r.comps, func(x *comp) bool { return x == c })
		for _, o := range of {
			o.comp = false
			if o.phase == pb.Phase_PHASE_UNDONE {
				m.leave(r, o)
			}
		}
		m.record(r, "compensation %q ended, %d undone, failed %v", c.by, c.undone, c.failed)
		if c.by == "" {
			m.settle(r)
		}
	}
}

// leave takes a step that is undone out of its compensation. While it may still turn
// out to be done, it listens.
func (m *model) leave(r *run, o *op) {
	if !o.mayAnswer() {
		delete(r.ops, o.name)
		return
	}
	o.compFor, o.settleBy = "", m.now+max(lateFor, o.limits.run)
}

func (o *op) mayAnswer() bool {
	return o.outcome != pb.EntryOutcome_ENTRY_OUTCOME_DONE && o.forward.unanswered > 0 &&
		slices.ContainsFunc(o.forward.tries, func(t try) bool { return t.givenUp })
}

// settle closes a decided run when nothing of it is being undone. One whose undo has
// failed stays open, for people; who awaits it is told.
func (m *model) settle(r *run) {
	if !r.decided() || slices.ContainsFunc(r.comps, func(c *comp) bool { return c.by == "" }) {
		return
	}
	failed := false
	for _, o := range r.inOrder() {
		if o.alone() {
			return
		}
		failed = failed || o.phase == pb.Phase_PHASE_UNDO_FAILED
	}
	switch {
	case failed:
		r.undo = pb.UndoState_UNDO_STATE_FAILED
	case r.undo != pb.UndoState_UNDO_STATE_NONE:
		r.undo = pb.UndoState_UNDO_STATE_COMPENSATED
	}
	if r.open && !failed {
		r.open, r.hold, r.builds = false, 0, nil // a closed run is not held
		for _, o := range r.inOrder() {
			if !o.listens() {
				delete(r.ops, o.name)
			}
		}
	}
	for _, to := range r.waiters {
		m.say(r, "answer to %v: %s", to, r.outcome())
	}
	r.waiters = nil
}

// ended takes the end of the undo under way.
func (m *model) ended(r *run, o *op, undone bool) {
	if undone {
		m.record(r, "undone %s, told %v: %v", o.name, o.told, o.tally)
	} else {
		m.record(r, "undo failed %s, told %v: %v", o.name, o.told, o.tally)
	}
	var c *comp
	for _, x := range r.comps {
		if x.by == o.compFor {
			c = x
		}
	}
	// What it was told may be less than is known by now.
	again := o.told == pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN && o.outcome == pb.EntryOutcome_ENTRY_OUTCOME_DONE
	switch {
	case o.alone() && undone:
		delete(r.ops, o.name)
		m.settle(r)
	case o.alone():
		o.phase = pb.Phase_PHASE_UNDO_FAILED
		m.settle(r)
	case again:
		m.queue(o)
	case undone:
		o.phase = pb.Phase_PHASE_UNDONE
		c.undone++
	default:
		o.phase = pb.Phase_PHASE_UNDO_FAILED
		c.failed = append(c.failed, o.name)
	}
	m.compensate(r)
}

// onceMore undoes as done what was undone as unknown.
func (m *model) onceMore(r *run, o *op) {
	if o.listens() && slices.ContainsFunc(r.comps, func(c *comp) bool { return c.by == "" }) {
		o.comp = true
	}
	m.queue(o)
	if o.comp {
		m.compensate(r)
		return
	}
	if r.decided() {
		r.undo = pb.UndoState_UNDO_STATE_COMPENSATING
	}
	o.undoSince = m.now
	m.dispatch(r, o)
}

// commit is the pivot: the steps named are not undone any more.
func (m *model) commit(r *run, ops []string) {
	for _, name := range ops {
		o := r.ops[name]
		switch {
		case o == nil || o.undo == nil || o.comp:
		case o.phase == pb.Phase_PHASE_ARMED || o.phase == pb.Phase_PHASE_UNDO_FAILED:
			delete(r.ops, name)
		case !o.undoing():
			o.undo = nil
		}
	}
}
