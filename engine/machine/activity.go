package machine

import (
	"time"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/retry"
	pb "github.com/engined/engined/proto/enginepb"
)

// The time limits of activities, where none are given, in ns. An undo has
// UndoScheduleToClose: it is tried for a month before people must look.
const (
	DefaultStartToClose    = int64(time.Minute)
	DefaultScheduleToClose = int64(time.Hour)
	UndoScheduleToClose    = int64(30 * 24 * time.Hour)
)

func storeRun(no int64) store.RunNo { return store.RunNo(no) }

// schedule opens the activity, with its undo armed in the same commit, and
// gives it a slot at once if there is one.
func (s *Shard) schedule(r *Run, e *pb.Event, a *pb.ActivityScheduled) {
	x := &Entry{Op: a.Op, P: &pb.Pending{Body: &pb.Pending_Activity{Activity: &pb.PendingActivity{
		ScheduledEvent: e.Id, ScheduledTime: e.Time, Type: a.Type, Queue: a.Queue, Input: a.Input,
		Retry: a.Retry, Timeouts: a.Timeouts, Undo: a.Undo, Generation: a.Generation, Header: a.Header,
		WaitForCancel: a.WaitForCancel, Attempt: 1, Tally: &pb.Tally{},
	}}}}
	p := x.activity()
	if p.Queue == "" {
		p.Queue = r.State.Queue
	}
	r.Entries[x.Op] = x
	s.dispatch(r, x)
}

// dispatch starts the side that is under way on a free slot, or lets it wait.
func (s *Shard) dispatch(r *Run, e *Entry) {
	a := e.activity()
	if at, limit := waitLimit(a); at <= s.now {
		s.timeOut(r, e, limit) // it would start only to be too late
		return
	}
	if !r.paused(e) {
		if w, ok := s.cfg.Desk.Slot(nextDelivery(r, e), need(r, e)); ok {
			s.startOn(r, e, w)
			return
		}
	}
	if undoing(a) {
		a.Phase = pb.Phase_PHASE_UNDO_WAITING
	} else {
		a.Phase = pb.Phase_PHASE_WAITING
	}
	s.put(r, e)
}

// need is what the side of the entry that is under way wants of a worker.
func need(r *Run, e *Entry) Need {
	a := e.activity()
	n := Need{Namespace: r.Row.Namespace, Queue: a.Queue, Type: a.Type, Suspect: r.suspect(&e.suspicion)}
	if undoing(a) {
		n.Type = a.Undo.Type
		if a.Undo.Queue != "" {
			n.Queue = a.Undo.Queue
		}
	}
	if r.holder.phase == holderReady {
		n.Prefer = r.holder.worker
	}
	return n
}

// startOn begins a delivery on a worker. The started attempt is durable before
// the task leaves.
func (s *Shard) startOn(r *Run, e *Entry, worker string) {
	a := e.activity()
	undo := undoing(a)
	a.Phase = pb.Phase_PHASE_STARTED
	if undo {
		a.Phase = pb.Phase_PHASE_UNDO_STARTED
	}
	a.Delivery++
	a.Tally.Deliveries++
	a.Tally.Attempts = a.Attempt
	// A fence grows over a restore and a failover too: milliseconds stand in
	// its upper bits, and it is stored.
	a.Fence = max(a.Fence+1, s.now/int64(time.Millisecond)<<12)
	a.Worker = worker
	a.Incarnation = s.cfg.Incarnation
	a.Started = s.now
	if undo {
		a.UndoTold = a.Roads[0].Outcome
	}
	e.lostAt, e.resent = 0, false
	s.put(r, e)
	s.after(r, Dispatch{Worker: worker, Task: s.task(r, e), First: true})
}

// task is what the worker gets of the entry's present delivery.
func (s *Shard) task(r *Run, e *Entry) *pb.Task {
	a := e.activity()
	limit, _ := runLimit(a)
	t := &pb.Task{
		Delivery: delivery(r, e), Namespace: r.Row.Namespace, WorkflowId: r.Row.WorkflowID,
		RunId: r.Row.RunID, WorkflowType: r.Row.Type, Type: a.Type, Queue: a.Queue,
		Attempt: a.Attempt, Fence: a.Fence, Input: a.Input, Scheduled: a.ScheduledTime,
		Started: a.Started, Deadline: limit, Header: a.Header,
		Key:  history.Key(r.State.ChainId, e.Op, a.Generation, role(a)),
		Once: policy(a).Attempts == 1,
	}
	if undoing(a) {
		t.Type, t.Input, t.Scheduled = a.Undo.Type, nil, a.UndoSince
		if a.Undo.Queue != "" {
			t.Queue = a.Undo.Queue
		}
		t.Undo = &pb.UndoEnvelope{
			Input: a.Input, Outcome: a.UndoTold,
			ForwardKey: history.Key(r.State.ChainId, e.Op, a.Generation, pb.Role_ROLE_FORWARD),
		}
		if a.UndoTold == pb.EntryOutcome_ENTRY_OUTCOME_DONE {
			t.Undo.Result = a.Roads[0].Result
		}
	}
	return t
}

func delivery(r *Run, e *Entry) *pb.Delivery {
	a := e.activity()
	return &pb.Delivery{Run: int64(r.Row.Run), Op: e.Op, Role: role(a), Delivery: a.Delivery, Incarnation: a.Incarnation}
}

func thisDelivery(r *Run, e *Entry) DeliveryKey {
	a := e.activity()
	return DeliveryKey{Run: r.Row.Run, Op: e.Op, Role: role(a), Delivery: a.Delivery}
}

func nextDelivery(r *Run, e *Entry) DeliveryKey {
	k := thisDelivery(r, e)
	k.Delivery++
	return k
}

// undoing says whether the undo is the side under way.
func undoing(a *pb.PendingActivity) bool { return a.Phase >= pb.Phase_PHASE_UNDO_QUEUED }

func role(a *pb.PendingActivity) pb.Role {
	if undoing(a) {
		return pb.Role_ROLE_UNDO
	}
	return pb.Role_ROLE_FORWARD
}

// policy is the retry policy of the side under way. An undo's default has no
// last attempt; time bounds it.
func policy(a *pb.PendingActivity) retry.Policy {
	p := a.Retry
	if undoing(a) {
		p = a.Undo.Retry
		if p.GetAttempts() == 0 {
			return retry.Policy{Attempts: -1, Base: time.Duration(p.GetBase()), Cap: time.Duration(p.GetCap())}.WithDefaults()
		}
	}
	return retry.Policy{Attempts: int(p.GetAttempts()), Base: time.Duration(p.GetBase()), Cap: time.Duration(p.GetCap())}.WithDefaults()
}

func limits(a *pb.PendingActivity) (startToClose, scheduleToClose, scheduleToStart, since int64) {
	t, since, whole := a.Timeouts, a.ScheduledTime, DefaultScheduleToClose
	if undoing(a) {
		t, since, whole = a.Undo.Timeouts, a.UndoSince, UndoScheduleToClose
	}
	startToClose, scheduleToClose = DefaultStartToClose, whole
	if d := t.GetStartToClose(); d > 0 {
		startToClose = d
	}
	if d := t.GetScheduleToClose(); d > 0 {
		scheduleToClose = d
	}
	return startToClose, scheduleToClose, t.GetScheduleToStart(), since
}

// runLimit is when a started attempt has run too long, and by which limit.
func runLimit(a *pb.PendingActivity) (int64, pb.Limit) {
	attempt, whole, _, since := limits(a)
	at, all := later(a.Started, attempt), later(since, whole)
	if all < at {
		return all, pb.Limit_LIMIT_SCHEDULE_TO_CLOSE
	}
	return at, pb.Limit_LIMIT_START_TO_CLOSE
}

// waitLimit is when an activity has waited for a slot for too long.
func waitLimit(a *pb.PendingActivity) (int64, pb.Limit) {
	_, whole, start, since := limits(a)
	all := later(since, whole)
	if start > 0 && a.Delivery == 0 && later(since, start) < all {
		return later(since, start), pb.Limit_LIMIT_SCHEDULE_TO_START
	}
	return all, pb.Limit_LIMIT_SCHEDULE_TO_CLOSE
}

func (s *Shard) slotOffered(in *SlotOffered) {
	r := s.touch(in.Delivery.Run)
	var e *Entry
	if r != nil {
		e = r.Entries[in.Delivery.Op]
	}
	if e == nil || e.activity() == nil || !waiting(e.activity()) || nextDelivery(r, e) != in.Delivery {
		if e == nil || e.activity() == nil || !started(e.activity()) || thisDelivery(r, e) != in.Delivery {
			s.cfg.Desk.Free(in.Delivery, anyone)
		}
		return
	}
	if r.paused(e) {
		s.cfg.Desk.Free(in.Delivery, anyone)
		return
	}
	if at, _ := waitLimit(e.activity()); at <= s.now || !s.cfg.Desk.Hold(in.Delivery, in.Worker, r.suspect(&e.suspicion)) {
		// It is too late, or the worker has gone since.
		s.cfg.Desk.Free(in.Delivery, anyone)
		s.dispatch(r, e)
		return
	}
	s.startOn(r, e, in.Worker)
}

func waiting(a *pb.PendingActivity) bool {
	return a.Phase == pb.Phase_PHASE_WAITING || a.Phase == pb.Phase_PHASE_UNDO_WAITING
}

func started(a *pb.PendingActivity) bool {
	return a.Phase == pb.Phase_PHASE_STARTED || a.Phase == pb.Phase_PHASE_UNDO_STARTED
}

// cancelActivity ends an activity that does not run, and asks one that runs to
// end; no attempt starts after this.
func (s *Shard) cancelActivity(r *Run, e *Entry, cause string) {
	a := e.activity()
	if a.Cancelled || undoing(a) || a.Phase == pb.Phase_PHASE_ARMED {
		return
	}
	a.Cancelled, a.CancelCause = true, cause
	if !started(a) {
		s.end(r, e, s.cancelledEvent(e))
		return
	}
	s.put(r, e)
	s.after(r, cancelTask(r, e, cause))
}

func (s *Shard) cancelledEvent(e *Entry) *pb.Event {
	a := e.activity()
	return &pb.Event{Body: &pb.Event_ActivityCancelled{ActivityCancelled: &pb.ActivityCancelled{
		Op: e.Op, Cause: a.CancelCause, Tally: a.Tally,
	}}}
}
