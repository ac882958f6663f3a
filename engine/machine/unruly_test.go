package machine

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/match"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// begun is a rig with a run "a" on worker w1, whose first input is unanswered.
func begun(t *testing.T) *rig {
	r := newRig(t)
	r.script("worker w1", "start a", "save")
	return r
}

func (r *rig) script(commands ...string) {
	for _, c := range commands {
		r.do(c)
	}
}

func (r *rig) run(id string) *Run {
	run := r.s.ids[ID{"default", id}]
	if run == nil {
		r.t.Fatalf("%s is not in memory", id)
	}
	return run
}

// last is the newest event of the run, durable or not.
func (r *rig) last(id string) *pb.Event {
	var last *pb.Event
	no := r.run(id).Row.Run
	if d := r.db[no]; d != nil && len(d.events) > 0 {
		last = d.events[len(d.events)-1]
	}
	for _, w := range r.unsaved {
		if w.row.Run == no && len(w.events) > 0 {
			last = w.events[len(w.events)-1]
		}
	}
	return last
}

func event(body any) *pb.Event {
	switch b := body.(type) {
	case *pb.ActivityScheduled:
		return &pb.Event{Body: &pb.Event_ActivityScheduled{ActivityScheduled: b}}
	case *pb.TimerStarted:
		return &pb.Event{Body: &pb.Event_TimerStarted{TimerStarted: b}}
	case *pb.SagaCommitted:
		return &pb.Event{Body: &pb.Event_SagaCommitted{SagaCommitted: b}}
	case *pb.WorkflowCompleted:
		return &pb.Event{Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: b}}
	case *pb.WorkflowFailed:
		return &pb.Event{Body: &pb.Event_WorkflowFailed{WorkflowFailed: b}}
	case *pb.WorkflowCancelled:
		return &pb.Event{Body: &pb.Event_WorkflowCancelled{WorkflowCancelled: b}}
	case *pb.ActivityCancelRequested:
		return &pb.Event{Body: &pb.Event_ActivityCancelRequested{ActivityCancelRequested: b}}
	}
	panic("no event")
}

// What a worker must not ask for is refused whole, excludes its build, and
// leaves nothing in the history.
func TestDecisionsThatBreakARuleAreRefusedWhole(t *testing.T) {
	big := &pb.Payload{Encoding: "raw", Data: make([]byte, history.MaxPayload+1)}
	long := strings.Repeat("x", history.MaxOp+1)
	type decided = []*pb.Event
	for name, c := range map[string]struct {
		through int64
		events  decided
	}{
		"an input that it was not given":      {through: 9},
		"a cause that is a decision":          {5, decided{caused(2, event(&pb.TimerStarted{Op: "#7"}))}},
		"a cause that was answered":           {5, decided{caused(1, event(&pb.TimerStarted{Op: "#7"}))}},
		"causes that go back":                 {5, decided{caused(5, event(&pb.TimerStarted{Op: "#7"})), caused(4, event(&pb.TimerStarted{Op: "#8"}))}},
		"an operation twice":                  {5, decided{caused(5, event(&pb.TimerStarted{Op: "#7"})), caused(5, event(&pb.SagaCommitted{Op: "#7"}))}},
		"an operation that is open":           {5, decided{caused(5, event(&pb.TimerStarted{Op: "#3"}))}},
		"the engine's own operation":          {5, decided{caused(5, event(&pb.TimerStarted{Op: graceOp}))}},
		"no operation":                        {5, decided{caused(5, event(&pb.TimerStarted{}))}},
		"an operation with a long name":       {5, decided{caused(5, event(&pb.TimerStarted{Op: long}))}},
		"an activity without a type":          {5, decided{caused(5, event(&pb.ActivityScheduled{Op: "#7"}))}},
		"something behind the end":            {5, decided{caused(5, event(&pb.WorkflowCompleted{})), caused(5, event(&pb.TimerStarted{Op: "#7"}))}},
		"a result that is too large":          {5, decided{caused(5, event(&pb.WorkflowCompleted{Result: big}))}},
		"a failure that is too large":         {5, decided{caused(5, event(&pb.WorkflowFailed{Failure: &pb.Failure{Details: big}}))}},
		"a reason that is too long":           {5, decided{caused(5, event(&pb.WorkflowCancelled{Reason: strings.Repeat("x", history.MaxReason+1)}))}},
		"a cause of a cancel that is no text": {5, decided{caused(5, event(&pb.ActivityCancelRequested{Op: "#1", Cause: "\xff"}))}},
		"an input of the engine":              {5, decided{caused(5, &pb.Event{Body: &pb.Event_TimerFired{TimerFired: &pb.TimerFired{Op: "#3"}}})}},
		"nothing at all":                      {5, decided{caused(5, &pb.Event{})}},
	} {
		t.Run(name, func(t *testing.T) {
			r := begun(t)
			// 2 and 3 are decisions; 4 and 5 are inputs that w1 has not answered.
			r.script("decide a: activity #1 Charge; timer #3 1h", "save", "done a #1 ok", "cancel a", "save")
			if e := r.last("a"); e.Id != 5 {
				t.Fatalf("the newest event is %s", history.Line(e))
			}
			s := r.stamps["a"]
			r.step(&Decided{Origin: r.origin("w1"), Decided: &pb.Decided{
				Run: s.Assign.Run, Stamp: s.Assign.Stamp, Through: c.through, Decisions: c.events,
			}})
			run := r.run("a")
			if n := run.Row.NextEvent; n != 6 {
				t.Errorf("it was recorded: %s", history.Line(r.last("a")))
			}
			if run.State.Hold.GetKind() != pb.HoldKind_HOLD_KIND_STUCK || run.State.Processed != 1 {
				t.Errorf("hold %v, processed %d", run.State.Hold, run.State.Processed)
			}
			r.save()
		})
	}
}

func caused(by int64, e *pb.Event) *pb.Event {
	e.Cause = by
	return e
}

// An answer is brought into a form that a history may hold.
func TestAnswersOfAnyFormEndInAFormThatHistoriesHold(t *testing.T) {
	big := &pb.Payload{Encoding: "raw", Data: make([]byte, history.MaxPayload+1)}
	for name, c := range map[string]struct {
		done *pb.Done
		want pb.Outcome
	}{
		"a result that is too large": {&pb.Done{Outcome: pb.Outcome_OUTCOME_COMPLETED, Result: big}, pb.Outcome_OUTCOME_TOO_LARGE},
		"a failure without a word":   {&pb.Done{Outcome: pb.Outcome_OUTCOME_FAILED_FINAL}, pb.Outcome_OUTCOME_FAILED_FINAL},
		"a failure that is too large": {&pb.Done{
			Outcome: pb.Outcome_OUTCOME_FAILED_FINAL, Failure: &pb.Failure{Details: big},
		}, pb.Outcome_OUTCOME_FAILED_FINAL},
		"no outcome": {&pb.Done{}, pb.Outcome_OUTCOME_UNSPECIFIED},
	} {
		t.Run(name, func(t *testing.T) {
			r := begun(t)
			r.script("decide a: activity #1 Charge attempts=1", "save")
			c.done.Delivery = r.tasks[taskName("a", "#1", pb.Role_ROLE_FORWARD)].Delivery
			r.step(&Done{Origin: r.origin("w1"), Done: c.done})
			f := r.last("a").GetActivityFailed().GetFailure()
			if f == nil || f.Outcome != c.want || f.Message == "" {
				t.Errorf("%s, failure %.200v", history.Line(r.last("a")), f)
			}
			r.save()
		})
	}
}

func TestAnAnswerToNothingIsDealtWith(t *testing.T) {
	r := begun(t)
	for _, d := range []*pb.Delivery{nil, {}, {Run: math.MaxInt64}, {Run: int64(r.run("a").Row.Run), Op: "#9"}} {
		var acks []Ack
		for r.queue = []Input{&Done{Origin: r.origin("w1"), Done: &pb.Done{Delivery: d}}}; len(r.queue) > 0; r.queue = r.queue[1:] {
			out := r.s.Step(r.now, r.queue[0])
			acks = append(acks, out.Acks...)
			for _, c := range out.Changes {
				acks = append(acks, c.Acks...)
			}
			r.apply(out)
		}
		if len(acks) != 1 {
			t.Errorf("an answer to delivery %v was acknowledged %d times", d, len(acks))
		}
	}
}

// Every word of a worker that its build can go on is dealt with once: when what it
// changes is durable, or at once if there is nothing.
func TestEveryFaultIsAcknowledgedOnce(t *testing.T) {
	for name, prepare := range map[string][]string{
		"a run that is held":         {"fault a", "save"},
		"a run that is not":          {},
		"one that has left memory":   {"decide a: complete", "save", "evict a"},
		"one that cannot be read":    {"decide a: complete", "save", "evict a", "reads fail"},
		"one that is read, and held": {"fault a", "save", "crash"},
	} {
		t.Run(name, func(t *testing.T) {
			r := begun(t)
			r.script(prepare...)
			f := &Fault{Origin: r.origin("w1"), Fault: &pb.Fault{
				Run: r.stamps["a"].Assign.Run, Stamp: &pb.Stamp{}, Kind: pb.FaultKind_FAULT_KIND_RECOVERED,
			}}
			acks := 0
			for r.queue = []Input{f}; len(r.queue) > 0; r.queue = r.queue[1:] {
				out := r.s.Step(r.now, r.queue[0])
				acks += len(out.Acks)
				for _, c := range out.Changes {
					acks += len(c.Acks)
				}
				r.apply(out)
				if r.unreadable && len(r.queue) == 1 {
					r.unreadable = false
					r.queue = append(r.queue, &Woken{Run: store.RunNo(f.Run)}) // it is read again
				}
			}
			if acks != 1 {
				t.Errorf("it was acknowledged %d times", acks)
			}
		})
	}
}

// Every shard is told what a worker has; each looks at its own alone.
func TestDeliveriesOfOtherShardsAreNotLookedAt(t *testing.T) {
	r := begun(t)
	other := int64(store.MakeRunNo(3, 1))
	out := r.s.Step(r.now, &WorkerBack{Worker: "w1", Received: []*pb.Delivery{nil, {}, {Run: -5}, {Run: other, Op: "#1"}}})
	if len(out.Loads) > 0 || len(out.Changes) > 0 {
		t.Errorf("loads %v, changes %v", out.Loads, out.Changes)
	}
}

// A slot that was on its way when the run was held is given back.
func TestASlotOfferedToAHeldRunIsGivenBack(t *testing.T) {
	r := newRig(t)
	r.script("worker w1 slots=0", "start a", "save", "decide a: activity #1 Charge", "save")
	run := r.run("a")
	key := nextDelivery(run, run.Entries["#1"])
	r.m.Connect(match.Worker{ID: "w2", Namespace: "default", Queue: "default", ActivityTypes: allTypes, Slots: 1})
	run.State.Hold = &pb.Hold{Kind: pb.HoldKind_HOLD_KIND_QUARANTINED}
	r.step(&SlotOffered{Worker: "w2", Delivery: key})
	if used, _ := r.m.Usage("w2"); used != 0 || started(run.Entries["#1"].activity()) {
		t.Errorf("w2 uses %d slots, the activity is %s", used, phaseText(run.Entries["#1"].activity().Phase))
	}
}

// A late answer of a worker for a delivery that waits is none of its business.
func TestAnAnswerMadeUpDoesNotTakeAPlaceInTheLine(t *testing.T) {
	r := newRig(t)
	r.script("worker w1 slots=1", "start a", "save", "decide a: activity #1 Charge; activity #2 Charge", "save")
	run := r.run("a")
	made := proto.CloneOf(r.tasks[taskName("a", "#1", pb.Role_ROLE_FORWARD)].Delivery)
	made.Op = "#2"
	r.step(&Done{Origin: r.origin("w1"), Done: &pb.Done{Delivery: made, Outcome: pb.Outcome_OUTCOME_COMPLETED}})
	r.script("done a #1 ok")
	if a := run.Entries["#2"].activity(); a.Phase != pb.Phase_PHASE_STARTED {
		t.Errorf("#2 is %s", phaseText(a.Phase))
	}
}

// A stamp is given once, also to a run that left memory and came back.
func TestAStampIsNeverGivenTwice(t *testing.T) {
	r := begun(t)
	seen := map[Stamp]bool{}
	for range 3 {
		if s := stampOf(r.stamps["a"].Assign.Stamp); seen[s] {
			t.Fatalf("stamp %v was given before", s)
		} else {
			seen[s] = true
		}
		op := "#" + string(rune('0'+len(seen)))
		r.script("decide a: timer "+op+" 1s", "save", "evict a")
		if len(r.s.runs) > 0 {
			t.Fatal("the run is still in memory")
		}
		r.script("pass 1s", "save")
	}
}

// An offer that was made before the shard was loaded again, or whose worker has
// gone, gives no slot that the desk does not know of.
func TestAnOldOfferGivesNoSlot(t *testing.T) {
	r := newRig(t)
	r.script("worker w1 slots=0", "start a", "save", "decide a: activity #1 Charge", "save")
	run := r.run("a")
	r.step(&SlotOffered{Worker: "w9", Delivery: nextDelivery(run, run.Entries["#1"])})
	if a := run.Entries["#1"].activity(); a.Phase != pb.Phase_PHASE_WAITING {
		t.Fatalf("it is %s on %s", phaseText(a.Phase), a.Worker)
	}
	r.script("worker w2 slots=1")
	if used, _ := r.m.Usage("w2"); used != 1 || run.Entries["#1"].activity().Worker != "w2" {
		t.Fatalf("w2 uses %d slots", used)
	}
	// The same offer once more: what runs keeps its slot.
	r.step(&SlotOffered{Worker: "w2", Delivery: thisDelivery(run, run.Entries["#1"])})
	if used, _ := r.m.Usage("w2"); used != 1 {
		t.Errorf("w2 uses %d slots while it runs one activity", used)
	}
}

func TestACancelWithoutEndHasNoGrace(t *testing.T) {
	r := newRig(t)
	r.step(&Start{RunID: "run", To: "x", Req: &pb.StartRequest{
		Namespace: "default", WorkflowId: "a", RequestId: "s", Type: "W", Queue: "default", CancelGrace: math.MaxInt64,
	}})
	r.script("cancel a", "save", "pass 1000h", "save")
	if !r.run("a").Row.Open {
		t.Error("the run was closed before its grace was over")
	}
}

// A caller that has gone while its run was read is not waited with.
func TestWhoGivesUpWhileTheRunIsReadIsForgotten(t *testing.T) {
	r := begun(t)
	r.script("decide a: timer #1 1h", "save", "evict a")
	out := r.s.Step(r.now, &Await{Ref: &pb.RunRef{Namespace: "default", WorkflowId: "a"}, To: "caller"})
	load := out.Loads[0]
	r.s.Step(r.now, &Abandon{ID: ID{"default", "a"}, To: "caller"})
	r.step(&RowsRead{Load: load, Answer: r.find(load.Key)})
	if !r.run("a").Idle() {
		t.Error("the run is kept in memory for somebody who has gone")
	}
}

// A read that was under way when the run left memory may be older than what the
// run did: it is asked for again.
func TestAReadOlderThanAnEvictionIsReadAgain(t *testing.T) {
	r := begun(t)
	r.script("decide a: timer #1 1s", "save")
	key := store.Key{Namespace: "default", WorkflowID: "a", Request: "other"}
	out := r.s.Step(r.now, &Start{RunID: "run-x", To: "late", Req: &pb.StartRequest{
		Namespace: "default", WorkflowId: "a", RequestId: "other", Type: "W", Queue: "default",
	}})
	if len(out.Loads) != 1 || out.Loads[0].Key != key {
		t.Fatalf("loads %v", out.Loads)
	}
	load, old := out.Loads[0], r.find(key)
	r.script("pass 1s", "save", "decide a: complete", "save", "evict a")
	out = r.s.Step(r.now, &RowsRead{Load: load, Answer: old})
	if len(out.Loads) != 1 || len(out.Changes) > 0 {
		t.Fatalf("an old read was taken: %d loads, %d changes", len(out.Loads), len(out.Changes))
	}
	r.apply(out)
	r.script("save", "save")
	if !bytes.Contains([]byte(r.story.String()), []byte("answer to late: started true")) {
		t.Errorf("the id is free, and it was not started:\n%s", r.story.String())
	}
}

// The same for a run that the read did not find, since it was started later: the
// answer names no run, but its id has left memory.
func TestAReadThatFoundNothingIsReadAgainWhenItsRunHasComeAndGone(t *testing.T) {
	r := newRig(t)
	r.script("worker w1")
	key := store.Key{Namespace: "default", WorkflowID: "a"}
	ask := &Describe{Ref: &pb.RunRef{Namespace: "default", WorkflowId: "a"}, To: "late"}
	load := r.s.Step(r.now, ask).Loads[0]
	if load.Key != key {
		t.Fatalf("it reads %v", load.Key)
	}
	old := r.find(key)
	r.script("start a", "save", "decide a: timer #1 1h", "save", "evict a")
	out := r.s.Step(r.now, &RowsRead{Load: load, Answer: old})
	if len(out.Loads) != 1 || len(out.Replies) > 0 {
		t.Fatalf("an old read was taken: %d loads, %d replies", len(out.Loads), len(out.Replies))
	}
	r.apply(out)
	r.script("save", "save")
	if got := r.story.String(); !strings.Contains(got, "answer to late: running") {
		t.Errorf("the run is there, and was not found:\n%s", got)
	}
}

// The same for a run that is read by its number, whose answer names it.
func TestAReadByNumberOlderThanAnEvictionIsReadAgain(t *testing.T) {
	r := begun(t)
	r.script("decide a: activity #1 Charge; timer #2 1h", "save", "done a #1 failed", "save", "evict a")
	no := store.MakeRunNo(0, r.s.nextRun-1)
	out := r.s.Step(r.now, &Woken{Run: no, Op: "#2"})
	if len(out.Loads) != 1 {
		t.Fatalf("loads %v", out.Loads)
	}
	load, old := out.Loads[0], r.find(out.Loads[0].Key)
	r.script("describe a", "cancel a", "save", "decide a: stop-timer #2", "save", "evict a")
	if r.s.runs[no] != nil {
		t.Fatal("the run is still in memory")
	}
	out = r.s.Step(r.now, &RowsRead{Load: load, Answer: old})
	if len(out.Loads) != 1 || r.s.runs[no] != nil {
		t.Fatalf("an old read was taken: %d loads", len(out.Loads))
	}
	r.apply(out)
	r.script("save", "save")
}

// The close of the older run is written before the newer one begins, whatever else
// may wait: something waits for it.
func TestANewRunOfAnIdHurriesTheCloseOfTheOneBefore(t *testing.T) {
	r := begun(t)
	old := r.run("a")
	r.script("decide a: complete", "start a request=again")
	closed, hurried, inserted := -1, -1, -1
	for i, w := range r.unsaved {
		switch {
		case w.run == old && !w.row.Open && closed < 0:
			closed = i
			if len(w.after) > 0 {
				t.Fatal("void: the close is hurried by something else")
			}
		case w.run == old && len(w.after) > 0:
			hurried = i
		case w.insert:
			inserted = i
		}
	}
	if closed < 0 || hurried < closed || inserted < hurried {
		t.Errorf("closed by change %d, hurried by %d, the next begun by %d", closed, hurried, inserted)
	}
}

// A late answer counts when it comes from the worker that had the delivery, under
// the incarnation that handed it out, and from nobody else: after a restore the
// numbers come again.
func TestALateAnswerOfSomebodyElseIsNotBelieved(t *testing.T) {
	late := func(spoil func(*Done)) (believed bool) {
		r := newRig(t)
		r.script("worker w1", "start a", "save", "decide a: activity #1 Charge undo=Refund attempts=1 run=1s", "save")
		a := r.run("a").Entries["#1"].activity()
		in := &Done{Origin: Origin{Worker: a.Worker, Seq: 99}, Done: &pb.Done{
			Delivery: &pb.Delivery{Run: int64(r.run("a").Row.Run), Op: "#1", Delivery: a.Delivery, Incarnation: a.Incarnation},
			Outcome:  pb.Outcome_OUTCOME_COMPLETED, Result: &pb.Payload{Encoding: "json", Data: []byte("1")},
		}}
		r.script("pass 2s", "save")
		if p := r.run("a").Entries["#1"].activity().Phase; p != pb.Phase_PHASE_ARMED {
			t.Fatalf("the step is %v", p)
		}
		spoil(in)
		r.step(in)
		return r.last("a").GetLateAnswer() != nil
	}
	if !late(func(*Done) {}) {
		t.Error("the late answer of the worker that had it is not believed")
	}
	for name, spoil := range map[string]func(*Done){
		"another worker":      func(d *Done) { d.Worker = "w2" },
		"another incarnation": func(d *Done) { d.Delivery.Incarnation++ },
		"another delivery":    func(d *Done) { d.Delivery.Delivery++ },
	} {
		if late(spoil) {
			t.Errorf("%s is believed", name)
		}
	}
}
