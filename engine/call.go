package engine

import (
	"context"
	"errors"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
)

var (
	errClosed = errors.New("closed")
	errFull   = errors.New("full")
)

// call is a request that waits for its answer.
type call struct {
	done  chan struct{}
	value any
	err   error
	// joined: see machine.Reply.
	joined bool
}

func newCall() *call { return &call{done: make(chan struct{})} }

// answer gives a reply to its caller. Each call is answered once.
func answer(r machine.Reply) {
	if c, ok := r.To.(*call); ok && c != nil {
		c.value, c.err, c.joined = r.Value, r.Err, r.Joined
		close(c.done)
	}
}

// ask posts a request to the shard of id and waits for the answer. Requests are
// bounded: a shard that has too many refuses, it does not block.
func (e *Engine) ask(ctx context.Context, op string, id machine.ID, in func(to *call) machine.Input) (any, error) {
	if err := e.serving(op); err != nil {
		return nil, err
	}
	c := newCall()
	s := e.shardOf(id)
	switch err := s.box.postBelow(e.cfg.MailboxLimit, item{in: in(c)}); {
	case errors.Is(err, errFull):
		return nil, apierr.New(apierr.ResourceExhausted, op, "too many requests wait for this shard", "try again later")
	case err != nil:
		return nil, apierr.New(apierr.Closed, op, "the engine is closed", "")
	}
	switch e.clock.Wait(ctx, clock.Never, c.done, e.stopped, e.over) {
	case clock.A:
		return c.value, c.err
	case clock.Ended:
		s.post(&machine.Abandon{ID: id, To: c})
		return nil, context.Cause(ctx)
	default:
		return nil, e.serving(op)
	}
}

// mayWrite refuses a request that would write while the database cannot.
func (e *Engine) mayWrite(op string) error {
	if err := e.committer.writable(); err != nil {
		return apierr.New(apierr.Unavailable, op, err.Error(), "reads are served; try again when the cause is gone")
	}
	return nil
}
