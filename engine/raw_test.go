package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
	pb "github.com/engined/engined/proto/enginepb"
)

// rawWorker folds by hand: decide tells what the code asks for at each input.
// It connects again when its stream ends, and runs again what it is sent again.
type rawWorker struct {
	t      *testing.T
	hello  *pb.Hello
	s      *LocalStream
	seq    int64
	decide func(in *pb.Event) []*pb.Event
	run    func(*pb.Task) *pb.Done
}

// send ignores that the stream has ended: Recv tells.
func (w *rawWorker) send(up *pb.WorkerUp) {
	w.seq++
	up.Seq = w.seq
	_ = w.s.Send(up)
}

func (w *rawWorker) loop(ctx context.Context, e *Engine) {
	for ctx.Err() == nil {
		w.s, w.seq = e.Work(ctx), 0
		w.send(&pb.WorkerUp{Hello: w.hello})
		if err := w.serve(); apierr.Is(err, apierr.Closed) {
			return
		}
	}
}

func (w *rawWorker) serve() error {
	for {
		d, err := w.s.Recv()
		if err != nil {
			return err
		}
		for _, a := range d.Assign {
			for _, e := range a.History {
				if e.Cause == 0 && e.Id > a.Processed {
					w.fold(a.Run, a.Stamp, e)
				}
			}
		}
		for _, in := range d.Inputs {
			w.fold(in.Run, in.Stamp, in.Event)
		}
		for _, task := range d.Tasks {
			if done := w.run(task); done != nil {
				w.send(&pb.WorkerUp{Done: []*pb.Done{done}})
			}
		}
	}
}

func (w *rawWorker) fold(run int64, stamp *pb.Stamp, e *pb.Event) {
	ds := w.decide(e)
	for _, d := range ds {
		d.Cause = e.Id
	}
	w.send(&pb.WorkerUp{Decided: []*pb.Decided{{Run: run, Stamp: stamp, Through: e.Id, Decisions: ds}}})
}

// echo is a workflow of one activity.
func echo(in *pb.Event) []*pb.Event {
	switch b := in.Body.(type) {
	case *pb.Event_WorkflowStarted:
		return []*pb.Event{{Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{
			Op: "#1", Type: "Echo", Input: b.WorkflowStarted.Input,
		}}}}
	case *pb.Event_ActivityCompleted:
		return []*pb.Event{{Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: &pb.WorkflowCompleted{
			Result: b.ActivityCompleted.Result,
		}}}}
	default:
		return nil
	}
}

func succeed(task *pb.Task) *pb.Done {
	return &pb.Done{Delivery: task.Delivery, Outcome: pb.Outcome_OUTCOME_COMPLETED, Result: task.Input}
}

// startRaw connects a worker that runs echo.
func startRaw(t *testing.T, ctx context.Context, e *Engine, id string) *rawWorker {
	return startRawOf(t, ctx, e, id, echo)
}

// startRawOf connects a worker that runs decide.
func startRawOf(t *testing.T, ctx context.Context, e *Engine, id string, decide func(*pb.Event) []*pb.Event) *rawWorker {
	w := &rawWorker{t: t, decide: decide, run: succeed, hello: &pb.Hello{
		Protocol: 1, Namespace: "default", Queue: "default", Worker: id, Build: "a",
		WorkflowTypes: []string{"W"}, ActivityTypes: []string{"Echo"}, Slots: 10,
	}}
	go w.loop(ctx, e)
	return w
}

// start starts a run and awaits its result, and repeats the request while the
// engine says that it is not available.
func start(ctx context.Context, e *Engine, id string) (*pb.StartResponse, error) {
	for {
		res, err := e.Start(ctx, &pb.StartRequest{
			Namespace: "default", WorkflowId: id, RequestId: "r-" + id, Type: "W", Queue: "default",
			Input: &pb.Payload{Encoding: "json", Data: []byte(`"` + id + `"`)}, Await: true,
		})
		if !apierr.Is(err, apierr.Unavailable) {
			return res, err
		}
		time.Sleep(10 * time.Millisecond) // virtual
	}
}

func TestOneActivityTakesTwoCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(4)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e, err := Open(ctx, Config{Store: st, Clock: clock.Runtime()})
		if err != nil {
			t.Fatal(err)
		}
		startRaw(t, ctx, e, "w1")
		res, err := start(ctx, e, "one")
		if err != nil {
			t.Fatal(err)
		}
		if got := string(res.Result.Result.GetData()); got != `"one"` {
			t.Errorf("result %s", got)
		}
		if got := st.Stats(); got.Commits != 2 {
			t.Errorf("%d commits, want 2: %+v", got.Commits, got)
		}
		aw, err := e.Await(ctx, &pb.AwaitRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: "one"}})
		if err != nil || aw.Result.Status != pb.Status_STATUS_COMPLETED {
			t.Errorf("await after close: %v %v", aw, err)
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
