package rpc

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/engined/engined/proto/enginepb"
)

const shortTick = 5 * time.Millisecond

// good connects a worker that does all it should, and pings.
func (l *lab) good(name string) {
	p := l.worker(hello(name))
	go func() { _ = p.serve() }()
	go p.pings(2 * shortTick)
}

func (l *lab) await(id string) *pb.Result {
	res, err := l.client.Await(l.t.Context(), &pb.AwaitRequest{Run: ref(id)})
	if err != nil {
		l.t.Fatal(err)
	}
	return res.Result
}

func (l *lab) history(id string) []*pb.Event {
	page, err := l.client.History(l.t.Context(), &pb.HistoryRequest{Run: ref(id)})
	if err != nil {
		l.t.Fatal(err)
	}
	return page.Events
}

func (l *lab) completes(id string, events int) {
	l.t.Helper()
	if res := l.await(id); res.Status != pb.Status_STATUS_COMPLETED {
		l.t.Errorf("run %s: %v", id, res)
	}
	if n := len(l.history(id)); n != events {
		l.t.Errorf("run %s has %d events, want %d", id, n, events)
	}
}

// A build that does not know how to go on with a run is asked once; another goes
// on, and meets the other runs of its type as well.
func TestABuildThatDoesNotFitIsPassedOver(t *testing.T) {
	l := newLab(t, Options{Tick: shortTick})
	h := hello("unknown")
	h.Build = "from elsewhere"
	p := l.worker(h)
	asked := map[int64]int{}
	p.fold = func(run int64, stamp *pb.Stamp, _ *pb.Event) {
		asked[run]++
		p.send(&pb.WorkerUp{Faults: []*pb.Fault{{Run: run, Stamp: stamp, Kind: pb.FaultKind_FAULT_KIND_MISMATCH, Failure: &pb.Failure{Message: "other code"}}}})
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.serve() }()
	go p.pings(2 * shortTick)
	l.start("a", "Echo", payload(1))
	until(t, "the run is held", func() bool {
		d, err := l.client.Describe(t.Context(), &pb.DescribeRequest{Run: ref("a")})
		return err == nil && d.Info.Hold.GetKind() == pb.HoldKind_HOLD_KIND_STUCK && d.Info.Hold.Reason == "other code"
	})
	l.good("w1")
	l.good("w2")
	l.completes("a", 4)
	for _, id := range []string{"b", "c", "d", "e"} {
		l.start(id, "Echo", payload(1))
	}
	for _, id := range []string{"b", "c", "d", "e"} {
		l.completes(id, 4)
	}
	l.s.Stop(t.Context())
	<-ended
	for run, n := range asked {
		if n != 1 {
			t.Errorf("the build was asked %d times for run %d", n, run)
		}
	}
}

// The first answer to a delivery counts; the next finds nothing that waits.
func TestAWorkerThatAnswersTwiceIsHeardOnce(t *testing.T) {
	l := newLab(t, Options{Tick: shortTick})
	p := l.worker(hello("twice"))
	p.task = func(task *pb.Task) {
		second := answer(task)
		second.Result = payload(99)
		p.send(&pb.WorkerUp{Done: []*pb.Done{answer(task), second}})
		p.send(&pb.WorkerUp{Done: []*pb.Done{proto.CloneOf(second)}})
	}
	p.fold = func(run int64, stamp *pb.Stamp, e *pb.Event) {
		p.echo(run, stamp, e)
		p.echo(run, stamp, e)
	}
	go func() { _ = p.serve() }()
	go p.pings(2 * shortTick)
	l.start("a", "Echo", payload(1))
	l.completes("a", 4)
	if res := l.await("a"); len(res.Result.Data) != 1 {
		t.Errorf("the second answer counted: %v", res)
	}
}

// Answers under an old stamp, to another delivery, of another incarnation or of a
// higher fence's predecessor change nothing.
func TestAnswersUnderOldNumbersChangeNothing(t *testing.T) {
	l := newLab(t, Options{Tick: shortTick})
	p := l.worker(hello("old"))
	p.task = func(task *pb.Task) {
		for _, spoil := range []func(*pb.Delivery){
			func(d *pb.Delivery) { d.Incarnation++ }, func(d *pb.Delivery) { d.Delivery++ },
			func(d *pb.Delivery) { d.Delivery-- }, func(d *pb.Delivery) { d.Role = pb.Role_ROLE_UNDO },
			func(d *pb.Delivery) { d.Op = "#9" }, func(d *pb.Delivery) { d.Run++ }, func(d *pb.Delivery) { d.Run = -1 },
		} {
			bad := answer(task)
			bad.Delivery = proto.CloneOf(task.Delivery)
			bad.Result = payload(99)
			spoil(bad.Delivery)
			p.send(&pb.WorkerUp{Done: []*pb.Done{bad}})
		}
		p.say(task)
	}
	p.fold = func(run int64, stamp *pb.Stamp, e *pb.Event) {
		for _, old := range []*pb.Stamp{
			{Incarnation: stamp.Incarnation, Epoch: stamp.Epoch - 1}, {Incarnation: stamp.Incarnation + 1, Epoch: stamp.Epoch}, nil,
		} {
			p.send(&pb.WorkerUp{Decided: []*pb.Decided{{Run: run, Stamp: old, Through: e.Id, Decisions: decide(e, nil)}}})
			p.send(&pb.WorkerUp{Faults: []*pb.Fault{{Run: run, Stamp: old, Kind: pb.FaultKind_FAULT_KIND_PANIC}}})
		}
		p.echo(run, stamp, e)
	}
	go func() { _ = p.serve() }()
	go p.pings(2 * shortTick)
	l.start("a", "Echo", payload(1))
	l.completes("a", 4)
	if res := l.await("a"); len(res.Result.Data) != 1 {
		t.Errorf("an old answer counted: %v", res)
	}
}

// A worker that pings and never says what it has read loses its stream. What it
// was offered may have run: a step that may run once at most is not run again,
// any other is, by somebody else, as another attempt.
func TestWhatAWorkerNeverAcknowledgedMayHaveRun(t *testing.T) {
	l := newLab(t, Options{Tick: shortTick})
	p := l.worker(hello("never acknowledges"))
	p.unread = true
	var ran int
	p.task = func(*pb.Task) { ran++ }
	p.fold = func(run int64, stamp *pb.Stamp, e *pb.Event) {
		once := func(a *pb.ActivityScheduled) { a.Retry = &pb.RetryPolicy{Attempts: 1} }
		if run%2 == 0 {
			once = nil
		}
		p.send(&pb.WorkerUp{Decided: []*pb.Decided{{Run: run, Stamp: stamp, Through: e.Id, Decisions: decide(e, once)}}})
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.serve() }()
	go p.pings(2 * shortTick)
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, id := range ids {
		l.start(id, "Echo", payload(1))
	}
	<-ended
	if ran != len(ids) {
		t.Fatalf("it was given %d of %d tasks before its stream ended", ran, len(ids))
	}
	l.good("w1")
	once := 0
	for _, id := range ids {
		res, events := l.await(id), l.history(id)
		a := events[1].GetActivityScheduled()
		end := events[2]
		switch {
		case a.Retry.GetAttempts() == 1:
			once++
			f := end.GetActivityFailed()
			if res.Status != pb.Status_STATUS_FAILED || f.GetTally().GetUnanswered() != 1 || f.GetTally().GetDeliveries() != 1 {
				t.Errorf("run %s, at most once: %v, %v", id, res.Status, end)
			}
		default:
			c := end.GetActivityCompleted()
			if res.Status != pb.Status_STATUS_COMPLETED || c.GetTally().GetUnanswered() != 1 || c.GetTally().GetAttempts() != 2 {
				t.Errorf("run %s: %v, %v", id, res.Status, end)
			}
		}
	}
	if once == 0 || once == len(ids) {
		t.Errorf("%d of %d steps were at most once: the test proves nothing", once, len(ids))
	}
}
