package machine

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// DefaultCancelGrace is how long the code of a cancelled run may clean up
// before the engine closes the run.
const DefaultCancelGrace = int64(time.Minute)

// start begins a run, or answers with the one that is there. Conflicts are
// decided here, from rows in memory; the database's unique index is only the
// last defence.
func (s *Shard) start(in *Start) {
	id := ID{in.Req.Namespace, in.Req.WorkflowId}
	if r := s.startedBy(id, in.Req.RequestId); r != nil {
		s.answerStart(r, in, true)
		return
	}
	// An older run may have been started by this very request, and the newest
	// may not be in memory: ask the rows.
	s.load(store.Key{Namespace: id.Namespace, WorkflowID: id.WorkflowID, Request: in.Req.RequestId}, in)
}

// startedBy returns the run in memory that the request has started, or nil.
func (s *Shard) startedBy(id ID, request string) *Run {
	for r := s.ids[id]; r != nil; r = r.older {
		if r.Row.Request == request {
			return s.touch(r.Row.Run)
		}
	}
	return nil
}

// startLoaded goes on when the rows of the id are known. r is the newest run of
// the id, or nil.
func (s *Shard) startLoaded(in *Start, r *Run, byRequest *store.RunRow, dedup *store.DedupRow) {
	id := ID{in.Req.Namespace, in.Req.WorkflowId}
	mine, joined := s.startedBy(id, in.Req.RequestId), s.joinedBy(id, in.Req.RequestId)
	switch {
	case mine != nil:
		s.answerStart(mine, in, true)
	case byRequest != nil:
		s.answerOldStart(in, byRequest.RunID, true)
	case joined != nil:
		s.answerStart(joined, in, false)
	case dedup != nil && joinedRun(dedup) != "":
		s.answerOldStart(in, joinedRun(dedup), false)
	case dedup != nil:
		s.fail(in.To, apierr.New(apierr.AlreadyExists, "start "+in.Req.WorkflowId,
			"the request id was used by another request on this workflow id", "use a request id only once"))
	case r == nil:
		s.begin(in)
	case r.Row.Open && in.Req.Conflict == pb.ConflictPolicy_CONFLICT_POLICY_USE_EXISTING:
		s.join(in, r)
	case r.Row.Open:
		s.after(r, Reply{To: in.To, Err: conflictError(in, r)})
	default:
		s.startAgain(in, r)
	}
}

// join gives the run that is there to a start. The request is remembered: should
// it be repeated when that run has closed, it still means this one, and not another.
func (s *Shard) join(in *Start, r *Run) {
	r.starts = append(r.starts, in.Req.RequestId)
	s.remember(r, in.Req.RequestId, 0)
	s.answerStart(r, in, false)
}

// joinedBy returns the run in memory that the start has been given, or nil.
func (s *Shard) joinedBy(id ID, request string) *Run {
	for r := s.ids[id]; r != nil; r = r.older {
		if slices.Contains(r.starts, request) {
			return s.touch(r.Row.Run)
		}
	}
	return nil
}

// joinedRun is the run that a start was given which the dedup row remembers; ""
// if the row is another request's.
func joinedRun(row *store.DedupRow) string {
	var d pb.DedupState
	if err := proto.Unmarshal(row.Data, &d); err != nil || d.Event != 0 {
		return ""
	}
	return d.RunId
}

func conflictError(in *Start, r *Run) error {
	what := "has a run that is open"
	if r.State.UndoState == pb.UndoState_UNDO_STATE_COMPENSATING {
		what = "has a run that is being compensated"
	}
	err := apierr.New(apierr.AlreadyExists, "start "+in.Req.WorkflowId,
		fmt.Sprintf("the workflow id %s (run %s)", what, r.Row.RunID),
		"wait for it, cancel it, or ask to use the existing run")
	err.RunID = r.Row.RunID
	return err
}

// startAgain begins another run of an id whose newest run is closed.
func (s *Shard) startAgain(in *Start, r *Run) {
	done := pb.Status(r.Row.Status) == pb.Status_STATUS_COMPLETED
	if p := in.Req.Reuse; p == pb.ReusePolicy_REUSE_POLICY_REJECT ||
		p == pb.ReusePolicy_REUSE_POLICY_ALLOW_IF_FAILED && done {
		err := apierr.New(apierr.AlreadyExists, "start "+in.Req.WorkflowId,
			fmt.Sprintf("the workflow id was used by run %s, which has closed", r.Row.RunID),
			"choose another id, or a reuse policy that allows it")
		err.RunID = r.Row.RunID
		s.after(r, Reply{To: in.To, Err: err})
		return
	}
	// The old run's close must reach the database first: an empty effect makes
	// its write urgent and so keeps the order.
	s.after(r, Reply{})
	s.begin(in)
}

// answerStart tells the caller of the run that answers the request.
func (s *Shard) answerStart(r *Run, in *Start, started bool) {
	if !in.Req.Await {
		s.reply(r, in.To, &pb.StartResponse{WorkflowId: r.Row.WorkflowID, RunId: r.Row.RunID, Started: started})
		return
	}
	s.awaitRun(r, waiter{to: in.To, joined: !started})
}

// answerOldStart tells of a run that may have left memory.
func (s *Shard) answerOldStart(in *Start, runID string, started bool) {
	if !in.Req.Await {
		s.out.Replies = append(s.out.Replies, Reply{To: in.To,
			Value: &pb.StartResponse{WorkflowId: in.Req.WorkflowId, RunId: runID, Started: started}})
		return
	}
	s.await(&Await{Ref: &pb.RunRef{Namespace: in.Req.Namespace, WorkflowId: in.Req.WorkflowId, RunId: runID}, To: in.To, Joined: !started})
}

// reserveLow of the numbers that a lease has reserved are given before the driver
// is asked for another lease.
const reserveLow = store.ReservedRuns / 10 * 9

// number gives a run number, unless the lease has none left. One that was given
// without a reservation could be given again, by the next lease, to another run.
func (s *Shard) number() (store.RunNo, bool) {
	given := s.nextRun - s.cfg.Lease.NextRun
	s.out.Exhausted = given >= reserveLow
	if given >= store.ReservedRuns {
		return 0, false
	}
	s.nextRun++
	return store.MakeRunNo(s.cfg.Lease.Shard, s.nextRun-1), true
}

// begin makes the run.
func (s *Shard) begin(in *Start) {
	req := in.Req
	no, ok := s.number()
	if !ok {
		s.fail(in.To, apierr.New(apierr.Unavailable, "start "+req.WorkflowId,
			"the shard has no run number left until it is loaded again", "repeat it with the same request id"))
		return
	}
	r := &Run{
		Row: store.RunRow{
			Run: no, Namespace: req.Namespace, WorkflowID: req.WorkflowId, RunID: in.RunID,
			Type: req.Type, Status: int32(pb.Status_STATUS_RUNNING), Open: true,
			NextEvent: 1, Started: s.now, Request: req.RequestId,
		},
		State: &pb.RunState{
			Queue: req.Queue, ChainId: in.RunID, StartIdentity: req.Identity,
			CancelGrace: req.CancelGrace,
		},
		Entries: map[string]*Entry{},
	}
	if r.State.CancelGrace <= 0 {
		r.State.CancelGrace = DefaultCancelGrace
	}
	s.runs[no] = r
	r.older = s.ids[r.id()]
	s.ids[r.id()] = r
	r.newest = true
	r.used = s.tick
	s.change(r).Insert = true
	r.fresh = &pb.Event{Body: &pb.Event_WorkflowStarted{WorkflowStarted: &pb.WorkflowStarted{
		Namespace: req.Namespace, WorkflowId: r.Row.WorkflowID, RunId: in.RunID, ChainId: in.RunID,
		Type: req.Type, Queue: req.Queue, Input: req.Input, RequestId: req.RequestId,
		Identity: req.Identity, Semantics: history.Semantics, Seed: in.Seed,
		CancelGrace: r.State.CancelGrace, Header: req.Header,
	}}}
	s.record(r, r.fresh)
	s.answerStart(r, in, true)
}
