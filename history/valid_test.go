package history_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// list builds a history: ids count up, time stands still unless set.
type list []*pb.Event

func (l *list) add(cause int64, body *pb.Event) *pb.Event {
	body.Id, body.Time, body.Cause = int64(len(*l)+1), 100, cause
	*l = append(*l, body)
	return body
}

func started() *pb.Event {
	return &pb.Event{Body: &pb.Event_WorkflowStarted{WorkflowStarted: &pb.WorkflowStarted{
		Namespace: "default", WorkflowId: "order-1", RunId: "R", ChainId: "R", Type: "PlaceOrder", Queue: "default", Semantics: 1,
	}}}
}

func scheduled(op string, undo bool) *pb.Event {
	a := &pb.ActivityScheduled{Op: op, Type: "Shop.Charge"}
	if undo {
		a.Undo = &pb.Undo{Type: "Shop.Refund"}
	}
	return &pb.Event{Body: &pb.Event_ActivityScheduled{ActivityScheduled: a}}
}

func completed(op string) *pb.Event {
	return &pb.Event{Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{Op: op}}}
}

func cancelled(op string) *pb.Event {
	return &pb.Event{Body: &pb.Event_ActivityCancelled{ActivityCancelled: &pb.ActivityCancelled{Op: op}}}
}

func askCancel(op string) *pb.Event {
	return &pb.Event{Body: &pb.Event_ActivityCancelRequested{ActivityCancelRequested: &pb.ActivityCancelRequested{Op: op}}}
}

func timer(op string) *pb.Event {
	return &pb.Event{Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{Op: op, Duration: 1}}}
}

func fired(op string) *pb.Event {
	return &pb.Event{Body: &pb.Event_TimerFired{TimerFired: &pb.TimerFired{Op: op}}}
}

func timerCancelled(op string) *pb.Event {
	return &pb.Event{Body: &pb.Event_TimerCancelled{TimerCancelled: &pb.TimerCancelled{Op: op}}}
}

func signal() *pb.Event {
	return &pb.Event{Body: &pb.Event_SignalReceived{SignalReceived: &pb.SignalReceived{Name: "approved"}}}
}

func update(after int64) *pb.Event {
	return &pb.Event{Body: &pb.Event_UpdateAccepted{UpdateAccepted: &pb.UpdateAccepted{UpdateId: "u", Name: "set", After: after}}}
}

func joined(first, last int64) *pb.Event {
	return &pb.Event{Body: &pb.Event_Joined{Joined: &pb.Joined{First: first, Last: last}}}
}

func commit(op string, ops ...string) *pb.Event {
	return &pb.Event{Body: &pb.Event_SagaCommitted{SagaCommitted: &pb.SagaCommitted{Op: op, Ops: ops}}}
}

func compensate(op string, ops ...string) *pb.Event {
	return &pb.Event{Body: &pb.Event_SagaCompensate{SagaCompensate: &pb.SagaCompensate{Op: op, Ops: ops}}}
}

func compensating(ops ...string) *pb.Event {
	return &pb.Event{Body: &pb.Event_CompensationStarted{CompensationStarted: &pb.CompensationStarted{Ops: ops}}}
}

func compensated(op string, failed ...string) *pb.Event {
	return &pb.Event{Body: &pb.Event_CompensationEnded{CompensationEnded: &pb.CompensationEnded{Op: op, Failed: failed}}}
}

func undone(op string) *pb.Event {
	return &pb.Event{Body: &pb.Event_UndoCompleted{UndoCompleted: &pb.UndoCompleted{Op: op}}}
}

func undoFailed(op string) *pb.Event {
	return &pb.Event{Body: &pb.Event_UndoFailed{UndoFailed: &pb.UndoFailed{Op: op}}}
}

func late(op string) *pb.Event {
	return &pb.Event{Body: &pb.Event_LateAnswer{LateAnswer: &pb.LateAnswer{Op: op, Delivery: 1}}}
}

func done(unread ...int64) *pb.Event {
	return &pb.Event{Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: &pb.WorkflowCompleted{Unread: unread}}}
}

func failed() *pb.Event {
	return &pb.Event{Body: &pb.Event_WorkflowFailed{WorkflowFailed: &pb.WorkflowFailed{}}}
}

func workflowCancelled() *pb.Event {
	return &pb.Event{Body: &pb.Event_WorkflowCancelled{WorkflowCancelled: &pb.WorkflowCancelled{}}}
}

// by pairs a decision with its cause; 0 is an input.
type by struct {
	cause int64
	event *pb.Event
}

func history1(rest ...by) list {
	var l list
	l.add(0, started())
	for _, b := range rest {
		l.add(b.cause, b.event)
	}
	return l
}

func TestHistoriesOfRealRunsAreValid(t *testing.T) {
	for name, l := range map[string]list{
		"nothing yet": {},
		"only begun":  history1(),
		"one step":    history1(by{1, scheduled("#1", false)}, by{0, completed("#1")}, by{3, done()}),
		"later inputs stand between a cause and its decisions": history1(
			by{0, signal()}, by{1, scheduled("#1", false)}, by{1, timer("#2")}, by{0, completed("#1")}, by{2, timer("#3")}, by{5, done(2)}),
		"a step cancelled before it ran ends among the decisions": history1(
			by{1, scheduled("#1", true)}, by{0, signal()}, by{3, askCancel("#1")}, by{0, cancelled("#1")}, by{3, timer("#2")}),
		"a compensation with nothing to do ends among the decisions": history1(
			by{1, compensate("#1")}, by{0, compensated("#1")}, by{1, timer("#2")}),
		"a cancel of what has ended does nothing": history1(
			by{1, scheduled("#1", false)}, by{0, signal()}, by{0, completed("#1")}, by{3, askCancel("#1")}),
		"a timer fired before the code's cancel was recorded": history1(
			by{1, timer("#1")}, by{0, signal()}, by{0, fired("#1")}, by{3, timerCancelled("#1")}),
		"a saga is undone when its run fails": history1(
			by{1, scheduled("#1", true)}, by{0, completed("#1")}, by{3, scheduled("#2", true)}, by{0, completed("#2")}, by{5, failed()},
			by{0, compensating("#2", "#1")}, by{0, undone("#2")}, by{0, undoFailed("#1")}, by{0, compensated("", "#1")}),
		"a step still running when its run closes": history1(
			by{1, scheduled("#1", true)}, by{0, signal()}, by{3, failed()}, by{0, compensating("#1")}, by{0, completed("#1")}, by{0, undone("#1")}, by{0, compensated("")}),
		"an answer that came late is undone once more": history1(
			by{1, scheduled("#1", true)}, by{0, cancelled("#1")}, by{3, failed()}, by{0, compensating("#1")},
			by{0, undone("#1")}, by{0, late("#1")}, by{0, undone("#1")}, by{0, compensated("")}),
		"code goes on while it compensates": history1(
			by{1, scheduled("#1", true)}, by{0, completed("#1")}, by{3, compensate("#2", "#1")}, by{0, undone("#1")}, by{0, compensated("#2")}, by{6, done()}),
		"the pivot": history1(
			by{1, scheduled("#1", true)}, by{0, completed("#1")}, by{3, commit("#2", "#1")}, by{3, done()}),
		"the engine closes a cancelled run": history1(by{1, scheduled("#1", false)}, by{0, workflowCancelled()}),
		"an update is folded right after the input it names": history1(
			by{0, signal()}, by{1, timer("#1")}, by{0, signal()}, by{0, update(2)}, by{2, timer("#2")}, by{5, timer("u#1")}, by{4, done(2, 4)}),
		"joined inputs are folded as a group": history1(
			by{0, signal()}, by{0, signal()}, by{0, joined(2, 3)}, by{0, signal()}, by{4, timer("#1")}, by{5, done()}),
	} {
		if err := history.Validate(l); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// broken is a history, and the rule that its event At breaks.
type broken struct {
	name string
	rule int
	at   int64
	list list
}

func change(l list, i int, f func(*pb.Event)) list {
	e := proto.Clone(l[i-1]).(*pb.Event)
	f(e)
	l[i-1] = e
	return l
}

func brokenFrames() []broken {
	step := func() list {
		return history1(by{1, scheduled("#1", false)}, by{0, completed("#1")}, by{3, done()})
	}
	return []broken{
		{"a gap", history.RuleIDs, 3, change(step(), 3, func(e *pb.Event) { e.Id = 4 })},
		{"no event", history.RuleIDs, 2, list{started2(), nil}},
		{"no body", history.RuleIDs, 3, change(step(), 3, func(e *pb.Event) { e.Body = nil })},
		{"no start", history.RuleStart, 1, change(history1(), 1, func(e *pb.Event) { e.Body = signal().Body })},
		{"two starts", history.RuleStart, 2, history1(by{0, started()})},
		{"time goes back", history.RuleTime, 4, change(step(), 4, func(e *pb.Event) { e.Time = 99 })},
		{"an input with a cause", history.RuleCause, 3, change(step(), 3, func(e *pb.Event) { e.Cause = 1 })},
		{"a decision without", history.RuleCause, 4, change(step(), 4, func(e *pb.Event) { e.Cause = 0 })},
		{"a decision caused by a decision", history.RuleCause, 4, change(step(), 4, func(e *pb.Event) { e.Cause = 2 })},
		{"a decision caused by itself", history.RuleCause, 4, change(step(), 4, func(e *pb.Event) { e.Cause = 4 })},
		{"a negative cause", history.RuleCause, 4, change(step(), 4, func(e *pb.Event) { e.Cause = -1 })},
		{"causes go back", history.RuleFoldOrder, 4, history1(by{0, signal()}, by{2, timer("#1")}, by{1, timer("#2")})},
		{"an update goes back", history.RuleFoldOrder, 5, history1(by{0, signal()}, by{0, update(1)}, by{2, timer("#1")}, by{3, timer("u#1")})},
		{"an update after nothing", history.RuleFoldOrder, 2, history1(by{0, update(2)})},
		{"a join of what is not there", history.RuleFoldOrder, 3, history1(by{0, signal()}, by{0, joined(2, 3)})},
		{"a join of decisions", history.RuleFoldOrder, 4, history1(by{1, timer("#1")}, by{0, signal()}, by{0, joined(2, 3)})},
		{"decisions torn apart", history.RuleTogether, 4, history1(by{1, timer("#1")}, by{0, signal()}, by{1, timer("#2")})},
	}
}

func started2() *pb.Event { return history1()[0] }

func brokenOps() []broken {
	return []broken{
		{"begun twice", history.RuleOps, 3, history1(by{1, scheduled("#1", false)}, by{1, timer("#1")})},
		{"begun without a name", history.RuleOps, 2, history1(by{1, commit("")})},
		{"ends without having begun", history.RuleSubject, 2, history1(by{0, completed("#1")})},
		{"a timer ends as an activity", history.RuleSubject, 3, history1(by{1, timer("#1")}, by{0, completed("#1")})},
		{"a cancel of nothing", history.RuleSubject, 2, history1(by{1, askCancel("#1")})},
		{"a timer's cancel of nothing", history.RuleSubject, 2, history1(by{1, timerCancelled("#1")})},
		{"a late answer to nothing", history.RuleSubject, 2, history1(by{0, late("#1")})},
		{"a compensation ends that nobody asked for", history.RuleSubject, 2, history1(by{0, compensated("#1")})},
		{"two terminal facts", history.RuleTerminal, 4, history1(by{1, scheduled("#1", false)}, by{0, completed("#1")}, by{0, cancelled("#1")})},
		{"fired twice", history.RuleTerminal, 4, history1(by{1, timer("#1")}, by{0, fired("#1")}, by{0, fired("#1")})},
		{"fired though cancelled", history.RuleTerminal, 4, history1(by{1, timer("#1")}, by{1, timerCancelled("#1")}, by{0, fired("#1")})},
	}
}

func brokenSagas() []broken {
	return []broken{
		{"closed twice", history.RuleClosing, 3, history1(by{1, done()}, by{1, failed()})},
		{"a decision after the close", history.RuleClosing, 3, history1(by{1, done()}, by{1, timer("#1")})},
		{"an input after the close", history.RuleClosing, 3, history1(by{1, done()}, by{0, signal()})},
		{"a step without undo ends after the close", history.RuleClosing, 4, history1(by{1, scheduled("#1", false)}, by{1, done()}, by{0, completed("#1")})},
		{"a commit of a step without undo", history.RuleSaga, 3, history1(by{1, scheduled("#1", false)}, by{1, commit("#2", "#1")})},
		{"a compensation of what is not there", history.RuleSaga, 2, history1(by{1, compensate("#1", "#0")})},
		{"compensation of a run that is not closed", history.RuleSaga, 3, history1(by{1, scheduled("#1", true)}, by{0, compensating("#1")})},
		{"compensation of a step without undo", history.RuleSaga, 4, history1(by{1, scheduled("#1", false)}, by{1, failed()}, by{0, compensating("#1")})},
		{"compensation begun twice", history.RuleSaga, 4, history1(by{1, failed()}, by{0, compensating()}, by{0, compensating()})},
		{"compensation ended without having begun", history.RuleSaga, 3, history1(by{1, failed()}, by{0, compensated("")})},
		{"compensation ended twice", history.RuleSaga, 5, history1(by{1, failed()}, by{0, compensating()}, by{0, compensated("")}, by{0, compensated("")})},
		{"left undone what has no undo", history.RuleSaga, 3, history1(by{1, compensate("#1")}, by{0, compensated("#1", "#7")})},
		{"an undo of a step without one", history.RuleUndo, 4, history1(by{1, scheduled("#1", false)}, by{0, completed("#1")}, by{0, undone("#1")})},
		{"an undo fails of nothing", history.RuleUndo, 2, history1(by{0, undoFailed("#1")})},
		{"an undo before its step has ended", history.RuleUndo, 4, history1(by{1, scheduled("#1", true)}, by{1, failed()}, by{0, undone("#1")})},
		{"undone twice", history.RuleUndo, 5, history1(by{1, scheduled("#1", true)}, by{0, completed("#1")}, by{0, undone("#1")}, by{0, undone("#1")})},
		{"an undo fails after it was done", history.RuleUndo, 5, history1(by{1, scheduled("#1", true)}, by{0, completed("#1")}, by{0, undone("#1")}, by{0, undoFailed("#1")})},
		{"unread is no signal", history.RuleUnread, 2, history1(by{1, done(1)})},
		{"unread twice", history.RuleUnread, 3, history1(by{0, signal()}, by{1, done(2, 2)})},
	}
}

func brokenLimits() []broken {
	begin := func(f func(*pb.WorkflowStarted)) list {
		return change(history1(), 1, func(e *pb.Event) { f(e.GetWorkflowStarted()) })
	}
	step := func(f func(*pb.ActivityScheduled)) list {
		return change(history1(by{1, scheduled("#1", true)}), 2, func(e *pb.Event) { f(e.GetActivityScheduled()) })
	}
	end := func(c *pb.ActivityCompleted) list {
		return history1(by{1, scheduled("#1", true)}, by{0, &pb.Event{Body: &pb.Event_ActivityCompleted{ActivityCompleted: c}}})
	}
	big := &pb.Payload{Data: make([]byte, history.MaxPayload+1)}
	rule := history.RuleLimits
	return []broken{
		{"no workflow id", rule, 1, begin(func(s *pb.WorkflowStarted) { s.WorkflowId = "" })},
		{"a long workflow id", rule, 1, begin(func(s *pb.WorkflowStarted) { s.WorkflowId = strings.Repeat("x", 1001) })},
		{"a namespace that is not UTF-8", rule, 1, begin(func(s *pb.WorkflowStarted) { s.Namespace = "\xff" })},
		{"a long type", rule, 1, begin(func(s *pb.WorkflowStarted) { s.Type = strings.Repeat("x", 256) })},
		{"a large input", rule, 1, begin(func(s *pb.WorkflowStarted) { s.Input = big })},
		{"a large header", rule, 1, begin(func(s *pb.WorkflowStarted) {
			s.Header = map[string]string{"a": strings.Repeat("x", history.MaxHeader)}
		})},
		{"an activity without type", rule, 2, step(func(a *pb.ActivityScheduled) { a.Type = "" })},
		{"an undo without type", rule, 2, step(func(a *pb.ActivityScheduled) { a.Undo.Type = "" })},
		{"a long operation", rule, 2, step(func(a *pb.ActivityScheduled) { a.Op = strings.Repeat("1", history.MaxOp+1) })},
		{"attempts below -1", rule, 2, step(func(a *pb.ActivityScheduled) { a.Retry = &pb.RetryPolicy{Attempts: -2} })},
		{"a negative time limit of an undo", rule, 2, step(func(a *pb.ActivityScheduled) { a.Undo.Timeouts = &pb.Timeouts{StartToClose: -1} })},
		{"a large result", rule, 3, end(&pb.ActivityCompleted{Op: "#1", Result: big})},
		{"21 attempts listed", rule, 3, end(&pb.ActivityCompleted{Op: "#1", Tally: &pb.Tally{Log: make([]*pb.Attempt, 21)}})},
		{"a large failure in an attempt", rule, 3, end(&pb.ActivityCompleted{Op: "#1", Tally: &pb.Tally{Log: []*pb.Attempt{
			{Failure: &pb.Failure{Message: strings.Repeat("x", history.MaxFailure)}}}}})},
		{"an update without id", rule, 2, change(history1(by{0, update(1)}), 2, func(e *pb.Event) { e.GetUpdateAccepted().UpdateId = "" })},
		{"a signal without name", rule, 2, change(history1(by{0, signal()}), 2, func(e *pb.Event) { e.GetSignalReceived().Name = "" })},
	}
}

func TestEveryRuleIsCheckedAndNamed(t *testing.T) {
	seen := map[int]bool{}
	var all []broken
	for _, some := range [][]broken{brokenFrames(), brokenOps(), brokenSagas(), brokenLimits()} {
		all = append(all, some...)
	}
	for _, b := range all {
		seen[b.rule] = true
		err := history.Validate(b.list)
		var invalid *history.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: have %v, want V%d at event %d", b.name, err, b.rule, b.at)
			continue
		}
		if invalid.Rule != b.rule || invalid.Event != b.at {
			t.Errorf("%s: have %v, want V%d at event %d", b.name, err, b.rule, b.at)
		}
		// Up to the event before, nothing is wrong.
		if err := history.Validate(b.list[:b.at-1]); err != nil {
			t.Errorf("%s: already the events before: %v", b.name, err)
		}
	}
	for rule := history.RuleIDs; rule <= history.RuleLimits; rule++ {
		if !seen[rule] {
			t.Errorf("no history breaks V%d", rule)
		}
	}
}

func TestABrokenLimitIsFoundByItsType(t *testing.T) {
	l := history1()
	l[0].GetWorkflowStarted().WorkflowId = strings.Repeat("x", 1001)
	var limit *history.LimitError
	if err := history.Validate(l); !errors.As(err, &limit) || limit.Have != 1001 || limit.Limit != history.MaxID {
		t.Errorf("have %v, want a *LimitError of 1001 over %d", err, history.MaxID)
	}
}
