// Package fleet runs the four services as processes of their own, starts again
// on the same port what dies, and reads their ledgers in the end.
//
// It owns the processes and where they listen. It must not know what a service
// does, nor why it dies.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/engined/engined/examples/saga/internal/service"
	"github.com/engined/engined/examples/saga/internal/wire"
)

// Config says how to run the services.
type Config struct {
	// Dir is where the ledgers and the services' logs are kept. It must exist.
	Dir string
	// Seed is that of the fault plan; nil has no faults.
	Seed *uint64
	// Shelves are what stock has at the very start.
	Shelves []wire.Shelf
	// Log is told of deaths and restarts, at level Debug; nil tells nobody.
	Log *slog.Logger
	// Died, if set, is called after each death of a service that was not stopped,
	// from a goroutine of the fleet.
	Died func(wire.Service)
}

// Fleet is the running services. Make it with Start.
type Fleet struct {
	config Config
	// ctx is done when the fleet ends; its cause says why.
	ctx    context.Context
	cancel context.CancelCauseFunc
	procs  map[wire.Service]*process
	all    sync.WaitGroup
}

var errStopped = errors.New("the services were stopped")

// Start starts the services, each as this program again with service.Env set,
// and returns when all of them take calls. They end when ctx does.
func Start(ctx context.Context, c Config) (*Fleet, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	f := &Fleet{config: c, procs: map[wire.Service]*process{}}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	for _, s := range wire.Services() {
		p := &process{fleet: f, config: service.Config{
			Service: s, Path: filepath.Join(c.Dir, string(s)+".db"), Addr: anyPort, Seed: c.Seed,
		}}
		if s == wire.Stock {
			p.config.Shelves = c.Shelves
		}
		if err := p.start(); err != nil {
			f.cancel(err)
			f.all.Wait()
			return nil, err
		}
		f.procs[s] = p
		f.all.Go(p.keep)
	}
	return f, nil
}

// URL is where a service listens, without a slash at its end. It stays the same
// when the service is started again.
func (f *Fleet) URL(s wire.Service) string { return "http://" + f.procs[s].config.Addr }

// Deaths counts how often a service had to be started again.
func (f *Fleet) Deaths(s wire.Service) int64 { return f.procs[s].deaths.Load() }

// Kill ends a service as kill -9 does. It is started again at once.
func (f *Fleet) Kill(s wire.Service) error {
	if err := f.procs[s].kill(); err != nil {
		return fmt.Errorf("kill %s: %w", s, err)
	}
	return nil
}

// Done is closed when the services no longer run: by Stop, by the end of Start's
// context, or because one could not be started again. Err says which.
func (f *Fleet) Done() <-chan struct{} { return f.ctx.Done() }

// Err is why the services no longer run. While they run and after Stop it is nil.
func (f *Fleet) Err() error {
	err := context.Cause(f.ctx)
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// Stop lets the services finish the calls under way, and waits until their
// processes have ended. When ctx ends before, they are killed; that is an error.
func (f *Fleet) Stop(ctx context.Context) error {
	for _, p := range f.procs {
		p.release()
	}
	ended := make(chan struct{})
	var aside sync.WaitGroup
	aside.Go(func() { f.all.Wait(); close(ended) })
	select {
	case <-ended:
		f.cancel(errStopped)
		return f.Err()
	case <-ctx.Done():
		f.cancel(errStopped)
		<-ended
		return fmt.Errorf("stop the services: %w; they were killed", context.Cause(ctx))
	}
}
