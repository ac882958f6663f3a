package client

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// History yields the events that are durable at the time, oldest first. After
// an error nothing follows.
func (r *Run[Out]) History(ctx context.Context) iter.Seq2[*pb.Event, error] {
	return r.c.events(ctx, r.WorkflowID, r.RunID, false)
}

// Follow yields the events of the run, oldest first, and goes on with new ones
// as they become durable, until the run is settled. It outlives broken
// connections and restarts of the engine, and yields each event once. ctx ends
// it with an error, after which nothing follows.
//
// Of a handle without a run id it follows the run that is the newest at first.
func (r *Run[Out]) Follow(ctx context.Context) iter.Seq2[*pb.Event, error] {
	return r.c.events(ctx, r.WorkflowID, r.RunID, true)
}

// events reads a history page by page; a page comes whole or is asked for again.
func (c *Client) events(ctx context.Context, workflowID, runID string, follow bool) iter.Seq2[*pb.Event, error] {
	return func(yield func(*pb.Event, error) bool) {
		ref, err := c.ref("history", workflowID, runID)
		if err != nil {
			yield(nil, err)
			return
		}
		after := int64(0)
		for idle := 0; ; {
			began := time.Now()
			page, err := again(ctx, c, "history", c.s.History, &pb.HistoryRequest{Run: ref, After: after, Wait: follow})
			if err != nil {
				yield(nil, err)
				return
			}
			// The next page must not be of a run that got the id meanwhile.
			ref = &pb.RunRef{Namespace: ref.Namespace, WorkflowId: workflowID, RunId: cmp.Or(page.RunId, ref.RunId)}
			for _, e := range page.Events {
				if !yield(e, nil) {
					return
				}
			}
			switch n := len(page.Events); {
			case page.Next == 0 && !(follow && page.Open):
				return
			case n > 0:
				after, idle = page.Events[n-1].Id, 0
			case time.Since(began) < time.Second:
				// It has nothing new, and did not wait. Asked again at once it would
				// be asked without end.
				c.rest(ctx, policy.Delay(idle, rand.Uint64()))
				idle++
			}
		}
	}
}
