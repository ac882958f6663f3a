package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
	"github.com/engined/engined/internal/fault"
	"github.com/engined/engined/internal/svc"
)

// Config is what an engine is made of. Store is required; what is zero has the
// default that its comment names.
type Config struct {
	Store store.Store
	// Clock is clock.System().
	Clock clock.Clock
	// Spawn begins the engine's goroutines: by a go statement.
	Spawn svc.Spawn
	// Random gives uniform 64-bit numbers: incarnations, seeds of runs, jitter.
	// It is called by several goroutines. The default is crypto-quality.
	Random func() uint64
	// NewID makes the ULIDs of runs and the ids of those who give none, from
	// the engine's time in ms.
	NewID func(ms uint64) string
	// Logger is slog.Default().
	Logger *slog.Logger
	// ReclaimGrace is how long a worker whose stream broke may take to come
	// back before its activities count as lost: 1 s.
	ReclaimGrace time.Duration
	// RestartGrace is the same for the workers of an engine that was started
	// again, from the moment it reads their runs: 5 s.
	RestartGrace time.Duration
	// Alone says that all workers live in the engine's process: when it starts,
	// those of an earlier process are gone for good, and their activities lost.
	Alone bool
	// ResidentRuns bounds the runs in memory that could as well be read again:
	// 20,000.
	ResidentRuns int
	// MailboxLimit bounds the requests that wait in one shard; above it they
	// are refused: 10,000.
	MailboxLimit int
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Spawn == nil {
		c.Spawn = svc.Goroutine
	}
	if c.Random == nil {
		c.Random = randomUint64
	}
	if c.NewID == nil {
		c.NewID = newULID()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.ReclaimGrace == 0 {
		c.ReclaimGrace = time.Second
	}
	if c.RestartGrace == 0 {
		c.RestartGrace = 5 * time.Second
	}
	if c.ResidentRuns == 0 {
		c.ResidentRuns = 20_000
	}
	if c.MailboxLimit == 0 {
		c.MailboxLimit = 10_000
	}
	return c
}

// Engine runs workflows on one store. Its methods may be called by any
// goroutine.
type Engine struct {
	id        string
	cfg       Config
	store     store.Store
	shared    bool // of the store
	clock     clock.Clock
	random    func() uint64
	log       *slog.Logger
	shards    []*shard
	committer *committer
	loader    *loader
	desk      *desk
	workers   *workers
	stepping  *svc.Group // the shards
	io        *svc.Group // committer and loader
	owner     *svc.Group // those who want to know that the engine has stopped
	counters  counters
	opened    int64 // engine time

	mu       sync.Mutex
	closing  bool
	err      error // why the engine stopped by itself
	stopped  chan struct{}
	over     chan struct{} // closed when nothing is answered any more
	closed   sync.Once
	closeErr error
}

// Open starts an engine: it fences every shard, and from the rows alone goes on
// with whatever was under way. The engine closes the store when it is closed.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	e := &Engine{
		cfg: cfg, store: cfg.Store, clock: cfg.Clock, random: cfg.Random, log: cfg.Logger,
		stopped: make(chan struct{}), over: make(chan struct{}),
	}
	e.opened = e.clock.Now()
	e.id = cfg.NewID(uint64(e.clock.Now() / int64(time.Millisecond)))
	e.committer, e.loader, e.desk = newCommitter(e), newLoader(e), newDesk(e)
	e.workers = &workers{e: e, by: map[string]*WorkerStream{}}
	info := cfg.Store.Info()
	n := info.Shards
	e.shared = info.Shared
	ids := make([]store.ShardID, n)
	for i := range n {
		ids[i] = store.ShardID(i)
		e.shards = append(e.shards, newShard(e, ids[i]))
	}
	leases, err := cfg.Store.Fence(ctx, ids, e.clock.Now())
	if err != nil {
		return nil, fmt.Errorf("take over the shards of %s: %w", info.Path, err)
	}
	fault.At(fault.FenceAfter)
	for _, l := range leases {
		e.shards[l.Shard].setLease(l)
		e.shards[l.Shard].box.post(item{lease: &l})
	}
	e.start()
	return e, nil
}

func (e *Engine) start() {
	// The engine's goroutines end by Close, in its order, not by a context of
	// whoever opened it.
	group := func() *svc.Group { return svc.NewOn(context.Background(), e.cfg.Spawn) }
	e.stepping, e.io, e.owner = group(), group(), group()
	for _, s := range e.shards {
		e.stepping.Run(s.String(), s.run, e.ended)
	}
	e.io.Run("committer", e.committer.run, e.ended)
	e.io.Run("loader", e.loader.run, e.ended)
}

// ended is the end of one of the engine's goroutines: by an error the engine stops.
func (e *Engine) ended(err error) error {
	if err != nil {
		e.fail(err)
	}
	return err
}

// fail stops the engine: it answers nothing more, writes nothing more, and
// Stopped tells its owner, who must end the process.
func (e *Engine) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil || e.closing {
		return
	}
	e.err = err
	attrs := []any{"err", err}
	var p *svc.PanicError
	if errors.As(err, &p) {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	e.log.Error("the engine stops", attrs...)
	close(e.stopped)
}

// Stopped is closed when the engine has stopped by itself; Err then says why.
func (e *Engine) Stopped() <-chan struct{} { return e.stopped }

// Err returns why the engine stopped by itself, or nil.
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// serving says whether requests are taken.
func (e *Engine) serving(op string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closing:
		return apierr.New(apierr.Closed, op, "the engine is closed", "")
	case e.err != nil:
		return apierr.New(apierr.Unavailable, op, "the engine has stopped: "+e.err.Error(), "start it again")
	}
	return nil
}

// Close stops the engine in order: no more requests, the workers' streams, the
// shards with what they have been given, the last commit, the store. What is
// under way goes on after the next Open. ctx bounds the wait; a second call
// waits for the first.
func (e *Engine) Close(ctx context.Context) error {
	e.closed.Do(func() { e.closeErr = e.close(ctx) })
	return e.closeErr
}

// shardOf is the shard of a workflow id: for ever, for it stands in the numbers
// of the id's runs. FNV-1a, 64 bits.
func (e *Engine) shardOf(id machine.ID) *shard {
	h := fnv.New64a()
	h.Write([]byte(id.Namespace))
	h.Write([]byte{0})
	h.Write([]byte(id.WorkflowID))
	return e.shards[h.Sum64()%uint64(len(e.shards))]
}

// release lets an effect out whose rows are durable.
func (e *Engine) release(s *shard, of *machine.Shard, eff machine.Effect) {
	switch eff := eff.(type) {
	case machine.Reply:
		answer(eff)
	case machine.Dispatch:
		e.workers.dispatch(eff)
	case machine.CancelTask:
		e.workers.cancel(eff)
	case machine.ReadHistory:
		e.loader.history(s, of, eff)
	}
}

// OnStopped calls f, on a goroutine of its own, when the engine has stopped by
// itself. It is not called when the engine is closed.
func (e *Engine) OnStopped(f func(error)) {
	e.owner.Go("owner", func(ctx context.Context) error {
		select {
		case <-e.stopped:
			f(e.Err())
		case <-ctx.Done():
		}
		return nil
	})
}
