package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/engined/engined/engine/store"
)

// database is an engine's store with the faults of databases: it is slow, full,
// busy, it refuses, it fails, it does not know.
type database struct {
	store.Store
	w *World
	n *node
	// late is a batch that was reported unknown, and lands some time, or at the
	// next fence.
	late *store.Batch
}

var (
	errFull   = errors.New("no space is left on the disk")
	errRead   = errors.New("the read failed")
	errSync   = errors.New("the sync failed")
	errRefuse = errors.New("a limit was passed")
)

// Info says that other processes may have the database open, too: "two engines".
func (d *database) Info() store.Info {
	info := d.Store.Info()
	info.Shared = true
	return info
}

func (d *database) Commit(ctx context.Context, b *store.Batch) error {
	w := d.w
	switch {
	case w.now < w.fullUntil && len(b.Writes) > 0:
		w.hit("full")
		w.pause()
		return &store.UnavailableError{Err: errFull}
	case w.chance(w.plan.CommitUnknown):
		return d.unknown(ctx, b)
	case len(b.Writes) > 0 && w.chance(w.plan.CommitRefused):
		i := w.rnd.IntN(len(b.Writes))
		if w.refused[b.Writes[i].Run.Run]++; w.refused[b.Writes[i].Run.Run] > 1 {
			break // a run that is refused again and again cannot even be held in its row
		}
		w.hit("refused")
		w.pause()
		return &store.RefusedError{Index: i, Run: b.Writes[i].Run.Run, Err: errRefuse}
	case w.chance(w.plan.CommitFatal):
		w.hit("sync failed")
		if w.chance(0.5) {
			_ = d.Store.Commit(ctx, b) // the outcome is not told, whatever it is
		}
		w.pause()
		return &store.FatalError{Err: errSync}
	case w.chance(w.plan.CommitUnavailable):
		w.hit("unavailable")
		w.pause()
		return &store.UnavailableError{Err: errors.New("busy")}
	}
	if w.chance(w.plan.Slow) {
		w.hit("slow commit")
		w.sleep(w.rnd.Int64N(2e9))
	}
	return d.Store.Commit(ctx, b)
}

func (d *database) unknown(ctx context.Context, b *store.Batch) error {
	switch d.w.rnd.IntN(3) {
	case 0:
		d.w.hit("unknown, lost")
	case 1:
		d.w.hit("unknown, landed")
		if err := d.Store.Commit(ctx, b); err != nil {
			return err
		}
	default:
		d.w.hit("unknown, lands late")
		d.late = b
		d.w.after(nil, d.w.rnd.Int64N(1e9), d.land)
	}
	d.w.pause()
	return store.ErrUnknown
}

func (d *database) land() {
	b := d.late
	if b == nil {
		return // before a fence
	}
	d.late = nil
	_ = d.w.disk.Peek().Commit(d.w.ctx, b) // it may be too late for it
}

func (d *database) Fence(ctx context.Context, shards []store.ShardID, now int64) ([]store.Lease, error) {
	d.w.pause()
	if d.w.chance(d.w.plan.CommitUnavailable) {
		return nil, &store.UnavailableError{Err: errors.New("busy")}
	}
	d.land() // what lands at all has landed when a fence is over
	return d.Store.Fence(ctx, shards, now)
}

// read lets time pass, and fails now and then.
func (d *database) read(what string) error {
	w := d.w
	w.pause()
	if w.chance(w.plan.Slow) {
		w.hit("slow read")
		w.sleep(w.rnd.Int64N(1e9))
	}
	if w.chance(w.plan.ReadFails) {
		w.hit("unreadable")
		return fmt.Errorf("%s: %w", what, errRead)
	}
	return nil
}

// answered lets what was read become old before it comes.
func (d *database) answered() {
	d.w.pause()
	if d.w.chance(d.w.plan.Slow) {
		d.w.hit("old read")
		d.w.sleep(d.w.rnd.Int64N(2e9))
	}
}

func (d *database) Load(ctx context.Context, keys []store.Key) ([]store.Loaded, error) {
	if err := d.read("load"); err != nil {
		return nil, err
	}
	found, err := d.Store.Load(ctx, keys)
	d.answered()
	return found, err
}

func (d *database) Due(ctx context.Context, s store.ShardID, until int64, after store.Wake, limit int) ([]store.Wake, error) {
	if err := d.read("due"); err != nil {
		return nil, err
	}
	found, err := d.Store.Due(ctx, s, until, after, limit)
	d.answered()
	return found, err
}

func (d *database) History(ctx context.Context, r store.RunNo, after int64, maxBytes int) ([]store.EventRow, error) {
	if err := d.read("history"); err != nil {
		return nil, err
	}
	rows, err := d.Store.History(ctx, r, after, maxBytes)
	d.answered()
	return rows, err
}

func (d *database) List(ctx context.Context, q store.Query) ([]store.RunRow, error) {
	if err := d.read("list"); err != nil {
		return nil, err
	}
	return d.Store.List(ctx, q)
}
