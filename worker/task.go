package worker

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/internal/svc"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/failure"
)

// taskKey names a delivery. The incarnation is part of it: an engine that was
// restored from a backup hands out the same numbers again.
type taskKey struct {
	run         int64
	op          string
	role        pb.Role
	delivery    int32
	incarnation uint64
}

func keyOf(d *pb.Delivery) taskKey {
	return taskKey{
		run: d.GetRun(), op: d.GetOp(), role: d.GetRole(), delivery: d.GetDelivery(), incarnation: d.GetIncarnation(),
	}
}

// task is a delivery that this process has: it runs, or its result waits until
// the engine says that it is durable. All of it is guarded by the worker's mu.
type task struct {
	t      *pb.Task
	cancel context.CancelCauseFunc
	done   *pb.Done // nil while it runs
}

// begin runs a task on a goroutine of its own. A delivery that the process has
// seen is not run again; if its result is there, it is sent again.
func (w *Worker) begin(s *session, t *pb.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := keyOf(t.Delivery)
	if old := w.tasks[key]; old != nil {
		if old.done != nil {
			old.answer(s)
		}
		return
	}
	x := &task{t: t}
	w.tasks[key] = x
	if w.draining {
		w.held++
		x.done = &pb.Done{Delivery: t.Delivery, Outcome: pb.Outcome_OUTCOME_INTERRUPTED, Unbegun: true,
			Failure: &pb.Failure{Message: "it was not begun: the worker stops"}}
		x.answer(s)
		return
	}
	// The activity outlives the stream, so its context is not the session's.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(w.group.Context()))
	x.cancel = cancel
	w.running++
	done := &pb.Done{Delivery: t.Delivery}
	w.group.Run("activity "+t.Type, func(context.Context) error {
		w.attempt(ctx, t, done)
		return nil
	}, func(err error) error {
		if err != nil {
			done = w.codeFault(t, err)
		}
		w.finished(x, done)
		return nil
	})
}

// attempt calls the activity and writes down what became of it.
func (w *Worker) attempt(ctx context.Context, t *pb.Task, done *pb.Done) {
	a := w.registry.activities[t.Type]
	if a == nil {
		done.Outcome, done.Unbegun = pb.Outcome_OUTCOME_UNKNOWN_TYPE, true
		done.Failure = &pb.Failure{Message: unknown("activity", t.Type, w.opts.Queue, w.registry.activityNames())}
		return
	}
	info := infoOf(t)
	if !info.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, info.Deadline)
		defer stop()
	}
	result, err := a.call(activity.NewContext(ctx, info, w.opts.Logger), t, w.opts.Codec)
	if err == nil {
		done.Outcome, done.Result = pb.Outcome_OUTCOME_COMPLETED, result
		return
	}
	done.Outcome = outcomeOf(ctx, err)
	done.Unbegun = done.Outcome == pb.Outcome_OUTCOME_UNDECODABLE
	done.Failure = encodeOwn(err, done.Outcome, w.opts.Codec)
	w.logFailure(info, done, err)
}

// encodeOwn encodes what an attempt failed with. Marks that came with an error
// from elsewhere are about what failed there, and decide nothing here. So nothing
// in the record is final unless the attempt was.
func encodeOwn(err error, outcome pb.Outcome, c codec.Codec) *pb.Failure {
	f := failure.Encode(err, c)
	_, after := failure.Marks(err)
	f.RetryAfter = int64(after)
	if outcome != pb.Outcome_OUTCOME_FAILED_FINAL {
		clearFinal(f)
	}
	return f
}

func clearFinal(f *pb.Failure) {
	f.Final = false
	for _, cause := range f.Causes {
		clearFinal(cause)
	}
}

// logFailure writes what the history will not hold, or what somebody has to
// mend; an error that is recorded and retried is no news.
func (w *Worker) logFailure(info activity.Info, done *pb.Done, err error) {
	text := err.Error()
	switch done.Outcome {
	case pb.Outcome_OUTCOME_UNDECODABLE, pb.Outcome_OUTCOME_TOO_LARGE:
	default:
		if len(text) <= failure.MaxMessage {
			return
		}
	}
	w.opts.Logger.With(info.LogAttrs()...).Warn("an activity has failed", "outcome", done.Outcome, "err", text)
}

// outcomeOf sorts the error of an activity. It is final, and says that nothing
// was done, only if the activity itself has said so.
func outcomeOf(ctx context.Context, err error) pb.Outcome {
	final, _ := failure.Marks(err)
	var undecodable *undecodableError
	var result *resultError
	var cancelled *activity.CancelledError
	var interrupted *activity.InterruptedError
	cause := context.Cause(ctx)
	switch {
	case errors.As(err, &undecodable):
		return pb.Outcome_OUTCOME_UNDECODABLE
	case errors.As(err, &result):
		return pb.Outcome_OUTCOME_TOO_LARGE
	case final:
		return pb.Outcome_OUTCOME_FAILED_FINAL
	case errors.As(cause, &interrupted):
		return pb.Outcome_OUTCOME_INTERRUPTED
	case errors.Is(cause, context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded):
		return pb.Outcome_OUTCOME_TIMED_OUT // it has heeded its limit
	case errors.As(cause, &cancelled) && (errors.Is(err, context.Canceled) || errors.As(err, &cancelled)):
		return pb.Outcome_OUTCOME_CANCELLED
	default:
		return pb.Outcome_OUTCOME_FAILED
	}
}

// codeFault is a panic or Goexit of the activity.
func (w *Worker) codeFault(t *pb.Task, err error) *pb.Done {
	stack := ""
	var p *svc.PanicError
	if errors.As(err, &p) {
		stack = string(p.Stack)
	}
	w.opts.Logger.With(infoOf(t).LogAttrs()...).Error("the code of an activity is at fault", "err", err, "stack", stack)
	return &pb.Done{Delivery: t.Delivery, Outcome: pb.Outcome_OUTCOME_CODE_FAULT, Failure: &pb.Failure{
		Message: failure.Cut(err.Error(), failure.MaxMessage), Stack: failure.Cut(stack, failure.MaxStack),
	}}
}

func infoOf(t *pb.Task) activity.Info {
	info := activity.Info{
		Namespace: t.Namespace, WorkflowID: t.WorkflowId, RunID: t.RunId, WorkflowType: t.WorkflowType,
		Type: t.Type, Queue: t.Queue, Attempt: int64(t.Attempt), Delivery: int64(t.Delivery.GetDelivery()),
		Fence: t.Fence, Key: t.Key, Scheduled: time.Unix(0, t.Scheduled), Started: time.Unix(0, t.Started),
		Undo: t.Delivery.GetRole() == pb.Role_ROLE_UNDO,
	}
	if t.Deadline > 0 {
		// The limit is a time span of the engine's; here it is one of this clock.
		info.Deadline = time.Now().Add(time.Duration(t.Deadline - t.Started))
	}
	return info
}

// finished keeps the result and sends it, now or over the next stream.
func (w *Worker) finished(x *task, done *pb.Done) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.cancel(nil)
	x.done = done
	w.running--
	w.held++
	if w.session != nil {
		x.answer(w.session)
	}
	w.changed.Broadcast()
}

// answer sends the result. What is sent is a copy, since the other end may make
// it its own. The worker's mu is held, and taken again when the message is made
// up.
func (x *task) answer(s *session) {
	done := &pb.Done{
		Delivery: x.done.Delivery, Outcome: x.done.Outcome, Unbegun: x.done.Unbegun,
		Result: x.done.Result, Failure: proto.CloneOf(x.done.Failure),
	}
	s.out.put(item{done: done, sent: func(seq int64) {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		s.carried = append(s.carried, carried{seq: seq, x: x})
	}})
}

// forget drops the results and recoveries that are durable.
func (s *session) forget(durable int64) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for ; n < len(s.carried) && s.carried[n].seq <= durable; n++ {
		c := &s.carried[n]
		if c.x != nil {
			if key := keyOf(c.x.t.Delivery); w.tasks[key] == c.x {
				delete(w.tasks, key)
				w.held--
			}
		}
		delete(w.recoveries, c.recovery)
		*c = carried{}
	}
	s.carried = s.carried[n:]
	s.drained = s.drainSeq > 0 && durable >= s.drainSeq
	w.changed.Broadcast()
}

// cancelTask tells an activity that it is cancelled.
func (w *Worker) cancelTask(c *pb.CancelTask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.tasks[keyOf(c.Delivery)]; x != nil && x.done == nil {
		x.cancel(&activity.CancelledError{Reason: c.Cause})
	}
}
