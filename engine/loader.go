package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/clock"
	"github.com/engined/engined/internal/fault"
)

// loader reads rows for the shards, away from their goroutines. What was asked
// for while a read went on is read together.
type loader struct {
	e   *Engine
	box *mailbox[read]

	mu sync.Mutex
	// failing are the shards of which it cannot be read what is due.
	failing map[store.ShardID]error
}

// read is one request of a shard: exactly one of rows, history, due.
type read struct {
	s       *shard
	of      *machine.Shard
	rows    *machine.Load
	history *machine.ReadHistory
	due     *dueRead
}

type dueRead struct {
	after store.Wake
	until int64
}

func newLoader(e *Engine) *loader {
	return &loader{e: e, box: newMailbox[read](), failing: map[store.ShardID]error{}}
}

func (l *loader) rows(s *shard, of *machine.Shard, q machine.Load) {
	l.box.post(read{s: s, of: of, rows: &q})
}

func (l *loader) history(s *shard, of *machine.Shard, q machine.ReadHistory) {
	l.box.post(read{s: s, of: of, history: &q})
}

func (l *loader) due(s *shard, of *machine.Shard, after store.Wake, until int64) {
	l.box.post(read{s: s, of: of, due: &dueRead{after, until}})
}

func (l *loader) run(ctx context.Context) error {
	for {
		if l.e.clock.Wait(ctx, clock.Never, l.box.ready, nil, nil) == clock.Ended {
			return nil
		}
		var rows []read
		for _, r := range l.box.take() {
			switch {
			case r.rows != nil:
				rows = append(rows, r)
			case r.history != nil:
				l.readHistory(ctx, r)
			default:
				l.readDue(ctx, r)
			}
		}
		if len(rows) > 0 {
			l.readRows(ctx, rows)
		}
		if l.box.drained() {
			return nil
		}
	}
}

func (l *loader) readRows(ctx context.Context, reads []read) {
	keys := make([]store.Key, len(reads))
	for i, r := range reads {
		keys[i] = r.rows.Key
	}
	found, err := l.e.store.Load(ctx, keys)
	var corrupt *store.CorruptError
	if errors.As(err, &corrupt) && len(reads) > 1 {
		// One damaged row must not fail the others.
		for _, r := range reads {
			l.readRows(ctx, []read{r})
		}
		return
	}
	if err != nil && ctx.Err() == nil {
		l.e.counters.unreadable.Add(1)
		l.e.log.Error("a run cannot be read", "run", keys[0].Run, "workflow_id", keys[0].WorkflowID, "err", err)
	}
	fault.At(fault.LoadRows)
	for i, r := range reads {
		in := &machine.RowsRead{Load: *r.rows, Err: err}
		if err == nil {
			in.Answer = found[i]
		}
		r.s.box.post(item{in: in, of: r.of})
	}
}

func (l *loader) readHistory(ctx context.Context, r read) {
	q := r.history
	events, err := l.e.readEvents(ctx, q.Run, 0, q.Upto)
	fault.At(fault.LoadHistory)
	r.s.box.post(item{in: &machine.HistoryRead{Run: q.Run, Stamp: q.Stamp, Events: events, Err: err}, of: r.of})
}

// readDue reads a page of what is due. While it cannot, it tries again, and the
// engine is not ready: timers would be late.
func (l *loader) readDue(ctx context.Context, r read) {
	wakes, err := l.e.store.Due(ctx, r.s.id, r.due.until, r.due.after, scanPage)
	if err != nil && ctx.Err() == nil {
		l.e.log.Error("what is due cannot be read; trying again", "shard", r.s.id, "err", err)
		l.late(r.s.id, err)
		l.e.io.Run("read again", func(ctx context.Context) error {
			if err := l.e.committer.pause(ctx, dueAgain); err == nil {
				l.box.post(r)
			}
			return nil
		}, func(error) error { return nil })
		return
	}
	l.late(r.s.id, nil)
	fault.At(fault.LoadDue)
	if len(wakes) > 0 {
		r.s.box.post(item{wakes: wakes, of: r.of})
	}
	if len(wakes) == scanPage {
		l.due(r.s, r.of, wakes[len(wakes)-1], r.due.until)
	}
}

// dueAgain is how long a read of what is due is put off when it fails.
const dueAgain = time.Second

// late notes whether what is due of a shard can be read.
func (l *loader) late(id store.ShardID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.failing, id)
		return
	}
	l.failing[id] = err
}

// ready says why timers may be late, or nil.
func (l *loader) ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, err := range l.failing {
		return apierr.New(apierr.Unavailable, "ready", fmt.Sprintf("shard %d: what is due cannot be read: %v", id, err), "it is tried again each second")
	}
	return nil
}
