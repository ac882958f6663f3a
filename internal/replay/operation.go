package replay

import (
	"strconv"
	"time"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Activity is what is asked for when a step is scheduled.
type Activity struct {
	// Event is the decision; operation and source are filled in here.
	Event *pb.ActivityScheduled
	// Map and Item name one item of the Map that Context.Map gave the number
	// of; Map 0 is the coroutine's next operation.
	Map, Item int32
}

// name takes the operation's name: each call takes one, whether or not it comes
// to write something, so that what is refused shifts nothing.
func (co *Coroutine) name(a *Activity) string {
	if a.Map == 0 {
		return co.nextOp()
	}
	return opName(co.below(a.Map)+"["+strconv.Itoa(int(a.Item))+"]", 1)
}

// Map takes the number of the coroutine's next Map.
func (c Context) Map() int32 {
	co, _, err := c.enter()
	if err != nil {
		return 0 // so will be the schedules that it is for
	}
	co.maps++
	return co.maps
}

// Refuse is Schedule for an activity that cannot be asked for: what is wrong
// becomes the outcome, as a *Refused.
func (c Context) Refuse(a *Activity, err error) *Future {
	co, _, misuse := c.enter()
	if misuse != nil {
		return &Future{done: true, err: misuse}
	}
	return co.run.refused(co.name(a), a, err)
}

// refused is an operation that is not asked for; a is nil if it is no activity.
func (r *Run) refused(op string, a *Activity, err error) *Future {
	refused := &Refused{Op: op, Err: err}
	if a != nil {
		refused.Activity = a.Event.Type
	}
	return r.ended(op, refused)
}

// refuses is the outcome of a call for which nothing can be asked, whatever it is
// for, or nil: its context is cancelled, or its name is too long.
func (c Context) refuses(op string, a *Activity) *Future {
	if err := c.canceled(); err != nil {
		return c.co.run.ended(op, err)
	}
	if err := checkOp(op); err != nil {
		return c.co.run.refused(op, a, err)
	}
	return nil
}

// checkOp refuses a name that is too long for a history: it grows with each
// coroutine inside of another.
func checkOp(op string) error {
	if len(op) <= history.MaxOp {
		return nil
	}
	return &history.LimitError{What: "the name of an operation so deep in nested coroutines", Have: len(op), Limit: history.MaxOp}
}

// Schedule asks for an activity. Under a cancelled scope nothing is asked for,
// and neither is what the engine would refuse (the outcome is a *Refused).
func (c Context) Schedule(a *Activity) *Future {
	co, source, err := c.enter()
	if err != nil {
		return &Future{done: true, err: err}
	}
	r, op, e := co.run, co.name(a), a.Event
	if f := c.refuses(op, a); f != nil {
		return f
	}
	e.Op, e.Source = op, source
	if err := history.CheckScheduled(e); err != nil {
		return r.refused(op, a, err)
	}
	f := &Future{op: op, kind: activityOp, keep: e.WaitForCancel, armed: e.Undo != nil}
	f.at = r.decide(&pb.Event{Body: &pb.Event_ActivityScheduled{ActivityScheduled: e}})
	r.open(f, c.scope)
	if f.armed {
		r.armed = append(r.armed, Armed{Op: op, Type: e.Type})
	}
	return f
}

// Timer asks for a timer. Its duration is no part of its identity, so one of
// zero or less is asked for too, and is due at once.
func (c Context) Timer(d time.Duration) *Future {
	co, source, err := c.enter()
	if err != nil {
		return &Future{done: true, err: err}
	}
	r, op := co.run, co.nextOp()
	if f := c.refuses(op, nil); f != nil {
		return f
	}
	f := &Future{op: op, kind: timerOp}
	f.at = r.decide(&pb.Event{Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{
		Op: op, Duration: int64(max(d, 0)), Source: source,
	}}})
	r.open(f, c.scope)
	return f
}

// CancelTimer gives a timer up, if it still runs.
func (c Context) CancelTimer(f *Future) {
	co, source, err := c.enter()
	if err == nil && f.run == co.run && !f.done {
		co.run.cancelOp(f, &Canceled{Reason: "the timer is not needed any more"}, source)
	}
}

// Armed is a step with an undo that was neither committed nor compensated.
type Armed struct{ Op, Type string }

func (r *Run) disarm(f *Future) {
	for i := len(r.armed) - 1; f.armed && i >= 0; i-- {
		if r.armed[i].Op == f.op {
			r.armed = append(r.armed[:i], r.armed[i+1:]...)
			return
		}
	}
}

// Commit drops the undos that are armed: what they undo is kept. It is no wait,
// so a cancelled scope does not stop it. With nothing armed nothing is asked for.
// It has no error to return and must not be passed over, so one that cannot be
// recorded is a fault.
func (c Context) Commit() {
	co, source, err := c.enter()
	if err != nil {
		return // the run is held for it
	}
	op := co.nextOp()
	if ops, _ := co.run.covered(); len(ops) > 0 {
		if err := checkOp(op); err != nil {
			panic(c.blame(source, "cannot be recorded: "+err.Error()))
		}
		co.run.decide(&pb.Event{Body: &pb.Event_SagaCommitted{SagaCommitted: &pb.SagaCommitted{Op: op, Ops: ops, Source: source}}})
	}
}

// Compensate asks for what is armed to be undone now. The future is nil when
// there is nothing to undo. It returns the entries that are covered, too.
func (c Context) Compensate() (*Future, []Armed) {
	co, source, err := c.enter()
	if err != nil {
		return &Future{done: true, err: err}, nil
	}
	r, op := co.run, co.nextOp()
	if f := c.refuses(op, nil); f != nil {
		return f, nil
	}
	ops, entries := r.covered()
	if len(ops) == 0 {
		return nil, nil
	}
	f := &Future{op: op, kind: compensationOp}
	f.at = r.decide(&pb.Event{Body: &pb.Event_SagaCompensate{SagaCompensate: &pb.SagaCompensate{Op: op, Ops: ops, Source: source}}})
	// A cancel ends the wait for it, but not what is under way.
	r.open(f, nil)
	return f, entries
}

// covered takes all that is armed.
func (r *Run) covered() ([]string, []Armed) {
	entries := r.armed
	r.armed = nil
	ops := make([]string, len(entries))
	for i, e := range entries {
		ops[i] = e.Op
	}
	return ops, entries
}
