package report_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/engined/engined/examples/saga/internal/fleet"
	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/report"
	"github.com/engined/engined/examples/saga/internal/service"
	"github.com/engined/engined/examples/saga/internal/shop"
	"github.com/engined/engined/examples/saga/internal/wire"
	"github.com/engined/engined/internal/retry"
	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/saga"
)

func TestMain(m *testing.M) {
	if os.Getenv(service.Env) != "" {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		if err := service.Main(context.Background(), os.Stdin, os.Stdout, log); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// engine stands in for the engine: it keeps its rules for sagas, and nothing
// else, so that the services can be judged without one.
type engine struct {
	ctx     context.Context
	shop    *shop.Shop
	fence   atomic.Int64
	retries atomic.Int64
	undos   atomic.Int64
}

// tries is the forward steps' limit; undos and mails are tried until they are
// through.
const tries = 8

// step runs an activity under a key as the engine does. done and unknown are
// what is known of its effect afterwards.
func (e *engine) step(key string, limit int, run func(context.Context) error) (outcome saga.Outcome, err error) {
	policy := retry.Policy{Attempts: limit, Base: 20 * time.Millisecond, Cap: 200 * time.Millisecond}
	for n := 1; ; n++ {
		ctx := activity.NewContext(e.ctx, activity.Info{Key: key, Fence: e.fence.Add(1), Attempt: int64(n)}, nil)
		if err = run(ctx); err == nil {
			return saga.Done, nil
		}
		if failure.IsFinal(err) && n == 1 {
			return "", err // the one delivery was answered: nothing was done
		}
		if failure.IsFinal(err) || policy.Exhausted(n) || e.ctx.Err() != nil {
			return saga.Unknown, err
		}
		e.retries.Add(1)
		pause := time.NewTimer(policy.Delay(n-1, rand.Uint64()))
		select {
		case <-pause.C:
		case <-e.ctx.Done():
		}
	}
}

// order is one run of the workflow.
type order struct {
	*engine
	id string
	// undos are what there is to undo, the oldest first.
	undos []func() error
}

func do[In, Out any](e *order, name string, in In, run func(context.Context, In) (Out, error), undo func(context.Context, saga.Undo[In, Out]) error) (Out, error) {
	var out Out
	key := e.id + "-" + name
	outcome, err := e.step(key, tries, func(ctx context.Context) (err error) { out, err = run(ctx, in); return err })
	if outcome != "" {
		e.undos = append(e.undos, func() error {
			e.engine.undos.Add(1)
			u := saga.Undo[In, Out]{Input: in, Result: out, Outcome: outcome, Key: key + "-undo", ForwardKey: key}
			_, err := e.step(u.Key, -1, func(ctx context.Context) error { return undo(ctx, u) })
			return err
		})
	}
	return out, err
}

// place is the workflow.
func (e *engine) place(o orders.Order) report.Outcome {
	run := &order{engine: e, id: o.ID}
	err := func() error {
		if _, err := do(run, "charge", o, e.shop.Charge, e.shop.Refund); err != nil {
			return err
		}
		parcel := shop.Parcel{Order: o}
		for _, it := range o.Items {
			slip, err := do(run, "reserve-"+it.SKU, it, e.shop.Reserve, e.shop.Release)
			if err != nil {
				return err
			}
			parcel.Slips = append(parcel.Slips, slip)
		}
		_, err := do(run, "ship", parcel, e.shop.Ship, e.shop.Cancel)
		return err
	}()
	if err == nil {
		_, err := e.step(o.ID+"-mail", -1, func(ctx context.Context) error { return e.shop.Mail(ctx, o) })
		return report.Outcome{Order: o.ID, Status: report.Completed, Broken: err != nil}
	}
	out := report.Outcome{Order: o.ID, Status: "failed", Reason: reason(err)}
	for _, undo := range slices.Backward(run.undos) {
		out.Undo = "compensated"
		out.Broken = undo() != nil || out.Broken
	}
	return out
}

func reason(err error) string {
	for _, sentinel := range []error{shop.ErrDeclined, shop.ErrOutOfStock, shop.ErrAddress} {
		if errors.Is(err, sentinel) {
			return sentinel.Error()
		}
	}
	return "no answer"
}

// run places all orders, ten at a time.
func run(t *testing.T, seed uint64) report.Input {
	file, err := orders.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	in := report.Input{Seed: seed, File: file, Outcomes: make([]report.Outcome, len(file.Orders))}
	var shelves []wire.Shelf
	for _, s := range file.Stock {
		shelves = append(shelves, wire.Shelf{SKU: s.SKU, Initial: s.Quantity})
	}
	began := time.Now()
	f, err := fleet.Start(t.Context(), fleet.Config{Dir: t.TempDir(), Seed: &seed, Shelves: shelves})
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{ctx: t.Context(), shop: shop.New(f.URL, 5*time.Second)}
	var todo atomic.Int64
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for i := todo.Add(1) - 1; i < int64(len(file.Orders)); i = todo.Add(1) - 1 {
				in.Outcomes[i] = e.place(file.Orders[i])
			}
		})
	}
	all.Wait()
	if in.Ledgers, err = f.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	in.Took = time.Since(began)
	in.Engine = report.Engine{Retries: e.retries.Load(), Compensations: e.undos.Load()}
	return in
}

// Whatever the seed does to the shipped orders, a client that keeps the rules
// ends with ledgers that balance, and has met every wanted fault.
func TestTheShippedOrdersBalanceAndNoWantedFaultIsMissing(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			if err := report.Write(t.Output(), run(t, seed), false); err != nil {
				t.Error("see the page")
			}
		})
	}
}
