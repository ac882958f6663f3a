package engine

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// The methods below are the client's calls, as proto/engined/v1/service.proto
// lists them. Errors are *apierr.Error, or the context's.

// newID makes an id at the engine's time.
func (e *Engine) newID() string { return e.cfg.NewID(uint64(e.clock.Now() / int64(time.Millisecond))) }

// Start begins a run, or answers with the one that is there.
func (e *Engine) Start(ctx context.Context, req *pb.StartRequest) (*pb.StartResponse, error) {
	const op = "start"
	req = proto.CloneOf(req)
	if req.RequestId == "" {
		req.RequestId = e.newID()
	}
	if req.WorkflowId == "" {
		// Derived, so that a repeat of the request meets its own run.
		req.WorkflowId = req.RequestId
	}
	if err := checkStart(req); err != nil {
		return nil, apierr.Wrap(apierr.InvalidArgument, op, err)
	}
	if err := e.mayWrite(op); err != nil {
		return nil, err
	}
	id := machine.ID{Namespace: req.Namespace, WorkflowID: req.WorkflowId}
	var c *call
	v, err := e.ask(ctx, op, id, func(to *call) machine.Input {
		c = to
		return &machine.Start{Req: req, RunID: e.newID(), Seed: e.random(), To: to}
	})
	if err != nil {
		return nil, err
	}
	if res, ok := v.(*pb.StartResponse); ok {
		return res, nil
	}
	res, err := e.resultOf(ctx, op, v)
	if err != nil {
		return nil, err
	}
	return &pb.StartResponse{WorkflowId: req.WorkflowId, RunId: res.RunId, Started: !c.joined, Result: res}, nil
}

func checkStart(req *pb.StartRequest) error {
	for _, err := range []error{
		history.CheckName("namespace", req.Namespace), history.CheckID("workflow id", req.WorkflowId),
		history.CheckID("request id", req.RequestId), history.CheckName("workflow type", req.Type),
		history.CheckName("task queue", req.Queue), history.CheckText("identity", req.Identity),
		history.CheckPayload("the input", req.Input), history.CheckHeader(req.Header),
	} {
		if err != nil {
			return err
		}
	}
	if _, ok := pb.ConflictPolicy_name[int32(req.Conflict)]; !ok {
		return fmt.Errorf("conflict policy %d is none: use a release of the same age", req.Conflict)
	}
	if _, ok := pb.ReusePolicy_name[int32(req.Reuse)]; !ok {
		return fmt.Errorf("reuse policy %d is none: use a release of the same age", req.Reuse)
	}
	if req.CancelGrace < 0 {
		return fmt.Errorf("a cancel grace of %v: give more than 0, or 0 for %v", time.Duration(req.CancelGrace), time.Duration(machine.DefaultCancelGrace))
	}
	return nil
}

// Await answers when the run is settled.
func (e *Engine) Await(ctx context.Context, req *pb.AwaitRequest) (*pb.AwaitResponse, error) {
	const op = "await"
	id, err := checkRef(op, req.Run)
	if err != nil {
		return nil, err
	}
	v, err := e.ask(ctx, op, id, func(to *call) machine.Input { return &machine.Await{Ref: req.Run, To: to} })
	if err != nil {
		return nil, err
	}
	res, err := e.resultOf(ctx, op, v)
	if err != nil {
		return nil, err
	}
	return &pb.AwaitResponse{Result: res}, nil
}

// resultOf turns the answer of an Await into a result. That of a run which
// closed before it came into memory stands in its history.
func (e *Engine) resultOf(ctx context.Context, op string, v any) (*pb.Result, error) {
	s, ok := v.(*machine.Settled)
	if !ok {
		return v.(*pb.Result), nil
	}
	at := s.State.ClosingEvent
	events, err := e.readEvents(ctx, s.Row.Run, at-1, at)
	if err != nil {
		return nil, apierr.Wrap(apierr.Internal, op, err)
	}
	return machine.ResultOf(&s.Row, s.State, events[0]), nil
}

// Cancel asks a run to end by itself.
func (e *Engine) Cancel(ctx context.Context, req *pb.CancelRequest) (*pb.CancelResponse, error) {
	req = proto.CloneOf(req)
	v, err := e.end(ctx, "cancel", req.Run, ending{&req.RequestId, req.Reason, req.Identity},
		func(to *call) machine.Input { return &machine.Cancel{Req: req, To: to} })
	if err != nil {
		return nil, err
	}
	return v.(*pb.CancelResponse), nil
}

// Terminate ends a run at once, whatever its code says; what was armed is undone.
// It is answered when the end is decided, not when compensation is over.
func (e *Engine) Terminate(ctx context.Context, req *pb.TerminateRequest) (*pb.TerminateResponse, error) {
	req = proto.CloneOf(req)
	v, err := e.end(ctx, "terminate", req.Run, ending{&req.RequestId, req.Reason, req.Identity},
		func(to *call) machine.Input { return &machine.Terminate{Req: req, To: to} })
	if err != nil {
		return nil, err
	}
	return v.(*pb.TerminateResponse), nil
}

// ending is what a cancel and a terminate say alike.
type ending struct {
	request          *string
	reason, identity string
}

// end checks a request that ends a run, and asks the run's shard.
func (e *Engine) end(ctx context.Context, op string, ref *pb.RunRef, x ending, in func(to *call) machine.Input) (any, error) {
	id, err := checkRef(op, ref)
	if err != nil {
		return nil, err
	}
	if *x.request == "" {
		*x.request = e.newID()
	}
	for _, err := range []error{
		history.CheckID("request id", *x.request), history.CheckText("reason", x.reason), history.CheckText("identity", x.identity),
	} {
		if err != nil {
			return nil, apierr.Wrap(apierr.InvalidArgument, op, err)
		}
	}
	if err := e.mayWrite(op); err != nil {
		return nil, err
	}
	return e.ask(ctx, op, id, in)
}

// Describe tells the state of a run and what it waits for.
func (e *Engine) Describe(ctx context.Context, req *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	const op = "describe"
	id, err := checkRef(op, req.Run)
	if err != nil {
		return nil, err
	}
	v, err := e.ask(ctx, op, id, func(to *call) machine.Input { return &machine.Describe{Ref: req.Run, To: to} })
	if err != nil {
		return nil, err
	}
	d := v.(*pb.DescribeResponse)
	e.explain(d)
	trim(d)
	return d, nil
}

func checkRef(op string, ref *pb.RunRef) (machine.ID, error) {
	id := machine.ID{Namespace: ref.GetNamespace(), WorkflowID: ref.GetWorkflowId()}
	for _, err := range []error{
		history.CheckName("namespace", id.Namespace), history.CheckID("workflow id", id.WorkflowID), history.CheckText("run id", ref.GetRunId()),
	} {
		if err != nil {
			return id, apierr.Wrap(apierr.InvalidArgument, op, err)
		}
	}
	return id, nil
}
