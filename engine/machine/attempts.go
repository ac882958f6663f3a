package machine

import (
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// again decides what follows an attempt that failed: another one after a
// backoff, or the end.
func (s *Shard) again(r *Run, e *Entry, f *pb.Failure) {
	a := e.activity()
	p := policy(a)
	switch {
	case a.Cancelled && !undoing(a):
		s.end(r, e, s.cancelledEvent(e))
		return
	case a.Compensating && !undoing(a):
		// No forward attempt starts once compensation has begun.
		s.giveUp(r, e, failureEvent(e, f))
		return
	case p.Exhausted(int(a.Attempt)):
		s.giveUp(r, e, failureEvent(e, f))
		return
	}
	next := later(s.now, s.backoff(e, f))
	_, whole, _, since := limits(a)
	if next >= later(since, whole) {
		// The next attempt would begin after the end: say so now.
		s.timeOut(r, e, pb.Limit_LIMIT_SCHEDULE_TO_CLOSE)
		return
	}
	a.Attempt++
	if next == s.now {
		s.dispatch(r, e)
		return
	}
	a.NextTime = next
	if undoing(a) {
		a.Phase = pb.Phase_PHASE_UNDO_BACKOFF
	} else {
		a.Phase = pb.Phase_PHASE_BACKOFF
	}
	s.put(r, e)
}

// backoff is how long the next attempt is put off.
func (s *Shard) backoff(e *Entry, f *pb.Failure) int64 {
	if f.GetOutcome() == pb.Outcome_OUTCOME_LOST && e.losses == 1 {
		// It says nothing against the activity, and there was the grace. If the
		// next worker is lost with it, too, it may be what kills them.
		return 0
	}
	if f.GetRetryAfter() > 0 {
		return f.GetRetryAfter()
	}
	a := e.activity()
	return int64(policy(a).Delay(max(int(a.Attempt)-1, 0), s.rand.Uint64()))
}

// interrupted hands the same attempt out anew: a drain costs nothing. Only an
// activity that may have one delivery at most ends here, its outcome unknown;
// unless its code was never called, which proves that nothing has happened.
func (s *Shard) interrupted(r *Run, e *Entry, f *pb.Failure, unbegun bool) {
	a := e.activity()
	if a.Cancelled || a.Compensating && !undoing(a) || policy(a).Attempts == 1 && !unbegun {
		s.again(r, e, f)
		return
	}
	s.dispatch(r, e)
}

// unanswered settles a delivery to which no answer will be taken any more.
func (s *Shard) unanswered(r *Run, e *Entry, o pb.Outcome, f *pb.Failure) {
	a := e.activity()
	f.Outcome = o
	a.Tally.Unanswered++
	s.logAttempt(e, o, f)
	e.lostAt = 0
	s.again(r, e, f)
}

// overdue settles a delivery that ran too long. The worker is told to stop; its
// slot stays taken until it answers or is gone.
func (s *Shard) overdue(r *Run, e *Entry, limit pb.Limit) {
	a := e.activity()
	s.after(r, cancelTask(r, e, "timed out"))
	f := &pb.Failure{Outcome: pb.Outcome_OUTCOME_TIMED_OUT, Limit: limit,
		Message: "no answer within " + time.Duration(s.now-a.Started).String()}
	last := limit == pb.Limit_LIMIT_SCHEDULE_TO_CLOSE || policy(a).Exhausted(int(a.Attempt))
	if last && !a.Cancelled {
		a.Tally.Unanswered++
		s.logAttempt(e, pb.Outcome_OUTCOME_TIMED_OUT, f)
		s.timeOut(r, e, limit)
		return
	}
	s.unanswered(r, e, pb.Outcome_OUTCOME_TIMED_OUT, f)
}

// heeded takes the answer of an activity that ended because its time was up.
func (s *Shard) heeded(r *Run, e *Entry, f *pb.Failure) {
	a := e.activity()
	_, limit := runLimit(a)
	f.Limit = limit
	if (limit == pb.Limit_LIMIT_SCHEDULE_TO_CLOSE || policy(a).Exhausted(int(a.Attempt))) && !a.Cancelled {
		s.timeOut(r, e, limit)
		return
	}
	s.again(r, e, f)
}

// timeOut ends the side under way because of a limit.
func (s *Shard) timeOut(r *Run, e *Entry, limit pb.Limit) {
	a := e.activity()
	s.giveUp(r, e, &pb.Event{Body: &pb.Event_ActivityTimedOut{ActivityTimedOut: &pb.ActivityTimedOut{
		Op: e.Op, Limit: limit, Failure: a.LastFailure, Tally: a.Tally,
	}}})
}
