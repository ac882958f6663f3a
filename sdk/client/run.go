package client

import (
	"context"
	"iter"

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

func (r *Run[Out]) ref() *pb.RunRef {
	return &pb.RunRef{Namespace: r.c.o.Namespace, WorkflowId: r.WorkflowID, RunId: r.RunID}
}

// Result waits until the run is settled, its compensation included, and returns
// its result; ctx ends the wait, not the run. A run that did not complete gives
// a *RunError.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	var none Out
	if err := r.check("await"); err != nil {
		return none, err
	}
	res, err := again(ctx, func() (*pb.AwaitResponse, error) { return r.c.s.Await(ctx, &pb.AwaitRequest{Run: r.ref()}) })
	if err != nil {
		return none, err
	}
	return decode[Out](r.c, r.WorkflowID, res.Result)
}

// Cancel asks the run to end by itself; the engine ends it when its grace has
// passed. Cancelling a run again, or one that has closed, does nothing.
func (r *Run[Out]) Cancel(ctx context.Context, reason string) error {
	if err := r.check("cancel"); err != nil {
		return err
	}
	req := &pb.CancelRequest{Run: r.ref(), RequestId: ulid.Make().String(), Reason: reason, Identity: r.c.o.Identity}
	_, err := again(ctx, func() (*pb.CancelResponse, error) { return r.c.s.Cancel(ctx, req) })
	return err
}

// Describe tells the run's state and what it waits for.
func (r *Run[Out]) Describe(ctx context.Context) (*pb.DescribeResponse, error) {
	if err := r.check("describe"); err != nil {
		return nil, err
	}
	return again(ctx, func() (*pb.DescribeResponse, error) {
		return r.c.s.Describe(ctx, &pb.DescribeRequest{Run: r.ref()})
	})
}

// History yields the events that are durable at the time, oldest first. After
// an error nothing follows.
func (r *Run[Out]) History(ctx context.Context) iter.Seq2[*pb.Event, error] {
	return func(yield func(*pb.Event, error) bool) {
		if err := r.check("history"); err != nil {
			yield(nil, err)
			return
		}
		req := &pb.HistoryRequest{Run: r.ref()}
		for {
			page, err := again(ctx, func() (*pb.HistoryResponse, error) { return r.c.s.History(ctx, req) })
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range page.Events {
				if !yield(e, nil) {
					return
				}
			}
			if page.Next == 0 {
				return
			}
			req.After = page.Next
		}
	}
}

func (r *Run[Out]) check(op string) error {
	if err := history.CheckID("the workflow id", r.WorkflowID); err != nil {
		return apierr.Wrap(apierr.InvalidArgument, op, err)
	}
	return nil
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
