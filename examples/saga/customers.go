package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/report"
	"github.com/engined/engined/examples/saga/internal/shop"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
)

// customers place the orders and wait for what becomes of them.
type customers struct {
	client *client.Client
	orders []orders.Order
	// say tells what happens.
	say func(news)
}

// window is how many orders are under way at once.
const window = 12

// news is what customers and shops say; one field is set.
type news struct {
	Placed string   `json:"placed,omitempty"`
	Ended  *ended   `json:"ended,omitempty"`
	Taken  *taken   `json:"taken,omitempty"`
	Closed *summary `json:"closed,omitempty"`
}

type ended struct {
	Order  string       `json:"order"`
	Status pb.Status    `json:"status"`
	Undo   pb.UndoState `json:"undo"`
	// Reason is what its error comes to in a few words.
	Reason string `json:"reason,omitempty"`
}

// taken is how many orders another process has taken up, and how many of their
// steps are done and will be skipped.
type taken struct {
	Orders int `json:"orders"`
	Steps  int `json:"steps"`
}

// summary is read from the histories of all orders.
type summary struct {
	Retries int          `json:"retries"`
	Undone  int          `json:"undone"`
	Lost    int          `json:"lost"`
	Story   report.Story `json:"story"`
}

// placeAll places the orders, a window of them at once. It may be done again, in
// another process, too: the request ids make the repeats harmless.
func (c *customers) placeAll(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.orders))
	open := make(chan struct{}, window)
	for i, o := range c.orders {
		open <- struct{}{}
		wg.Go(func() {
			defer func() { <-open }()
			errs[i] = c.place(ctx, o)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

func (c *customers) place(ctx context.Context, o orders.Order) error {
	run, err := client.Start(ctx, c.client, PlaceOrder, o, client.ID(o.ID), client.RequestID(o.ID))
	if err != nil {
		return fmt.Errorf("place order %s: %w", o.ID, err)
	}
	c.say(news{Placed: o.ID})
	_, err = run.Result(ctx)
	e := &ended{Order: o.ID, Status: pb.Status_STATUS_COMPLETED}
	var failed *client.RunError
	switch {
	case errors.As(err, &failed):
		e.Status, e.Undo, e.Reason = failed.Status, failed.UndoState, reason(err)
	case err != nil:
		return fmt.Errorf("await order %s: %w", o.ID, err)
	}
	c.say(news{Ended: e})
	return nil
}

// reason finds the shop's own errors in what the engine hands back: they keep
// their identity through the history.
func reason(err error) string {
	for _, known := range []error{shop.ErrDeclined, shop.ErrOutOfStock, shop.ErrAddress} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "a service gave no clear answer in time"
}

// held is an order under way: the worker that folds it, and its steps that are
// done.
type held struct {
	worker string
	steps  int
}

// underWay are the orders that a workflow is under way for, by their ids. Of one
// that is being undone nothing is folded any more.
func (c *customers) underWay(ctx context.Context) (map[string]held, error) {
	all := map[string]held{}
	for info, err := range c.runs(ctx, pb.Status_STATUS_RUNNING) {
		if err != nil {
			return nil, err
		}
		if info.UndoState == pb.UndoState_UNDO_STATE_COMPENSATING {
			continue
		}
		run := client.Get[Receipt](c.client, info.WorkflowId, info.RunId)
		now, err := run.Describe(ctx)
		if err != nil {
			return nil, err
		}
		h := held{worker: now.Worker}
		for e, err := range run.History(ctx) {
			if err != nil {
				return nil, err
			}
			if e.GetActivityCompleted() != nil {
				h.steps++
			}
		}
		all[info.WorkflowId] = h
	}
	return all, nil
}

// takenUp are the orders that have another worker than before, or had none.
func takenUp(before, after map[string]held) *taken {
	t := &taken{}
	for id, now := range after {
		then, was := before[id]
		switch {
		case !was:
			t.Orders++
			t.Steps += now.steps
		case then.worker != now.worker:
			t.Orders++
			t.Steps += then.steps
		}
	}
	return t
}

// runs yields every run with the status, page by page.
func (c *customers) runs(ctx context.Context, status pb.Status) iter.Seq2[*pb.RunInfo, error] {
	return func(yield func(*pb.RunInfo, error) bool) {
		page := ""
		for {
			res, err := c.client.List(ctx, &pb.ListRequest{Status: status, Page: page})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range res.Runs {
				if !yield(r, nil) {
					return
				}
			}
			if page = res.Next; page == "" {
				return
			}
		}
	}
}

// summarize reads the histories of all orders, and tells that of one.
func (c *customers) summarize(ctx context.Context, tell string) (*summary, error) {
	sum := &summary{Story: report.Story{Order: tell}}
	for run, err := range c.runs(ctx, pb.Status_STATUS_UNSPECIFIED) {
		if err != nil {
			return nil, err
		}
		var started int64
		for e, err := range client.Get[Receipt](c.client, run.WorkflowId, run.RunId).History(ctx) {
			if err != nil {
				return nil, err
			}
			sum.count(e)
			if run.WorkflowId == tell {
				if started == 0 {
					started = e.Time
				}
				at := time.Duration(e.Time - started).Round(time.Millisecond)
				sum.Story.Lines = append(sum.Story.Lines, fmt.Sprintf("%8s  %s", "+"+at.String(), history.Line(e)))
			}
		}
	}
	return sum, nil
}

type tallied interface{ GetTally() *pb.Tally }

func (sum *summary) count(e *pb.Event) {
	for _, b := range []tallied{
		e.GetActivityCompleted(), e.GetActivityFailed(), e.GetActivityTimedOut(), e.GetActivityCancelled(),
		e.GetUndoCompleted(), e.GetUndoFailed(),
	} {
		t := b.GetTally()
		sum.Retries += max(int(t.GetDeliveries())-1, 0)
		for _, a := range t.GetLog() {
			if a.Outcome == pb.Outcome_OUTCOME_LOST {
				sum.Lost++
			}
		}
	}
	if e.GetUndoCompleted() != nil {
		sum.Undone++
	}
}
