package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/check"
	pb "github.com/engined/engined/proto/enginepb"
)

// service is what activities call: it does each effect once a key, undoes what
// was done, and seals a key of which nobody knows, so that a request that is still
// on its way does nothing any more.
type service struct {
	w        *World
	accounts map[string]*account // by the forward key
	ran      []check.Execution
	late     int // requests on their way, whose senders are gone
}

// account is the ledger's line of one step.
type account struct {
	runID, op            string
	done, undone, sealed bool
	// fences are those that its deliveries came with; forward and undo.
	fences [2]int64
}

// stands says that the effect is there.
func (a *account) stands() bool { return a.done && !a.undone }

func (s *service) account(key string, t *pb.Task) *account {
	a := s.accounts[key]
	if a == nil {
		a = &account{runID: t.RunId, op: t.Delivery.Op}
		s.accounts[key] = a
	}
	if a.runID != t.RunId || a.op != t.Delivery.Op {
		s.w.fail("key %s is of %s %s, and of %s %s", key, a.runID, a.op, t.RunId, t.Delivery.Op)
	}
	return a
}

// begun notes that a process has begun a delivery; the answer is its place.
func (s *service) begun(t *pb.Task) int {
	d := t.Delivery
	key, side := t.Key, 0
	if t.Undo != nil {
		key, side = t.Undo.ForwardKey, 1
	}
	if a := s.account(key, t); side == 1 && t.Fence <= a.fences[0] {
		s.w.fail("the fence of the undo of %s of %s is %d, a forward delivery had %d", a.op, a.runID, t.Fence, a.fences[0])
	} else {
		a.fences[side] = max(a.fences[side], t.Fence)
	}
	s.ran = append(s.ran, check.Execution{
		RunID: t.RunId, Op: d.Op, Role: d.Role, Delivery: d.Delivery, Incarnation: d.Incarnation, Key: t.Key,
	})
	return len(s.ran) - 1
}

// call is a request that arrives. The error is a final refusal: nothing was done.
func (s *service) call(t *pb.Task, ran int) error {
	if t.Undo != nil {
		a := s.account(t.Undo.ForwardKey, t)
		if t.Undo.Outcome == pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN {
			a.sealed = true
		}
		if a.done && !a.undone {
			a.undone = true
			s.w.say("the service undoes %s of %s", a.op, a.runID)
		}
		s.ran[ran].Done = true
		return nil
	}
	a := s.account(t.Key, t)
	if a.sealed && !a.done {
		return fmt.Errorf("the key is sealed")
	}
	if !a.done {
		a.done = true
		s.w.say("the service does %s of %s", a.op, a.runID)
	}
	s.ran[ran].Done = true
	return nil
}

// callLate is a request that arrives when its sender does not wait any more.
func (s *service) callLate(t *pb.Task, ran int, after int64) {
	s.late++
	s.w.after(nil, after, func() {
		s.late--
		_ = s.call(t, ran) // nobody hears the answer
	})
}

// judge holds the ledger against the histories of runs that have settled: I15.
func (s *service) judge(runs []*check.Run) {
	byID := map[string]*check.Run{}
	for _, r := range runs {
		byID[r.Row.RunID] = r
	}
	for _, key := range slices.Sorted(maps.Keys(s.accounts)) {
		a := s.accounts[key]
		r := byID[a.runID]
		if r == nil {
			s.w.fail("I1: %v, and there is no such run", a)
			continue
		}
		if want := fateOf(r, a.op); want != unsaid && (want == kept) != a.stands() {
			s.w.fail("I15: %v, and run %d says it is %s", a, r.Row.Run, want)
		}
	}
}

// fate is what a history says of a step's effect.
type fate string

const (
	unsaid fate = "unsaid"
	kept   fate = "kept"
	gone   fate = "gone"
)

func fateOf(r *check.Run, op string) fate {
	is, undoable := unsaid, false
	for _, e := range r.Events {
		if history.Op(e) != op {
			continue
		}
		switch b := e.Body.(type) {
		case *pb.Event_ActivityScheduled:
			undoable = b.ActivityScheduled.Undo != nil
		case *pb.Event_ActivityCompleted:
			is = kept
		case *pb.Event_ActivityFailed:
			if t := b.ActivityFailed.Tally; b.ActivityFailed.Failure.GetFinal() && t.GetUnanswered()+t.GetInconclusive() == 0 {
				is = gone
			}
		case *pb.Event_UndoCompleted:
			is = gone
		case *pb.Event_UndoFailed:
			return unsaid
		}
	}
	if !undoable && is == gone {
		return unsaid
	}
	return is
}
