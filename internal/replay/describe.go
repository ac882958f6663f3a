package replay

import (
	"fmt"
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
	name string // the activity type
}

func identify(e *pb.Event) identity {
	switch b := e.Body.(type) {
	case *pb.Event_ActivityScheduled:
		return identity{slot{b.ActivityScheduled.Op, opens}, 'a', b.ActivityScheduled.Type}
	case *pb.Event_TimerStarted:
		return identity{slot: slot{b.TimerStarted.Op, opens}, kind: 't'}
	case *pb.Event_SagaCommitted:
		return identity{slot: slot{b.SagaCommitted.Op, opens}, kind: 'c'}
	case *pb.Event_SagaCompensate:
		return identity{slot: slot{b.SagaCompensate.Op, opens}, kind: 'u'}
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
