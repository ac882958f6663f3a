package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/engined/engined/engine/store"
)

// writeBatch writes the rows; its errors are the store's.
func (s *Store) writeBatch(ctx context.Context, b *store.Batch) error {
	if err := s.checkLeases(ctx, b.Leases); err != nil {
		return err
	}
	for i, w := range b.Writes {
		if err := s.writeRun(ctx, w); err != nil {
			return s.writeError(err, i, w.Run.Run)
		}
	}
	return nil
}

// checkLeases compares the epochs within the transaction: whoever has raised
// one since has made this batch too old.
func (s *Store) checkLeases(ctx context.Context, leases []store.Lease) error {
	var lost []store.ShardID
	for _, l := range leases {
		if int(l.Shard) >= s.info.Shards {
			lost = append(lost, l.Shard)
			continue
		}
		now, err := s.readShard(ctx, l.Shard)
		if err != nil {
			return s.failure(err)
		}
		if now.Epoch != l.Epoch {
			lost = append(lost, l.Shard)
		}
	}
	if lost == nil {
		return nil
	}
	slices.Sort(lost)
	return &store.LeaseLostError{Shards: slices.Compact(lost)}
}

// writeRun writes the rows of one run. The run's own row comes first when it is
// new, so that a number that is taken is told as such, and else last, since only
// then the pending rows are counted.
func (s *Store) writeRun(ctx context.Context, w *store.Write) error {
	if w.Insert {
		if err := s.insertRun(ctx, &w.Run); err != nil {
			return err
		}
	}
	if e := w.Events; e != nil {
		if _, err := s.exec(ctx, s.write.insertEvents, int64(e.Run), e.First, e.Last, blob(e.Data), e.Sum()); err != nil {
			return fmt.Errorf("insert events from %d: %w", e.First, err)
		}
	}
	added, err := s.writePending(ctx, w)
	if err != nil {
		return err
	}
	for i := range w.Dedup {
		if err := s.insertDedup(ctx, &w.Dedup[i]); err != nil {
			return err
		}
	}
	if !w.Insert {
		return s.updateRun(ctx, w, added)
	}
	if added != w.Run.Pending {
		return refuse("the row counts %d pending rows, there are %d", w.Run.Pending, added)
	}
	return nil
}

func (s *Store) insertRun(ctx context.Context, r *store.RunRow) error {
	_, err := s.exec(ctx, s.write.insertRun, int64(r.Run), r.Namespace, r.WorkflowID, r.RunID, r.Type,
		int64(r.Status), flag(r.Open), flag(r.Attention), r.Version, r.NextEvent, r.Pending,
		r.Started, r.Closed, r.Request, blob(r.State), r.Sum())
	if err != nil {
		return fmt.Errorf("insert the run: %w", err)
	}
	return nil
}

// updateRun updates the row if it is the one before; added is by how much the
// number of pending rows has grown.
func (s *Store) updateRun(ctx context.Context, w *store.Write, added int64) error {
	r := &w.Run
	first := r.NextEvent
	if w.Events != nil {
		first = w.Events.First
	}
	update := func(st *sql.Stmt) (int64, error) {
		n, err := s.exec(ctx, st, int64(r.Status), flag(r.Attention), r.Version, r.NextEvent, r.Pending,
			r.Closed, blob(r.State), r.Sum(), flag(r.Open),
			int64(r.Run), r.Version-1, first, r.Pending-added,
			r.Namespace, r.WorkflowID, r.RunID, r.Type, r.Started, r.Request)
		if err != nil {
			return 0, fmt.Errorf("update the run: %w", err)
		}
		return n, nil
	}
	if r.Open {
		if n, err := update(s.write.stays); err != nil || n == 1 {
			return err
		}
	}
	if n, err := update(s.write.turns); err != nil || n == 1 {
		return err
	}
	return s.whyNot(ctx, w, first, r.Pending-added)
}

// whyNot says which of the conditions of an update did not hold.
func (s *Store) whyNot(ctx context.Context, w *store.Write, first, pending int64) error {
	var haveVersion, haveNext, havePending int64
	found, err := one(ctx, s.write.runState, func(rows *sql.Rows) error {
		return rows.Scan(&haveVersion, &haveNext, &havePending)
	}, int64(w.Run.Run))
	switch {
	case err != nil:
		return err
	case !found:
		return refuse("the run is not there")
	case haveVersion != w.Run.Version-1:
		return refuse("version %d would follow version %d", w.Run.Version, haveVersion)
	case haveNext != first:
		return refuse("event %d would follow event %d", first, haveNext-1)
	case havePending != pending:
		return refuse("the row counts %d pending rows, there are %d", w.Run.Pending, w.Run.Pending-pending+havePending)
	}
	return refuse("what a run was started with does not change")
}

// writePending returns by how much the number of pending rows has grown.
func (s *Store) writePending(ctx context.Context, w *store.Write) (added int64, err error) {
	for i := range w.Put {
		p := &w.Put[i]
		n, err := s.putPending(ctx, p)
		if err != nil {
			return 0, fmt.Errorf("put pending row %q: %w", p.Op, err)
		}
		added += n
	}
	for _, op := range w.Del {
		n, err := s.exec(ctx, s.write.deletePending, int64(w.Run.Run), op)
		if err != nil {
			return 0, fmt.Errorf("delete pending row %q: %w", op, err)
		}
		if n != 1 {
			return 0, refuse("pending row %q is not there", op)
		}
		added--
	}
	return added, nil
}

func (s *Store) putPending(ctx context.Context, p *store.PendingRow) (added int64, err error) {
	run, data, sum := int64(p.Run), blob(p.Data), p.Sum()
	added, err = s.exec(ctx, s.write.insertPending, run, p.Op, p.Wake, data, sum)
	if err != nil || added == 1 {
		return added, err
	}
	n, err := s.exec(ctx, s.write.updatePending, run, p.Op, p.Wake, data, sum)
	if err == nil && n != 1 {
		err = refuse("it is neither there nor not there")
	}
	return 0, err
}

func (s *Store) insertDedup(ctx context.Context, d *store.DedupRow) error {
	_, err := s.exec(ctx, s.write.insertDedup, d.Namespace, d.WorkflowID, d.Request,
		int64(d.Run), d.Expires, blob(d.Data), d.Sum())
	if err != nil {
		return fmt.Errorf("remember request %q: %w", d.Request, err)
	}
	return nil
}

// batchStands reads the version of the first run of the batch. All of a
// transaction stands, or none.
func (s *Store) batchStands(ctx context.Context, b *store.Batch) (bool, error) {
	if len(b.Writes) == 0 {
		return false, nil
	}
	r := &b.Writes[0].Run
	var version int64
	found, err := one(ctx, s.write.version, func(rows *sql.Rows) error { return rows.Scan(&version) }, int64(r.Run))
	return found && version == r.Version, err
}

// exec runs a prepared statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, st *sql.Stmt, args ...any) (int64, error) {
	res, err := st.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func countRows(b *store.Batch) (n int64) {
	for _, w := range b.Writes {
		n += 1 + int64(len(w.Put)+len(w.Del)+len(w.Dedup))
		if w.Events != nil {
			n++
		}
	}
	return n
}
