// Package embed runs the engine inside a user's own program, on an SQLite file,
// with the client and the workers in the same process: no server, no socket.
//
//	eng, err := embed.Open(ctx, embed.Options{Path: "orders.db"})
//	w := eng.Worker(worker.Options{}) // register workflows and activities, then w.Start(ctx)
//	receipt, err := client.Execute(ctx, eng.Client(client.Options{}), PlaceOrder, order)
//
// It is one of the few places that know both sides, the engine's and the
// user's. It owns the wiring and the order in which they stop, and must not know
// any rule of either.
package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/mattn"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/worker"
)

// Options of an embedded engine.
type Options struct {
	// Path is the database file: engined.db in the working directory if empty.
	// It is made if it is not there; its directory must be.
	Path string
	// Shards is fixed when the file is made: 16 if 0.
	Shards int
	// Logger is slog.Default().
	Logger *slog.Logger
	// OnFatal is called when the engine cannot go on, as after a failed sync,
	// which must not be retried in the same process. The default logs the error
	// and ends the process with exit code 70; a start afterwards finds the
	// truth on disk.
	OnFatal func(error)
}

// Engine is an engine in this process. Its methods may be called by any
// goroutine.
type Engine struct {
	*engine.Engine
	mu      sync.Mutex
	workers []*worker.Worker
}

// Open opens the database and starts the engine on it. Whatever was under way
// when the last process ended goes on as soon as a worker is there.
//
// The errors say in one line what is wrong with the file and what to do: in use
// by another process, newer than this build, damaged, not writable.
func Open(ctx context.Context, o Options) (*Engine, error) {
	if o.Path == "" {
		o.Path = "engined.db"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Path: o.Path, Shards: o.Shards, Driver: mattn.Driver()})
	if err != nil {
		return nil, err
	}
	core, err := engine.Open(ctx, engine.Config{Store: st, Logger: o.Logger, Alone: true})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	e := &Engine{Engine: core}
	core.OnStopped(func(err error) {
		if o.OnFatal != nil {
			o.OnFatal(err)
			return
		}
		o.Logger.Error("the engine cannot go on; the process ends", "err", err)
		os.Exit(exitFatal)
	})
	return e, nil
}

// exitFatal is EX_SOFTWARE of sysexits.h.
const exitFatal = 70

// Client returns a client of the engine.
func (e *Engine) Client(o client.Options) *client.Client { return client.New(e.Engine, o) }

// Worker returns a worker of the engine. Register workflows and activities with
// it and start it; Close stops it.
func (e *Engine) Worker(o worker.Options) *worker.Worker {
	w := worker.New(conn{e.Engine}, o)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.workers = append(e.workers, w)
	return w
}

// Close stops the workers, which drain until ctx ends, then, within 5 s more, the
// engine, and gives the file back. What is under way goes on after the next Open.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	workers := e.workers
	e.workers = nil
	e.mu.Unlock()
	var errs []error
	for _, w := range workers {
		if err := w.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop a worker: %w", err))
		}
	}
	// The drain may have used the caller's time up. Closing is short, unless the
	// disk is full: what was not committed then was not acknowledged either.
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return errors.Join(append(errs, e.Engine.Close(short))...)
}

// closeTime bounds the last commit and the closing of the file.
const closeTime = 5 * time.Second

// conn lets a worker reach the engine without a socket.
type conn struct{ e *engine.Engine }

func (c conn) Work(ctx context.Context) (worker.Stream, error) { return c.e.Work(ctx), nil }
