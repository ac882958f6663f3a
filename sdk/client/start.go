package client

import (
	"context"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/fn"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/workflow"
)

// StartOption sets one thing of a start.
type StartOption func(*start)

type start struct {
	req      pb.StartRequest
	name     string
	conflict Conflict
	reuse    Reuse
}

// ID sets the workflow id, 1 to 1,000 bytes of UTF-8: at most one open run has
// it. Without it the run's id is its request id.
func ID(id string) StartOption { return func(s *start) { s.req.WorkflowId = id } }

// RequestID makes a repeat of the start harmless, from another process too, 1 to
// 1,000 bytes of UTF-8: the same id on the same workflow id answers with the run
// that it started, also when that run has closed, whatever OnConflict and OnReuse
// say. The engine knows it for as long as it keeps the run: at present for ever,
// later for 7 days at least. Without it each call has one of its own, kept over
// its retries.
func RequestID(id string) StartOption { return func(s *start) { s.req.RequestId = id } }

// Queue sets the task queue: "default" without it.
func Queue(name string) StartOption { return func(s *start) { s.req.Queue = name } }

// Name sets the workflow type, for a function that is registered under another
// name than its own.
func Name(name string) StartOption { return func(s *start) { s.name = name } }

// OnConflict says what happens when the id has an open run: Fail without it.
func OnConflict(c Conflict) StartOption { return func(s *start) { s.conflict = c } }

// OnReuse says what happens when the id has had a run that is closed:
// AllowReuse without it.
func OnReuse(r Reuse) StartOption { return func(s *start) { s.reuse = r } }

// CancelGrace sets how long the code may clean up after a cancel before the
// engine closes the run: 1 minute without it.
func CancelGrace(d time.Duration) StartOption {
	return func(s *start) { s.req.CancelGrace = int64(d) }
}

// Start starts a run of f. It returns when the start is durable. While no engine
// answers, it is repeated under one request id until ctx ends; give ctx a
// deadline where that is too long.
func Start[In, Out any](ctx context.Context, c *Client, f func(workflow.Context, In) (Out, error), in In, opts ...StartOption) (*Run[Out], error) {
	s, err := c.prepare(f, in, opts)
	if err != nil {
		return nil, err
	}
	return started[Out](ctx, c, s)
}

// StartNamed starts a run of a workflow type that this program does not have.
func StartNamed[Out any](ctx context.Context, c *Client, workflowType string, in any, opts ...StartOption) (*Run[Out], error) {
	s, err := c.prepare(nil, in, append(slices.Clip(opts), Name(workflowType)))
	if err != nil {
		return nil, err
	}
	return started[Out](ctx, c, s)
}

// Execute starts a run of f and returns its result: Start and Result in one
// call, for which the engine syncs once less. Like Result it outlives broken
// connections and restarts of the engine: a repeat meets the run that it started.
func Execute[In, Out any](ctx context.Context, c *Client, f func(workflow.Context, In) (Out, error), in In, opts ...StartOption) (Out, error) {
	var none Out
	s, err := c.prepare(f, in, opts)
	if err != nil {
		return none, err
	}
	s.req.Await = true
	res, err := again(ctx, c, "start", c.s.Start, &s.req)
	if err != nil {
		return none, err
	}
	return decode[Out](c, res.WorkflowId, res.Result)
}

func started[Out any](ctx context.Context, c *Client, s *start) (*Run[Out], error) {
	res, err := again(ctx, c, "start", c.s.Start, &s.req)
	if err != nil {
		return nil, err
	}
	r := Get[Out](c, res.WorkflowId, res.RunId)
	r.Started = res.Started
	return r, nil
}

// prepare makes the request, and refuses what the engine would refuse.
func (c *Client) prepare(f, in any, opts []StartOption) (*start, error) {
	s := &start{req: pb.StartRequest{
		Namespace: c.o.Namespace, Queue: "default", Identity: c.o.Identity, RequestId: ulid.Make().String(),
	}}
	for _, o := range opts {
		o(s)
	}
	bad := func(err error) error { return apierr.Wrap(apierr.InvalidArgument, "start", err) }
	if s.req.Type = s.name; s.name == "" {
		name, err := fn.Name(f)
		if err != nil {
			return nil, bad(err)
		}
		s.req.Type = name
	}
	if s.req.WorkflowId == "" {
		s.req.WorkflowId = s.req.RequestId
	}
	for _, err := range []error{
		history.CheckID("the workflow id", s.req.WorkflowId), history.CheckRequestID(s.req.RequestId),
		history.CheckName("the task queue", s.req.Queue), history.CheckName("the workflow type", s.req.Type),
		s.policies(),
	} {
		if err != nil {
			return nil, bad(err)
		}
	}
	p, err := codec.Checked(c.o.Codec).Encode(in)
	if err != nil {
		return nil, bad(err)
	}
	s.req.Input = p
	return s, nil
}
