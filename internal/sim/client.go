package sim

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
	pb "github.com/engined/engined/proto/enginepb"
)

const (
	namespace = "default"
	queue     = "default"
)

// client asks engines for things over the network, each request until it is
// answered for good.
type client struct {
	w    *World
	name string
	asks int
	// ids are the workflow ids that it uses: this word and a number below of.
	ids string
	of  int
	// runs are those that it has started.
	runs []*pb.RunRef
}

// begin lets the client ask n things, and rest in between.
func (c *client) begin(n int, rest int64) {
	w := c.w
	w.asking++
	w.spawn(nil, c.name, func() {
		for range n {
			w.sleep(w.rnd.Int64N(rest))
			c.ask()
		}
		w.asking--
	})
}

func (c *client) ask() {
	w := c.w
	id := fmt.Sprintf("%s-%d", c.ids, w.rnd.IntN(c.of))
	if len(c.runs) == 0 || w.rnd.IntN(2) == 0 {
		c.start(id)
		return
	}
	run := c.runs[w.rnd.IntN(len(c.runs))]
	switch w.rnd.IntN(8) {
	case 0:
		c.cancel(run)
	case 1:
		c.terminate(run, "an order")
	case 2:
		call(c, "describe", func(ctx context.Context, e *engine.Engine) (*pb.DescribeResponse, error) {
			return e.Describe(ctx, &pb.DescribeRequest{Run: run})
		})
	case 3:
		call(c, "list", func(ctx context.Context, e *engine.Engine) (*pb.ListResponse, error) {
			return e.List(ctx, &pb.ListRequest{Namespace: namespace})
		})
	case 4, 5:
		c.history(run)
	default:
		c.await(run)
	}
}

func (c *client) request() string {
	c.asks++
	return fmt.Sprintf("%s-%d", c.name, c.asks)
}

func (c *client) start(id string) {
	w := c.w
	req := &pb.StartRequest{
		Namespace: namespace, WorkflowId: id, RequestId: c.request(), Type: workflowType, Queue: queue,
		Input:    encoded(newProgram(w.rnd)),
		Conflict: pb.ConflictPolicy(w.rnd.IntN(2)), Reuse: pb.ReusePolicy(w.rnd.IntN(2)), Await: w.rnd.IntN(8) == 0,
		CancelGrace: int64(5e9),
	}
	res, ok := call(c, "start "+id+" "+req.RequestId, func(ctx context.Context, e *engine.Engine) (*pb.StartResponse, error) {
		res, err := e.Start(ctx, req)
		if err == nil && (res.Started || res.Result != nil) {
			w.acked(id, res.RunId)
			if res.Started {
				w.check(w.acks.Started(namespace, id, req.RequestId, res.RunId))
			}
		}
		if err == nil && res.Result != nil {
			w.settled(id, res.Result)
		}
		return res, err
	})
	if ok {
		c.runs = append(c.runs, &pb.RunRef{Namespace: namespace, WorkflowId: id, RunId: res.RunId})
	}
}

func (c *client) await(run *pb.RunRef) {
	call(c, "await "+run.WorkflowId, func(ctx context.Context, e *engine.Engine) (*pb.AwaitResponse, error) {
		res, err := e.Await(ctx, &pb.AwaitRequest{Run: run})
		if err == nil {
			c.w.settled(run.WorkflowId, res.Result)
		}
		return res, err
	})
}

func (c *client) cancel(run *pb.RunRef) {
	req := &pb.CancelRequest{Run: run, RequestId: c.request(), Reason: "enough"}
	call(c, "cancel "+run.WorkflowId, func(ctx context.Context, e *engine.Engine) (*pb.CancelResponse, error) {
		res, err := e.Cancel(ctx, req)
		if err == nil && !res.Already {
			c.w.check(c.w.acks.Ending(namespace, run.WorkflowId, req.RequestId, run.RunId))
		}
		return res, err
	})
}

func (c *client) terminate(run *pb.RunRef, why string) {
	req := &pb.TerminateRequest{Run: run, RequestId: c.request(), Reason: why}
	call(c, "terminate "+run.WorkflowId, func(ctx context.Context, e *engine.Engine) (*pb.TerminateResponse, error) {
		res, err := e.Terminate(ctx, req)
		if err == nil {
			c.w.check(c.w.acks.Ending(namespace, run.WorkflowId, req.RequestId, run.RunId))
		}
		return res, err
	})
}

// history reads all there is, page by page, perhaps while it grows.
func (c *client) history(run *pb.RunRef) {
	var events []*pb.Event
	for after, more := int64(0), true; more; {
		res, ok := call(c, "history "+run.WorkflowId, func(ctx context.Context, e *engine.Engine) (*pb.HistoryResponse, error) {
			return e.History(ctx, &pb.HistoryRequest{Run: run, After: after, Limit: 1 + c.w.rnd.Int32N(20)})
		})
		if !ok {
			return
		}
		events = append(events, res.Events...)
		after, more = res.Next, res.Next > 0
	}
	if len(events) > 0 {
		c.w.seen(run, events)
	}
}

// call asks until there is an answer for good: requests and answers get lost, come
// late, come twice, and the engine may be gone.
func call[R proto.Message](c *client, what string, do func(context.Context, *engine.Engine) (R, error)) (res R, ok bool) {
	w := c.w
	for try := 0; try < 400; try++ {
		answers := make(chan struct{}, 1)
		var answer R
		var failed error
		ctx, cancel := context.WithCancel(w.ctx)
		send := func() {
			w.after(nil, w.delay(), func() {
				n := w.node
				if len(w.zombies) > 0 && w.rnd.IntN(4) == 0 {
					n = w.zombies[0]
				}
				if n.e == nil || n.dead {
					return // nobody is there; the client's patience ends
				}
				w.spawn(&n.process, n.name+" serves "+what, func() {
					if ctx.Err() != nil {
						ctx = w.ctx // it comes for the second time, and nobody waits
					}
					r, err := do(ctx, n.e)
					if w.chance(w.plan.AnswerLost) {
						w.hit("answer lost")
						return
					}
					w.after(nil, w.delay(), func() {
						select {
						case answers <- struct{}{}:
							answer, failed = r, err
						default: // the second answer to a request that came twice
						}
					})
				})
			})
		}
		if w.chance(w.plan.RequestLost) {
			w.hit("request lost")
		} else {
			send()
		}
		if w.chance(w.plan.RequestTwice) {
			w.hit("request twice")
			w.after(nil, w.rnd.Int64N(int64(1e9)<<w.rnd.IntN(7)), send) // up to a minute later
		}
		why := w.wait(w.ctx, w.now+int64(1e9)+w.rnd.Int64N(20e9), answers, nil, nil)
		cancel()
		if why == clock.A && failed == nil {
			w.say("%s: %s: answered", c.name, what)
			return answer, true
		}
		if why == clock.A && final(failed) {
			w.say("%s: %s: %v", c.name, what, failed)
			return res, false
		}
		w.sleep(w.rnd.Int64N(1e9))
	}
	return res, false
}

// final says whether a request is answered by the error, so that asking again is
// of no use.
func final(err error) bool {
	var e *apierr.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case apierr.NotFound, apierr.AlreadyExists, apierr.InvalidArgument, apierr.FailedPrecondition:
		return true
	}
	return false
}

// acked holds that a run which a client is told of is durable.
func (w *World) acked(id, runID string) {
	found, err := w.disk.Peek().Load(w.ctx, []store.Key{{Namespace: namespace, WorkflowID: id, RunID: runID}})
	if err != nil || found[0].Run == nil {
		w.fail("I1: the start of %s as run %s was answered, and it is not durable (%v)", id, runID, err)
	}
	w.answers++
}

// settled holds that an end which a client is told of is durable, and the only one.
func (w *World) settled(id string, res *pb.Result) {
	found, err := w.disk.Peek().Load(w.ctx, []store.Key{{Namespace: namespace, WorkflowID: id, RunID: res.RunId}})
	switch {
	case err != nil || found[0].Run == nil:
		w.fail("I1: the end of %s, run %s, was told, and it is not durable (%v)", id, res.RunId, err)
	case pb.Status(found[0].Run.Status) != res.Status:
		w.fail("I1: %s, run %s, was said to be %v, and the database has %v", id, res.RunId, res.Status, pb.Status(found[0].Run.Status))
	}
	w.check(w.acks.Settled(id, res))
	w.answers++
}

// seen holds that a history which a client was given is durable, and begins as it
// always did.
func (w *World) seen(run *pb.RunRef, events []*pb.Event) {
	w.check(w.acks.Read(run.WorkflowId, run.RunId, events))
	w.answers++
}
