package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
)

// loader reads rows for the shards, away from their goroutines. What was asked
// for while a read went on is read together.
type loader struct {
	e   *Engine
	box *mailbox[read]
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

func newLoader(e *Engine) *loader { return &loader{e: e, box: newMailbox[read]()} }

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
		select {
		case <-l.box.ready:
		case <-ctx.Done():
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
				if err := l.readDue(ctx, r); err != nil && ctx.Err() == nil {
					return fmt.Errorf("%v: read what is due: %w", r.s, err)
				}
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
	r.s.box.post(item{in: &machine.HistoryRead{Run: q.Run, Stamp: q.Stamp, Events: events, Err: err}, of: r.of})
}

func (l *loader) readDue(ctx context.Context, r read) error {
	wakes, err := l.e.store.Due(ctx, r.s.id, r.due.until, r.due.after, scanPage)
	if err != nil {
		return err
	}
	if len(wakes) > 0 {
		r.s.box.post(item{wakes: wakes, of: r.of})
	}
	if len(wakes) == scanPage {
		l.due(r.s, r.of, wakes[len(wakes)-1], r.due.until)
	}
	return nil
}
