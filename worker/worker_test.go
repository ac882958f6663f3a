package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/failure"
)

func TestTheHelloComesFirstAndSaysWhatTheWorkerCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{Slots: 7}, register(newShop()))
		h := l.got().Hello
		if h == nil || h.Protocol != Protocol || h.Slots != 7 || h.Build != "test" || h.Namespace != "default" || h.Worker == "" {
			t.Fatalf("hello %v", h)
		}
		if !slices.Equal(h.WorkflowTypes, []string{"blows", "echoes"}) || !slices.Contains(h.ActivityTypes, "shop.Echo") {
			t.Errorf("types %v, %v", h.WorkflowTypes, h.ActivityTypes)
		}
	})
}

func TestADeliveryRunsOnceAndItsResultIsKeptUntilItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		down := &pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "shop.Echo")}}
		l.give(down)
		first := l.got()
		l.give(down)
		again := l.got()
		if len(first.Done) != 1 || len(again.Done) != 1 || again.Done[0].Outcome != pb.Outcome_OUTCOME_COMPLETED {
			t.Fatalf("answered %v, then %v", first.Done, again.Done)
		}
		if n := s.called("echo"); n != 1 {
			t.Errorf("the delivery ran %d times", n)
		}
		// Not durable: the next stream's hello lists it, and it is sent again.
		l.stream().snap()
		l.reconnects()
		up := l.got()
		if up.Hello == nil || len(up.Hello.Received) != 1 || len(up.Done) != 1 {
			t.Fatalf("after a broken stream: hello %v, done %v", up.Hello, up.Done)
		}
		l.give(&pb.WorkerDown{Durable: up.Seq})
		l.stream().snap()
		l.reconnects()
		if up := l.got(); len(up.Hello.Received) != 0 || len(up.Done) != 0 {
			t.Errorf("after it was durable: received %v, done %v", up.Hello.Received, up.Done)
		}
	})
}

func TestAResultThatWasNeverSentIsNeverForgotten(t *testing.T) {
	w := New(&engineEnd{}, Options{Build: "b"})
	d := taskOf("#1", "shop.Echo")
	w.tasks[keyOf(d.Delivery)] = &task{t: d, done: &pb.Done{}}
	s := newSession(w, &pipe{}, nil)
	w.open(s)
	s.forget(100)
	if len(w.tasks) != 1 {
		t.Error("it was forgotten although no message carries it yet")
	}
}

func TestOutcomesOfActivities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{}, register(newShop()))
		l.got()
		undecodable := taskOf("#5", "shop.Echo")
		undecodable.Input = &pb.Payload{Encoding: "json", Data: []byte("17")}
		for _, c := range []struct {
			task *pb.Task
			want pb.Outcome
			says string
		}{
			{taskOf("#1", "shop.Fail"), pb.Outcome_OUTCOME_FAILED, "no"},
			{taskOf("#2", "shop.Refuse"), pb.Outcome_OUTCOME_FAILED_FINAL, "never"},
			{taskOf("#3", "shop.Panic"), pb.Outcome_OUTCOME_CODE_FAULT, "oh"},
			{taskOf("#4", "shop.Missing"), pb.Outcome_OUTCOME_UNKNOWN_TYPE, "shop.Echo"},
			{undecodable, pb.Outcome_OUTCOME_UNDECODABLE, "shop.Echo"},
		} {
			l.give(&pb.WorkerDown{Tasks: []*pb.Task{c.task}})
			done := l.got().Done
			if len(done) != 1 || done[0].Outcome != c.want || !strings.Contains(done[0].Failure.GetMessage(), c.says) {
				t.Errorf("%s: %v, want %v", c.task.Type, done, c.want)
			}
			if c.want == pb.Outcome_OUTCOME_CODE_FAULT && !strings.Contains(done[0].Failure.Stack, "shop") {
				t.Errorf("the stack of the panic does not show the code: %s", done[0].Failure.Stack)
			}
		}
	})
}

// relayed is what an activity got from elsewhere: a workflow that failed for good.
func relayed() error {
	return failure.Decode(failure.Encode(failure.RetryAfter(activity.Fail("sold out"), time.Hour), nil), nil)
}

func relays(context.Context, string) error { return fmt.Errorf("ask the shop: %w", relayed()) }

func relaysForGood(context.Context, string) error { return activity.Final(relayed()) }

func TestAnErrorFromElsewhereIsFinalOnlyIfTheActivitySaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{}, func(w *Worker) {
			Activity(w, relays)
			Activity(w, relaysForGood)
		})
		l.got()
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "relays"), taskOf("#2", "relaysForGood")}})
		for _, d := range l.got().Done {
			final := d.Delivery.Op == "#2"
			want := pb.Outcome_OUTCOME_FAILED
			if final {
				want = pb.Outcome_OUTCOME_FAILED_FINAL
			}
			err := failure.Decode(d.Failure, nil)
			if d.Outcome != want || failure.IsFinal(err) != final || d.Failure.RetryAfter != 0 {
				t.Errorf("%s: outcome %v, recorded %v", d.Delivery.Op, d.Outcome, d.Failure)
			}
			if !failure.IsType(err, "*errors.errorString") {
				t.Errorf("%s: the tree has lost its types: %v", d.Delivery.Op, d.Failure)
			}
		}
	})
}

func TestACancelledActivityHearsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		x := taskOf("#1", "shop.Wait")
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{x}})
		l.give(&pb.WorkerDown{Cancels: []*pb.CancelTask{{Delivery: x.Delivery, Cause: "because"}}})
		done := l.got().Done
		var cancelled *activity.CancelledError
		if len(done) != 1 || done[0].Outcome != pb.Outcome_OUTCOME_CANCELLED {
			t.Errorf("answered %v, want cancelled", done)
		}
		if len(s.causes) != 1 || !errors.As(s.causes[0], &cancelled) || cancelled.Reason != "because" {
			t.Errorf("the activity heard %v", s.causes)
		}
	})
}

func TestFoldsAnswerUnderTheirStampAndFaultsHarmNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{}, register(newShop()))
		l.got()
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "blows")}})
		if f := l.got().Faults; len(f) != 1 || f[0].Kind != pb.FaultKind_FAULT_KIND_PANIC || !strings.Contains(f[0].Failure.Message, "kaboom") {
			t.Fatalf("faults %v, want a panic", f)
		}
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(2, "nobody")}})
		if f := l.got().Faults; len(f) != 1 || f[0].Kind != pb.FaultKind_FAULT_KIND_UNKNOWN_TYPE {
			t.Fatalf("faults %v, want an unknown type", f)
		}
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(3, "echoes")}})
		d := l.got().Decided
		if len(d) != 1 || d[0].Through != 1 || d[0].Stamp.Epoch != 3 || len(d[0].Decisions) != 1 {
			t.Fatalf("decided %v", d)
		}
		result := &pb.Event{Id: 3, Time: 2, Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{Op: "#1", Result: text("in")}}}
		l.give(&pb.WorkerDown{Inputs: []*pb.Input{{Run: 1, Stamp: &pb.Stamp{Incarnation: 9, Epoch: 2}, Event: result}}})
		l.give(&pb.WorkerDown{Drops: []*pb.Drop{{Run: 1, Stamp: &pb.Stamp{Incarnation: 8, Epoch: 3}}}})
		if up := l.got(); len(up.Decided)+len(up.Faults) != 0 {
			t.Fatalf("messages under other stamps had an effect: %v", up)
		}
		l.give(&pb.WorkerDown{Inputs: []*pb.Input{{Run: 1, Stamp: &pb.Stamp{Incarnation: 9, Epoch: 3}, Event: result}}})
		if d := l.got().Decided; len(d) != 1 || d[0].Through != 3 || d[0].Decisions[0].GetWorkflowCompleted() == nil {
			t.Errorf("decided %v, want a completion", d)
		}
		if n := len(l.w.session.runs); n != 0 {
			t.Errorf("%d copies are kept of runs that are closed or faulty", n)
		}
	})
}

func TestStopLetsActivitiesFinishAndGivesBackWhatIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "shop.Wait")}})
		ended := make(chan error)
		go func() { ended <- l.w.Stop(t.Context()) }()
		up := l.got()
		if !up.Draining {
			t.Error("the engine was not told")
		}
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#2", "shop.Echo")}})
		if done := l.got().Done; len(done) != 1 || done[0].Outcome != pb.Outcome_OUTCOME_INTERRUPTED || s.called("echo") != 0 {
			t.Errorf("a new task was answered %v, and ran %d times", done, s.called("echo"))
		}
		close(s.gate)
		up = l.acks(l.stream())
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
		if len(up.Done) != 1 || up.Done[0].Outcome != pb.Outcome_OUTCOME_COMPLETED {
			t.Errorf("the one that ran was answered %v", up.Done)
		}
	})
}

func TestStopInterruptsAtTheEndAndNamesTheDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "shop.Wait"), taskOf("#2", "shop.Deaf")}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := l.w.Stop(ctx)
		if err == nil || !strings.Contains(err.Error(), "shop.Deaf") || strings.Contains(err.Error(), "shop.Wait") {
			t.Errorf("stop: %v, want the deaf activity named", err)
		}
		var interrupted *activity.InterruptedError
		if len(s.causes) != 1 || !errors.As(s.causes[0], &interrupted) {
			t.Errorf("the other heard %v", s.causes)
		}
		close(s.gate)
	})
}

func TestMessagesUpAreBounded(t *testing.T) {
	o := newOutbox(&pipe{}, nil)
	for range messageItems + 1 {
		o.put(item{done: &pb.Done{}})
	}
	if items, _ := o.take(); len(items) != messageItems {
		t.Errorf("%d items in a message", len(items))
	}
	o.take()
	big := &pb.Done{Result: &pb.Payload{Data: make([]byte, messageBytes+1)}}
	o.put(item{done: big})
	o.put(item{done: big})
	if items, _ := o.take(); len(items) != 1 {
		t.Errorf("%d large items in a message, want one alone", len(items))
	}
}

// wrong has methods that are no activities.
type wrong struct{}

func (wrong) NoError(context.Context, string) string { return "" }

func TestStartReportsEveryMistakeOfRegistration(t *testing.T) {
	w := New(&engineEnd{}, Options{Build: "b", Slots: -1})
	Workflow(w, echoes)
	Workflow(w, echoes)
	Activity(w, func(context.Context, string) error { return nil })
	Activity(w, nil)
	w.Activities((*shop)(nil))
	w.Activities(wrong{})
	w.Activities(struct{}{})
	err := w.Start(t.Context())
	if err == nil {
		t.Fatal("it started")
	}
	for _, part := range []string{"-1 slots", "echoes", "registered already", "name", "nil", "NoError"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
}

func TestANameThatWasMovedServesOldHistories(t *testing.T) {
	r := newRegistry()
	r.addActivity("Shop.Charge", []string{"Shop.Debit", "Shop.Charge"}, &activityType{})
	if r.activityName("Shop.Charge") != "Shop.Debit" || !r.sameActivity("Shop.Charge", "Shop.Debit") {
		t.Error("the alias is another activity")
	}
}
