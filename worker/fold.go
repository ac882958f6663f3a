package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/failure"
)

// run is this worker's copy of a run, under one stamp. Inputs wait in its queue;
// one goroutine at a time folds them.
type run struct {
	s     *session
	no    int64
	stamp *pb.Stamp
	// For people.
	workflowID, runID, workflowType string
	// before is closed when an older copy of the run has ended; nil if there is
	// none. over is closed when this one has, if a newer one waits for it; the
	// worker's mu guards it.
	before <-chan struct{}
	over   chan struct{}

	mu sync.Mutex
	// history is what has come of an assignment in several messages; whole says
	// that the last has come.
	history []*pb.Event
	whole   bool
	assign  *pb.Assign // to be loaded first
	inputs  []*pb.Event
	folding bool
	dropped bool
	accused bool // reported as blocked

	code *replay.Run // of the goroutine that folds

	// at is the input that it folds, or what else it does: see watch.go.
	at      atomic.Int64
	watched watched
}

// newCopy makes a copy of a run that begins when the older one, of whatever
// stream, has ended: a run is never folded twice at once.
func (w *Worker) newCopy(s *session, a *pb.Assign) *run {
	r := &run{s: s, no: a.Run, stamp: a.Stamp}
	if len(a.History) > 0 {
		started := a.History[0].GetWorkflowStarted()
		r.workflowID, r.runID, r.workflowType = started.GetWorkflowId(), started.GetRunId(), started.GetType()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.copies[r.no]; old != nil {
		old.over = make(chan struct{})
		r.before = old.over
	}
	w.copies[r.no] = r
	return r
}

// load takes a message of the run's assignment, and says whether it is one: after
// the last, another would be a new assignment.
func (r *run) load(a *pb.Assign) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.whole {
		return false
	}
	if a.More {
		r.history = append(r.history, a.History...)
		return true
	}
	r.whole = true
	if len(r.history) > 0 {
		// The messages are not ours to change.
		a = &pb.Assign{
			Run: a.Run, Stamp: a.Stamp, History: append(r.history, a.History...), Processed: a.Processed, Folded: a.Folded,
		}
		r.history = nil
	}
	r.assign = a
	r.wake()
	return true
}

func (r *run) add(in *pb.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputs = append(r.inputs, in)
	r.wake()
}

// drop makes the copy end, as soon as it does not fold.
func (r *run) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped = true
	r.wake()
}

// wake starts a goroutine that folds, unless there is one. mu is held.
func (r *run) wake() {
	if r.folding {
		return
	}
	r.folding = true
	r.s.w.group.Run("fold", func(context.Context) error { r.foldAll(); return nil }, func(err error) error {
		if err != nil {
			// Not the code's fault, which comes as a value: the worker's own.
			r.fault(&replay.Panic{Value: err})
			r.mu.Lock()
			defer r.mu.Unlock()
			r.folding, r.dropped = false, true
			r.wake() // for its end
		}
		return nil
	})
}

// foldAll folds until nothing waits.
func (r *run) foldAll() {
	r.s.w.enter(r)
	defer r.s.w.leave(r)
	if r.before != nil {
		r.at.Store(atWaiting)
		<-r.before
		r.before = nil
		r.at.Store(atLoad)
	}
	for {
		assign, inputs, more := r.next()
		if !more {
			return
		}
		r.fold(assign, inputs)
	}
}

// next takes what waits. When nothing does, or the copy was dropped, the
// goroutine's time is over.
func (r *run) next() (*pb.Assign, []*pb.Event, bool) {
	r.mu.Lock()
	if r.dropped {
		r.mu.Unlock()
		r.end() // once: folding stays set, so nobody comes after
		return nil, nil, false
	}
	defer r.mu.Unlock()
	if !r.whole || r.assign == nil && len(r.inputs) == 0 {
		r.folding = false
		return nil, nil, false
	}
	assign, inputs := r.assign, r.inputs
	r.assign, r.inputs = nil, nil
	return assign, inputs, true
}

// end unwinds the code, and lets a newer copy begin.
func (r *run) end() {
	defer r.s.w.ended(r)
	code := r.code
	r.code = nil
	if code == nil {
		return
	}
	r.at.Store(atEnd)
	if err := code.Close(); err != nil {
		r.s.w.warn(slog.LevelError, "workflow code did not let itself be ended", "workflow_id", r.workflowID, "err", err.Error())
	}
}

func (w *Worker) ended(r *run) {
	r.mu.Lock()
	accused := r.accused
	r.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if accused {
		w.recovered(r)
	}
	if w.copies[r.no] == r {
		delete(w.copies, r.no)
	}
	if r.over != nil {
		close(r.over)
		r.over = nil
	}
}

// fold folds what waited and answers for all of it at once.
func (r *run) fold(assign *pb.Assign, inputs []*pb.Event) {
	var decisions []*pb.Event
	var through int64
	var err error
	if assign != nil {
		decisions, through, err = r.begin(assign)
		if through <= assign.Processed {
			through = 0 // nothing of it was new: no answer is due
		}
	}
	for _, in := range inputs {
		if err != nil || r.code.Closed() {
			break
		}
		var asked []*pb.Event
		if asked, err = r.code.Fold(in); err == nil {
			decisions, through = append(decisions, asked...), in.Id
		}
	}
	if err == nil && through > 0 {
		err = r.answer(decisions, through)
	}
	if err != nil {
		r.fault(err)
		return
	}
	if through > 0 && r.code.Closed() && r.s.remove(r) {
		r.drop()
	}
}

// answerMax bounds what one input may cause: a network's message carries all of
// it, with some room for the rest.
const answerMax = 60 << 20

// answer sends what was decided, cut between inputs where it is large. What one
// input caused is never cut, since it is recorded together or not at all.
func (r *run) answer(decisions []*pb.Event, through int64) error {
	part, size := 0, 0
	for i := 0; i < len(decisions); {
		cause, n, next := decisions[i].Cause, 0, i
		for ; next < len(decisions) && decisions[next].Cause == cause; next++ {
			n += proto.Size(decisions[next])
		}
		if n > answerMax {
			return &history.LimitError{What: fmt.Sprintf("all that the code asked for at event %d", cause), Have: n, Limit: answerMax}
		}
		if i > part && size+n > messageBytes {
			r.decide(decisions[part:i], decisions[i-1].Cause, size, nil)
			part, size = i, 0
		}
		size += n
		i = next
	}
	var sent func(seq int64)
	if records := r.code.Logs(); len(records) > 0 {
		for i := range records {
			records[i].AddAttrs(slog.String("workflow_id", r.workflowID), slog.String("run_id", r.runID), slog.String("workflow_type", r.workflowType))
		}
		sent = func(seq int64) { r.s.keepLogs(seq, records) }
	}
	r.decide(decisions[part:], through, size, sent)
	return nil
}

func (r *run) decide(decisions []*pb.Event, through int64, bytes int, sent func(int64)) {
	d := &pb.Decided{Run: r.no, Stamp: r.stamp, Through: through, Decisions: decisions}
	r.put(item{decided: d, bytes: bytes, sent: sent})
}

// put sends something of the run, unless the copy is to be forgotten.
func (r *run) put(it item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dropped {
		r.s.out.put(it)
	}
}

// begin loads the history into new code.
func (r *run) begin(a *pb.Assign) ([]*pb.Event, int64, error) {
	w := r.s.w
	if len(a.History) == 0 {
		return nil, 0, &replay.BadHistory{Why: "it is empty"}
	}
	name := a.History[0].GetWorkflowStarted().GetType()
	t := w.registry.workflows[name]
	if t == nil {
		return nil, 0, &unknownTypeError{unknown("workflow", name, w.opts.Queue, w.registry.workflowNames())}
	}
	r.code = replay.New(replay.Config{
		RunNo: a.Run, LogLevel: w.logLevel(), SameActivity: w.registry.sameActivity, ActivityName: w.registry.activityName, Spawn: w.spawn,
		Position: &r.at,
	}, t.body)
	return r.code.Load(a.History, a.Processed, a.Folded)
}

// spawn runs f on a goroutine of its own, however f ends.
func (w *Worker) spawn(f func()) {
	w.group.Run("unwind", func(context.Context) error { f(); return nil }, func(error) error { return nil })
}

type unknownTypeError struct{ why string }

func (e *unknownTypeError) Error() string { return e.why }

// fault tells the engine that this build cannot go on with the run, and forgets
// the copy.
func (r *run) fault(err error) {
	text := err.Error()
	f := &pb.Fault{Run: r.no, Stamp: r.stamp, Kind: replay.FaultKind(err), Failure: &pb.Failure{
		Outcome: pb.Outcome_OUTCOME_CODE_FAULT,
		Message: failure.Cut(text, failure.MaxMessage), Stack: failure.Cut(replay.Stack(err), failure.MaxStack),
	}}
	switch err.(type) {
	case *unknownTypeError:
		f.Kind, f.Failure.Outcome = pb.FaultKind_FAULT_KIND_UNKNOWN_TYPE, pb.Outcome_OUTCOME_UNKNOWN_TYPE
	case *history.LimitError:
		f.Kind = pb.FaultKind_FAULT_KIND_REFUSED
	}
	r.s.w.warn(slog.LevelError, "workflow code cannot go on with a run", "workflow_id", r.workflowID, "kind", f.Kind, "err", text)
	r.put(item{fault: f})
	if r.s.remove(r) {
		r.drop()
	}
}
