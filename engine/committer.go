package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
	"github.com/engined/engined/internal/fault"
	"github.com/engined/engined/internal/retry"
)

// committer writes what the shards have changed: all that is urgent in one
// transaction with one sync, then what has become urgent meanwhile. The sync
// itself is the batching interval; there is no timer and nothing to tune.
//
// A write on which nothing waits is lazy: it neither starts nor joins a commit
// until something waits on it or it has grown old, so that the decision which
// follows an input usually reaches the database together with it.
type committer struct {
	e     *Engine
	ready chan struct{}
	stop  chan struct{}
	// lastCommit is how long the last commit took.
	lastCommit time.Duration

	mu      sync.Mutex
	blocked error           // why the database cannot write at present
	worn    []store.ShardID // whose run numbers are nearly all given
}

// lazyAge is how long a lazy write may wait at least.
const lazyAge = 5 * time.Millisecond

// batchMax bounds the writes of a commit: beyond it latency grows and the rate
// does not.
const batchMax = 500

func newCommitter(e *Engine) *committer {
	return &committer{e: e, ready: make(chan struct{}, 1), stop: make(chan struct{})}
}

func (c *committer) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// run is the loop; it ends when stopped and nothing is left to write.
func (c *committer) run(ctx context.Context) error {
	stopping := false
	for {
		if ids := c.takeWorn(); len(ids) > 0 {
			if err := c.reload(ctx, nil, ids); err != nil {
				return err
			}
		}
		batch, next := c.take(stopping)
		if len(batch) > 0 {
			fault.At(fault.CommitTaken)
			if err := c.commit(ctx, batch); err != nil {
				return err
			}
			continue
		}
		if stopping {
			return nil
		}
		if err := c.wait(ctx, next, &stopping); err != nil {
			return err
		}
	}
}

// wear has a shard fenced and loaded anew, since its lease has few run numbers
// left.
func (c *committer) wear(id store.ShardID) {
	c.mu.Lock()
	c.worn = append(c.worn, id)
	c.mu.Unlock()
	c.wake()
}

func (c *committer) takeWorn() []store.ShardID {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := c.worn
	c.worn = nil
	return ids
}

func (c *committer) wait(ctx context.Context, next int64, stopping *bool) error {
	switch c.e.clock.Wait(ctx, next, c.ready, c.stop, nil) {
	case clock.B:
		*stopping = true
	case clock.Ended:
		return context.Cause(ctx)
	}
	return nil
}

// take closes the writes that are due and takes them, each shard's in the order
// in which they were opened. next is when the oldest lazy one falls due, 0 if
// there is none.
func (c *committer) take(all bool) (batch []*write, next int64) {
	now := c.e.clock.Now()
	age := int64(max(lazyAge, 3*c.lastCommit))
	for _, s := range c.e.shards {
		var due int64
		batch, due = s.takeWrites(batch, func(w *write) bool { return all || w.born+age <= now })
		if due > 0 && (next == 0 || due+age < next) {
			next = due + age
		}
		if len(batch) >= batchMax {
			break
		}
	}
	return batch, next
}

// takeWrites appends the shard's urgent writes, and those of the lazy ones that
// are old, and returns when the oldest of the rest was opened.
func (s *shard) takeWrites(batch []*write, old func(*write) bool) ([]*write, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.opened) == 0 {
		return batch, 0
	}
	oldest, rest := int64(0), s.opened[:0]
	for _, w := range s.opened {
		switch {
		case w.dropped:
		case w.urgent || old(w):
			s.closeWrite(w)
			batch = append(batch, w)
		default:
			if oldest == 0 {
				oldest = w.born
			}
			rest = append(rest, w)
		}
	}
	clear(s.opened[len(rest):])
	s.opened = rest
	return batch, oldest
}

// closeWrite ends an open write: what comes next goes to a new one.
func (s *shard) closeWrite(w *write) {
	no := w.run.Row.Run
	delete(s.open, no)
	s.last[no] = w
	for _, e := range w.entries {
		e.Stored = true
	}
}

// commit writes a batch, whatever it takes: it returns an error only when the
// engine cannot go on.
func (c *committer) commit(ctx context.Context, batch []*write) error {
	wait := retry.Policy{Attempts: -1, Base: 50 * time.Millisecond, Cap: 5 * time.Second}
	for try := 0; ; {
		batch = slices.DeleteFunc(batch, func(w *write) bool { return w.dropped })
		began := c.e.clock.Now()
		err := c.write(ctx, batch)
		if err == nil {
			c.lastCommit = time.Duration(c.e.clock.Now() - began)
			c.count(batch)
			c.block(nil)
			c.release(batch)
			return nil
		}
		var refused *store.RefusedError
		var lost *store.LeaseLostError
		var unavailable *store.UnavailableError
		switch {
		case errors.As(err, &refused):
			c.e.counters.refused.Add(1)
			c.refuse(batch, refused)
		case errors.As(err, &lost):
			c.e.counters.leaseLost.Add(1)
			c.e.log.Error("a lease was lost; the shards are loaded again", "err", err)
			if err := c.reload(ctx, batch, lost.Shards); err != nil {
				return err
			}
		case errors.Is(err, store.ErrUnknown):
			c.e.counters.unknown.Add(1)
			c.e.log.Error("the outcome of a commit is unknown; its shards are fenced and loaded again", "err", err)
			return c.reload(ctx, batch, shardsOf(batch))
		case errors.As(err, &unavailable):
			c.e.counters.unavailable.Add(1)
			c.block(err)
			c.e.log.Error("the database cannot write; trying again", "err", err)
			if err := c.pause(ctx, wait.Delay(try, c.e.random())); err != nil {
				return err
			}
			try++
		default:
			return err
		}
	}
}

// count counts a commit, unless it had effects alone.
func (c *committer) count(batch []*write) {
	writes := 0
	for _, w := range batch {
		if w.touched {
			writes++
			c.e.counters.durable(w.tally)
		}
	}
	if writes > 0 {
		c.e.counters.commit(writes, c.lastCommit)
	}
}

// write hands the rows to the store. A batch of effects alone has none; where
// others may have taken its shards over, the store is asked whether they have:
// what is decided from memory is worth nothing then. So it would send a task again
// whose answer the new owner has.
func (c *committer) write(ctx context.Context, batch []*write) error {
	b := &store.Batch{}
	for _, w := range batch {
		if w.touched {
			b.Writes = append(b.Writes, &w.row)
		}
	}
	if len(b.Writes) == 0 && !c.e.shared {
		return nil
	}
	for _, id := range shardsOf(batch) {
		b.Leases = append(b.Leases, c.e.shards[id].lease())
	}
	fault.At(fault.CommitBefore)
	err := c.e.store.Commit(ctx, b)
	fault.At(fault.CommitAfter)
	return err
}

func shardsOf(batch []*write) []store.ShardID {
	var ids []store.ShardID
	for _, w := range batch {
		if n := len(ids); n == 0 || ids[n-1] != w.shard.id {
			ids = append(ids, w.shard.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// release lets the effects out, in the order of what they rest on.
func (c *committer) release(batch []*write) {
	for _, w := range batch {
		for _, e := range w.after {
			fault.At(fault.CommitRelease)
			c.e.release(w.shard, w.of, e)
		}
		for _, a := range w.acks {
			c.e.workers.ack(a)
		}
		w.done.Store(true)
	}
}

// refuse takes the run that the database would not write out of the batch. The
// others are written again without it; that run is read again and held.
func (c *committer) refuse(batch []*write, refused *store.RefusedError) {
	c.e.log.Error("the database refused to write a run; it is held", "run", refused.Run, "err", refused.Err)
	for _, w := range batch {
		if w.run.Row.Run != refused.Run {
			continue
		}
		err := apierr.Wrap(apierr.Internal, "write run "+w.run.Row.RunID, refused.Err)
		s := w.shard
		s.mu.Lock()
		s.discard(w, err)
		// The run may have been read again since, for an earlier refusal: what is
		// written of that reading stands.
		if next := s.open[refused.Run]; next != nil && next.run == w.run {
			s.discard(next, err)
		}
		if last := s.last[refused.Run]; last != nil && last.run == w.run {
			delete(s.last, refused.Run)
		}
		s.mu.Unlock()
		s.post(&machine.Refused{Run: refused.Run, Of: w.run, Reason: "the database refused to write it: " + refused.Err.Error()})
		return
	}
}

// errUnknownOutcome is what callers get whose request may or may not stand.
func errUnknownOutcome() error {
	return apierr.New(apierr.Unavailable, "commit", "it is not known whether the request was recorded",
		"repeat it with the same request id")
}

// reload throws the shards' memory away, fences them, and has them loaded anew.
// Nothing of what is dropped was said to anyone.
func (c *committer) reload(ctx context.Context, batch []*write, ids []store.ShardID) error {
	err := errUnknownOutcome()
	for _, w := range batch {
		if slices.Contains(ids, w.shard.id) {
			w.shard.mu.Lock()
			w.shard.discard(w, err)
			w.shard.mu.Unlock()
		}
	}
	for _, id := range ids {
		c.e.shards[id].breakOff(err)
	}
	leases, ferr := c.fence(ctx, ids)
	if ferr != nil {
		return ferr
	}
	for _, l := range leases {
		c.e.shards[l.Shard].box.post(item{lease: &l})
	}
	return nil
}

// breakOff stops the shard until its next lease.
func (s *shard) breakOff(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = true
	for _, w := range s.opened {
		s.discard(w, err)
	}
	s.opened = nil
	clear(s.open)
	clear(s.last)
	if s.m != nil {
		s.m.Abandon(func(to machine.Caller) { answer(machine.Reply{To: to, Err: err}) })
		for _, m := range s.m.Recall().Sends {
			s.e.workers.send(&m)
		}
	}
}

// fence takes the shards over, and tries again for as long as the database
// cannot.
func (c *committer) fence(ctx context.Context, ids []store.ShardID) ([]store.Lease, error) {
	wait := retry.Policy{Attempts: -1, Base: 50 * time.Millisecond, Cap: 5 * time.Second}
	for try := 0; ; try++ {
		leases, err := c.e.store.Fence(ctx, ids, c.e.clock.Now())
		var unavailable *store.UnavailableError
		switch {
		case err == nil:
			c.block(nil)
			for _, l := range leases {
				c.e.shards[l.Shard].setLease(l)
			}
			return leases, nil
		case errors.As(err, &unavailable) || errors.Is(err, store.ErrUnknown):
			c.block(err)
			c.e.log.Error("the shards cannot be fenced; trying again", "err", err)
			if err := c.pause(ctx, wait.Delay(try, c.e.random())); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

func (c *committer) pause(ctx context.Context, d time.Duration) error {
	for at := c.e.clock.Now() + int64(d); c.e.clock.Now() < at; {
		if c.e.clock.Wait(ctx, at, nil, nil, nil) == clock.Ended {
			return context.Cause(ctx)
		}
	}
	return nil
}

// block says whether the database can write: while it cannot, requests that
// would write are refused.
func (c *committer) block(err error) {
	c.mu.Lock()
	c.blocked = err
	c.mu.Unlock()
}

func (c *committer) writable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocked
}
