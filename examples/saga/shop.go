package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/engined/engined/engine/embed"
	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/proc"
	"github.com/engined/engined/examples/saga/internal/shop"
	"github.com/engined/engined/examples/saga/internal/wire"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/worker"
)

// shopEnv makes a process of this program a part of the shop: its value says
// which. The configuration comes by standard input, news go to standard output.
const shopEnv = "ENGINED_EXAMPLE_SHOP"

// The parts.
const (
	workerPart   = "worker"
	embeddedPart = "embedded"
)

// shopConfig is what a part has to know.
type shopConfig struct {
	URLs map[wire.Service]string `json:"urls"`

	// Of a worker.
	Name   string `json:"name,omitempty"`
	Engine string `json:"engine,omitempty"`

	// Of an embedded one.
	Database string         `json:"database,omitempty"`
	Orders   []orders.Order `json:"orders,omitempty"`
	// Tell is the order whose history is told in the end.
	Tell string `json:"tell,omitempty"`
}

func runShop(ctx context.Context, part string, in io.Reader, out io.Writer) error {
	var c shopConfig
	if err := json.NewDecoder(in).Decode(&c); err != nil {
		return fmt.Errorf("read the configuration of a shop: %w", err)
	}
	ctx = proc.Child(ctx, in)
	if part == workerPart {
		return runWorker(ctx, c, out)
	}
	return runEmbedded(ctx, c, out)
}

// register says what the shop's workers can do.
func register(w *worker.Worker, c shopConfig) {
	worker.Workflow(w, PlaceOrder)
	w.Activities(shop.New(func(service wire.Service) string { return c.URLs[service] }, 2*time.Second))
}

// runWorker works for an engine in a process of its own, until it is told to end.
func runWorker(ctx context.Context, c shopConfig, out io.Writer) error {
	w, err := worker.Dial(c.Engine, worker.Options{Identity: c.Name})
	if err != nil {
		return err
	}
	register(w, c)
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	return w.Run(ctx)
}

// runEmbedded is engine, worker and customers in one. It may be killed at any
// moment and started again.
func runEmbedded(ctx context.Context, c shopConfig, out io.Writer) (err error) {
	eng, err := embed.Open(ctx, embed.Options{Path: c.Database})
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, eng.Close(stop))
	}()
	var mu sync.Mutex
	all := &customers{client: eng.Client(client.Options{}), orders: c.Orders, say: func(n news) {
		mu.Lock()
		defer mu.Unlock()
		// When nobody listens any more, the process is about to end anyhow.
		_ = json.NewEncoder(out).Encode(n)
	}}
	left, err := all.underWay(ctx)
	if err != nil {
		return err
	}
	all.say(news{Taken: takenUp(nil, left)})
	w := eng.Worker(worker.Options{})
	register(w, c)
	if err := w.Start(ctx); err != nil {
		return err
	}
	if err := all.placeAll(ctx); err != nil {
		return err
	}
	sum, err := all.summarize(ctx, c.Tell)
	if err != nil {
		return err
	}
	all.say(news{Closed: sum})
	<-ctx.Done()
	return nil
}
