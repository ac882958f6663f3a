package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/engined/engined/proto/enginepb"
)

// What a line shows of one value, in characters.
const (
	maxShownPayload = 80
	maxShownText    = 120
)

var bodyOneof = (*pb.Event)(nil).ProtoReflect().Descriptor().Oneofs().ByName("body")

// Kind names what the event is, "ActivityScheduled". An event without a body,
// or of a kind that a newer build has written, is "Unknown".
func Kind(e *pb.Event) string {
	if f := e.ProtoReflect().WhichOneof(bodyOneof); f != nil {
		return string(f.Message().Name())
	}
	return "Unknown"
}

// Line tells an event to people in one line: its id (if it has one), kind,
// operation, name and essential values, its cause and source. It has no times,
// so that the lines of equal runs are equal. The text may change with every
// build and is not to be parsed.
func Line(e *pb.Event) string {
	var l line
	if e.GetId() != 0 {
		l.add(strconv.FormatInt(e.Id, 10))
	}
	l.add(Kind(e))
	if op := Op(e); op != "" {
		l.text(op)
	}
	if f := e.ProtoReflect().WhichOneof(bodyOneof); f != nil && f.Number() >= firstDecision {
		l.decision(e)
	} else {
		l.input(e)
	}
	if e.GetCause() != 0 {
		l.add("cause=" + strconv.FormatInt(e.Cause, 10))
	}
	if s := Source(e); s != "" {
		l.add("at " + show(s))
	}
	return strings.Join(l, " ")
}

// line collects the words of a Line. What is empty is left out.
type line []string

func (l *line) add(word string) { *l = append(*l, word) }

func (l *line) text(s string) {
	if s != "" {
		l.add(show(s))
	}
}

func (l *line) named(name, s string) {
	if s != "" {
		l.add(name + "=" + show(s))
	}
}

func (l *line) number(name string, n int64) {
	if n != 0 {
		l.add(name + "=" + strconv.FormatInt(n, 10))
	}
}

func (l *line) list(name string, ops []string) {
	if len(ops) > 0 {
		l.add(name + "=[" + printable(strings.Join(ops, " "), maxShownText) + "]")
	}
}

func (l *line) payload(name string, p *pb.Payload) {
	if p != nil {
		l.add(name + "=" + payloadText(p))
	}
}

func (l *line) failure(f *pb.Failure) {
	if f == nil {
		return
	}
	if f.Outcome != pb.Outcome_OUTCOME_UNSPECIFIED {
		l.add(enumText(f.Outcome))
	}
	if f.Final {
		l.add("final")
	}
	l.named("error", f.Message)
}

func (l *line) tally(t *pb.Tally) {
	l.number("attempts", int64(t.GetAttempts()))
	l.number("unanswered", int64(t.GetUnanswered()))
}

func (l *line) input(e *pb.Event) {
	switch b := e.GetBody().(type) {
	case *pb.Event_WorkflowStarted:
		l.text(b.WorkflowStarted.GetType())
		l.named("id", b.WorkflowStarted.GetWorkflowId())
		l.payload("input", b.WorkflowStarted.GetInput())
	case *pb.Event_ActivityCompleted:
		l.payload("result", b.ActivityCompleted.GetResult())
		l.tally(b.ActivityCompleted.GetTally())
	case *pb.Event_ActivityFailed:
		l.failure(b.ActivityFailed.GetFailure())
		l.tally(b.ActivityFailed.GetTally())
	case *pb.Event_ActivityTimedOut:
		l.add(enumText(b.ActivityTimedOut.GetLimit()))
		l.failure(b.ActivityTimedOut.GetFailure())
		l.tally(b.ActivityTimedOut.GetTally())
	case *pb.Event_ActivityCancelled:
		l.named("because", b.ActivityCancelled.GetCause())
		l.tally(b.ActivityCancelled.GetTally())
	case *pb.Event_CancelRequested:
		l.named("reason", b.CancelRequested.GetReason())
		l.named("by", b.CancelRequested.GetIdentity())
	case *pb.Event_SignalReceived:
		l.text(b.SignalReceived.GetName())
		l.payload("input", b.SignalReceived.GetInput())
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
		l.add(enumText(b.WorkflowTimedOut.GetLimit()))
	default:
		l.undo(e)
	}
}

// undo tells the inputs that are the engine's own bookkeeping.
func (l *line) undo(e *pb.Event) {
	switch b := e.GetBody().(type) {
	case *pb.Event_CompensationStarted:
		l.list("ops", b.CompensationStarted.GetOps())
	case *pb.Event_UndoCompleted:
		l.named("queue", b.UndoCompleted.GetRoad())
		l.add("step=" + enumText(b.UndoCompleted.GetOutcome()))
		l.payload("result", b.UndoCompleted.GetResult())
		l.tally(b.UndoCompleted.GetTally())
	case *pb.Event_UndoFailed:
		l.named("queue", b.UndoFailed.GetRoad())
		l.add("step=" + enumText(b.UndoFailed.GetOutcome()))
		l.failure(b.UndoFailed.GetFailure())
		l.tally(b.UndoFailed.GetTally())
	case *pb.Event_CompensationEnded:
		l.add("undone=" + strconv.Itoa(int(b.CompensationEnded.GetUndone())))
		l.list("failed", b.CompensationEnded.GetFailed())
	case *pb.Event_LateAnswer:
		l.add(enumText(b.LateAnswer.GetRole()))
		l.number("delivery", int64(b.LateAnswer.GetDelivery()))
		l.add(enumText(b.LateAnswer.GetOutcome()))
		l.payload("result", b.LateAnswer.GetResult())
		l.failure(b.LateAnswer.GetFailure())
	}
}

func (l *line) decision(e *pb.Event) {
	switch b := e.GetBody().(type) {
	case *pb.Event_ActivityScheduled:
		a := b.ActivityScheduled
		l.text(a.GetType())
		l.named("queue", a.GetQueue())
		l.payload("input", a.GetInput())
		l.named("undo", a.GetUndo().GetType())
		l.number("generation", int64(a.GetGeneration()))
	case *pb.Event_ActivityCancelRequested:
		l.named("because", b.ActivityCancelRequested.GetCause())
	case *pb.Event_TimerStarted:
		l.add(time.Duration(b.TimerStarted.GetDuration()).String())
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
	}
}

func (l *line) unread(signals []int64) {
	if len(signals) > 0 {
		l.add(fmt.Sprintf("unread=%v", signals))
	}
}

// enumText is the value's name without its type's prefix, in small letters:
// OUTCOME_FAILED_FINAL is "failed-final".
func enumText(v protoreflect.Enum) string {
	value := v.Descriptor().Values().ByNumber(v.Number())
	if value == nil {
		return strconv.Itoa(int(v.Number()))
	}
	var prefix strings.Builder
	for i, r := range string(v.Descriptor().Name()) {
		if i > 0 && unicode.IsUpper(r) {
			prefix.WriteByte('_')
		}
		prefix.WriteRune(unicode.ToUpper(r))
	}
	prefix.WriteByte('_')
	name := strings.TrimPrefix(string(value.Name()), prefix.String())
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}

func payloadText(p *pb.Payload) string {
	switch p.Encoding {
	case "json":
		var b bytes.Buffer
		if err := json.Compact(&b, p.Data); err == nil && utf8.Valid(b.Bytes()) {
			return printable(b.String(), maxShownPayload)
		}
	case "null":
		return "null"
	}
	kind := p.Encoding
	if p.Type != "" {
		kind += " " + p.Type
	}
	return fmt.Sprintf("<%s, %d bytes>", printable(kind, maxShownPayload), len(p.Data))
}

// show is s as one word, or quoted when it would not read as one.
func show(s string) string {
	s = printable(s, maxShownText)
	if strings.ContainsAny(s, " \"=") {
		return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
	}
	return s
}

// printable cuts s after so many characters, and writes what a terminal would
// act upon (control characters, invisible and turning ones) as an escape.
func printable(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > limit {
			b.WriteString("…")
			break
		}
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
