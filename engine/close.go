package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
	"github.com/engined/engined/internal/fault"
	"github.com/engined/engined/internal/svc"
)

func (e *Engine) close(ctx context.Context) error {
	e.mu.Lock()
	e.closing = true
	failed := e.err
	e.mu.Unlock()
	for _, w := range e.workers.all() {
		w.end(apierr.New(apierr.Closed, "work", "the engine is closed", ""))
	}
	// Out of time, or failed: whoever still runs is stopped where it is. What
	// was not committed was not answered either.
	halt := func(cause error) {
		e.stepping.Stop(cause)
		e.io.Stop(cause)
	}
	if failed != nil {
		halt(failed)
	}
	release := context.AfterFunc(ctx, func() { halt(context.Cause(ctx)) })
	defer release()
	// The shards first, then the committer with the last writes, then the
	// reads; the store last.
	for _, s := range e.shards {
		s.box.close()
	}
	err := e.await(ctx, e.stepping)
	fault.At(fault.CloseShards)
	close(e.committer.stop)
	e.loader.box.close()
	err = errors.Join(err, e.await(ctx, e.io))
	close(e.over)
	e.owner.Stop(errClosed)
	fault.At(fault.CloseStore)
	if cerr := e.store.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("close the store: %w", cerr))
	}
	return err
}

// await waits for the end of a group, on the engine's clock.
func (e *Engine) await(ctx context.Context, g *svc.Group) error {
	e.clock.Wait(context.WithoutCancel(ctx), clock.Never, g.Idle(), nil, nil)
	return g.Wait()
}
