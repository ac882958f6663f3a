// Command saga is engined's main example: a shop whose orders are workflows.
//
// Payments, stock, shipping and mail are HTTP services in processes of their own,
// each with its own ledger. By a seed they refuse, are slow, lose calls and
// answers, die, and deliver calls late. The shop is engined, the program, and two
// workers, each in a process of its own, too: in the middle the engine is killed
// with -9 twice, each worker once, and one worker is frozen for some seconds. With
// -embedded engine and worker are one process, which is killed at least three
// times. In the end the books of the services must balance; a run in which a
// wanted fault did not happen is void. Both exit with 1.
//
//	go run ./examples/saga [-seed N] [-orders FILE] [-embedded] [-engined FILE] [-keep]
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
	"syscall"
	"time"

	"github.com/engined/engined/examples/saga/internal/fleet"
	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/report"
	"github.com/engined/engined/examples/saga/internal/service"
	"github.com/engined/engined/examples/saga/internal/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	isChild, err := child(ctx)
	if !isChild {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "saga:", err)
		stop()
		os.Exit(1)
	}
}

// child runs what a process is that this program has started as itself.
func child(ctx context.Context) (isChild bool, err error) {
	if os.Getenv(service.Env) != "" {
		return true, service.Main(ctx, os.Stdin, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	if part := os.Getenv(shopEnv); part != "" {
		return true, runShop(ctx, part, os.Stdin, os.Stdout)
	}
	return false, nil
}

// options are what the command line says.
type options struct {
	seed     uint64
	file     *orders.File
	embedded bool
	engined  string
	keep     bool
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("saga", flag.ContinueOnError)
	seed := flags.Uint64("seed", 0, "which faults happen when; 0 draws one")
	path := flags.String("orders", "", "a JSON file of orders instead of the one that ships with the example")
	embedded := flags.Bool("embedded", false, "run engine and worker in one process instead of three")
	engined := flags.String("engined", "", "the engined to run instead of one that is built first")
	keep := flags.Bool("keep", false, "keep the databases and logs, and say where they are")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o := options{seed: *seed, embedded: *embedded, engined: *engined, keep: *keep}
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
			fmt.Fprintln(out, "the databases and logs are kept in", dir)
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
		Died: func(s wire.Service, _ error) { show.line("%s has died, and is started again", s) },
	})
	if err != nil {
		return in, err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if failed := f.Stop(stop); err == nil {
			err = failed
		}
	}()
	s := newSupervisor(o, dir, f, show)
	if o.embedded {
		err = s.embedded()
	} else {
		err = s.separate(ctx, o.engined)
	}
	if err != nil {
		return in, err
	}
	ledgers, err := f.Collect(ctx)
	if err != nil {
		return in, err
	}
	return report.Input{
		Seed: o.seed, Took: time.Since(began), File: o.file, Outcomes: s.outcomes(), Ledgers: ledgers,
		Blows:  s.blowsDealt(),
		Engine: report.Engine{Retries: int64(s.closed.Retries), Skipped: int64(s.skipped), Compensations: int64(s.closed.Undone)},
		Story:  s.closed.Story,
	}, nil
}

func shelves(f *orders.File) []wire.Shelf {
	var all []wire.Shelf
	for _, s := range f.Stock {
		all = append(all, wire.Shelf{SKU: s.SKU, Initial: s.Quantity, Left: s.Quantity})
	}
	return all
}
