package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/engined/engined/sdk/client"
)

// The blows.
const (
	killed    = "killed with -9"
	frozen    = "frozen with SIGSTOP"
	swallowed = "swallowed by its connection"
)

// trial is one blow to a worker in the middle of an activity.
type trial struct {
	c                    *client.Client
	address, mode, queue string
}

// patience bounds a trial.
const patience = 30 * time.Second

func (t trial) run(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cut, err := newProxy(ctx, t.address)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cut.close()) }()
	// A has the only order, and its only slot is taken.
	a, err := startWorker(ctx, workerConfig{Address: cut.address(), Queue: t.queue, Name: "A"})
	if err != nil {
		return 0, err
	}
	defer a.end()
	order, err := client.Start(ctx, t.c, Order, "order", client.ID(t.queue+"-order"), client.Queue(t.queue))
	if err != nil {
		return 0, err
	}
	if _, err := a.hears(ctx, "started", "order"); err != nil {
		return 0, err
	}
	// So B gets the next one, which shows that it is there.
	b, err := startWorker(ctx, workerConfig{Address: t.address, Queue: t.queue, Name: "B"})
	if err != nil {
		return 0, err
	}
	defer b.end()
	first, err := client.Start(ctx, t.c, Order, "first", client.ID(t.queue+"-first"), client.Queue(t.queue))
	if err != nil {
		return 0, err
	}
	if err := t.finishOn(ctx, b, first, "first"); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := t.blow(a, cut); err != nil {
		return 0, err
	}
	n, err := b.hears(ctx, "started", "order")
	took = time.Since(began)
	if err != nil {
		return took, err
	}
	if n.Attempt != 2 {
		return took, fmt.Errorf("worker B was given attempt %d, want 2: a lost worker uses an attempt", n.Attempt)
	}
	if err := b.finish(); err != nil {
		return took, err
	}
	if t.mode == frozen {
		if err := t.thaw(ctx, a); err != nil {
			return took, err
		}
	}
	who, err := order.Result(ctx)
	if err == nil && who != "B" {
		err = fmt.Errorf("the order was held by %s in the end", who)
	}
	return took, err
}

// finishOn lets worker w run an order to its end.
func (t trial) finishOn(ctx context.Context, w *process, run *client.Run[string], order string) error {
	if _, err := w.hears(ctx, "started", order); err != nil {
		return err
	}
	if err := w.finish(); err != nil {
		return err
	}
	_, err := run.Result(ctx)
	return err
}

func (t trial) blow(a *process, cut *proxy) error {
	switch t.mode {
	case killed:
		return a.cmd.Process.Kill()
	case frozen:
		return a.cmd.Process.Signal(syscall.SIGSTOP)
	default:
		cut.swallow()
		return nil
	}
}

// thaw lets the frozen worker go on: it must hear that it was given up.
func (t trial) thaw(ctx context.Context, a *process) error {
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	_, err := a.hears(ctx, "cancelled", "order")
	return err
}
