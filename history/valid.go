package history

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/engined/engined/proto/enginepb"
)

// firstDecision is the number in the oneof from which on kinds are decisions;
// those below are inputs.
const firstDecision protoreflect.FieldNumber = 50

// The invariants of a well-formed history. Each is checked by Validate and
// named in its error.
const (
	// RuleIDs (V1): ids count 1..n without a gap, and every event has a body
	// that this build knows.
	RuleIDs = 1
	// RuleStart (V2): the first event is WorkflowStarted, and only the first.
	RuleStart = 2
	// RuleTime (V3): time never goes back.
	RuleTime = 3
	// RuleCause (V4): an input has cause 0. The cause of a decision is the id
	// of an input that stands before it, never that of a decision. One kind is
	// both: WorkflowCancelled with cause 0 is the engine's, closing a cancelled
	// run whose code did not end within its grace.
	RuleCause = 4
	// RuleFoldOrder (V5): from one decision to the next the cause never goes
	// back in fold order. That is the order of ids, but that an update is folded
	// right after the input it names, and joined inputs as a group. An update
	// names an input before it, and so does a join, first to last.
	RuleFoldOrder = 5
	// RuleTogether (V6): the decisions of one cause commit together. Later
	// inputs may stand between the cause and its decisions. Among these
	// decisions no other event stands, but for what one of them brought about
	// at once: the end of an activity that was cancelled before it ran, and the
	// end of a compensation that had nothing to do. So they need not be
	// consecutive events.
	RuleTogether = 6
	// RuleOps (V7): an operation begins at most once: activities, timers, saga
	// commits and compensations share their numbering.
	RuleOps = 7
	// RuleSubject (V8): an event about an operation names one of its kind that
	// began before it. A cancel of one that has ended stands in the log and does
	// nothing.
	RuleSubject = 8
	// RuleTerminal (V9): an operation has at most one terminal fact. What an
	// activity answers after that is a LateAnswer, and a timer that was
	// cancelled does not fire.
	RuleTerminal = 9
	// RuleClosing (V10): at most one event closes the run. After it no code
	// decides and no input is taken; what still comes is the engine's settling
	// of steps that have an undo.
	RuleClosing = 10
	// RuleSaga (V11): commits and compensations cover only steps that have an
	// undo; the compensation of a closing run begins after the closing event,
	// once.
	RuleSaga = 11
	// RuleUndo (V12): an undo ends only for a step that has one, after the step
	// itself has ended; it succeeds once, and once more for each LateAnswer.
	RuleUndo = 12
	// RuleUnread (V13): the signals that a closing event lists as unread are
	// signals of this history, each once.
	RuleUnread = 13
	// RuleLimits (V14): names and ids are valid UTF-8 within their limits, and
	// payloads, failures, headers and attempt logs are within theirs.
	RuleLimits = 14
)

// InvalidError says which invariant a history breaks, and where.
type InvalidError struct {
	// Rule is one of the Rule constants.
	Rule int
	// Event counts the events from 1; where ids are right it is the id.
	Event int64
	Why   string
	// Err is the cause of a broken RuleLimits: a *LimitError or a *NameError.
	Err error
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("event %d breaks invariant V%d: %s", e.Event, e.Rule, e.Why)
}

func (e *InvalidError) Unwrap() error { return e.Err }

// Validate checks a history from its first event on against every invariant;
// the last event need not be the run's last. It returns nil, or an
// *InvalidError for the first event that breaks one. An empty history is valid.
func Validate(events []*pb.Event) error {
	v := validator{ops: map[string]*operation{}, causes: foldOrder{}}
	for i, e := range events {
		v.at = int64(i + 1)
		if err := v.event(e); err != nil {
			return err
		}
	}
	return nil
}

// validator holds what the events so far say.
type validator struct {
	at       int64
	time     int64
	inputs   []bool // by id-1
	signals  map[int64]bool
	causes   foldOrder
	lastBy   int64 // cause of the last decision
	between  bool  // something stands behind that decision
	ops      map[string]*operation
	closed   *pb.Event
	undoing  bool // the closing run's compensation has begun
	settling bool // and has ended
}

// operation is what has been said of one operation.
type operation struct {
	kind  opKind
	undo  bool
	ended bool
	late  int
	// undone counts the successes of its undo.
	undone int
}

type opKind string

const (
	opActivity   opKind = "activity"
	opTimer      opKind = "timer"
	opCommit     opKind = "saga commit"
	opCompensate opKind = "saga compensation"
)

func (v *validator) broken(rule int, format string, args ...any) error {
	return &InvalidError{Rule: rule, Event: v.at, Why: fmt.Sprintf(format, args...)}
}

func (v *validator) event(e *pb.Event) error {
	number, err := v.frame(e)
	if err != nil {
		return err
	}
	if err := checkLimits(e); err != nil {
		return &InvalidError{Rule: RuleLimits, Event: v.at, Why: err.Error(), Err: err}
	}
	steps := []func(*pb.Event) error{v.cause, v.closing, v.operation, v.saga, v.unread}
	if number < firstDecision {
		steps[0] = v.input
	}
	for _, step := range steps {
		if err := step(e); err != nil {
			return err
		}
	}
	v.inputs = append(v.inputs, e.Cause == 0)
	return nil
}

// frame checks what every event has (V1–V3) and returns the number of its kind.
func (v *validator) frame(e *pb.Event) (protoreflect.FieldNumber, error) {
	if e == nil {
		return 0, v.broken(RuleIDs, "there is no event")
	}
	if e.Id != v.at {
		return 0, v.broken(RuleIDs, "it has id %d", e.Id)
	}
	f := e.ProtoReflect().WhichOneof(bodyOneof)
	if f == nil {
		return 0, v.broken(RuleIDs, "it has no body that this build knows")
	}
	start := e.GetWorkflowStarted() != nil
	switch {
	case v.at == 1 && !start:
		return 0, v.broken(RuleStart, "the first event is %s, not WorkflowStarted", Kind(e))
	case v.at > 1 && start:
		return 0, v.broken(RuleStart, "the run is started again")
	case e.Time < v.time:
		return 0, v.broken(RuleTime, "its time %d is before %d, the time of the event before", e.Time, v.time)
	}
	v.time = e.Time
	return f.Number(), nil
}

// closing checks V10.
func (v *validator) closing(e *pb.Event) error {
	if v.closed == nil {
		if Closes(e) {
			v.closed = e
		}
		return nil
	}
	switch e.Body.(type) {
	case *pb.Event_ActivityCompleted, *pb.Event_ActivityFailed, *pb.Event_ActivityTimedOut, *pb.Event_ActivityCancelled:
		if o := v.ops[Op(e)]; o == nil || o.undo {
			return nil // an unknown operation is V8's
		}
		return v.broken(RuleClosing, "%s of %s, which has no undo, stands behind the closing event %d", Kind(e), Op(e), v.closed.Id)
	case *pb.Event_CompensationStarted, *pb.Event_UndoCompleted, *pb.Event_UndoFailed,
		*pb.Event_CompensationEnded, *pb.Event_LateAnswer:
		return nil
	}
	return v.broken(RuleClosing, "%s stands behind the closing event %d", Kind(e), v.closed.Id)
}

// unread checks V13.
func (v *validator) unread(e *pb.Event) error {
	type hasUnread interface{ GetUnread() []int64 }
	if e.GetSignalReceived() != nil {
		if v.signals == nil {
			v.signals = map[int64]bool{}
		}
		v.signals[e.Id] = true
	}
	b, ok := body(e).(hasUnread)
	if !ok {
		return nil
	}
	for _, id := range b.GetUnread() {
		if !v.signals[id] {
			return v.broken(RuleUnread, "it lists event %d, which is no signal, or twice", id)
		}
		delete(v.signals, id) // the run closes here: nothing asks again
	}
	return nil
}
