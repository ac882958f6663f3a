package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// class tells apart the decisions that there can be about one operation.
type class uint8

const (
	opens class = iota + 1
	cancels
	closes
)

// slot is where a decision stands; two decisions of an input never share one.
type slot struct {
	op    string
	class class
}

// identity is what a replay compares. Payloads, policies and durations are no
// part of it.
type identity struct {
	slot
	kind byte
	name string   // the activity type
	undo string   // the type of its undo
	ops  []string // what a commit or a compensation covers
}

func identify(e *pb.Event) identity {
	switch b := e.Body.(type) {
	case *pb.Event_ActivityScheduled:
		a := b.ActivityScheduled
		return identity{slot: slot{a.Op, opens}, kind: 'a', name: a.Type, undo: a.GetUndo().GetType()}
	case *pb.Event_TimerStarted:
		return identity{slot: slot{b.TimerStarted.Op, opens}, kind: 't'}
	case *pb.Event_SagaCommitted:
		return identity{slot: slot{b.SagaCommitted.Op, opens}, kind: 'c', ops: b.SagaCommitted.Ops}
	case *pb.Event_SagaCompensate:
		return identity{slot: slot{b.SagaCompensate.Op, opens}, kind: 'u', ops: b.SagaCompensate.Ops}
	case *pb.Event_ActivityCancelRequested:
		return identity{slot: slot{b.ActivityCancelRequested.Op, cancels}, kind: 'a'}
	case *pb.Event_TimerCancelled:
		return identity{slot: slot{b.TimerCancelled.Op, cancels}, kind: 't'}
	case *pb.Event_WorkflowCompleted:
		return identity{slot: slot{class: closes}, kind: 'c'}
	case *pb.Event_WorkflowFailed:
		return identity{slot: slot{class: closes}, kind: 'f'}
	case *pb.Event_WorkflowCancelled:
		return identity{slot: slot{class: closes}, kind: 'x'}
	default:
		return identity{slot: slot{op: fmt.Sprintf("%T", e.Body)}}
	}
}

// describe is an event in words: "event 7 ActivityScheduled Shop.Charge (#1) at
// shop.go:42". What has no number yet is not called an event.
func describe(e *pb.Event) string {
	var b strings.Builder
	if e.Id != 0 {
		fmt.Fprintf(&b, "event %d ", e.Id)
	}
	b.WriteString(history.Kind(e))
	if name := history.Name(e); name != "" {
		b.WriteString(" " + name)
	}
	if undo := e.GetActivityScheduled().GetUndo(); undo != nil {
		b.WriteString(" with undo " + undo.Type)
	}
	if t := e.GetTimerStarted(); t != nil {
		b.WriteString(" " + duration(time.Duration(t.Duration)))
	}
	if op := history.Op(e); op != "" {
		b.WriteString(" (" + op + ")")
	}
	if f := e.GetWorkflowFailed().GetFailure(); f != nil {
		b.WriteString(" with " + strconv.Quote(f.Message))
	}
	if source := history.Source(e); source != "" {
		b.WriteString(" at " + source)
	}
	return b.String()
}

// covers tells in what the steps differ that two commits or compensations cover:
// ", which leaves out #1 and adds #3".
func covers(recorded, asked identity) string {
	if recorded.kind != asked.kind {
		return ""
	}
	gone, added := without(recorded.ops, asked.ops), without(asked.ops, recorded.ops)
	switch {
	case gone == "" && added == "":
		return ""
	case added == "":
		return ", which leaves out " + gone
	case gone == "":
		return ", which adds " + added
	default:
		return ", which leaves out " + gone + " and adds " + added
	}
}

// without lists the operations that are not among the others.
func without(ops, others []string) string {
	have := make(map[string]bool, len(others))
	for _, op := range others {
		have[op] = true
	}
	ops = slices.DeleteFunc(slices.Clone(ops), func(op string) bool { return have[op] })
	if n := len(ops) - differencesMax; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ops[:differencesMax], ", "), n)
	}
	return strings.Join(ops, ", ")
}

// duration leaves out the zeros that time.Duration prints: 24h, not 24h0m0s.
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
