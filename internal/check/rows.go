package check

import (
	"fmt"
	"slices"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Rows holds the runs of a database against each other and each one's rows
// against its history: I2 to I5, I9, and what of I15 the engine knows.
func Rows(runs []*Run) []error {
	open, requests := map[string]*Run{}, map[string]*Run{}
	var found []error
	for _, r := range runs {
		id := r.Row.Namespace + "\x00" + r.Row.WorkflowID
		if other := open[id]; other != nil && r.Row.Open {
			found = append(found, &Problem{"I3", r.name(), fmt.Sprintf("the workflow id has another open run, %d", other.Row.Run)})
		}
		if r.Row.Open {
			open[id] = r
		}
		if other := requests[id+"\x00"+r.Row.Request]; other != nil {
			found = append(found, &Problem{"I3", r.name(), fmt.Sprintf("request %s also began run %d", r.Row.Request, other.Row.Run)})
		}
		requests[id+"\x00"+r.Row.Request] = r
		found = append(found, r.Check()...)
	}
	return found
}

// Check holds one run's rows against its history.
func (r *Run) Check() []error {
	c := &folding{run: r, steps: map[string]*step{}, timers: map[string]*timer{}, undoings: map[string]bool{}}
	if err := history.Validate(r.Events); err != nil {
		c.bad("I2", "%v", err)
		return c.found
	}
	for _, e := range r.Events {
		c.fold(e)
	}
	c.row()
	c.state()
	for _, op := range sorted(c.steps) {
		c.step(op, c.steps[op])
	}
	for _, op := range sorted(c.timers) {
		c.timer(op, c.timers[op])
	}
	for _, op := range sorted(r.Pending) {
		c.pending(op, r.Pending[op])
	}
	return c.found
}

// folding is what a history says of the rows that must be beside it.
type folding struct {
	run   *Run
	found []error

	steps     map[string]*step
	timers    map[string]*timer
	closing   *pb.Event
	cancel    int64 // the first CancelRequested
	lastInput int64
	// undoings are the compensations that have begun; false once they have ended.
	undoings map[string]bool
}

// step is an activity.
type step struct {
	scheduled *pb.Event
	end       *pb.Event // its terminal event
	tally     *pb.Tally
	late      bool // an answer came after it had been given up: it was done
	committed bool // what was armed was dropped
	asked     bool // the code asked for its undo
	closing   bool // it is to be undone because the run has closed
	undone    int
	told      pb.EntryOutcome // what the last undo that was done knew of the step
	failed    bool            // its undo failed for good
}

type timer struct {
	started *pb.Event
	ended   bool
}

func (c *folding) bad(invariant, format string, args ...any) {
	c.found = append(c.found, &Problem{invariant, c.run.name(), fmt.Sprintf(format, args...)})
}

func (c *folding) fold(e *pb.Event) {
	if isFolded(e) {
		c.lastInput = e.Id
	}
	if history.Closes(e) && c.closing == nil {
		c.closing = e
	}
	switch b := e.Body.(type) {
	case *pb.Event_ActivityScheduled:
		c.steps[history.Op(e)] = &step{scheduled: e}
	case *pb.Event_ActivityCompleted, *pb.Event_ActivityFailed, *pb.Event_ActivityTimedOut, *pb.Event_ActivityCancelled:
		c.end(e, tallyOf(e))
	case *pb.Event_LateAnswer:
		s := c.steps[b.LateAnswer.Op]
		s.late = s.late || b.LateAnswer.Role == pb.Role_ROLE_FORWARD && b.LateAnswer.Outcome == pb.Outcome_OUTCOME_COMPLETED
	case *pb.Event_SagaCommitted:
		for _, op := range b.SagaCommitted.Ops {
			c.steps[op].committed = true
		}
	case *pb.Event_SagaCompensate:
		c.undoings[b.SagaCompensate.Op] = true
		for _, op := range b.SagaCompensate.Ops {
			c.steps[op].asked = true
		}
	case *pb.Event_CompensationStarted:
		c.undoings[""] = true
		c.begin(b.CompensationStarted.Ops)
	case *pb.Event_CompensationEnded:
		c.undoings[b.CompensationEnded.Op] = false
	case *pb.Event_UndoCompleted:
		s := c.steps[b.UndoCompleted.Op]
		c.turn(b.UndoCompleted.Op, s)
		s.undone++
		s.failed, s.told = false, b.UndoCompleted.Outcome
	case *pb.Event_UndoFailed:
		c.turn(b.UndoFailed.Op, c.steps[b.UndoFailed.Op])
		c.steps[b.UndoFailed.Op].failed = true
	case *pb.Event_TimerStarted:
		c.timers[history.Op(e)] = &timer{started: e}
	case *pb.Event_TimerFired:
		t := c.timers[history.Op(e)]
		t.ended = true
		if due := t.started.Time + t.started.GetTimerStarted().Duration; e.Time < due {
			c.bad("I9", "timer %s fired %d ns early", history.Op(e), due-e.Time)
		}
	case *pb.Event_TimerCancelled:
		c.timers[history.Op(e)].ended = true
	case *pb.Event_CancelRequested:
		if c.cancel == 0 {
			c.cancel = e.Id
		}
	}
}

// begin notes which steps are to be undone because the run has closed: I15.
func (c *folding) begin(ops []string) {
	for _, op := range ops {
		s := c.steps[op]
		if s.committed {
			c.bad("I15", "%s was committed, and is to be undone", op)
		}
		s.closing = !s.asked
	}
}

// turn holds the order of undos: what was scheduled when a step had settled is
// undone before it. I15.
func (c *folding) turn(op string, s *step) {
	if !s.closing || s.end == nil || s.undone > 0 || s.failed {
		return // of the code's own asking, or once more
	}
	for _, other := range sorted(c.steps) {
		o := c.steps[other]
		if !o.closing || o.scheduled.Id < s.end.Id || o.undone > 0 || o.failed {
			continue
		}
		if o.end == nil || o.outcome() != pb.EntryOutcome_ENTRY_OUTCOME_NOT_DONE {
			c.bad("I15", "%s is undone before %s, which was scheduled when it had ended", op, other)
		}
	}
}

// end notes the end of an activity: I5.
func (c *folding) end(e *pb.Event, t *pb.Tally) {
	op := history.Op(e)
	s := c.steps[op]
	s.end, s.tally = e, t
	most := s.scheduled.GetActivityScheduled().GetRetry().GetAttempts()
	if most > 0 && t.GetAttempts() > most {
		c.bad("I5", "%s was attempted %d times, its policy allows %d", op, t.GetAttempts(), most)
	}
	if t.GetUnanswered()+t.GetInconclusive() > t.GetDeliveries() {
		c.bad("I5", "%s: of %d deliveries %d were not answered and %d answered without a word about the effect",
			op, t.GetDeliveries(), t.GetUnanswered(), t.GetInconclusive())
	}
}

// row holds the columns against the history.
func (c *folding) row() {
	row := &c.run.Row
	if n := int64(len(c.run.Events)); n != row.NextEvent-1 {
		c.bad("I2", "the row counts %d events, there are %d", row.NextEvent-1, n)
	}
	if n := int64(len(c.run.Pending)); n != row.Pending {
		c.bad("I2", "the row counts %d pending rows, there are %d", row.Pending, n)
	}
	status := pb.Status_STATUS_RUNNING
	if c.closing != nil {
		status = history.ClosingStatus(c.closing)
	}
	if got := pb.Status(row.Status); got != status {
		c.bad("I2", "the row says %v, the history %v", got, status)
	}
	began := c.run.Events[0].GetWorkflowStarted()
	if began.GetWorkflowId() != row.WorkflowID || began.GetRunId() != row.RunID || began.GetRequestId() != row.Request || began.GetType() != row.Type {
		c.bad("I2", "the row and the first event name different runs: %s %s %s and %s %s %s",
			row.WorkflowID, row.RunID, row.Request, began.GetWorkflowId(), began.GetRunId(), began.GetRequestId())
	}
	for _, op := range sorted(c.undoings) {
		if c.undoings[op] && !row.Open {
			c.bad("I4", "it is settled, and compensation %q has not ended", op)
		}
	}
	if c.closing == nil && !row.Open {
		c.bad("I2", "it is settled, and nothing has closed it")
	}
}

// isFolded says whether an event is given to code: what the engine decides by
// itself about the whole run is not.
func isFolded(e *pb.Event) bool {
	return history.IsInput(e) && !history.Closes(e) && e.GetCompensationStarted() == nil
}

// state holds what the row keeps of the history's sums.
func (c *folding) state() {
	s := c.run.State
	last := c.run.Events[len(c.run.Events)-1]
	closing := c.closing.GetId()
	if s.ClosingEvent != closing || s.CancelEvent != c.cancel || s.LastInput != c.lastInput || s.LastTime != last.Time {
		c.bad("I2", "its state has closing event %d, cancel %d, last input %d, time %d; the history %d, %d, %d, %d",
			s.ClosingEvent, s.CancelEvent, s.LastInput, s.LastTime, closing, c.cancel, c.lastInput, last.Time)
	}
	if s.Processed != 0 {
		if i := s.Processed - 1; i >= int64(len(c.run.Events)) || !history.IsInput(c.run.Events[i]) {
			c.bad("I2", "it has processed event %d, which is no input", s.Processed)
		}
	}
	for _, x := range s.Compensations {
		if !c.undoings[x.Op] {
			c.bad("I4", "its state has compensation %q under way, the history does not", x.Op)
		}
	}
	for _, op := range sorted(c.undoings) {
		under := slices.ContainsFunc(s.Compensations, func(x *pb.Compensation) bool { return x.Op == op })
		if c.undoings[op] && !under {
			c.bad("I4", "compensation %q has begun, and its state does not know it", op)
		}
	}
}

// outcome is what is known of the forward side of a step that has ended.
func (s *step) outcome() pb.EntryOutcome {
	switch {
	case s.end.GetActivityCompleted() != nil || s.late:
		return pb.EntryOutcome_ENTRY_OUTCOME_DONE
	case s.tally.GetUnanswered() == 0 && s.tally.GetInconclusive() == 0:
		return pb.EntryOutcome_ENTRY_OUTCOME_NOT_DONE
	default:
		return pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN
	}
}

// step holds an activity against its row: I4, I15.
func (c *folding) step(op string, s *step) {
	a := c.run.Pending[op].GetActivity()
	sch := s.scheduled.GetActivityScheduled()
	undoable := sch.Undo != nil
	if s.end == nil {
		if a == nil && (undoable && !s.committed || c.closing == nil) {
			c.bad("I4", "%s has not ended, and nothing is pending of it", op)
		}
		if a != nil && a.Phase > pb.Phase_PHASE_BACKOFF {
			c.bad("I4", "%s has not ended, and its row is in phase %v", op, a.Phase)
		}
		return
	}
	if a != nil && !undoable {
		c.bad("I4", "%s has ended, and is pending", op)
		return
	}
	if a != nil && a.Phase < pb.Phase_PHASE_ARMED {
		c.bad("I4", "%s has ended, and its row is in phase %v", op, a.Phase)
	}
	if !undoable || s.committed || s.outcome() == pb.EntryOutcome_ENTRY_OUTCOME_NOT_DONE {
		return
	}
	keeps := c.closing.GetWorkflowCompleted() != nil && s.outcome() == pb.EntryOutcome_ENTRY_OUTCOME_DONE
	if a == nil && s.undone == 0 && !keeps {
		c.bad("I15", "%s is %v, and it is neither undone nor going to be", op, s.outcome())
	}
	if s.undone > 0 && s.late && !s.failed && s.told == pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN && a == nil {
		c.bad("I15", "%s was undone as unknown, was done by an answer that came late, and was not undone once more", op)
	}
	if s.undone > 0 && s.failed && a == nil {
		c.bad("I15", "the undo of %s failed after it had been done as unknown, and nothing tells of it", op)
	}
	if !c.run.Row.Open && !keeps && s.undone == 0 {
		c.bad("I15", "it is settled, and %s is %v and not undone", op, s.outcome())
	}
}

func (c *folding) timer(op string, t *timer) {
	p := c.run.Pending[op].GetTimer()
	switch {
	case p == nil && !t.ended && c.closing == nil:
		c.bad("I9", "timer %s has not ended, and is not pending", op)
	case p != nil && t.ended:
		c.bad("I4", "timer %s has ended, and is pending", op)
	case p != nil && p.Due != t.started.Time+t.started.GetTimerStarted().Duration:
		c.bad("I9", "timer %s is due at %d by its row, at %d by its event", op, p.Due, t.started.Time+t.started.GetTimerStarted().Duration)
	}
}

// pending holds a row against the history that it must come from.
func (c *folding) pending(op string, p *pb.Pending) {
	switch b := p.Body.(type) {
	case *pb.Pending_Activity:
		a, s := b.Activity, c.steps[op]
		if s == nil || s.scheduled.Id != a.ScheduledEvent {
			c.bad("I4", "activity %s is pending, scheduled by event %d, and the history does not say so", op, a.ScheduledEvent)
			return
		}
		most, side := s.scheduled.GetActivityScheduled().GetRetry().GetAttempts(), "it"
		if a.Phase > pb.Phase_PHASE_ARMED {
			most, side = s.scheduled.GetActivityScheduled().GetUndo().GetRetry().GetAttempts(), "its undo"
		}
		if most > 0 && a.Attempt > most {
			c.bad("I5", "%s: %s is at attempt %d of %d", op, side, a.Attempt, most)
		}
		if a.Delivery < a.Tally.GetUnanswered() {
			c.bad("I5", "%s: delivery %d, and %d were not answered", op, a.Delivery, a.Tally.GetUnanswered())
		}
	case *pb.Pending_Timer:
		if c.timers[op] == nil {
			c.bad("I4", "timer %s is pending, and was never started", op)
		}
		if c.closing != nil {
			c.bad("I4", "timer %s is pending, and the run has closed", op)
		}
	}
}
