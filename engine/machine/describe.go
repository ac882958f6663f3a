package machine

import (
	"fmt"
	"strings"

	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

func (s *Shard) describe(in *Describe) {
	if r := s.find(in.Ref); r != nil {
		s.describeLoaded(in, r)
		return
	}
	s.load(refKey(in.Ref, ""), in)
}

func (s *Shard) describeLoaded(in *Describe, r *Run) {
	if r == nil {
		s.fail(in.To, notFound("describe", in.Ref))
		return
	}
	d := &pb.DescribeResponse{
		Info: InfoOf(&r.Row, r.State), CancelRequested: r.State.CancelEvent != 0, Worker: r.holder.worker,
		HistoryBytes: r.State.HistoryBytes, Last: r.State.LastTime,
	}
	if !r.decided() {
		d.Unfolded = r.behind
	}
	if d.Info.Hold == nil && r.holder.phase == holderWaiting {
		d.Info.Hold = &pb.Hold{Kind: pb.HoldKind_HOLD_KIND_NO_WORKER, Reason: noWorker(r), Since: r.State.LastTime}
	}
	for _, e := range r.entries() {
		d.Waiting = append(d.Waiting, s.waitingFor(r, e))
	}
	s.reply(r, in.To, d)
}

func noWorker(r *Run) string {
	reason := "no connected worker on queue " + r.State.Queue + " knows the workflow type " + r.Row.Type
	if len(r.excluded) > 0 {
		reason += ", but for builds that cannot go on with the run: " + strings.Join(r.excluded, ", ")
	}
	if r.suspect(&r.fold) {
		reason += "; workers have died with the run, and it is given to none that has another such run"
	}
	return reason
}

// InfoOf tells what a run's row says.
func InfoOf(row *store.RunRow, state *pb.RunState) *pb.RunInfo {
	return &pb.RunInfo{
		Namespace: row.Namespace, WorkflowId: row.WorkflowID, RunId: row.RunID, Type: row.Type,
		Queue: state.Queue, Status: pb.Status(row.Status), UndoState: state.UndoState, Hold: state.Hold,
		Started: row.Started, Closed: row.Closed, Events: row.NextEvent - 1, Run: int64(row.Run),
	}
}

// waitingFor tells people what an entry waits for, until when, and what would end
// the wait.
func (s *Shard) waitingFor(r *Run, e *Entry) *pb.Waiting {
	w := &pb.Waiting{Op: e.Op, Until: e.nextWake()}
	switch b := e.P.Body.(type) {
	case *pb.Pending_Timer:
		w.Kind, w.State, w.Ends = "timer", "running", "the timer"
	case *pb.Pending_Grace:
		w.Kind, w.State, w.Ends = "grace", "the code may end by itself until then", "the end of the code, or of its grace after the cancel"
	case *pb.Pending_Activity:
		a := b.Activity
		n := need(r, e)
		w.Kind, w.Type, w.Queue, w.Since = "activity", n.Type, n.Queue, a.ScheduledTime
		if undoing(a) {
			w.Kind, w.Since = "undo", a.UndoSince
		}
		w.State, w.Attempt, w.Failure, w.Attempts = phaseText(a.Phase), a.Attempt, a.LastFailure, a.Tally.GetLog()
		if started(a) {
			w.Worker, w.Since = a.Worker, a.Started
		}
		if len(a.Roads) > 0 {
			w.Outcome = a.Roads[0].Outcome
		}
		if a.Phase == pb.Phase_PHASE_ARMED {
			w.Kind, w.Attempts = "ledger", a.Roads[0].Forward.GetLog()
		}
		w.Limit, w.Ends = s.endOf(r, e, n)
	}
	return w
}

// endOf tells which limit passes next, and what else would end the wait.
func (s *Shard) endOf(r *Run, e *Entry, n Need) (pb.Limit, string) {
	a := e.activity()
	switch a.Phase {
	case pb.Phase_PHASE_WAITING, pb.Phase_PHASE_UNDO_WAITING:
		_, limit := waitLimit(a)
		switch {
		case r.paused(e):
			return limit, "the end of the run's hold"
		case n.Suspect:
			return limit, fmt.Sprintf("a free slot on queue %s of a worker that knows %s and has no other suspect: workers have died with it", n.Queue, n.Type)
		}
		return limit, fmt.Sprintf("a free slot on queue %s of a worker that knows %s", n.Queue, n.Type)
	case pb.Phase_PHASE_STARTED, pb.Phase_PHASE_UNDO_STARTED:
		return startedEnd(e)
	case pb.Phase_PHASE_BACKOFF, pb.Phase_PHASE_UNDO_BACKOFF:
		if all := policy(a).Attempts; all > 0 {
			return 0, fmt.Sprintf("the next attempt (%d of %d)", a.Attempt, all)
		}
		return 0, fmt.Sprintf("the next attempt (%d, there is no last one)", a.Attempt)
	case pb.Phase_PHASE_ARMED:
		return 0, "the run: its success keeps the step, its failure undoes it"
	case pb.Phase_PHASE_UNDO_QUEUED:
		return 0, "the undos of the steps that came after it"
	case pb.Phase_PHASE_UNDO_FAILED:
		return 0, "people: it is tried no more"
	default:
		if listens(a) {
			return 0, "an answer of the step, which was given up and may still be done: it would be undone again"
		}
		return 0, "the end of the compensation"
	}
}

func startedEnd(e *Entry) (pb.Limit, string) {
	a := e.activity()
	at, limit := runLimit(a)
	if e.lostAt > 0 && e.lostAt <= at {
		return 0, fmt.Sprintf("the return of worker %s, which is gone; else the attempt is lost", a.Worker)
	}
	ends := "an answer of worker " + a.Worker
	if a.Cancelled && !undoing(a) {
		ends += ", which was asked to stop (" + a.CancelCause + ")"
	}
	return limit, ends + ", or its " + limitText(limit) + " limit"
}

func limitText(l pb.Limit) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(l.String(), "LIMIT_"), "_", "-"))
}

// phaseText is a phase in a word or two. The shell knows the first.
func phaseText(p pb.Phase) string {
	switch p {
	case pb.Phase_PHASE_WAITING, pb.Phase_PHASE_UNDO_WAITING:
		return "waiting for a slot"
	case pb.Phase_PHASE_STARTED, pb.Phase_PHASE_UNDO_STARTED:
		return "started"
	case pb.Phase_PHASE_BACKOFF, pb.Phase_PHASE_UNDO_BACKOFF:
		return "backoff"
	case pb.Phase_PHASE_ARMED:
		return "armed"
	case pb.Phase_PHASE_UNDO_QUEUED:
		return "waiting for its turn"
	case pb.Phase_PHASE_UNDO_FAILED:
		return "failed for good"
	case pb.Phase_PHASE_UNDONE:
		return "undone"
	default:
		return "unknown"
	}
}
