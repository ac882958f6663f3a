package engine

import (
	"strings"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// trouble is what somebody should look at, of the runs that a shard has seen since
// it was loaded: those that are held, and those whose compensation has failed.
type trouble struct {
	held   map[store.RunNo]pb.HoldKind
	failed map[store.RunNo]bool
}

func newTrouble() trouble {
	return trouble{held: map[store.RunNo]pb.HoldKind{}, failed: map[store.RunNo]bool{}}
}

// notice looks at a run that has changed, and tells of what is new.
func (s *shard) notice(r *machine.Run) {
	no, hold := r.Row.Run, r.State.Hold
	if kind := hold.GetKind(); kind != s.trouble.held[no] {
		delete(s.trouble.held, no)
		if kind != pb.HoldKind_HOLD_KIND_NONE {
			s.trouble.held[no] = kind
			s.e.log.Warn("a run is held", "kind", holdWord(kind), "workflow_id", r.Row.WorkflowID, "run_id", r.Row.RunID,
				"workflow_type", r.Row.Type, "reason", hold.Reason)
		}
	}
	if failed := r.State.UndoState == pb.UndoState_UNDO_STATE_FAILED; failed != s.trouble.failed[no] {
		delete(s.trouble.failed, no)
		if failed {
			s.trouble.failed[no] = true
			s.e.log.Error("the compensation of a run has failed", "workflow_id", r.Row.WorkflowID, "run_id", r.Row.RunID, "workflow_type", r.Row.Type)
		}
	}
}

func holdWord(k pb.HoldKind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "HOLD_KIND_"))
}

// count adds the shard's trouble to what is told of the engine.
func (s *shard) count(to *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		return
	}
	to.Resident += len(s.m.Runs())
	to.UndoFailed += len(s.trouble.failed)
	for _, kind := range s.trouble.held {
		to.Held[kind]++
	}
}
