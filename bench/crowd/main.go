package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/engined/engined/bench/internal/target"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		stop()
		os.Exit(1)
	}
}

// Echo is the probe's workflow: one activity.
func Echo(ctx workflow.Context, in string) (string, error) { return workflow.Do(ctx, Say, in) }

// Say returns what it is given.
func Say(_ context.Context, in string) (string, error) { return in, nil }

// Blow is a workflow whose result is as large as its input says, in bytes.
func Blow(ctx workflow.Context, n int) (string, error) { return workflow.Do(ctx, Large, n) }

// Large makes a result of n bytes.
func Large(_ context.Context, n int) (string, error) { return strings.Repeat("x", n), nil }

// Many is a workflow of so many activities, for a history that is worth reading.
func Many(ctx workflow.Context, n int) (int, error) {
	for range n {
		if _, err := workflow.Do(ctx, Say, "again"); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("crowd", flag.ContinueOnError)
	path := flags.String("engined", "", "the engine's binary; built if empty")
	span := flags.Duration("for", 5*time.Second, "how long the probe watches each guest at least")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "engined-crowd-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := target.Start(ctx, *path, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	e := &watched{Process: p}
	c, err := client.Dial(e.Address, client.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	w, err := worker.Dial(e.Address, worker.Options{})
	if err != nil {
		return err
	}
	worker.Workflow(w, Echo)
	worker.Workflow(w, Blow)
	worker.Workflow(w, Many)
	worker.Activity(w, Say)
	worker.Activity(w, Large)
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop(context.WithoutCancel(ctx))) }()
	fmt.Fprintf(out, "%-34s %10s %9s %9s %9s  %s\n", "guest", "memory", "runs", "median", "p99", "")
	for _, g := range guests {
		said, p, err := beside(ctx, e, c, *span, g.visit)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		fmt.Fprintf(out, "%-34s %6d MiB %9d %9v %9v  %s\n", g.name, e.peak(), p.runs(), p.at(50), p.at(99), said)
	}
	return nil
}
