package history_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

func TestALineSaysWhatAPersonNeeds(t *testing.T) {
	json := func(s string) *pb.Payload { return &pb.Payload{Encoding: "json", Data: []byte(s)} }
	for _, c := range []struct {
		event *pb.Event
		want  string
	}{
		{&pb.Event{Id: 2, Cause: 1, Time: 77, Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{
			Op: "#1", Type: "Shop.Charge", Input: json("{ \"id\": \"o-1\" }\n"), Undo: &pb.Undo{Type: "Shop.Refund"}, Source: "shop.go:42"}}},
			`2 ActivityScheduled #1 Shop.Charge input={"id":"o-1"} undo=Shop.Refund cause=1 at shop.go:42`},
		{&pb.Event{Id: 3, Body: &pb.Event_ActivityFailed{ActivityFailed: &pb.ActivityFailed{
			Op: "#1", Failure: &pb.Failure{Outcome: pb.Outcome_OUTCOME_FAILED_FINAL, Final: true, Message: "card declined"}, Tally: &pb.Tally{Attempts: 3, Unanswered: 1}}}},
			`3 ActivityFailed #1 failed-final final error="card declined" attempts=3 unanswered=1`},
		{&pb.Event{Id: 4, Body: &pb.Event_ActivityTimedOut{ActivityTimedOut: &pb.ActivityTimedOut{Op: "#2", Limit: pb.Limit_LIMIT_SCHEDULE_TO_CLOSE}}},
			`4 ActivityTimedOut #2 schedule-to-close`},
		{&pb.Event{Cause: 4, Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{Op: "2[0]#1", Duration: 9e10}}},
			`TimerStarted 2[0]#1 1m30s cause=4`},
		{&pb.Event{Id: 5, Body: &pb.Event_UndoCompleted{UndoCompleted: &pb.UndoCompleted{Op: "#1", Outcome: pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN}}},
			`5 UndoCompleted #1 step=unknown`},
		{&pb.Event{Id: 6, Body: &pb.Event_LateAnswer{LateAnswer: &pb.LateAnswer{Op: "#1", Delivery: 2, Outcome: pb.Outcome_OUTCOME_COMPLETED, Result: &pb.Payload{Encoding: "null"}}}},
			`6 LateAnswer #1 forward delivery=2 completed result=null`},
		{&pb.Event{Id: 7, Body: &pb.Event_CompensationEnded{CompensationEnded: &pb.CompensationEnded{Undone: 2, Failed: []string{"#1", "#4"}}}},
			`7 CompensationEnded undone=2 failed=[#1 #4]`},
		{&pb.Event{Id: 8, Cause: 6, Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: &pb.WorkflowCompleted{
			Result: &pb.Payload{Encoding: "proto", Type: "shop.Receipt", Data: []byte{1, 2}}, Unread: []int64{3, 5}}}},
			`8 WorkflowCompleted result=<proto shop.Receipt, 2 bytes> unread=[3 5] cause=6`},
		{&pb.Event{Id: 9}, `9 Unknown`},
		{nil, `Unknown`},
	} {
		if got := history.Line(c.event); got != c.want {
			t.Errorf("\nhave %s\nwant %s", got, c.want)
		}
	}
}

func TestALineStaysALineWhateverIsInIt(t *testing.T) {
	for _, nasty := range []string{
		"a\nb", "\x1b[2J\x1b]0;title\x07", "\u202eright to left", "\u009b31m", "\xff\xfe", "tab\there", strings.Repeat("x", 1<<20), `quo"ted = text`,
	} {
		for _, e := range []*pb.Event{
			{Id: 1, Body: &pb.Event_CancelRequested{CancelRequested: &pb.CancelRequested{Reason: nasty, Identity: nasty}}},
			{Id: 1, Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{
				Op: nasty, Type: nasty, Source: nasty, Input: &pb.Payload{Encoding: nasty, Type: nasty, Data: []byte(nasty)}}}},
			{Id: 1, Body: &pb.Event_SignalReceived{SignalReceived: &pb.SignalReceived{
				Name: nasty, Input: &pb.Payload{Encoding: "json", Data: []byte(`"` + nasty + `"`)}}}},
			{Id: 1, Body: &pb.Event_SagaCommitted{SagaCommitted: &pb.SagaCommitted{Ops: []string{nasty, nasty}}}},
		} {
			checkLine(t, history.Line(e))
		}
	}
}

func checkLine(t *testing.T, line string) {
	t.Helper()
	if len(line) > 2000 {
		t.Errorf("%d bytes are no line: %.100s", len(line), line)
	}
	for _, r := range line {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			t.Errorf("%q holds %q, which a terminal may act upon", line, r)
			return
		}
	}
}
