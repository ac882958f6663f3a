package worker

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/engined/engined/internal/svc"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/failure"
)

// taskKey names a delivery.
type taskKey struct {
	run      int64
	op       string
	role     pb.Role
	delivery int32
}

func keyOf(d *pb.Delivery) taskKey {
	return taskKey{run: d.GetRun(), op: d.GetOp(), role: d.GetRole(), delivery: d.GetDelivery()}
}

// task is a delivery that this process has: it runs, or its result waits until
// the engine says that it is durable. All of it is guarded by the worker's mu.
type task struct {
	t      *pb.Task
	cancel context.CancelCauseFunc
	done   *pb.Done // nil while it runs
	seq    int64    // the message that carries done, 0 if none does yet
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
	if w.stopping {
		x.done = &pb.Done{Delivery: t.Delivery, Outcome: pb.Outcome_OUTCOME_INTERRUPTED,
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
			codeFault(done, err)
		}
		w.finished(x, done)
		return nil
	})
}

// attempt calls the activity and writes down what became of it.
func (w *Worker) attempt(ctx context.Context, t *pb.Task, done *pb.Done) {
	a := w.registry.activities[t.Type]
	if a == nil {
		done.Outcome = pb.Outcome_OUTCOME_UNKNOWN_TYPE
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
	done.Failure = failure.Encode(err, w.opts.Codec)
}

// outcomeOf sorts the error of an activity.
func outcomeOf(ctx context.Context, err error) pb.Outcome {
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
	case failure.IsFinal(err):
		return pb.Outcome_OUTCOME_FAILED_FINAL
	case errors.As(cause, &interrupted):
		return pb.Outcome_OUTCOME_INTERRUPTED
	case errors.As(cause, &cancelled) && (errors.Is(err, context.Canceled) || errors.As(err, &cancelled)):
		return pb.Outcome_OUTCOME_CANCELLED
	default:
		return pb.Outcome_OUTCOME_FAILED
	}
}

// codeFault is a panic or Goexit of the activity.
func codeFault(done *pb.Done, err error) {
	done.Outcome, done.Result = pb.Outcome_OUTCOME_CODE_FAULT, nil
	done.Failure = &pb.Failure{Message: err.Error(), Stack: string(debug.Stack())}
	var p *svc.PanicError
	if errors.As(err, &p) {
		done.Failure.Stack = string(p.Stack)
	}
	done.Failure.Stack = failure.Cut(done.Failure.Stack, stackMax)
}

const stackMax = 16 << 10

func infoOf(t *pb.Task) activity.Info {
	info := activity.Info{
		Namespace: t.Namespace, WorkflowID: t.WorkflowId, RunID: t.RunId, WorkflowType: t.WorkflowType,
		Type: t.Type, Queue: t.Queue, Attempt: int64(t.Attempt), Delivery: int64(t.Delivery.GetDelivery()),
		Fence: t.Fence, Key: t.Key, Scheduled: time.Unix(0, t.Scheduled), Started: time.Unix(0, t.Started),
		Undo: t.Delivery.GetRole() == pb.Role_ROLE_UNDO,
	}
	if d := t.Deadline - t.Started; t.Deadline > 0 && d > 0 {
		// The limit is a time span of the engine's; here it is one of this clock.
		info.Deadline = time.Now().Add(time.Duration(d))
	}
	return info
}

// finished keeps the result and sends it, now or over the next stream.
func (w *Worker) finished(x *task, done *pb.Done) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.cancel(nil)
	x.done = done
	if w.session != nil {
		x.answer(w.session)
	}
	if w.running--; w.running == 0 && w.idle != nil {
		close(w.idle)
	}
}

// answer sends the result. The worker's mu is held, and taken again when the
// message is made up.
func (x *task) answer(s *session) {
	s.out.put(item{done: x.done, sent: func(seq int64) {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		if s.w.session == s {
			x.seq = seq
		}
	}})
}

// forget drops the results that are durable.
func (w *Worker) forget(durable int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, x := range w.tasks {
		if x.done != nil && x.seq > 0 && x.seq <= durable {
			delete(w.tasks, key)
		}
	}
}

// cancelTask tells an activity that it is cancelled.
func (w *Worker) cancelTask(c *pb.CancelTask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.tasks[keyOf(c.Delivery)]; x != nil && x.done == nil {
		x.cancel(&activity.CancelledError{Reason: c.Cause})
	}
}
