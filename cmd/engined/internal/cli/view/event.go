package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// What a line shows of one value, in characters.
const (
	maxPayload = 120
	maxText    = 300
)

// line collects the words that tell an event. What is empty is left out.
type line []string

func (l *line) add(word string) { *l = append(*l, word) }

func (l *line) text(s string) {
	if s != "" {
		l.add(cut(Clean(s), maxText))
	}
}

// named writes a word after its name, and several in quotes.
func (l *line) named(name, s string) {
	if s == "" {
		return
	}
	if s = cut(Clean(s), maxText); strings.ContainsAny(s, " \"=") {
		s = `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
	}
	l.add(name + "=" + s)
}

func (l *line) number(name string, n int64) {
	if n != 0 {
		l.add(name + "=" + strconv.FormatInt(n, 10))
	}
}

func (l *line) duration(name string, ns int64) {
	if ns != 0 {
		l.add(name + "=" + span(time.Duration(ns)))
	}
}

func (l *line) list(name string, ops []string) {
	if len(ops) > 0 {
		l.add(name + "=[" + cut(Clean(strings.Join(ops, " ")), maxText) + "]")
	}
}

func (l *line) payload(name string, p *pb.Payload) {
	if p != nil {
		l.add(name + "=" + Payload(p, maxPayload))
	}
}

func (l *line) failure(f *pb.Failure) {
	if f == nil {
		return
	}
	if f.Outcome != pb.Outcome_OUTCOME_UNSPECIFIED {
		l.add(words(f.Outcome))
	}
	if f.Final && f.Outcome != pb.Outcome_OUTCOME_FAILED_FINAL {
		l.add("final")
	}
	l.named("error", f.Message)
	if at := where(f); at != "" {
		l.add(at[1:])
	}
}

func (l *line) tally(t *pb.Tally) {
	l.number("attempts", int64(t.GetAttempts()))
	l.number("unanswered", int64(t.GetUnanswered()))
}

// describeEvent tells an event behind its kind: the operation, what it is, its
// values, the cause and the source of a decision.
func describeEvent(e *pb.Event, of operation) string {
	var l line
	l.text(history.Op(e))
	l.text(of.name)
	_ = l.outside(e) || l.ends(e) || l.undo(e) || l.decision(e)
	l.number("cause", e.GetCause())
	if s := history.Source(e); s != "" {
		l.add("at " + cut(Clean(s), maxText))
	}
	return strings.Join(l, " ")
}

// outside tells what came from people and programs.
func (l *line) outside(e *pb.Event) bool {
	switch b := e.Body.(type) {
	case *pb.Event_WorkflowStarted:
		l.text(b.WorkflowStarted.GetType())
		l.named("id", b.WorkflowStarted.GetWorkflowId())
		l.payload("input", b.WorkflowStarted.GetInput())
		l.named("by", b.WorkflowStarted.GetIdentity())
	case *pb.Event_CancelRequested:
		l.named("reason", b.CancelRequested.GetReason())
		l.named("by", b.CancelRequested.GetIdentity())
	case *pb.Event_SignalReceived:
		l.text(b.SignalReceived.GetName())
		l.payload("input", b.SignalReceived.GetInput())
		l.named("by", b.SignalReceived.GetIdentity())
	case *pb.Event_UpdateAccepted:
		l.text(b.UpdateAccepted.GetName())
		l.named("id", b.UpdateAccepted.GetUpdateId())
		l.payload("input", b.UpdateAccepted.GetInput())
		l.number("after", b.UpdateAccepted.GetAfter())
	case *pb.Event_Joined:
		l.add(fmt.Sprintf("%d..%d", b.Joined.GetFirst(), b.Joined.GetLast()))
	case *pb.Event_WorkflowTerminated:
		l.named("reason", b.WorkflowTerminated.GetReason())
		l.named("by", b.WorkflowTerminated.GetIdentity())
	case *pb.Event_WorkflowTimedOut:
		l.add(words(b.WorkflowTimedOut.GetLimit()))
	default:
		return false
	}
	return true
}

// ends tells how an operation ended.
func (l *line) ends(e *pb.Event) bool {
	switch b := e.Body.(type) {
	case *pb.Event_ActivityCompleted:
		l.payload("result", b.ActivityCompleted.GetResult())
	case *pb.Event_ActivityFailed:
		l.failure(b.ActivityFailed.GetFailure())
	case *pb.Event_ActivityTimedOut:
		l.add("limit=" + strings.ReplaceAll(words(b.ActivityTimedOut.GetLimit()), " ", "-"))
		l.failure(b.ActivityTimedOut.GetFailure())
	case *pb.Event_ActivityCancelled:
		l.named("because", b.ActivityCancelled.GetCause())
	case *pb.Event_TimerFired:
	default:
		return false
	}
	l.tally(tallyOf(e))
	return true
}

// undo tells what the engine does by itself.
func (l *line) undo(e *pb.Event) bool {
	switch b := e.Body.(type) {
	case *pb.Event_CompensationStarted:
		l.list("ops", b.CompensationStarted.GetOps())
	case *pb.Event_UndoCompleted:
		l.forward(b.UndoCompleted.GetRoad(), b.UndoCompleted.GetOutcome())
		l.payload("result", b.UndoCompleted.GetResult())
	case *pb.Event_UndoFailed:
		l.forward(b.UndoFailed.GetRoad(), b.UndoFailed.GetOutcome())
		l.failure(b.UndoFailed.GetFailure())
	case *pb.Event_CompensationEnded:
		l.add("undone=" + strconv.Itoa(int(b.CompensationEnded.GetUndone())))
		l.list("failed", b.CompensationEnded.GetFailed())
	case *pb.Event_LateAnswer:
		l.add(words(b.LateAnswer.GetRole()))
		l.number("delivery", int64(b.LateAnswer.GetDelivery()))
		l.add(words(b.LateAnswer.GetOutcome()))
		l.payload("result", b.LateAnswer.GetResult())
		if f := b.LateAnswer.GetFailure(); f != nil {
			l.named("error", f.Message)
		}
	default:
		return false
	}
	l.tally(tallyOf(e))
	return true
}

// forward tells what an undo was told of its step.
func (l *line) forward(queue string, step pb.EntryOutcome) {
	l.named("queue", queue)
	l.add("step=" + strings.ReplaceAll(words(step), " ", "-"))
}

func (l *line) decision(e *pb.Event) bool {
	switch b := e.Body.(type) {
	case *pb.Event_ActivityScheduled:
		l.scheduled(b.ActivityScheduled)
	case *pb.Event_ActivityCancelRequested:
		l.named("because", b.ActivityCancelRequested.GetCause())
	case *pb.Event_TimerStarted:
		l.add(span(time.Duration(b.TimerStarted.GetDuration())))
	case *pb.Event_SagaCommitted:
		l.list("ops", b.SagaCommitted.GetOps())
	case *pb.Event_SagaCompensate:
		l.list("ops", b.SagaCompensate.GetOps())
	case *pb.Event_WorkflowCompleted:
		l.payload("result", b.WorkflowCompleted.GetResult())
		l.unread(b.WorkflowCompleted.GetUnread())
	case *pb.Event_WorkflowFailed:
		l.failure(b.WorkflowFailed.GetFailure())
		l.unread(b.WorkflowFailed.GetUnread())
	case *pb.Event_WorkflowCancelled:
		l.named("reason", b.WorkflowCancelled.GetReason())
		l.failure(b.WorkflowCancelled.GetFailure())
		l.unread(b.WorkflowCancelled.GetUnread())
	default:
		return false
	}
	return true
}

// scheduled tells a step with those of its limits that are not the defaults.
func (l *line) scheduled(a *pb.ActivityScheduled) {
	l.payload("input", a.GetInput())
	l.named("queue", a.GetQueue())
	if n := int64(a.GetRetry().GetAttempts()); n < 0 {
		l.add("max-attempts=none")
	} else {
		l.number("max-attempts", n)
	}
	t := a.GetTimeouts()
	l.duration("start-to-close", t.GetStartToClose())
	l.duration("schedule-to-close", t.GetScheduleToClose())
	l.duration("schedule-to-start", t.GetScheduleToStart())
	l.duration("heartbeat", t.GetHeartbeat())
	l.number("generation", int64(a.GetGeneration()))
	l.named("undo", a.GetUndo().GetType())
}

func (l *line) unread(signals []int64) {
	if len(signals) > 0 {
		l.add(fmt.Sprintf("unread=%v", signals))
	}
}
