package workflow_test

import (
	"testing"
	"time"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/workflow"
)

// run folds a workflow over hand-made inputs.
type run struct {
	t    *testing.T
	r    *replay.Run
	last int64
}

func begin[In, Out any](t *testing.T, cfg replay.Config, fn func(workflow.Context, In) (Out, error), in In) (*run, []*pb.Event) {
	t.Helper()
	x := &run{t: t, r: replay.New(cfg, workflow.Bind(fn, nil))}
	t.Cleanup(func() {
		if err := x.r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return x, x.fold(&pb.Event{Body: &pb.Event_WorkflowStarted{WorkflowStarted: &pb.WorkflowStarted{
		Namespace: "shop", WorkflowId: "order-1", RunId: "01JRUN", ChainId: "01JCHAIN", Type: "W", Queue: "q",
		Input: encode(t, in), Semantics: history.Semantics,
	}}})
}

func (x *run) fold(in *pb.Event) []*pb.Event {
	x.t.Helper()
	x.last++
	in.Id, in.Time = x.last, x.last*int64(time.Second)
	d, err := x.r.Fold(in)
	if err != nil {
		x.t.Fatal(err)
	}
	return d
}

func (x *run) completed(op string, result any) []*pb.Event {
	x.t.Helper()
	return x.fold(&pb.Event{Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{Op: op, Result: encode(x.t, result)}}})
}

func (x *run) failed(op string, f *pb.Failure) []*pb.Event {
	x.t.Helper()
	return x.fold(&pb.Event{Body: &pb.Event_ActivityFailed{ActivityFailed: &pb.ActivityFailed{
		Op: op, Failure: f, Tally: &pb.Tally{Attempts: 3, Deliveries: 4, Unanswered: 1},
	}}})
}

func encode(t *testing.T, v any) *pb.Payload {
	t.Helper()
	p, err := codec.Default.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// only is the one decision there is.
func only(t *testing.T, d []*pb.Event) *pb.Event {
	t.Helper()
	if len(d) != 1 {
		t.Fatalf("%d decisions: %v", len(d), d)
	}
	return d[0]
}
