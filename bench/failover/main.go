package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/engined/engined/bench/internal/target"
	"github.com/engined/engined/sdk/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if c := os.Getenv(workerEnv); c != "" {
		err = workerMain(ctx, c, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		stop()
		os.Exit(1)
	}
}

// modes are the blows, and what the worst of them may take.
var modes = []struct {
	name string
	most time.Duration
}{
	{killed, 2 * time.Second}, {frozen, 5 * time.Second}, {swallowed, 5 * time.Second},
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("failover", flag.ContinueOnError)
	n := flags.Int("n", 50, "trials of each kind")
	lanes := flags.Int("lanes", 5, "trials at once")
	path := flags.String("engined", "", "the engine's binary; built if empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "engined-failover-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e, err := target.Start(ctx, *path, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Stop()) }()
	c, err := client.Dial(e.Address, client.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fmt.Fprintf(out, "%-28s %6s %10s %10s %10s %10s\n", "worker", "trials", "min", "median", "worst", "at most")
	for _, m := range modes {
		took, err := all(ctx, c, e.Address, m.name, *n, *lanes)
		if err != nil {
			return err
		}
		slices.Sort(took)
		ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
		worst := took[len(took)-1]
		fmt.Fprintf(out, "%-28s %6d %10s %10s %10s %10s\n", m.name, len(took), ms(took[0]), ms(took[len(took)/2]), ms(worst), m.most)
		if worst > m.most {
			err = fmt.Errorf("%s: the worst took %v, more than %v", m.name, worst, m.most)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// all makes n trials of a kind, some at once.
func all(ctx context.Context, c *client.Client, address, mode string, n, lanes int) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var errs []error
	next := 0
	var lane sync.WaitGroup
	for range min(lanes, n) {
		lane.Go(func() {
			for {
				mu.Lock()
				if next++; next > n || len(errs) > 0 {
					mu.Unlock()
					return
				}
				t := trial{c: c, address: address, mode: mode, queue: fmt.Sprintf("%s-%d", strings.Fields(mode)[0], next)}
				mu.Unlock()
				d, err := t.run(ctx)
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("%s, trial %s: %w", mode, t.queue, err))
				}
				took = append(took, d)
				mu.Unlock()
			}
		})
	}
	lane.Wait()
	return took, errors.Join(errs...)
}
