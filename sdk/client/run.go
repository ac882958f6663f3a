package client

import (
	"context"

	"github.com/oklog/ulid/v2"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/failure"
)

// Run is a handle on a run whose result is an Out.
type Run[Out any] struct {
	// WorkflowID and RunID name the run. An empty RunID is the newest run of
	// the id at the time of each call.
	WorkflowID string
	RunID      string
	// Started is false when a start was answered by a run that was there.
	Started bool

	c *Client
}

// Get returns a handle on a run; an empty runID is the newest run of the id.
// Nothing is asked of the engine.
func Get[Out any](c *Client, workflowID, runID string) *Run[Out] {
	return &Run[Out]{WorkflowID: workflowID, RunID: runID, c: c}
}

// Result waits until the run is settled, its compensation included, and returns
// its result; ctx ends the wait, not the run. A run that did not complete gives
// a *RunError.
//
// The wait outlives broken connections and restarts of the engine. Of a handle
// without a run id each try asks for the run that is the newest by then.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	res, err := r.c.Await(ctx, r.WorkflowID, r.RunID)
	if err != nil {
		var none Out
		return none, err
	}
	return decode[Out](r.c, r.WorkflowID, res)
}

// Cancel asks the run to end by itself; the engine ends it when its grace has
// passed. Cancelling a run again does nothing; one whose end is decided gives an
// error for which IsNotRunning holds. The reason, at most 16 KiB, is kept in the
// history.
func (r *Run[Out]) Cancel(ctx context.Context, reason string) error {
	ref, err := r.c.ref("cancel", r.WorkflowID, r.RunID)
	if err != nil {
		return err
	}
	res, err := again(ctx, r.c, "cancel", r.c.s.Cancel, &pb.CancelRequest{
		Run: ref, RequestId: ulid.Make().String(), Reason: reason, Identity: r.c.o.Identity,
	})
	if err != nil {
		return err
	}
	return r.inTime("cancel", res.Status)
}

// inTime is the error of a request that came when the run's end was decided.
func (r *Run[Out]) inTime(op string, s pb.Status) error {
	if s == pb.Status_STATUS_UNSPECIFIED {
		return nil
	}
	return apierr.New(apierr.FailedPrecondition, op+" "+r.WorkflowID, "the run "+statusText(s)+" before; nothing was done", "")
}

// Terminate ends the run without asking its code, also when that is stuck or
// gone: the engine undoes the steps that have an undo. It returns when the end is
// decided; Result waits for the undos, too. A run whose end was decided before
// gives an error for which IsNotRunning holds. The reason, at most 16 KiB, is kept in the history.
func (r *Run[Out]) Terminate(ctx context.Context, reason string) error {
	ref, err := r.c.ref("terminate", r.WorkflowID, r.RunID)
	if err != nil {
		return err
	}
	res, err := again(ctx, r.c, "terminate", r.c.s.Terminate, &pb.TerminateRequest{
		Run: ref, RequestId: ulid.Make().String(), Reason: reason, Identity: r.c.o.Identity,
	})
	if err != nil {
		return err
	}
	return r.inTime("terminate", res.Status)
}

// Describe tells the run's state and what it waits for.
func (r *Run[Out]) Describe(ctx context.Context) (*pb.DescribeResponse, error) {
	ref, err := r.c.ref("describe", r.WorkflowID, r.RunID)
	if err != nil {
		return nil, err
	}
	return again(ctx, r.c, "describe", r.c.s.Describe, &pb.DescribeRequest{Run: ref})
}

// ref names a run to the engine.
func (c *Client) ref(op, workflowID, runID string) (*pb.RunRef, error) {
	if err := history.CheckID("the workflow id", workflowID); err != nil {
		return nil, apierr.Wrap(apierr.InvalidArgument, op, err)
	}
	return &pb.RunRef{Namespace: c.o.Namespace, WorkflowId: workflowID, RunId: runID}, nil
}

// decode turns a result into a value or a *RunError.
func decode[Out any](c *Client, workflowID string, res *pb.Result) (Out, error) {
	var out Out
	if res.GetStatus() != pb.Status_STATUS_COMPLETED {
		return out, &RunError{
			WorkflowID: workflowID, RunID: res.GetRunId(), Status: res.GetStatus(), UndoState: res.GetUndoState(),
			Err: failure.Decode(res.GetFailure(), c.o.Codec),
		}
	}
	err := codec.Checked(c.o.Codec).Decode(res.Result, &out)
	return out, err
}
