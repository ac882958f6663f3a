package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/engined/engined/engine/embed"
	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/shop"
	"github.com/engined/engined/examples/saga/internal/wire"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/worker"
)

// shopEnv makes a process of this program the shop: engine, worker and client in
// one. Its configuration comes by standard input, what it does goes to standard
// output, a line of JSON each.
const shopEnv = "ENGINED_EXAMPLE_SHOP"

type shopConfig struct {
	Database string                  `json:"database"`
	URLs     map[wire.Service]string `json:"urls"`
	Orders   []orders.Order          `json:"orders"`
	// Window bounds the orders that are under way at once.
	Window int `json:"window"`
	// Show is the order whose history is told in the end.
	Show string `json:"show"`
}

// news is what the shop says; one field is set.
type news struct {
	// Opened: how many orders were under way, and how many of their steps are
	// done and will be skipped.
	Opened *opened  `json:"opened,omitempty"`
	Placed string   `json:"placed,omitempty"`
	Ended  *ended   `json:"ended,omitempty"`
	Closed *summary `json:"closed,omitempty"`
	Failed string   `json:"failed,omitempty"`
}

type opened struct {
	UnderWay int `json:"under_way"`
	Skipped  int `json:"skipped"`
}

type ended struct {
	Order  string       `json:"order"`
	Status pb.Status    `json:"status"`
	Undo   pb.UndoState `json:"undo"`
	// Error is the whole error, Reason what it comes to in a few words.
	Error    string `json:"error,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Tracking string `json:"tracking,omitempty"`
}

// summary is read from the histories of all orders.
type summary struct {
	Retries int      `json:"retries"`
	Undone  int      `json:"undone"`
	Unknown int      `json:"unknown"`
	Lost    int      `json:"lost"`
	History []string `json:"history"`
}

// runShop places every order and waits for what becomes of it. It may be killed
// at any moment and started again: the request ids make the repeats harmless.
func runShop(ctx context.Context, in io.Reader, out io.Writer) error {
	var c shopConfig
	if err := json.NewDecoder(in).Decode(&c); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	eng, err := embed.Open(ctx, embed.Options{Path: c.Database, Logger: log})
	if err != nil {
		return err
	}
	s := &shopProcess{c: c, client: eng.Client(client.Options{}), out: json.NewEncoder(out)}
	err = s.serve(ctx, eng, log)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, eng.Close(stop))
}

type shopProcess struct {
	c      shopConfig
	client *client.Client

	mu  sync.Mutex
	out *json.Encoder
}

// say tells the supervisor. When it does not listen any more, the process is
// about to end anyhow.
func (s *shopProcess) say(n news) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(n)
}

func (s *shopProcess) serve(ctx context.Context, eng *embed.Engine, log *slog.Logger) error {
	before, err := s.underWay(ctx)
	if err != nil {
		return err
	}
	s.say(news{Opened: before})
	w := eng.Worker(worker.Options{Logger: log})
	worker.Workflow(w, PlaceOrder)
	w.Activities(shop.New(func(service wire.Service) string { return s.c.URLs[service] }, 2*time.Second))
	if err := w.Start(ctx); err != nil {
		return err
	}
	if err := s.placeAll(ctx); err != nil {
		return err
	}
	sum, err := s.summarize(ctx)
	if err != nil {
		return err
	}
	s.say(news{Closed: sum})
	return nil
}

// placeAll places the orders, a window of them at once.
func (s *shopProcess) placeAll(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.c.Orders))
	window := make(chan struct{}, s.c.Window)
	for i, o := range s.c.Orders {
		window <- struct{}{}
		wg.Go(func() {
			defer func() { <-window }()
			errs[i] = s.place(ctx, o)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *shopProcess) place(ctx context.Context, o orders.Order) error {
	run, err := client.Start(ctx, s.client, PlaceOrder, o, client.ID(o.ID), client.RequestID(o.ID))
	if err != nil {
		return fmt.Errorf("place order %s: %w", o.ID, err)
	}
	s.say(news{Placed: o.ID})
	receipt, err := run.Result(ctx)
	e := &ended{Order: o.ID, Status: pb.Status_STATUS_COMPLETED, Tracking: receipt.Tracking}
	var failed *client.RunError
	switch {
	case errors.As(err, &failed):
		e.Status, e.Undo, e.Error, e.Reason = failed.Status, failed.UndoState, failed.Err.Error(), reason(err)
	case err != nil:
		return fmt.Errorf("await order %s: %w", o.ID, err)
	}
	s.say(news{Ended: e})
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

// underWay counts the orders that an earlier process left open, and their steps
// that are done: this process will not run them again.
func (s *shopProcess) underWay(ctx context.Context) (*opened, error) {
	o := &opened{}
	for run, err := range s.runs(ctx, pb.Status_STATUS_RUNNING) {
		if err != nil {
			return nil, err
		}
		o.UnderWay++
		for e, err := range client.Get[Receipt](s.client, run.WorkflowId, run.RunId).History(ctx) {
			if err != nil {
				return nil, err
			}
			if e.GetActivityCompleted() != nil {
				o.Skipped++
			}
		}
	}
	return o, nil
}

// summarize reads the histories of all orders.
func (s *shopProcess) summarize(ctx context.Context) (*summary, error) {
	sum := &summary{}
	for run, err := range s.runs(ctx, pb.Status_STATUS_UNSPECIFIED) {
		if err != nil {
			return nil, err
		}
		var started int64
		for e, err := range client.Get[Receipt](s.client, run.WorkflowId, run.RunId).History(ctx) {
			if err != nil {
				return nil, err
			}
			sum.count(e)
			if run.WorkflowId == s.c.Show {
				if started == 0 {
					started = e.Time
				}
				at := time.Duration(e.Time - started).Round(time.Millisecond)
				sum.History = append(sum.History, fmt.Sprintf("%8s  %s", "+"+at.String(), history.Line(e)))
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
	if u := e.GetUndoCompleted(); u != nil {
		sum.Undone++
		if u.Outcome == pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN {
			sum.Unknown++
		}
	}
}
