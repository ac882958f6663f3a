package check

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// good is a run in the middle of its life: a step that is done and armed, one that
// runs, a timer that has fired, one that is waited for.
func good() *Run {
	policy := &pb.RetryPolicy{Attempts: 3}
	events := []*pb.Event{
		{Body: &pb.Event_WorkflowStarted{WorkflowStarted: &pb.WorkflowStarted{
			Namespace: "default", WorkflowId: "order", RunId: "R1", ChainId: "R1", Type: "Order", Queue: "q", RequestId: "q1", Semantics: 1,
		}}},
		{Cause: 1, Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{
			Op: "#1", Type: "Charge", Retry: policy, Undo: &pb.Undo{Type: "Refund", Retry: policy},
		}}},
		{Cause: 1, Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{Op: "#2", Duration: 10}}},
		{Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{Op: "#1", Tally: &pb.Tally{Attempts: 1, Deliveries: 1}}}},
		{Cause: 4, Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{Op: "#3", Type: "Ship", Retry: policy}}},
		{Body: &pb.Event_TimerFired{TimerFired: &pb.TimerFired{Op: "#2"}}},
		{Cause: 6, Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{Op: "#4", Duration: 10}}},
	}
	for i, e := range events {
		e.Id, e.Time = int64(i+1), int64(100+i)
	}
	for _, e := range events[5:] {
		e.Time = 120
	}
	return &Run{
		Row: store.RunRow{
			Run: 7, Namespace: "default", WorkflowID: "order", RunID: "R1", Type: "Order", Request: "q1",
			Status: int32(pb.Status_STATUS_RUNNING), Open: true, NextEvent: 8, Pending: 3,
		},
		State:  &pb.RunState{Processed: 6, Folded: 3, LastInput: 6, LastTime: 120},
		Events: events,
		Pending: map[string]*pb.Pending{
			"#1": {Body: &pb.Pending_Activity{Activity: &pb.PendingActivity{ScheduledEvent: 2, Phase: pb.Phase_PHASE_ARMED, Attempt: 1, Delivery: 1}}},
			"#3": {Body: &pb.Pending_Activity{Activity: &pb.PendingActivity{ScheduledEvent: 5, Phase: pb.Phase_PHASE_STARTED, Attempt: 2, Delivery: 2, Tally: &pb.Tally{Unanswered: 1}}}},
			"#4": {Body: &pb.Pending_Timer{Timer: &pb.PendingTimer{StartedEvent: 7, Due: 130}}},
		},
	}
}

// closed is the same run when it has failed: its step is to be undone.
func closed(settled bool) *Run {
	r := good()
	more := []*pb.Event{
		{Cause: 6, Body: &pb.Event_WorkflowFailed{WorkflowFailed: &pb.WorkflowFailed{Failure: &pb.Failure{Message: "no"}}}},
		{Body: &pb.Event_CompensationStarted{CompensationStarted: &pb.CompensationStarted{Ops: []string{"#1"}}}},
	}
	r.Row.Status, r.Row.Pending = int32(pb.Status_STATUS_FAILED), 1
	r.State.ClosingEvent, r.State.UndoState = 8, pb.UndoState_UNDO_STATE_COMPENSATING
	r.State.Compensations = []*pb.Compensation{{}}
	delete(r.Pending, "#3")
	delete(r.Pending, "#4")
	r.Pending["#1"].GetActivity().Phase = pb.Phase_PHASE_UNDO_STARTED
	if settled {
		more = append(more,
			&pb.Event{Body: &pb.Event_UndoCompleted{UndoCompleted: &pb.UndoCompleted{Op: "#1", Tally: &pb.Tally{Attempts: 1, Deliveries: 1}}}},
			&pb.Event{Body: &pb.Event_CompensationEnded{CompensationEnded: &pb.CompensationEnded{Undone: 1}}})
		r.Row.Open, r.Row.Pending = false, 0
		r.State.UndoState, r.State.Compensations = pb.UndoState_UNDO_STATE_COMPENSATED, nil
		delete(r.Pending, "#1")
	}
	for _, e := range more {
		e.Id, e.Time = int64(len(r.Events)+1), 120
		r.Events = append(r.Events, e)
	}
	r.Row.NextEvent = int64(len(r.Events) + 1)
	if settled {
		r.State.LastInput = int64(len(r.Events))
	}
	return r
}

func TestGoodRunsHaveNoProblem(t *testing.T) {
	for _, r := range []*Run{good(), closed(false), closed(true)} {
		if found := Rows([]*Run{r}); found != nil {
			t.Errorf("%v", errors.Join(found...))
		}
	}
}

func TestEachDamageIsFound(t *testing.T) {
	for what, x := range map[string]struct {
		run    *Run
		damage func(r *Run)
		want   string
	}{
		"an event is gone":             {good(), func(r *Run) { r.Events = append(r.Events[:3:3], r.Events[4:]...) }, "I2"},
		"the last event is gone":       {good(), func(r *Run) { r.Events = r.Events[:6] }, "I2"},
		"a row is gone":                {good(), func(r *Run) { delete(r.Pending, "#3"); r.Row.Pending-- }, "I4: order (run 7): #3 has not ended"},
		"a row is not counted":         {good(), func(r *Run) { r.Row.Pending-- }, "I2"},
		"what was done is forgotten":   {good(), func(r *Run) { delete(r.Pending, "#1"); r.Row.Pending-- }, "I15"},
		"a step has ended and runs":    {good(), func(r *Run) { r.Pending["#1"].GetActivity().Phase = pb.Phase_PHASE_STARTED }, "I4"},
		"a timer is gone":              {good(), func(r *Run) { delete(r.Pending, "#4"); r.Row.Pending-- }, "I9"},
		"a timer is due at another":    {good(), func(r *Run) { r.Pending["#4"].GetTimer().Due-- }, "I9"},
		"a timer was early":            {good(), func(r *Run) { r.Events[5].Time, r.Events[6].Time = 110, 110 }, "I9"},
		"another status":               {good(), func(r *Run) { r.Row.Status = int32(pb.Status_STATUS_FAILED) }, "I2"},
		"settled in the middle":        {good(), func(r *Run) { r.Row.Open = false }, "I2"},
		"too many attempts":            {good(), func(r *Run) { r.Pending["#3"].GetActivity().Attempt = 4 }, "I5"},
		"too many attempts at the end": {good(), func(r *Run) { r.Events[3].GetActivityCompleted().Tally.Attempts = 4 }, "I5"},
		"more unanswered than made":    {good(), func(r *Run) { r.Pending["#3"].GetActivity().Tally.Unanswered = 3 }, "I5"},
		"an input that was not there":  {good(), func(r *Run) { r.State.LastInput = 4 }, "I2"},
		"a position that is none":      {good(), func(r *Run) { r.State.Processed = 5 }, "I2"},
		"another run's row":            {good(), func(r *Run) { r.Row.RunID = "R2" }, "I2"},
		"settled and not undone":       {closed(false), func(r *Run) { r.Row.Open = false }, "I15"},
		"compensation unknown":         {closed(false), func(r *Run) { r.State.Compensations = nil }, "I4"},
		"compensation over":            {closed(true), func(r *Run) { r.State.Compensations = []*pb.Compensation{{}} }, "I4"},
		"a committed step is undone": {closed(true), func(r *Run) {
			r.Events[6].Body = &pb.Event_SagaCommitted{SagaCommitted: &pb.SagaCommitted{Op: "#4", Ops: []string{"#1"}}}
		}, "I15: order (run 7): #1 was committed"},
		"undone in the order of doing": {closed(true), func(r *Run) {
			r.Events[4].GetActivityScheduled().Undo = &pb.Undo{Type: "Unship"}
			r.Events[8].GetCompensationStarted().Ops = []string{"#3", "#1"}
		}, "I15: order (run 7): #1 is undone before #3"},
		"a late answer is ignored": {closed(true), func(r *Run) {
			r.Events[9].GetUndoCompleted().Outcome = pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN
			r.Events = append(r.Events, &pb.Event{Id: 12, Time: 120, Body: &pb.Event_LateAnswer{LateAnswer: &pb.LateAnswer{
				Op: "#1", Role: pb.Role_ROLE_FORWARD, Outcome: pb.Outcome_OUTCOME_COMPLETED,
			}}})
		}, "was not undone once more"},
		"a timer after the end": {closed(false), func(r *Run) {
			r.Pending["#4"] = good().Pending["#4"]
			r.Row.Pending++
		}, "I4"},
	} {
		x.damage(x.run)
		if got := errors.Join(Rows([]*Run{x.run})...); got == nil || !strings.Contains(got.Error(), x.want) {
			t.Errorf("%s: found %v, want %s", what, got, x.want)
		}
	}
}

func TestTwoRunsOfOneID(t *testing.T) {
	a, b := good(), good()
	b.Row.Run, b.Row.Request = 8, "q2"
	b.Events[0].GetWorkflowStarted().RequestId = "q2"
	if got := fmt.Sprint(Rows([]*Run{a, b})); !strings.Contains(got, "another open run") {
		t.Errorf("two open runs: %s", got)
	}
	b = good()
	b.Row.Run = 8
	if got := fmt.Sprint(Rows([]*Run{closed(true), b})); !strings.Contains(got, "also began") {
		t.Errorf("two runs of one request: %s", got)
	}
}

func TestWhatWasSaidIsHeld(t *testing.T) {
	say := func(a *Acks) error {
		return errors.Join(
			a.Started("default", "order", "q1", "R1"), a.Ending("default", "order", "e1", "R1"),
			a.Settled("order", &pb.Result{RunId: "R1", Status: pb.Status_STATUS_FAILED}), a.Read("order", "R1", good().Events),
		)
	}
	var a Acks
	if err := errors.Join(say(&a), say(&a)); err != nil {
		t.Fatalf("the same said twice: %v", err)
	}
	if found := a.Hold([]*Run{closed(true)}); found != nil {
		t.Errorf("a database that has it all: %v", found)
	}
	if found := a.Hold(nil); len(found) != 4 {
		t.Errorf("an empty database breaks 4 words, found %v", found)
	}
	if found := a.Hold([]*Run{good()}); len(found) != 2 {
		t.Errorf("a run that goes on breaks 2 words, found %v", found)
	}
	other := closed(true)
	other.Events[3].GetActivityCompleted().Result = &pb.Payload{Data: []byte("other")}
	if found := a.Hold([]*Run{other}); len(found) != 1 {
		t.Errorf("another history breaks 1 word, found %v", found)
	}
	if a.Started("default", "order", "q1", "R2") == nil {
		t.Error("a request with two runs is no problem")
	}
	if a.Settled("order", &pb.Result{RunId: "R1", Status: pb.Status_STATUS_COMPLETED}) == nil {
		t.Error("a run with two results is no problem")
	}
	if err := a.Read("order", "R1", good().Events[:3]); err != nil {
		t.Errorf("what was read when it was shorter: %v", err)
	}
	if a.Read("order", "R1", good().Events[1:]) == nil {
		t.Error("another history is no problem")
	}
}

func TestWhatRanIsExplained(t *testing.T) {
	r := closed(true)
	once := Execution{RunID: "R1", Op: "#1", Delivery: 1, Key: "k1", Done: true}
	undo := Execution{RunID: "R1", Op: "#1", Role: pb.Role_ROLE_UNDO, Delivery: 1, Key: "k2", Done: true}
	if found := Executions([]*Run{r}, []Execution{once, undo}); found != nil {
		t.Errorf("one each: %v", found)
	}
	twice, other := once, undo
	twice.Delivery, other.Key = 2, "k1"
	for what, all := range map[string][]Execution{
		"done twice":               {once, twice},
		"one delivery twice":       {once, once},
		"two with one key":         {once, other},
		"a run that is not there":  {{RunID: "R9", Op: "#1", Key: "k"}},
		"a step that is not there": {{RunID: "R1", Op: "#9", Key: "k"}},
	} {
		if Executions([]*Run{r}, all) == nil {
			t.Errorf("%s: no problem", what)
		}
	}
	r.Events[3].GetActivityCompleted().Tally = &pb.Tally{Attempts: 2, Deliveries: 2, Unanswered: 1}
	if found := Executions([]*Run{r}, []Execution{once, twice}); found != nil {
		t.Errorf("one was not answered: %v", found)
	}
	r.Events[1].GetActivityScheduled().Retry.Attempts = 1
	if Executions([]*Run{r}, []Execution{once, twice}) == nil {
		t.Error("what may run once ran twice: no problem")
	}
}
