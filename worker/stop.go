package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/engined/engined/sdk/activity"
)

// unwindTime is how long Stop waits for each of what is left when its context
// has ended: for activities to return whose contexts were cancelled and the
// engine to take their results, for the engine to close the stream, for folds to
// end.
const unwindTime = time.Second

var errStopped = errors.New("the worker was stopped")

// Stop ends the worker in two stages. At once it takes nothing new, and gives
// back what it has not begun; with the runs that it has it goes on. Activities
// that run may finish until ctx ends; then their contexts are cancelled, and what
// returns an error because of it is reported as interrupted, which uses no
// attempt. Results wait until ctx ends for an engine that takes them.
//
// Stop returns when nothing of the worker runs any more, or, a second or two
// after ctx has ended, with an error that names the user code which does not
// end. Another Stop waits for the first and returns the same, or gives up when
// its own ctx ends.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	first := w.stopped == nil
	if first {
		w.stopped = make(chan struct{})
	}
	w.mu.Unlock()
	if first {
		defer close(w.stopped)
		w.stopErr = w.stop(ctx)
		if w.disconnect != nil {
			// What it could tell of is over.
			_ = w.disconnect()
		}
		return w.stopErr
	}
	select {
	case <-w.stopped:
		return w.stopErr
	case <-ctx.Done():
		return fmt.Errorf("stop worker: another Stop has not ended: %w", context.Cause(ctx))
	}
}

func (w *Worker) stop(ctx context.Context) error {
	w.drain()
	w.mu.Lock()
	group := w.group
	w.mu.Unlock()
	if group == nil {
		return nil
	}
	if !w.await(ctx, func() bool { return w.running == 0 && (w.held == 0 || w.refused) }) {
		w.interrupt(&activity.InterruptedError{}, func(*task) bool { return true })
	}
	slack := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.WithoutCancel(ctx), unwindTime)
	}
	last, cancel := slack()
	defer cancel()
	w.await(last, func() bool { return w.running == 0 && w.handedOver() })
	bye, cancel := slack()
	defer cancel()
	w.hangUp(bye)
	group.Stop(errStopped)
	if deaf := w.deaf(); len(deaf) > 0 {
		return stuckError(deaf)
	}
	rest, cancel := slack()
	defer cancel()
	if err := group.WaitFor(rest); err != nil {
		if stuck := w.folding(); len(stuck) > 0 {
			return stuckError(stuck)
		}
		return fmt.Errorf("stop worker: %w", err)
	}
	return nil
}

func stuckError(names []string) error {
	slices.Sort(names)
	return fmt.Errorf("stop worker: this code does not end, although it was told to: %s", strings.Join(names, ", "))
}

// drain makes the worker take nothing new, and tells the engine.
func (w *Worker) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draining {
		return
	}
	w.draining = true
	if w.session != nil {
		w.session.tellDraining()
	}
}

// await waits until ok, which is called with mu held, says so, and returns
// whether it did before ctx ended.
func (w *Worker) await(ctx context.Context, ok func() bool) bool {
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed.Broadcast()
	})
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !ok() {
		if ctx.Err() != nil {
			return false
		}
		w.changed.Wait()
	}
	return true
}

// handedOver says that the engine knows all that this worker has to tell: every
// result is durable, and no task is on its way that was sent before the engine
// heard of the drain. mu is held.
func (w *Worker) handedOver() bool {
	if w.session == nil {
		return w.held == 0 || w.refused
	}
	return w.held == 0 && w.session.drained
}

// interrupt cancels the contexts of tasks that run.
func (w *Worker) interrupt(cause error, which func(*task) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.tasks {
		if x.done == nil && which(x) {
			x.cancel(cause)
		}
	}
}

// hangUp lets the outbox send what is in it and close the stream, and waits for
// the engine to do the same: it then knows that nobody died, and says until then
// what has become durable.
func (w *Worker) hangUp(ctx context.Context) {
	w.mu.Lock()
	w.closing = true
	s := w.session
	w.mu.Unlock()
	if s == nil {
		return
	}
	s.out.close()
	select {
	case <-s.ended:
	case <-ctx.Done(): // the other end does not read, or does not answer
	}
}

// deaf names the activities that still run.
func (w *Worker) deaf() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.tasks {
		if x.done == nil {
			names = append(names, fmt.Sprintf("activity %s of workflow %s", x.t.Type, x.t.WorkflowId))
		}
	}
	return names
}

// folding names the runs whose folds have not ended.
func (w *Worker) folding() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.copies {
		names = append(names, "workflow "+r.workflowID)
	}
	return names
}
