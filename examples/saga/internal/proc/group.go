// Package proc runs programs as processes that are killed in the middle, and
// starts again what has died.
//
// It owns the lives of the processes: their input, their logs, who may die by
// himself, and that none outlives the program. It must not know what they do.
package proc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Group is processes that end together: the first that cannot go on ends all.
// Make it with NewGroup.
type Group struct {
	// ctx is done when the group ends; its cause says why.
	ctx    context.Context
	cancel context.CancelCauseFunc
	alive  sync.WaitGroup

	mu    sync.Mutex
	procs []*Process
}

var errStopped = errors.New("the processes were stopped")

// NewGroup returns a group without processes. Those to come end when ctx does.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Context is done when the processes no longer run: by Stop, by the end of
// NewGroup's context, or because one could not go on. Its cause says which.
func (g *Group) Context() context.Context { return g.ctx }

// Err is why the processes no longer run. While they run and after Stop it is nil.
func (g *Group) Err() error {
	err := context.Cause(g.ctx)
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// Start starts a process, and returns when it is ready. From then on it is
// started again whenever it dies.
func (g *Group) Start(c Config) (*Process, error) {
	p := &Process{group: g, c: c}
	if err := p.start(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.procs = append(g.procs, p)
	g.mu.Unlock()
	g.alive.Go(p.keep)
	return p, nil
}

// Stop asks the processes to end, the newest first, and waits until they have.
// When ctx ends before, they are killed; that is an error.
func (g *Group) Stop(ctx context.Context) error {
	g.mu.Lock()
	procs := slices.Clone(g.procs)
	g.mu.Unlock()
	for _, p := range slices.Backward(procs) {
		p.release()
	}
	ended := make(chan struct{})
	var aside sync.WaitGroup
	aside.Go(func() { g.alive.Wait(); close(ended) })
	select {
	case <-ended:
		g.cancel(errStopped)
		return g.Err()
	case <-ctx.Done():
		g.cancel(errStopped)
		<-ended
		return fmt.Errorf("stop the processes: %w; they were killed", context.Cause(ctx))
	}
}
