package worker

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/engined/engined/proto/enginepb"
)

// Workflow code that is at one input for slowTicks is reported; at blockedTicks
// the engine is told that this build cannot go on with the run, and the copy is
// forgotten. These are ticks at which everybody had a chance to go on, and not
// seconds: a process that was stopped, or has more to do than it can, must not
// accuse the code.
const (
	watchTick    = time.Second
	slowTicks    = 2
	blockedTicks = 10
)

// What a copy is at when that is no input.
const (
	atLoad    = 0
	atWaiting = -1 // for an older copy of the run to end
	atEnd     = -2 // its code is being unwound
)

// watch knows the runs whose copies fold. Nobody waits for these folds; the watch
// is how it is noticed when one does not come back.
type watch struct {
	mu    sync.Mutex
	busy  map[*run]struct{}
	awake bool                    // somebody ticks
	slow  atomic.Pointer[[]int64] // the numbers of the slow ones, or nil
}

// watched is what the watch knows of a run; the watch's mu guards it.
type watched struct {
	at    int64
	ticks int // for which it has been there; -1 if it was never looked at
}

// enter has the run watched. The watch ticks only while somebody folds.
func (w *Worker) enter(r *run) {
	x := &w.watch
	x.mu.Lock()
	defer x.mu.Unlock()
	x.busy[r] = struct{}{}
	r.watched.ticks = -1
	if x.awake {
		return
	}
	x.awake = true
	w.group.Run("worker watch", w.watchFolds, func(err error) error {
		if err != nil {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.awake = false
		}
		return nil
	})
}

func (w *Worker) leave(r *run) {
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	delete(w.watch.busy, r)
}

func (w *Worker) watchFolds(ctx context.Context) error {
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		// To the end of the queue of all that can run.
		runtime.Gosched()
		slow, blocked, more := w.watch.look()
		for _, r := range blocked {
			r.accuse()
		}
		for _, r := range slow {
			w.warn(slog.LevelWarn, "workflow code has not given control back for 2 s: blocking calls belong into an activity",
				"workflow_id", r.workflowID, "workflow_type", r.workflowType, "doing", r.doing())
		}
		if !more {
			return nil
		}
	}
}

// look counts a tick. It returns the runs that are slow since this one, those
// that are blocked, which it watches no more, and whether others are left.
func (x *watch) look() (slow, blocked []*run, more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var numbers []int64
	for r := range x.busy {
		if at := r.at.Load(); r.watched.ticks < 0 || r.watched.at != at {
			r.watched = watched{at: at}
			continue
		}
		switch r.watched.ticks++; r.watched.ticks {
		case slowTicks:
			slow = append(slow, r)
		case blockedTicks:
			blocked = append(blocked, r)
			delete(x.busy, r)
			continue
		}
		if r.watched.ticks >= slowTicks {
			numbers = append(numbers, r.no)
		}
	}
	x.slow.Store(nil)
	if len(numbers) > 0 {
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
		x.slow.Store(&numbers)
	}
	x.awake = len(x.busy) > 0
	return slow, blocked, x.awake
}

// slowRuns are the numbers of the runs that are slow.
func (x *watch) slowRuns() []int64 {
	if p := x.slow.Load(); p != nil {
		return *p
	}
	return nil
}

func (r *run) doing() string {
	switch at := r.at.Load(); at {
	case atLoad:
		return "loading its history"
	case atWaiting:
		return "waiting for an older copy of the run to end"
	case atEnd:
		return "unwinding its code"
	default:
		return fmt.Sprintf("folding event %d", at)
	}
}

// accuse tells the engine that the code does not come back, and forgets the copy:
// what the code decides later is never sent. Nothing is told of a copy that the
// engine does not count on any more.
func (r *run) accuse() {
	doing := r.doing()
	r.mu.Lock()
	if told := !r.dropped && r.s.remove(r); told {
		r.dropped, r.accused = true, true
		r.s.out.put(item{fault: &pb.Fault{Run: r.no, Stamp: r.stamp, Kind: pb.FaultKind_FAULT_KIND_BLOCKED, Failure: &pb.Failure{
			Outcome: pb.Outcome_OUTCOME_CODE_FAULT,
			Message: fmt.Sprintf("the code of workflow %s did not give control back for 10 s, %s: blocking calls belong into an activity",
				r.workflowID, doing),
		}}})
		r.wake() // it may have come back just now
	}
	r.mu.Unlock()
	r.s.w.warn(slog.LevelError, "workflow code has not given control back for 10 s: this worker gives the run up until it does",
		"workflow_id", r.workflowID, "workflow_type", r.workflowType, "doing", doing)
}

// recovered tells the engine that code has come back which was reported as
// blocked. That is told until the engine has heard it, over this stream or
// another. The worker's mu is held.
func (w *Worker) recovered(r *run) {
	f := &pb.Fault{Run: r.no, Stamp: r.stamp, Kind: pb.FaultKind_FAULT_KIND_RECOVERED}
	w.recoveries[f] = struct{}{}
	if w.session != nil {
		w.session.tellRecovered(f)
	}
}

func (s *session) tellRecovered(f *pb.Fault) {
	s.out.put(item{fault: proto.CloneOf(f), sent: func(seq int64) {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		s.carried = append(s.carried, carried{seq: seq, recovery: f})
	}})
}
