// Command saga is engined's main example: a shop whose orders are workflows.
//
// Payments, stock, shipping and mail are HTTP services in processes of their own,
// each with its own ledger. By a seed they refuse, are slow, lose calls and
// answers, die, and deliver calls late. The shop itself, engine and worker in one
// process, is killed with -9 at least three times and started again. In the end
// the books of the services must balance; a run in which a wanted fault did not
// happen is void. Both exit with 1.
//
//	go run ./examples/saga [-seed N] [-orders FILE] [-keep]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/engined/engined/examples/saga/internal/fleet"
	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/report"
	"github.com/engined/engined/examples/saga/internal/service"
	"github.com/engined/engined/examples/saga/internal/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case os.Getenv(service.Env) != "":
		err = service.Main(ctx, os.Stdin, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	case os.Getenv(shopEnv) != "":
		err = runShop(ctx, os.Stdin, os.Stdout)
	default:
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "saga:", err)
		stop()
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	seed uint64
	file *orders.File
	keep bool
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("saga", flag.ContinueOnError)
	seed := flags.Uint64("seed", 0, "which faults happen when; 0 draws one")
	path := flags.String("orders", "", "a JSON file of orders instead of the one that ships with the example")
	keep := flags.Bool("keep", false, "keep the databases, and say where they are")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o := options{seed: *seed, keep: *keep}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	var err error
	if *path == "" {
		o.file, err = orders.Shipped()
	} else {
		o.file, err = orders.Load(*path)
	}
	return o, err
}

// limit bounds the whole run.
const limit = 3 * time.Minute

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "engined-saga-")
	if err != nil {
		return err
	}
	defer func() {
		if o.keep {
			fmt.Fprintln(out, "the databases are kept in", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	in, err := happen(ctx, o, dir, out)
	if err != nil {
		return err
	}
	colours := false
	if f, ok := out.(*os.File); ok {
		colours = report.IsTerminal(f)
	}
	return report.Write(out, in, colours)
}

// happen lets the orders happen to the services, and returns what to report.
func happen(ctx context.Context, o options, dir string, out io.Writer) (in report.Input, err error) {
	began := time.Now()
	show := &screen{out: out, began: began, total: len(o.file.Orders)}
	show.line("%d orders, seed %d (go run ./examples/saga -seed %d has the same faults)", len(o.file.Orders), o.seed, o.seed)
	f, err := fleet.Start(ctx, fleet.Config{
		Dir: dir, Seed: &o.seed, Shelves: shelves(o.file),
		Died: func(s wire.Service) { show.line("%s has died, and is started again", s) },
	})
	if err != nil {
		return in, err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, f.Stop(stop))
	}()
	s := newSupervisor(o, dir, f.URL, show)
	if err := s.supervise(ctx); err != nil {
		return in, errors.Join(err, f.Err())
	}
	ledgers, err := f.Collect(ctx)
	if err != nil {
		return in, err
	}
	return report.Input{
		Seed: o.seed, Took: time.Since(began), File: o.file, Outcomes: s.outcomes(), Ledgers: ledgers,
		Engine: report.Engine{
			Kills: s.kills, Retries: int64(s.closed.Retries), Skipped: s.skipped, Compensations: int64(s.closed.Undone),
		},
		Story: report.Story{Order: s.config.Show, Lines: s.closed.History},
	}, nil
}

func shelves(f *orders.File) []wire.Shelf {
	var all []wire.Shelf
	for _, s := range f.Stock {
		all = append(all, wire.Shelf{SKU: s.SKU, Initial: s.Quantity, Left: s.Quantity})
	}
	return all
}
