package replay

import (
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Body is workflow code bound to its codec. It runs on the root coroutine.
type Body func(ctx Context, input *pb.Payload) Result

// Result is how workflow code ended: by a fault, a failure, or else a payload.
type Result struct {
	Payload *pb.Payload
	Failure *pb.Failure
	// Canceled says that the failure is the answer to a cancel.
	Canceled bool
	// Fault says that the code did not end: nothing is recorded, the run is
	// held (*Undecodable, *Unencodable).
	Fault error
}

// Config of a run. The zero value serves.
type Config struct {
	// RunNo is the run's number, for messages.
	RunNo int64
	// SameActivity says whether the activity type that a history recorded is
	// the one that the code now asks for: an alias. nil is equality.
	SameActivity func(recorded, now string) bool
	// ActivityName gives the stored name of an activity from its function's
	// name, for functions registered under another. nil is the same name.
	ActivityName func(function string) string
	// Spawn runs f on a goroutine of its own. Close needs it, and waits for f,
	// to end coroutines whose code called runtime.Goexit, or that swallow the
	// panics of their unwinding; with nil these stay in memory.
	Spawn func(f func())
	// Position, if not nil, is set to the id of each input before it is folded,
	// so that whoever watches can tell a long history from code that does not
	// give control back.
	Position *atomic.Int64
	// LogLevel is the lowest level of log records that are kept; nil is Info.
	LogLevel slog.Leveler
}

// Run is one run's code in progress. It is used by one goroutine at a time, not
// always the same one, and never by a goroutine locked to its thread.
type Run struct {
	cfg  Config
	body Body
	tag  tag

	started   *pb.WorkflowStarted
	startedAt int64
	now       int64 // ns since 1970, of the newest input so far
	cause     int64 // the input being folded
	last      int64 // the last input folded

	ops       map[string]*Future // open operations
	armed     []Armed
	decisions []*pb.Event // of the input being folded; withdrawn ones are nil
	canceled  *Canceled   // asked for by the engine

	main, detached *Scope
	alive          list[*Coroutine]
	ready          queue
	awaiting       list[*Coroutine]

	// current is the coroutine that has control: the token by which a call is
	// known to come from where it may.
	current atomic.Pointer[Coroutine]
	misuse  atomic.Pointer[Misuse]
	busy    atomic.Bool
	logs    logs

	progress bool  // a condition of Await held
	closed   bool  // the code has ended
	put      bool  // Close was called
	err      error // why nothing is folded any more
}

// New makes a run that has folded nothing yet. Whoever makes one must Close it:
// a coroutine that is parked stays in memory until then.
func New(cfg Config, body Body) *Run {
	r := &Run{cfg: cfg, body: body, tag: newTag(), ops: map[string]*Future{}}
	r.main = &Scope{run: r}
	r.detached = &Scope{run: r}
	r.logs.level = cfg.LogLevel
	return r
}

// Fold takes one more input, live, and returns what the code asks for: events
// with a cause, and no id or time yet. The error is the reason why nothing is
// folded any more; every later call returns it again. See FaultKind.
func (r *Run) Fold(input *pb.Event) ([]*pb.Event, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	defer r.end()
	r.logs.resume(input.Id, r.timeOf(input))
	return r.fold(input)
}

// begin refuses what cannot fold: a run that is dead, and two calls at once.
func (r *Run) begin() error {
	if !r.busy.CompareAndSwap(false, true) {
		return &BadHistory{Why: "two inputs of a run are folded at once"}
	}
	err := r.err
	if err == nil && (r.closed || r.put) {
		err = ErrClosed
	}
	if err != nil {
		r.busy.Store(false)
	}
	return err
}

func (r *Run) end() {
	r.current.Store(nil)
	r.logs.pause()
	r.busy.Store(false)
}

// Err returns why nothing is folded any more: a fault, ErrClosed, or nil.
func (r *Run) Err() error {
	if r.err == nil && (r.closed || r.put) {
		return ErrClosed
	}
	return r.err
}

// Closed says whether the code has ended.
func (r *Run) Closed() bool { return r.closed }

// Logs returns the records that live folds made since the last call. They rest
// on those folds: the worker releases them when what was decided is durable.
func (r *Run) Logs() []Record { return r.logs.take() }

// fold is the heart: deliver one input, run what is ready until all wait,
// collect what was asked for.
func (r *Run) fold(input *pb.Event) ([]*pb.Event, error) {
	r.cause = input.Id
	if r.cfg.Position != nil {
		r.cfg.Position.Store(input.Id)
	}
	r.now = max(r.now, input.Time)
	r.decisions = nil
	if err := r.deliver(input); err != nil {
		r.fail(err)
	}
	r.drain()
	if m := r.misuse.Load(); m != nil {
		r.fail(m)
	}
	if r.err != nil {
		return nil, r.err
	}
	r.last = input.Id
	return r.take(), nil
}

// drain runs the ready coroutines in the order in which they became ready. When
// all wait, the conditions of Await are asked, in the order in which they wait.
func (r *Run) drain() {
	for r.err == nil && !r.closed {
		if co := r.ready.pop(); co != nil {
			r.resume(co)
		} else if !r.ask() {
			return
		}
	}
}

// finish takes the end of the root coroutine: the closing decision is the last.
func (r *Run) finish(res Result) {
	if res.Fault != nil {
		r.fail(res.Fault)
		return
	}
	r.closed = true
	switch {
	case res.Failure == nil:
		r.decide(&pb.Event{Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: &pb.WorkflowCompleted{Result: res.Payload}}})
	case res.Canceled && r.canceled != nil:
		r.decide(&pb.Event{Body: &pb.Event_WorkflowCancelled{WorkflowCancelled: &pb.WorkflowCancelled{
			Reason: r.canceled.Reason, Failure: res.Failure,
		}}})
	default:
		r.decide(&pb.Event{Body: &pb.Event_WorkflowFailed{WorkflowFailed: &pb.WorkflowFailed{Failure: res.Failure}}})
	}
}

// fail notes the first fault; the run folds nothing after it.
func (r *Run) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// decide adds a decision and returns its place among those of this fold.
func (r *Run) decide(e *pb.Event) int {
	e.Cause = r.cause
	r.decisions = append(r.decisions, e)
	return len(r.decisions) - 1
}

// withdraw takes back a decision of this very fold.
func (r *Run) withdraw(at int) { r.decisions[at] = nil }

func (r *Run) take() []*pb.Event {
	kept := r.decisions[:0]
	for _, e := range r.decisions {
		if e != nil {
			kept = append(kept, e)
		}
	}
	r.decisions = nil
	return kept
}

// deliver turns the input into what coroutines can see of it.
func (r *Run) deliver(e *pb.Event) error {
	b, starts := e.Body.(*pb.Event_WorkflowStarted)
	switch {
	case e.Cause != 0:
		return &BadHistory{Why: describe(e) + " is no input"}
	case starts != (r.started == nil):
		return &BadHistory{Why: describe(e) + " cannot stand there: a history begins with WorkflowStarted, and has one"}
	case e.Id <= r.last:
		return &BadHistory{Why: describe(e) + " comes after event " + strconv.FormatInt(r.last, 10) + " was folded"}
	case starts:
		return r.start(b.WorkflowStarted)
	default:
		return r.fact(e)
	}
}

func (r *Run) start(s *pb.WorkflowStarted) error {
	if s.Semantics > history.Semantics {
		return &Newer{Have: s.Semantics, Known: history.Semantics}
	}
	r.started, r.startedAt = s, r.now
	r.spawn("", r.main, func(ctx Context) {
		res := r.body(ctx, s.Input)
		if !r.put {
			r.finish(res)
		}
	})
	return nil
}

// fact gives a fact to the operation that it is about. The first terminal fact
// of an operation counts: it is not open after that, and what comes later, like
// what comes for an operation that the code has dropped, changes nothing.
func (r *Run) fact(e *pb.Event) error {
	switch b := e.Body.(type) {
	case *pb.Event_ActivityCompleted, *pb.Event_ActivityFailed, *pb.Event_ActivityTimedOut, *pb.Event_ActivityCancelled:
		r.settle(history.Op(e), activityOp, e)
	case *pb.Event_TimerFired:
		r.settle(b.TimerFired.Op, timerOp, e)
	case *pb.Event_CompensationEnded:
		r.settle(b.CompensationEnded.Op, compensationOp, e)
	case *pb.Event_CancelRequested:
		r.cancelRequested(b.CancelRequested)
	case *pb.Event_SignalReceived:
		// Signals go to mailboxes, which this build does not have; the code
		// cannot ask for one, so there is nothing that it could miss.
	case *pb.Event_UndoCompleted, *pb.Event_UndoFailed, *pb.Event_LateAnswer, *pb.Event_CompensationStarted:
		// For people and the engine; code learns of a compensation's end.
	case *pb.Event_WorkflowTerminated, *pb.Event_WorkflowTimedOut, *pb.Event_WorkflowCancelled:
		// The engine has closed the run: the code is not asked.
		r.closed = true
	default:
		return &Unsupported{Event: e}
	}
	return nil
}

func (r *Run) settle(op string, k opKind, e *pb.Event) {
	if f := r.ops[op]; f != nil && f.kind == k {
		r.resolve(f, e, nil)
	}
}

func (r *Run) cancelRequested(c *pb.CancelRequested) {
	if r.canceled != nil {
		return
	}
	r.canceled = &Canceled{Reason: c.Reason}
	r.main.cancel(r.canceled, "")
}

// time is what Now returns: the time of the input being folded. It is in UTC,
// since a worker's zone is no part of a history.
func (r *Run) time() time.Time { return time.Unix(0, r.now).UTC() }

// timeOf is what Now will return while the input is folded.
func (r *Run) timeOf(e *pb.Event) time.Time { return time.Unix(0, max(r.now, e.Time)).UTC() }
