package worker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/workflow"
)

// hold registers a workflow whose code waits for the gate.
func hold(s *shop, gate <-chan struct{}) func(*Worker) {
	return func(w *Worker) {
		register(s)(w)
		Workflow(w, func(workflow.Context, string) (string, error) { <-gate; return "", nil }, Name("holds"))
	}
}

func ofRun(run int64, a *pb.Assign) *pb.Assign {
	a.Run = run
	return a
}

func TestCodeThatDoesNotComeBackCostsItsRunAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		gate := make(chan struct{})
		l := newLabOn(t, &engineEnd{pings: true}, Options{Logger: log.logger()}, hold(newShop(), gate))
		defer l.talks()()
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "holds")}})
		pass(1900 * time.Millisecond)
		if up := l.got(); len(up.Slow) != 0 {
			t.Errorf("slow after less than two seconds: %v", up.Slow)
		}
		pass(3 * time.Second)
		if up := l.got(); len(up.Slow) != 1 || up.Slow[0] != 1 || len(up.Faults) != 0 {
			t.Errorf("after 5 s pings list the slow runs %v, faults %v", up.Slow, up.Faults)
		}
		if n := strings.Count(log.String(), "workflow_id=w"); n != 1 {
			t.Errorf("%d warnings name the workflow:\n%s", n, log.String())
		}
		// Others go on.
		l.give(&pb.WorkerDown{
			Assign: []*pb.Assign{ofRun(2, assign(1, "echoes"))}, Tasks: []*pb.Task{taskOf("#1", "shop.Echo")},
		})
		if up := l.got(); len(up.Decided) != 1 || len(up.Done) != 1 {
			t.Errorf("beside it %v was decided and %v done", up.Decided, up.Done)
		}
		pass(4 * time.Second)
		if up := l.got(); len(up.Faults) != 0 {
			t.Errorf("before its 10 s: faults %v", up.Faults)
		}
		pass(3 * time.Second)
		up := l.got()
		if len(up.Faults) != 1 || up.Faults[0].Kind != pb.FaultKind_FAULT_KIND_BLOCKED || up.Faults[0].Stamp.Epoch != 1 ||
			!strings.Contains(up.Faults[0].Failure.Message, "the code of workflow w did not give control back for 10 s, folding event 1") {
			t.Fatalf("faults %v, want it reported as blocked", up.Faults)
		}
		if n := len(l.w.session.runs); n != 1 {
			t.Errorf("%d copies are counted on, want the other one", n)
		}
		pass(2 * time.Second)
		if up := l.got(); len(up.Slow)+len(up.Faults) != 0 {
			t.Errorf("what was given up is still told of: %v", up)
		}
		close(gate)
		up = l.got()
		if len(up.Decided) != 0 || len(up.Faults) != 1 || up.Faults[0].Kind != pb.FaultKind_FAULT_KIND_RECOVERED || up.Faults[0].Stamp.Epoch != 1 {
			t.Errorf("after it came back: decided %v, faults %v", up.Decided, up.Faults)
		}
		// The code is good again.
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(2, "holds")}})
		if up := l.got(); len(up.Decided) != 1 || up.Decided[0].Stamp.Epoch != 2 {
			t.Errorf("assigned again it decided %v", up.Decided)
		}
	})
}

func TestARecoveryIsToldUntilTheEngineHasHeardIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l := newLab(t, Options{}, hold(newShop(), gate))
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "holds")}})
		pass(12 * time.Second)
		l.stream().snap()
		l.reconnects()
		if up := l.got(); len(up.Faults) != 0 {
			t.Errorf("recovered while it is blocked: %v", up.Faults)
		}
		close(gate)
		for again := range 2 {
			up := l.got()
			if len(up.Faults) != 1 || up.Faults[0].Kind != pb.FaultKind_FAULT_KIND_RECOVERED {
				t.Fatalf("stream %d carried %v", again, up.Faults)
			}
			if again == 1 {
				l.give(&pb.WorkerDown{Durable: up.Seq})
			}
			l.stream().snap()
			l.reconnects()
		}
		if up := l.got(); len(up.Faults) != 0 {
			t.Errorf("told again: %v", up.Faults)
		}
	})
}

func TestACopyBehindOneThatIsBlockedIsBlockedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l := newLab(t, Options{}, hold(newShop(), gate))
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "holds")}})
		l.stream().snap()
		l.reconnects()
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(2, "holds")}})
		pass(12 * time.Second)
		if f := l.got().Faults; len(f) != 1 || f[0].Kind != pb.FaultKind_FAULT_KIND_BLOCKED || f[0].Stamp.Epoch != 2 {
			t.Errorf("faults %v, want the copy that the engine counts on", f)
		}
		close(gate)
		if up := l.got(); len(up.Decided) != 0 || len(up.Faults) != 1 || up.Faults[0].Kind != pb.FaultKind_FAULT_KIND_RECOVERED || up.Faults[0].Stamp.Epoch != 2 {
			t.Errorf("after it came back: %v", up)
		}
		if n := len(l.w.copies); n != 0 {
			t.Errorf("%d copies are left", n)
		}
	})
}

func TestALongReplayIsNotAccused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := newLab(t, Options{Logger: log.logger()}, func(w *Worker) {
			w.Activities(newShop())
			Workflow(w, func(ctx workflow.Context, in string) (string, error) {
				for range 20 {
					<-time.After(1500 * time.Millisecond) // it thinks
					if _, err := workflow.Do(ctx, theShop.Echo, in); err != nil {
						return "", err
					}
				}
				return "", nil
			}, Name("thinks"))
		})
		a := assign(1, "thinks")
		for n := int64(1); n < 20; n++ {
			op := fmt.Sprint("#", n)
			a.History = append(a.History,
				&pb.Event{Id: 2 * n, Time: 1, Cause: 2*n - 1, Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{Op: op, Type: "shop.Echo"}}},
				&pb.Event{Id: 2*n + 1, Time: 1, Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{Op: op, Result: text("in")}}},
			)
			a.Processed, a.Folded = 2*n-1, n
		}
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{a}})
		pass(time.Minute)
		if up := l.got(); len(up.Faults) != 0 || len(up.Decided) != 1 {
			t.Errorf("decided %v, faults %v", up.Decided, up.Faults)
		}
		if s := log.String(); s != "" {
			t.Errorf("the log says\n%s", s)
		}
	})
}

func (x *watch) isAwake() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.awake
}

func TestAnIdleWorkerDoesNotTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l := newLab(t, Options{}, hold(newShop(), gate))
		for _, typ := range []string{"echoes", "holds"} { // also when what holds was given up
			l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, typ)}})
			if !l.w.watch.isAwake() {
				t.Errorf("%s: nobody watches", typ)
			}
			pass(20 * time.Second)
			if l.w.watch.isAwake() {
				t.Errorf("%s: the watch ticks for nothing", typ)
			}
		}
		close(gate)
	})
}

func TestCodeThatBlocksItsUnwindingIsNamedByStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		gate := make(chan struct{})
		l := newLab(t, Options{Logger: log.logger()}, func(w *Worker) {
			w.Activities(newShop())
			Workflow(w, func(ctx workflow.Context, in string) (string, error) {
				defer func() { <-gate }()
				return workflow.Do(ctx, theShop.Echo, in)
			}, Name("lingers"))
		})
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "lingers")}})
		l.give(&pb.WorkerDown{Drops: []*pb.Drop{{Run: 1, Stamp: assign(1, "").Stamp}}})
		pass(12 * time.Second)
		if up := l.got(); len(up.Faults) != 0 {
			t.Errorf("a copy that was dropped is reported: %v", up.Faults)
		}
		if !strings.Contains(log.String(), "unwinding its code") {
			t.Errorf("the log does not say what hangs:\n%s", log.String())
		}
		go l.acks(l.stream())
		if err := <-l.stops(time.Second); err == nil || !strings.Contains(err.Error(), "workflow w") {
			t.Errorf("stop: %v, want the workflow named", err)
		}
		close(gate)
	})
}

func TestACopyThatComesBackAsItIsAccusedRecoversAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{}, register(newShop()))
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "echoes")}})
		l.got()
		l.w.copies[1].accuse()
		f := l.got().Faults
		if len(f) != 2 || f[0].Kind != pb.FaultKind_FAULT_KIND_BLOCKED || f[1].Kind != pb.FaultKind_FAULT_KIND_RECOVERED {
			t.Errorf("faults %v", f)
		}
	})
}
