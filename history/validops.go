package history

import (
	pb "github.com/engined/engined/proto/enginepb"
)

// operation checks V7 to V9: what begins, and what is said of it later.
func (v *validator) operation(e *pb.Event) error {
	op := Op(e)
	switch b := e.Body.(type) {
	case *pb.Event_ActivityScheduled:
		return v.begin(op, &operation{kind: opActivity, undo: b.ActivityScheduled.GetUndo() != nil})
	case *pb.Event_TimerStarted:
		return v.begin(op, &operation{kind: opTimer})
	case *pb.Event_SagaCommitted:
		return v.begin(op, &operation{kind: opCommit})
	case *pb.Event_SagaCompensate:
		return v.begin(op, &operation{kind: opCompensate})
	case *pb.Event_ActivityCompleted, *pb.Event_ActivityFailed, *pb.Event_ActivityTimedOut, *pb.Event_ActivityCancelled:
		return v.end(e, op, opActivity)
	case *pb.Event_TimerFired:
		return v.end(e, op, opTimer)
	case *pb.Event_CompensationEnded:
		if op == "" {
			return nil // of the closing run: V11
		}
		return v.end(e, op, opCompensate)
	case *pb.Event_ActivityCancelRequested, *pb.Event_LateAnswer:
		_, err := v.known(e, op, opActivity)
		return err
	case *pb.Event_TimerCancelled:
		o, err := v.known(e, op, opTimer)
		if err == nil {
			o.ended = true
		}
		return err
	}
	return nil
}

func (v *validator) begin(op string, o *operation) error {
	if op == "" {
		return v.broken(RuleOps, "the %s has no operation", o.kind)
	}
	if was := v.ops[op]; was != nil {
		return v.broken(RuleOps, "operation %s is there already, as %s", op, was.kind)
	}
	v.ops[op] = o
	return nil
}

func (v *validator) known(e *pb.Event, op string, kind opKind) (*operation, error) {
	o := v.ops[op]
	if o == nil {
		return nil, v.broken(RuleSubject, "%s names operation %q, which has not begun", Kind(e), op)
	}
	if o.kind != kind {
		return nil, v.broken(RuleSubject, "%s names operation %s, which is no %s but a %s", Kind(e), op, kind, o.kind)
	}
	return o, nil
}

func (v *validator) end(e *pb.Event, op string, kind opKind) error {
	o, err := v.known(e, op, kind)
	if err != nil {
		return err
	}
	if o.ended {
		return v.broken(RuleTerminal, "%s: operation %s has ended before", Kind(e), op)
	}
	o.ended = true
	return nil
}

// saga checks V11 and V12.
func (v *validator) saga(e *pb.Event) error {
	switch b := e.Body.(type) {
	case *pb.Event_SagaCommitted:
		return v.undoable(b.SagaCommitted.GetOps())
	case *pb.Event_SagaCompensate:
		return v.undoable(b.SagaCompensate.GetOps())
	case *pb.Event_CompensationStarted:
		if v.closed == nil || v.undoing {
			return v.broken(RuleSaga, "the compensation of a closing run begins without a closing event, or again")
		}
		v.undoing = true
		return v.undoable(b.CompensationStarted.GetOps())
	case *pb.Event_CompensationEnded:
		if b.CompensationEnded.GetOp() == "" {
			if !v.undoing || v.settling {
				return v.broken(RuleSaga, "the compensation of a closing run ends without having begun, or again")
			}
			v.settling = true
		}
		return v.undoable(b.CompensationEnded.GetFailed())
	case *pb.Event_LateAnswer:
		if b.LateAnswer.GetRole() == pb.Role_ROLE_FORWARD {
			v.ops[b.LateAnswer.GetOp()].late++ // known: V8
		}
	case *pb.Event_UndoCompleted:
		o, err := v.undo(b.UndoCompleted.GetOp())
		if err == nil {
			o.undone++
		}
		return err
	case *pb.Event_UndoFailed:
		_, err := v.undo(b.UndoFailed.GetOp())
		return err
	}
	return nil
}

func (v *validator) undoable(ops []string) error {
	for _, op := range ops {
		if o := v.ops[op]; o == nil || !o.undo {
			return v.broken(RuleSaga, "it covers operation %q, which is no step before it that has an undo", op)
		}
	}
	return nil
}

func (v *validator) undo(op string) (*operation, error) {
	o := v.ops[op]
	switch {
	case o == nil || !o.undo:
		return nil, v.broken(RuleUndo, "operation %q is no step before it that has an undo", op)
	case !o.ended:
		return nil, v.broken(RuleUndo, "operation %s is undone before it has ended", op)
	case o.undone > o.late:
		return nil, v.broken(RuleUndo, "operation %s is undone already", op)
	}
	return o, nil
}
