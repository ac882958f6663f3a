package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Execution is one time that an activity's code was called, as whoever was called
// has noted it.
type Execution struct {
	RunID       string
	Op          string
	Role        pb.Role
	Delivery    int32
	Incarnation uint64
	// Key is the idempotency key that the code was given.
	Key string
	// Done: the code had its effect, or found that it had been had before.
	Done bool
}

// side is one side of a step of a run.
type side struct {
	run, op string
	role    pb.Role
}

// Executions holds what really ran against what the engine knows: I5, I15. What
// was done twice must be explained by a delivery that was started and not
// answered. What is unexplained is said of each side of a step once.
func Executions(runs []*Run, all []Execution) []error {
	byID := map[string]*Run{}
	for _, r := range runs {
		byID[r.Row.RunID] = r
	}
	sides := map[side][]Execution{}
	keys := map[string]side{}
	var found []error
	for _, x := range all {
		s := side{x.RunID, x.Op, x.Role}
		sides[s] = append(sides[s], x)
		if owner, taken := keys[x.Key]; taken && owner != s {
			found = append(found, &Problem{"I15", x.RunID, fmt.Sprintf("%s and %s of run %s have the same idempotency key", x.Op, owner.op, owner.run)})
		}
		keys[x.Key] = s
	}
	order := make([]side, 0, len(sides))
	for s := range sides {
		order = append(order, s)
	}
	slices.SortFunc(order, func(a, b side) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.op, b.op), cmp.Compare(a.role, b.role))
	})
	for _, s := range order {
		r := byID[s.run]
		if r == nil {
			found = append(found, &Problem{"I1", s.run, s.op + " was executed, and the run is not there"})
			continue
		}
		found = append(found, r.explain(s, sides[s])...)
	}
	return found
}

func (r *Run) explain(s side, ran []Execution) (found []error) {
	bad := func(invariant, format string, args ...any) {
		what := s.op
		if s.role == pb.Role_ROLE_UNDO {
			what = "the undo of " + s.op
		}
		found = append(found, &Problem{invariant, r.name(), what + " " + fmt.Sprintf(format, args...)})
	}
	type delivery struct {
		number      int32
		incarnation uint64
	}
	begun, done := map[delivery]bool{}, 0
	for _, x := range ran {
		d := delivery{x.Delivery, x.Incarnation}
		if begun[d] {
			bad("I5", "was executed twice as delivery %d of load %x", d.number, d.incarnation)
		}
		begun[d] = true
		if x.Done {
			done++
		}
		if x.Key != ran[0].Key {
			bad("I15", "was given two idempotency keys")
		}
	}
	scheduled, may := r.tallies(s.op, s.role)
	if scheduled == nil {
		bad("I1", "was executed, and the history did not schedule it")
		return found
	}
	if s.role == pb.Role_ROLE_FORWARD && scheduled.GetRetry().GetAttempts() == 1 && len(ran) > 1 {
		bad("I5", "was executed %d times, and may be at most once", len(ran))
	}
	if done > may {
		bad("I5", "was done %d times, and what is known of its deliveries explains %d", done, may)
	}
	return found
}

// tallies counts how often a side may have been done: once for each answer that
// says so, and for each delivery of which nobody knows.
func (r *Run) tallies(op string, role pb.Role) (scheduled *pb.ActivityScheduled, may int) {
	answered, open, ended := 0, 0, false
	count := func(t *pb.Tally) {
		open += int(t.GetUnanswered() + t.GetInconclusive())
		for _, x := range t.GetLog() {
			if x.Late {
				open++ // it was unanswered, and is not counted so any more
			}
		}
	}
	forward := role == pb.Role_ROLE_FORWARD
	for _, e := range r.Events {
		if history.Op(e) != op {
			continue
		}
		switch b := e.Body.(type) {
		case *pb.Event_ActivityScheduled:
			scheduled = b.ActivityScheduled
		case *pb.Event_UndoCompleted:
			if !forward {
				answered++
				count(b.UndoCompleted.Tally)
			}
		case *pb.Event_UndoFailed:
			if !forward {
				count(b.UndoFailed.Tally)
			}
		default:
			if t := tallyOf(e); t != nil && forward {
				ended = true
				count(t)
				if e.GetActivityCompleted() != nil {
					answered++
				}
			}
		}
	}
	a := r.Pending[op].GetActivity()
	if undoing := a.GetPhase() > pb.Phase_PHASE_ARMED; a != nil && undoing != forward {
		count(a.Tally)
		open++ // the one that is under way
	}
	if forward && !ended && a == nil {
		open += int(scheduled.GetRetry().GetAttempts()) // it ran when the run closed, which leaves no event
	}
	return scheduled, max(answered, 1) + open
}

// tallyOf is the tally of an event that ends an activity.
func tallyOf(e *pb.Event) *pb.Tally {
	switch b := e.Body.(type) {
	case *pb.Event_ActivityCompleted:
		return b.ActivityCompleted.Tally
	case *pb.Event_ActivityFailed:
		return b.ActivityFailed.Tally
	case *pb.Event_ActivityTimedOut:
		return b.ActivityTimedOut.Tally
	case *pb.Event_ActivityCancelled:
		return b.ActivityCancelled.Tally
	}
	return nil
}
